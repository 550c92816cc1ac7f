"""Profiles under kills: what was acknowledged is there once, and the erased stay erased."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

import otolith
from otolith.errors import Erased
from tests.fault.killing import killed_and_ended
from tests.patience import HANG_SECONDS

LEARNER = Path(__file__).with_name("profile_learner.py")
MESSAGES = 12


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_learner_loses_nothing_and_counts_nothing_twice(tmp_path, seed):
    place = tmp_path / "agent.db"
    killed = killed_and_ended(LEARNER, place, MESSAGES, kills=4, chance=random.Random(seed))

    with otolith.open(place) as repo:
        ann = repo.user("ann").profile
        sources = [each.source for each in ann.history("seat")]
        lines = ann.why("seat").lines

    assert killed
    assert sources == [f"m{number}" for number in range(MESSAGES)]
    assert all(line.commit for line in lines)


def test_two_processes_that_learn_at_once_have_each_message_once(tmp_path):
    place = tmp_path / "agent.db"
    otolith.open(place).close()
    crowd = [
        subprocess.Popen([sys.executable, LEARNER, place, "12"], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = [process.communicate(timeout=HANG_SECONDS)[0] for process in crowd]

    with otolith.open(place) as repo:
        sources = [each.source for each in repo.user("ann").profile.history("seat")]
    assert [text.splitlines()[-1] for text in said] == ["done"] * 3
    assert sources == [f"m{number}" for number in range(MESSAGES)]


@pytest.mark.parametrize("steps", [1, 3])
def test_who_is_erased_in_the_middle_of_learning_stays_erased(tmp_path, steps):
    place = tmp_path / "agent.db"
    with subprocess.Popen(
        [sys.executable, LEARNER, place, "100000"], stdout=subprocess.PIPE, text=True
    ) as learner:
        assert learner.stdout is not None
        for _ in range(steps + 1):
            learner.stdout.readline()
        with otolith.open(place) as repo:
            receipt = repo.user("ann").profile.erase()
        said, _ = learner.communicate(timeout=HANG_SECONDS)

    assert said.splitlines()[-2:] == ["erased", "done"]
    assert receipt.erased, receipt.residue
    with otolith.open(place) as repo:
        assert not [ref for ref in repo.store.refs() if "ann" in ref]
        with pytest.raises(Erased):
            repo.user("ann")
