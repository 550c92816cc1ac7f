"""Machines whose process is killed anywhere: no effect is lost, and none is doubled unseen."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from otolith import Disk, Versioned
from tests.fault.killing import killed_and_ended
from tests.fault.walker import ROUNDS, chart_for

WALKER = Path(__file__).with_name("walker.py")
NAMES = ("announce", "work", "leave")


def told(place: Path) -> list[tuple[str, str]]:
    lines = (place / "effects").read_text().splitlines()
    return [(name, key) for name, key in map(str.split, lines)]


@pytest.mark.parametrize("how", ["again", "once"])
def test_every_effect_happens_whenever_the_process_is_killed(tmp_path, rounds, how):
    chance = random.Random(how)
    for number in range(rounds(2, 20)):
        place = tmp_path / str(number)
        place.mkdir()
        words = (place / "a.db", place / "effects", how)
        assert killed_and_ended(WALKER, *words, kills=8, chance=chance) > 0
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
