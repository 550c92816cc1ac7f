"""A user whose profile is empty, on a clock that the test moves."""

from __future__ import annotations

import pytest

import otolith
from otolith.session import Repo
from otolith.stores import MemoryStore

DAY = 24 * 3600 * 1_000_000


class ManualClock:
    """A clock that stands still unless it is moved."""

    def __init__(self):
        self.now = 1_700_000_000_000_000

    def __call__(self):
        return self.now

    def advance(self, *, days):
        self.now += int(days * DAY)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def repo(clock):
    with Repo(MemoryStore(), clock=clock, author="test") as repo:
        yield repo


@pytest.fixture
def ann(repo):
    return repo.user("ann").profile


@pytest.fixture
def reopened(repo, ann):
    """Return a function that commits, and opens the profile again as another handle."""

    def reopen():
        ann.commit("learned")
        return repo.user("ann").profile

    return reopen


@pytest.fixture
def disk(tmp_path):
    return otolith.open(tmp_path / "agent.db")
