"""A conflict is resolved by one side or one value, and only where there is a conflict."""

from __future__ import annotations

import pytest

import otolith
from otolith.errors import Invalid, KeyNotFound


@pytest.fixture
def state():
    with otolith.open("memory:") as repo:
        state = repo.session("trip")
        state["hotel"], state["other"] = "undecided", 1
        state.commit("base")
        side = state.fork("side")
        side["hotel"] = "hostel"
        side.commit("theirs")
        state["hotel"] = "hotel"
        state.commit("ours")
        assert not state.merge("side").ok
        yield state


@pytest.mark.parametrize("arguments", [{}, {"take": "theirs", "value": 5}])
def test_neither_and_both_are_refused(state, arguments):
    with pytest.raises(Invalid, match="either take or value"):
        state.resolve_conflict("hotel", **arguments)

    assert [conflict.path for conflict in state.conflicts] == ["hotel"]


@pytest.mark.parametrize("arguments", [{"take": "ours"}, {"value": None}])
def test_a_path_without_a_conflict_is_refused_and_keeps_its_value(state, arguments):
    with pytest.raises(KeyNotFound, match="there is no conflict at other"):
        state.resolve_conflict("other", **arguments)

    assert state["other"] == 1


def test_none_is_a_value(state):
    state.resolve_conflict("hotel", value=None)

    assert not state.conflicts
    assert state["hotel"] is None
