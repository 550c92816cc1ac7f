"""Stored values that somebody prepared, for each family of types: a value, or an error of ours.

Each is put into a store whose hashes are right, and read as any value is. It is neither a raw
exception, nor a crash of a library, nor a hang, nor more memory than there is; and nothing is
imported because a store names it.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from otolith import Versioned
from otolith.agent import list_runs, load_run
from otolith.errors import Corrupt
from otolith.statecharts import Chart, machines_in
from otolith.types import Tagged
from tests.fault.hostile import outcome
from tests.fault.hostile_values_worker import FAMILIES, NASTY, forged, read
from tests.patience import HANG_SECONDS

LIBRARIES = {"plain": "json", "arrow": "pyarrow", "images": "PIL"}
TRIES = (150, 5_000)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_value_that_somebody_prepared_is_read_or_refused(family, rounds):
    if find_spec(LIBRARIES.get(family, family)) is None:
        pytest.skip(f"{family} is not installed")
    words = ["-m", "tests.fault.hostile_values_worker", family, "7", str(rounds(*TRIES))]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *words],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    last = done.stderr.splitlines()[-1:]
    assert done.returncode == 0, f"it ended with {done.returncode} at {last}"
    told = json.loads(done.stdout.splitlines()[-1])
    assert set(told["first"]) == {"ok"}
    assert set(told["found"]) <= {
        "ok",
        "corrupt",
        "unknown_type",
        "missing_extra",
        "denied",
        "bad_value",
    }
    assert told["found"]["corrupt"] > 10
    assert told["imported"] == []


FIELDS = {"aligned": False, "formats": ["<i4", "<f8"], "itemsize": 12, "names": ["a", "b"]}


@pytest.mark.parametrize(
    "change",
    [
        {"offsets": [2**31 - 1, 4]},  # numpy adds it up as an int of C, and reads far outside
        {"offsets": [2**31 - 4, 4]},
        {"offsets": [-4, 4]},
        {"offsets": [0, 5]},
        {"offsets": [0]},
        {"offsets": [0, 4], "itemsize": 2**31},
        {"offsets": [0, 4], "itemsize": -1},
        {"offsets": [0, 4], "aligned": -1},
    ],
)
def test_a_field_outside_of_its_array_is_refused(change):
    pytest.importorskip("numpy")
    dtype = {**FIELDS, "record": False, **change}
    data = {"type": "ndarray", "dtype": dtype, "order": "C", "shape": [1], "data": [bytes(12)]}
    with pytest.raises(Corrupt):
        forged(Tagged(22, data)).session("job")["a"]
    good = {**data, "dtype": {**FIELDS, "record": False, "offsets": [0, 4]}}
    assert read(Tagged(22, good)) == "ok"


# ---------------------------------------------------------------- what rooms keep in a state


def furnished() -> Versioned:
    """Return a state with something of every room in it."""
    state = Versioned(session="s")
    chart = Chart.from_data(
        {"id": "m", "initial": "a", "states": {"a": {"on": {"go": "b"}}, "b": {}}}
    )
    state.lifecycle(chart).send("go")
    state.conversation.user("hello")
    state.conversation.assistant("hi")
    state.memory.start("a goal")
    state.memory.plan(["one", "two"])
    state.memory.note("key", "value")
    state.events.append("kind", text="x")
    state.commit()
    return state


LOOKS: dict[str, Any] = {
    "messages": lambda state: [message.text for message in state.conversation],
    "context": lambda state: state.conversation.context(1000),
    "topics": lambda state: list(state.conversation.topics()),
    "search": lambda state: list(state.conversation.search("hello")),
    "goal": lambda state: state.memory.goal,
    "plan": lambda state: list(state.memory.steps),
    "notes": lambda state: dict(state.memory.notes),
    "recall": lambda state: state.memory.recall("value"),
    "events": lambda state: [event.data for event in state.events],
    "machines": machines_in,
    "runs": lambda state: [load_run(state, name) for name in list_runs(state)],
    "prompt": lambda state: str(state.view()) if hasattr(state, "view") else None,
}


def leaves(state: Versioned) -> list[tuple[Any, ...]]:
    """Return the paths of everything that rooms keep."""
    found: list[tuple[Any, ...]] = []

    def walk(path: tuple[Any, ...], depth: int) -> None:
        found.append(path)
        cell = state.cell_at(path)
        if depth and cell is not None and state.cells.kind(cell) == "map":
            for key, _ in state.cells.entries(cell):
                walk((*path, state.cells.encoding.unkey(key)), depth - 1)

    for room in (".conversation", ".memory", ".events", ".lifecycle", ".loop"):
        if state.cell_at((room,)) is not None:
            walk((room,), 3)
    return found


PLAIN = [each for each in NASTY if not isinstance(each, Tagged)] + ["", "x", ["a", "b"], {"x": {}}]


def test_what_rooms_keep_is_read_or_refused_whatever_it_is(rounds):
    state = furnished()
    paths, chance = leaves(state), random.Random(8)
    assert len(paths) > 15
    for name, look in LOOKS.items():
        assert outcome(look, state) == "ok", name
    bad: list[str] = []
    found: set[str] = set()
    for _ in range(rounds(150, 5_000)):
        state = furnished()
        path, value = chance.choice(paths), chance.choice(PLAIN)
        if outcome(put, state, path, value) != "ok":
            continue
        for name, look in LOOKS.items():
            try:
                found.add(outcome(look, state))
            except Exception as error:  # noqa: BLE001 - all of them are told at once
                bad.append(f"{name} of {path} = {value!r:.60}: {error!r:.100}")
    assert not bad, "\n".join(sorted(set(bad))[:40])
    assert {"ok", "corrupt"} <= found


def put(state: Versioned, path: tuple[Any, ...], value: Any) -> None:
    """Stage a value where only a room may."""
    state.write_reserved(path, state.cells.put(value))


@pytest.mark.parametrize(
    "rows", [["a", "b"], [5], [[["role", "user"]]], [{"id": "x"}], [{"id": b"x"}]]
)
def test_a_log_of_something_else_than_messages_is_damage(rows):
    state = furnished()
    put(state, (".conversation", "main"), rows)
    with pytest.raises(Corrupt, match="is not a valid message"):
        list(state.conversation)
