"""A state in memory, and flows whose functions note that they were called."""

from __future__ import annotations

from collections import Counter

import pytest

import otolith


@pytest.fixture
def repo():
    with otolith.open("memory:") as found:
        yield found


@pytest.fixture
def state(repo):
    return repo.session("trip")


@pytest.fixture
def calls():
    return Counter()
