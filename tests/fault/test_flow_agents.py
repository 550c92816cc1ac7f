"""Workers of agents and effects that are killed: each effect happens once, each agent resumes."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import otolith
from otolith.agent import ledger_in, load_run
from tests.fault.flow_agent import POINTS, WHO, Shop
from tests.fault.killing import killed_and_ended
from tests.patience import HANG_SECONDS

PROGRAM = Path(__file__).with_name("flow_agent.py")


def run_program(*words: object) -> int:
    """Run the worker to its end, or to where it kills itself."""
    command = [sys.executable, str(PROGRAM), *map(str, words)]
    return subprocess.run(command, timeout=HANG_SECONDS, check=False).returncode


def check(place: Path) -> Counter[str]:
    """Check what is left when the run is over, and return how often models were asked."""
    shop = Shop(str(place / "effects"))
    lines = shop.lines()
    paid = Counter(line for line in lines if line.startswith("paid"))
    assert paid == {f"paid {who}": 1 for who in WHO}
    with otolith.open(place / "a.db") as repo:
        state = repo.session("s")
        run = state.flow(key="run")
        assert run.result("all") == ["ledger paid", "left is done", "once paid", "right is done"]
        for who in ("left", "right"):
            found = load_run(state, f"run.{who}")
            assert found is not None
            roles = [str(message.role) for message in found.messages]
            assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
        assert [entry.status for entry in ledger_in(state)] == ["done"] * 3
    return Counter(line for line in lines if line.startswith("asked"))


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_that_dies_at_an_effect(tmp_path, point):
    words = (tmp_path / "a.db", tmp_path / "effects", point)

    assert run_program(*words) == -signal.SIGKILL
    assert run_program(*words) == 0
    asked = check(tmp_path)
    # Three of each agent; what was asked when the process died, and not on record, is asked again.
    assert max(asked.values()) <= 2
    assert 6 <= asked.total() <= 8


def test_a_worker_that_is_killed_anywhere(tmp_path, rounds):
    chance = random.Random(5)
    killed = 0
    for number in range(rounds(1, 30)):
        place = tmp_path / str(number)
        place.mkdir()
        words = (place / "a.db", place / "effects")
        killed += killed_and_ended(PROGRAM, *words, kills=6, chance=chance)
        asked = check(place)
        assert max(asked.values()) <= 7
    assert killed > 0


def test_what_nobody_can_look_up_is_settled_by_a_person(tmp_path):
    """Without `asks`, the task fails with the key; then it is settled, and tried again."""
    program = tmp_path / "no_asks.py"
    program.write_text(NO_ASKS)
    for how, point in (
        ("once", "inside"),
        ("once", "before"),
        ("tool", "inside"),
        ("tool", "before"),
    ):
        place = tmp_path / f"{how}-{point}"
        place.mkdir()
        command = [sys.executable, str(program), str(place), how]
        died = subprocess.run([*command, point], timeout=HANG_SECONDS, check=False)
        assert died.returncode == -signal.SIGKILL
        said = subprocess.run(
            [*command, "look"], timeout=HANG_SECONDS, check=True, capture_output=True, text=True
        ).stdout
        assert "may have happened" in said
        said = subprocess.run(
            [*command, "settle"], timeout=HANG_SECONDS, check=True, capture_output=True, text=True
        ).stdout
        assert said.strip() == ("a receipt" if point == "inside" else "paid")
        assert (place / "effects").read_text() == "paid\n"


NO_ASKS = """
import os, re, signal, sys
import otolith
from otolith.agent import tool
from otolith.flows import Flow

place, how, point = sys.argv[1:]

def die(at):
    if at == point:
        os.kill(os.getpid(), signal.SIGKILL)

def pay():
    die("before")
    with open(place + "/effects", "a") as file:
        file.write("paid\\n")
    die("inside")
    return "paid"

charge = tool(effects="once")(pay)
flow = Flow("shop")

@flow.task
def buy(task):
    return task.once("pay", pay) if how == "once" else task.call(charge)

with otolith.open(place + "/a.db") as repo:
    run = repo.session("s").flow(flow)
    progress = run.work()
    if point == "look":
        print(progress.failures["buy"])
    if point == "settle":
        key = re.search(r"settle\\('([^']+)'", progress.failures["buy"])[1]
        has_happened = os.path.exists(place + "/effects")
        run.settle(key, happened=has_happened, result="a receipt")
        run.retry("buy")
        run.work()
        print(run.result("buy"))
"""
