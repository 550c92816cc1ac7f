"""Orchestrators killed anywhere: no step is done twice, and no message or payment is lost."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from otolith import Disk, Versioned
from otolith.agent import AgentState, Tool, ledger_in
from otolith.conversation import Conversation
from otolith.errors import EffectUnknown, Full
from otolith.stores import SqliteStore
from otolith.testing import PowerLossVFS
from tests.fault.killing import killed_and_ended
from tests.fault.worker import STEPS, Worker, worker_for
from tests.patience import HANG_SECONDS

WORKER = Path(__file__).with_name("worker.py")
KILLS = 10


def lines(place: Path) -> list[list[str]]:
    return [line.split() for line in (place / "calls").read_text().splitlines()]


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_orchestrator_goes_on_where_it_was(tmp_path, rounds, seed):
    chance, killed = random.Random(seed), 0
    for number in range(rounds(1, 34)):
        place = tmp_path / str(number)
        place.mkdir()
        words = (place / "a.db", place / "calls")
        killed += killed_and_ended(WORKER, *words, kills=KILLS, chance=chance)
        told = lines(place)
        check_no_step_ran_after_it_was_kept(told)
        check_effects(told)
        check_nothing_is_lost(place)
    assert killed >= rounds(1, 34) * KILLS // 2


def check_no_step_ran_after_it_was_kept(told: list[list[str]]) -> None:
    kept = -1
    for words in told:
        if words[0] == "kept":
            kept = max(kept, int(words[1]))
        elif words[0] == "step":
            assert int(words[1]) >= kept


def check_effects(told: list[list[str]]) -> None:
    for name in ("pay", "post"):
        made = [(key, step) for what, *rest in told if what == name for key, step in [rest]]
        keys = Counter(made)
        assert sorted({int(step) for _, step in keys}) == list(range(1, STEPS))
        assert len(keys) == STEPS - 1  # a step that runs again has the keys that it had
        if name == "pay":
            assert max(keys.values()) == 1


def check_nothing_is_lost(place: Path) -> None:
    with Versioned(Disk(place / "a.db"), session="work") as state:
        found = worker_for(state, str(place / "calls")).load("work")
        assert isinstance(found, AgentState)
        assert (found.phase, found.final_answer, found.iteration) == ("done", "all paid", STEPS)
        assert found.memory.completed == tuple(f"round {n}" for n in range(1, STEPS))
        names = [call.name for call in found.memory.tool_calls]
        assert names == ["look", "post", "pay"] * (STEPS - 1)
        said = [message.text for message in found.messages if message.text.startswith("thought")]
        assert len(said) == len(set(said)) == STEPS - 1
        assert len(Conversation(state)) == len(found.messages)
        assert state["rounds"] == STEPS - 1
        assert {entry.status for entry in ledger_in(state)} == {"done"}


def test_a_disk_that_runs_full_anywhere_in_a_step_doubles_nothing(tmp_path, rounds):
    """Once there is room again, the same orchestrator goes on; `asks` settles what was cut off."""
    full = 0
    for budget in range(0, 120_000, rounds(12_001, 401)):
        place = tmp_path / str(budget)
        place.mkdir()
        with PowerLossVFS(budget) as disk:
            store = SqliteStore(place / "a.db", vfs=disk.name)
            worker = worker_for(store, str(place / "calls"))
            worker.run("pay them all", session="work", max_steps=1)
            disk.budget_bytes = budget
            try:
                worker.run(session="work")
            except Full:
                full += 1
            disk.budget_bytes = None
            assert worker.run(session="work").ended == "done"
            store.close()
        check_effects(lines(place))
        check_nothing_is_lost(place)
    assert full > 0


def test_two_processes_that_run_one_session_do_nothing_twice(tmp_path, rounds):
    lost = 0
    for number in range(rounds(4, 40)):
        place = tmp_path / str(number)
        place.mkdir()
        command = [sys.executable, str(WORKER), str(place / "a.db"), str(place / "calls")]
        both = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        for process in both:
            said, complaint = process.communicate(timeout=HANG_SECONDS)
            if process.returncode:  # it lost: it says so, and has left the session to the other
                assert "another process" in complaint
                assert "run it again" in complaint
                lost += 1
            else:
                assert said.endswith("done\n")
        subprocess.run(command, capture_output=True, check=True)
        check_effects(lines(place))
        check_nothing_is_lost(place)
    assert lost > 0


def test_a_payment_that_was_cut_off_and_cannot_be_asked_about_is_told(tmp_path):
    """The process dies inside the tool: whether it paid is for the user to say."""
    calls = str(tmp_path / "calls")
    worker = worker_for(Disk(tmp_path / "a.db"), calls)
    died = _dying(worker, calls)
    with pytest.raises(KeyboardInterrupt):
        died.run("pay them all", session="work")

    again = worker_for(Disk(tmp_path / "a.db"), calls)
    again.tools = type(again.tools)([*(_unasked(tool) for tool in again.tools.values())])
    with pytest.raises(EffectUnknown) as caught:
        again.run(session="work")
    assert [entry.key for entry in again.unknown_effects("work")] == [caught.value.key]

    again.settle(caught.value.key, happened=True, result=1, session="work")
    assert again.run(session="work").ended == "done"
    paid = [words[2] for words in lines(tmp_path) if words[0] == "pay"]
    assert paid == [str(step) for step in range(1, STEPS)]


def _unasked(tool: Tool) -> Tool:
    return Tool(tool.function, effects=tool.effects)


def _dying(worker: Worker, calls: str) -> Worker:
    """Let a worker die right after it has paid for the first time."""
    pay = worker.tools["pay"].function

    def pay_and_die(step: int, idempotency_key: str) -> int:
        pay(step, idempotency_key)
        raise KeyboardInterrupt

    tools = [tool for tool in worker.tools.values() if tool.name != "pay"]
    worker.tools = type(worker.tools)([*tools, Tool(pay_and_die, name="pay", effects="once")])
    return worker
