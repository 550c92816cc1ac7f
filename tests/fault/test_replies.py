"""A store whose replies get lost, or that fails now and then: no commit is lost or made twice."""

from __future__ import annotations

from functools import partial

import pytest

from otolith import Repo
from otolith.errors import Error, Full, Unavailable
from otolith.stores import MemoryStore
from otolith.testing import Fault, FaultyStore


def test_a_lost_reply_is_resolved_by_reading_back():
    store = FaultyStore(MemoryStore())
    state = Repo(store, author="test").session("job")
    state.counter("n").add(1)
    state.commit("one")
    store.plan = [Fault("write", at=store.calls["write"] + 1, kind="lose")]
    state.counter("n").add(1)
    commit = state.commit("two")
    assert state.at("@").commit == commit
    assert [c.message for c in state.log()] == ["two", "one"]
    assert state["n"] == 2


def test_a_lost_reply_is_found_even_when_others_have_committed_since():
    inner = MemoryStore()
    store = FaultyStore(inner)
    state = Repo(store, author="a").session("job")
    state["mine"] = 1
    state.commit("one")
    other = Repo(inner, author="b").session("job")

    def lose():
        other.refresh()
        other["theirs"] = 1
        other.commit("between")
        return Unavailable("the connection broke", hint="")

    store.plan = [Fault("write", at=store.calls["write"] + 1, kind="lose", error=lose)]
    state["mine"] = 2
    state.commit("two")
    assert [c.message for c in other.log("@")] == ["between", "two", "one"]


def _same(error: Error) -> Error:
    return error


def test_a_refused_write_changes_nothing_and_can_be_tried_again():
    store = FaultyStore(MemoryStore())
    state = Repo(store, author="test").session("job")
    state["n"] = 1
    state.commit("one")
    for error in (Unavailable("down", hint="wait"), Full("full", hint="make room")):
        store.plan = [Fault("write", at=store.calls["write"] + 1, error=partial(_same, error))]
        state["n"] = 2
        with pytest.raises(type(error)):
            state.commit("two")
        assert state["n"] == 2
        assert state.at("@")["n"] == 1
    state.commit("two")
    assert state.at("@")["n"] == 2


def test_a_clock_that_jumps_keeps_history_in_order():
    now = [10**15]
    state = Repo(MemoryStore(), author="test", clock=lambda: now[0]).session("job")
    year = 365 * 24 * 3600 * 10**6
    for number, jump in enumerate((0, -year, year, -3 * year, 0)):
        now[0] += jump
        state["n"] = number
        state.commit(str(number))
    commits = list(state.log())
    assert [commit.message for commit in commits] == ["4", "3", "2", "1", "0"]
    assert sorted({commit.time for commit in commits}, reverse=True) == [c.time for c in commits]
