"""Testing: paths of a chart as the source of pytest cases that a user saves, reads and runs.

Walking: a Hypothesis machine that walks through a chart at random and checks what must hold.

Between any two steps it may send the snapshot through JSON, keep it as a branch, or go back to one
that was kept. All of it is the same run: a step gives the same from the snapshot and from its copy,
what was kept does not change, and active states fit together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pprint import pformat
from types import ModuleType
from typing import Any, ClassVar

from otolith.errors import BadValue, IllegalTransition, MissingExtra, StepFailed
from otolith.frozen import thaw
from otolith.statecharts.analysis.inputs import AFTER, SECOND, Alphabet, Item, Move, cue_of, cues_of
from otolith.statecharts.analysis.paths import Path
from otolith.statecharts.engine.compiled_chart import CompiledChart
from otolith.statecharts.engine.step import StepResult, advance, start, step
from otolith.statecharts.snapshot import ChartEvent, ChartSnapshot

LONGEST_NAME = 80
WIDEST = 88
_CHART_FILE = re.compile(r".+\.(json|scxml|xml|yaml|yml)")
_CHART_NAME = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)(\.\w+)*")

_REPLAY = '''\
def replay(chart, script):
    """Return where a script leads; the chart raises if it does not accept an event."""
    snapshot = chart.start(DATA).snapshot
    for item in script:
        if isinstance(item, tuple) and item[0] == "after":
            due = snapshot.time + round(item[1] * 1_000_000)
            snapshot = chart.advance(snapshot, due).snapshot
        elif isinstance(item, tuple):
            snapshot = chart.step(snapshot, item[0], item[1]).snapshot
        else:
            snapshot = chart.step(snapshot, item).snapshot
    return snapshot
'''


def pytest_cases(
    chart: CompiledChart | str, paths: Iterable[Path], *, data: dict[str, Any] | None = None
) -> str:
    """Return the source of one test for each path.

    Args:
        chart: Where the tests find the chart: `package.module:NAME`, or the file of a chart. Given
            a model, they ask for a fixture `chart`, which is yours to write.
        paths: From `shortest_paths` or `simple_paths` of this chart.
        data: What the chart is started with; the same as for the paths.

    Raises:
        BadValue: the name is neither of the two.
    """
    cases = [_case(name, path) for name, path in _named(paths)]
    head = ['"""' + _title(chart) + '"""', "", *_imports(chart), ""]
    parts = [
        "\n".join(head),
        f"DATA = {_literal(thaw(data), 7, depth=0)}\n",
        _fixture(chart),
        _REPLAY,
    ]
    body = "\n\n".join(part for part in [*parts[2:], *cases] if part)
    return f"{parts[0]}\n{parts[1]}\n\n{body}"


def _title(chart: CompiledChart | str) -> str:
    if isinstance(chart, CompiledChart):
        name, digits = chart.definition.name or "a chart", chart.hash[:12]
        return f"Paths of {name} ({digits}); the fixture `chart` is the chart itself."
    return f"Paths of {chart}."


def _imports(chart: CompiledChart | str) -> list[str]:
    if isinstance(chart, CompiledChart):
        return []
    if _CHART_FILE.fullmatch(chart):
        return ["import pytest", "", "from otolith.statecharts import Chart"]
    found = _CHART_NAME.fullmatch(chart)
    if found is None:
        raise BadValue(
            f"{chart!r} does not say where the chart is",
            hint="write package.module:NAME, or the path of a chart's file",
        )
    return ["import pytest", "", f"from {found[1]} import {found[2]}"]


def _fixture(chart: CompiledChart | str) -> str:
    if isinstance(chart, CompiledChart):
        return ""
    made = chart.partition(":")[2]
    if _CHART_FILE.fullmatch(chart):
        made = f"Chart.load({_quoted(chart)})"
    return f'@pytest.fixture(name="chart", scope="module")\ndef the_chart():\n    return {made}\n'


def _case(name: str, path: Path) -> str:
    script = _literal([_plain(item) for item in path.script], 9)
    states = _literal(tuple(path.configuration), 33)
    lines = [
        f"def {name}(chart):",
        f"    script = {script}",
        "",
        "    snapshot = replay(chart, script)",
        "",
        f"    assert snapshot.configuration == {states}",
        f"    assert snapshot.status == {_quoted(path.status)}",
    ]
    return "\n".join(lines) + "\n"


def _plain(item: Item) -> Any:
    if isinstance(item, ChartEvent):
        raise BadValue(f"{item.name} cannot be written into a test", hint="rename the event")
    cue = cue_of(item)
    if cue.event is None or isinstance(item, str):
        return item
    return cue.event.name, thaw(cue.event.data)


def _named(paths: Iterable[Path]) -> list[tuple[str, Path]]:
    taken: set[str] = set()
    found: list[tuple[str, Path]] = []
    for path in paths:
        stem = name = _name(path)
        number = 1
        while name in taken:
            number += 1
            name = f"{stem}_{number}"
        taken.add(name)
        found.append((name, path))
    return found


def _name(path: Path) -> str:
    """Return the name of a test: its events, and where they lead."""
    words = [_word(item) for item in path.script]
    end = f"leads_to_{_identifier('_and_'.join(path.configuration))}"
    name = f"test_{'_then_'.join(words) or 'the_start'}_{end}"
    if len(name) <= LONGEST_NAME or len(words) < 3:
        return name
    return f"test_{words[0]}_then_{len(words) - 2}_more_then_{words[-1]}_{end}"


def _word(item: Item) -> str:
    if isinstance(item, tuple) and not isinstance(item, ChartEvent) and item[0] == AFTER:
        return _identifier(f"after_{item[1]}_s")
    event = cue_of(item).event
    return _identifier("" if event is None else event.name)


def _identifier(text: str) -> str:
    return re.sub(r"\W+", "_", text).strip("_") or "something"


# ---------------------------------------------------------------- literals


def _literal(value: Any, used: int, depth: int = 4) -> str:
    """Return a value as Python source, on several lines if it does not fit beside what is there."""
    line = _flat(value)
    return line if depth + used + len(line) <= WIDEST else _spread(value, depth)


def _spread(value: Any, depth: int) -> str:
    line = _flat(value)
    if depth + len(line) + 1 <= WIDEST or not isinstance(value, list | tuple | dict) or not value:
        return line
    pad = " " * (depth + 4)
    if isinstance(value, dict):
        inner = [f"{_flat(key)}: {_spread(item, depth + 4)}" for key, item in value.items()]
    else:
        inner = [_spread(item, depth + 4) for item in value]
    opening, closing = {list: ("[", "]"), tuple: ("(", ")"), dict: ("{", "}")}[type(value)]
    lines = "".join(f"{pad}{each},\n" for each in inner)
    return f"{opening}\n{lines}{' ' * depth}{closing}"


def _flat(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_flat, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_flat, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_flat(key)}: {_flat(item)}' for key, item in value.items())}}}"
    return pformat(value)


def _quoted(text: str) -> str:
    """Return a text in double quotes, as formatters have it."""
    found = repr(text)
    if '"' in text or "\\" in found:
        return found
    return f'"{found[1:-1]}"'


MOST_KEPT = 8


class Walk:
    """One walk: the snapshot it is at, and those that were kept with how they looked then."""

    model: ClassVar[CompiledChart]
    start_data: ClassVar[Mapping[str, Any] | None] = None
    alphabet: ClassVar[Alphabet]

    def __init__(self) -> None:
        super().__init__()
        self.snapshot: ChartSnapshot = start(self.model, self.start_data, session="walk").snapshot
        self.script: list[Item] = []
        """What was done since the start, so that a failure can be replayed."""
        self.kept: list[tuple[ChartSnapshot, str, list[Item]]] = []
        self.keep()

    # ------------------------------------------------------------ what a walk does

    def moves(self) -> list[Move]:
        return list(self.alphabet.moves(self.model, self.snapshot).values())

    def send(self, which: int) -> None:
        """Send one of the events that active states name; one that is refused changes nothing."""
        moves = self.moves()
        if not moves:
            return
        move = moves[which % len(moves)]
        event = ChartEvent(move.event, move.data)
        before = _text(self.snapshot)
        try:
            found = step(self.model, self.snapshot, event, is_strict=True)
        except (IllegalTransition, StepFailed):
            assert _text(self.snapshot) == before, f"{event.name} was refused, and left a mark"
            return
        again = step(self.model, _copied(self.snapshot), event, is_strict=True)
        self._arrive(found, again, move.event if move.data is None else (move.event, move.data))

    def wait(self, seconds: int) -> None:
        """Let time pass; with 0, until the next timer is due."""
        due = self.snapshot.next_due
        now = self.snapshot.time + seconds * SECOND
        if not seconds:
            if due is None:
                return
            now = max(due, self.snapshot.time)
        passed = (now - self.snapshot.time) / SECOND
        try:
            found = advance(self.model, self.snapshot, now)
        except StepFailed:
            return
        self._arrive(found, advance(self.model, _copied(self.snapshot), now), ("after", passed))

    def store(self) -> None:
        """Go on with a copy that went through JSON."""
        copy = _copied(self.snapshot)
        assert copy == self.snapshot, "a snapshot is not the same after JSON"
        self.snapshot = copy

    def keep(self) -> None:
        """Keep the snapshot, as a branch does."""
        self.kept = self.kept[-MOST_KEPT + 1 :]
        self.kept.append((self.snapshot, _text(self.snapshot), list(self.script)))

    def go_back(self, which: int) -> None:
        """Go on from a snapshot that was kept."""
        self.snapshot, _, script = self.kept[which % len(self.kept)]
        self.script = list(script)

    # ------------------------------------------------------------ what must hold

    def active_states_fit_together(self) -> None:
        model = self.model
        mask = model.mask_of(self.snapshot.configuration)  # raises if they do not
        assert model.leaf_ids(mask) == self.snapshot.configuration

    def kept_snapshots_do_not_change(self) -> None:
        for snapshot, text, _ in self.kept:
            assert _text(snapshot) == text, "a snapshot that was kept has changed"

    def _arrive(self, found: StepResult, again: StepResult, item: Item) -> None:
        assert found == again, "a step from the snapshot and from its copy are not the same"
        assert found.snapshot.time >= self.snapshot.time, "time went back"
        self.snapshot = found.snapshot
        self.script.append(item)


def machine_of(
    model: CompiledChart,
    *,
    events: Iterable[Item] | None = None,
    data: Mapping[str, Any] | None = None,
) -> type[Any]:
    """Return a `RuleBasedStateMachine` for a chart; its `TestCase` is what pytest runs.

    Subclass it to add an `@invariant()` of your own: `self.snapshot` is where the walk is.

    Args:
        model: The chart.
        events: What may be sent, as names or pairs with data; else what active states name.
        data: What the chart is started with.

    Raises:
        MissingExtra: Hypothesis is not installed.
    """
    stateful, strategies = _hypothesis()
    cues = None if events is None else cues_of(events)
    which = strategies.integers(0, 1_000)
    rule, invariant = stateful.rule, stateful.invariant
    body = {
        "__doc__": f"Random walks through {model.definition.name or 'a chart'}.",
        "__module__": __name__,
        "model": model,
        "start_data": data,
        "alphabet": Alphabet(None if cues is None else [cue.event for cue in cues if cue.event]),
        "sends": rule(which=which)(lambda self, which: self.send(which)),
        "waits": rule(seconds=strategies.integers(0, 10_000))(
            lambda self, seconds: self.wait(seconds)
        ),
        "is_stored_and_restored": rule()(lambda self: self.store()),
        "branches": rule()(lambda self: self.keep()),
        "goes_back": rule(which=which)(lambda self, which: self.go_back(which)),
        "fits_together": invariant()(lambda self: self.active_states_fit_together()),
        "keeps": invariant()(lambda self: self.kept_snapshots_do_not_change()),
    }
    name = "".join(word.capitalize() for word in model.definition.name.split()) or "Chart"
    return type(f"{name}Machine", (Walk, stateful.RuleBasedStateMachine), body)


def _hypothesis() -> tuple[ModuleType, ModuleType]:
    try:
        from hypothesis import stateful, strategies
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "random walks need hypothesis, which is not installed",
            hint="pip install 'otolith[testing]'",
        ) from error
    return stateful, strategies


def _text(snapshot: ChartSnapshot) -> str:
    return json.dumps(snapshot.to_data())


def _copied(snapshot: ChartSnapshot) -> ChartSnapshot:
    return ChartSnapshot.from_data(json.loads(_text(snapshot)))
