"""Machines whose process is killed anywhere: no effect is lost, and none is doubled unseen."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from otolith import Disk, Versioned
from tests.fault.walker import ROUNDS, chart_for

WALKER = Path(__file__).with_name("walker.py")
NAMES = ("announce", "work", "leave")


def walk(place: Path, how: str, chance: random.Random, kills: int) -> int:
    """Run the walker again and again, killed each time, and then to its end."""
    command = [sys.executable, str(WALKER), str(place / "a.db"), str(place / "effects"), how]
    killed = 0
    for _ in range(kills):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        with process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(chance.random() / 25)  # so that the kill falls anywhere in a step
            process.kill()
            killed += process.stdout.read() == ""
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout.endswith("done\n")
    return killed


def told(place: Path) -> list[tuple[str, str]]:
    lines = (place / "effects").read_text().splitlines()
    return [(name, key) for name, key in map(str.split, lines)]


@pytest.mark.parametrize("how", ["again", "once"])
def test_every_effect_happens_whenever_the_process_is_killed(tmp_path, rounds, how):
    chance = random.Random(how)
    for number in range(rounds(2, 20)):
        place = tmp_path / str(number)
        place.mkdir()
        assert walk(place, how, chance, kills=8) > 0
        effects = told(place)
        keys = {name: {key for each, key in effects if each == name} for name in NAMES}
        assert {name: len(found) for name, found in keys.items()} == dict.fromkeys(NAMES, ROUNDS)
        if how == "once":
            assert max(Counter(effects).values()) == 1
        with Versioned(Disk(place / "a.db")) as state:
            machine = state.lifecycle(chart_for("", may_repeat=True))
            assert machine.phase == "ready"
            assert machine.outbox() == []
            told_events = [each.event for each in machine.log()]
            assert told_events.count("go") == told_events.count("done.invoke.work") == ROUNDS
