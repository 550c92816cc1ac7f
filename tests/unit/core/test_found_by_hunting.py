"""What a hostile tester found, once: each of these lost, hid or broke something."""

from __future__ import annotations

import pytest

from otolith import Repo, care
from otolith.errors import BadRef, Error, Invalid, MergeConflict, RefNotFound, Uncommitted
from otolith.opening import open as open_repo
from otolith.stores import MemoryStore


@pytest.fixture
def repo():
    return Repo(MemoryStore(), author="test")


def nest(depth, value=0):
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("answer", [lambda *_: lambda: 0, lambda *_: 1 / 0])
def test_a_merge_that_fails_leaves_the_edits_where_they_were(repo, answer):
    repo.resolver("bad", answer)
    state = repo.session("s")
    state.policy("x", "call:bad")
    state["x"], state["others"] = "0", "old"
    state.commit("1")
    late = repo.session("s")
    state["x"], state["others"] = "1", "new"
    state.commit("2")
    late["x"] = "2"
    for _ in range(2):
        with pytest.raises((Error, ZeroDivisionError)):
            late.commit("3")
    repo.resolver("bad", lambda base, ours, theirs: ours)
    late.commit("3")

    assert repo.session("s").to_dict() == {"x": "2", "others": "new"}


def test_a_conflict_about_a_deep_value_is_kept(repo):
    state = repo.session("s")
    state["v"] = nest(200)
    state.commit("1")
    late = repo.session("s")
    state["v"] = nest(200, 1)
    state.commit("2")
    del late["v"]
    for _ in range(2):
        with pytest.raises(MergeConflict):
            late.commit("3")
    late.resolve_conflict(late.conflicts[0].path, take="theirs")
    late.commit("3")

    assert repo.session("s")["v"] == nest(200, 1)


def test_a_deep_value_under_a_long_path_is_sound_and_merges(repo):
    state = repo.session("s")
    path = "/".join("a" * 50)
    state[path] = nest(200)
    state.commit("1")
    other = state.fork("other")
    other[path] = nest(200, 1)
    other["b"] = 1
    other.commit("2")
    state["c"] = 1
    state.commit("3")
    state.merge("other")

    assert state[path] == nest(200, 1)
    assert care.verify(repo, level="deep").ok


@pytest.mark.parametrize("moment", [1.5, 2**70, -1, None])
def test_a_clock_that_is_no_clock_is_refused(moment):
    broken = Repo(MemoryStore(), author="test").backend
    repo = Repo(broken.store, author="test", clock=lambda: moment)
    state = repo.session("s")
    state["x"] = 1

    with pytest.raises(Invalid, match="clock"):
        state.commit("1")


def test_a_deleted_branch_does_not_come_back_with_less_in_it(repo):
    state = repo.session("s")
    state["x"] = 1
    state.commit("1")
    state["y"] = 2
    repo.delete_branch("s", "main")

    with pytest.raises(RefNotFound, match="deleted"):
        state.commit("2")
    assert state["y"] == 2


def test_what_is_staged_is_not_dropped_for_what_was_put_away(repo):
    state = repo.session("s")
    state["y"] = 1
    state.stash()
    other = repo.session("s")
    other["mine"] = 5

    with pytest.raises(Uncommitted):
        other.unstash()
    assert other["mine"] == 5


def test_sets_join_as_sets_do(repo):
    members = repo.session("s").set("set")
    members.update([1, 2])

    assert members | {3} == {1, 2, 3}
    assert members & {2, 3} == {2}
    assert members - {1} == {2}
    assert members ^ {2, 3} == {1, 3}


@pytest.mark.parametrize("name", [5, None, "\ud800", b"x"])
def test_a_name_that_is_no_text_is_refused(repo, name):
    state = repo.session("s")
    state.commit("1")
    for use in (repo.session, state.fork, repo.resolve, lambda each: repo.tag(each, state.head)):
        with pytest.raises(BadRef):
            use(name)


def test_options_that_memory_cannot_keep_are_refused():
    with pytest.raises(Invalid):
        open_repo("memory:", read_only=True)
    with pytest.raises(Invalid):
        open_repo("memory:", durability="sometimes")


@pytest.mark.parametrize("meta", [[1], 5, nest(500), {1: 2}, {"a": (1,)}])
def test_meta_that_is_not_plain_is_refused(repo, meta):
    state = repo.session("s")
    state["x"] = 1

    with pytest.raises(Error):
        state.commit("1", meta=meta)
    assert state.head is None


@pytest.mark.parametrize("key", ["", b"x", (1, 2), b"a/b", "a/b", 42])
def test_a_conflict_under_any_key_can_be_decided_by_its_keys(repo, key):
    state = repo.session("s")
    state["v"] = {key: 1}
    state.commit("1")
    late = repo.session("s")
    state["v"] = {key: 2}
    state.commit("2")
    late["v"] = {key: 3}
    with pytest.raises(MergeConflict):
        late.commit("3")
    late.resolve_conflict(("v", key), take="theirs")
    late.commit("3")

    assert repo.session("s")["v"] == {key: 2}
