"""Machines whose process is killed anywhere: no effect is lost, and none is doubled unseen."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from otolith import Disk, Versioned
from tests.fault import payer
from tests.fault.killing import end_together, kill_together, killed_and_ended
from tests.fault.walker import ROUNDS, chart_for

PAYER = Path(__file__).with_name("payer.py")
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


def test_processes_on_several_branches_pay_once_whichever_is_killed(tmp_path, rounds):
    """Two processes share a branch, a third has a fork; every payment waits on both branches."""
    chance = random.Random(7)
    for number in range(rounds(1, 20)):
        place = tmp_path / str(number)
        place.mkdir()
        store, effects = place / "a.db", place / "effects"
        chart = payer.chart_for(effects)
        with Versioned(Disk(store)) as state:
            machine = state.lifecycle(chart)
            for _ in range(payer.PAYMENTS):
                machine.send("pay")
            state.commit("pay")
            keys = sorted(each.effect.key for each in machine.outbox())
            state.fork("other")
        crowd = [(store, effects, branch) for branch in ("main", "main", "other")]
        for _ in range(2):
            kill_together(PAYER, [(*each, "leave") for each in crowd], chance=chance)
        end_together(PAYER, [(*each, "settle") for each in crowd])

        assert sorted(effects.read_text().split()) == keys
        for branch in ("main", "other"):
            with Versioned(Disk(store), branch=branch) as state:
                assert state.lifecycle(chart).outbox() == []
                assert state.is_clean
