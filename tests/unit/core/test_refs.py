"""What an expression means, and how refs are spelled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import otolith
from otolith import Repo
from otolith.care import prune
from otolith.core.history.refs import (
    check_name,
    scope_ref,
    split_ref,
    stage_ref,
    tag_ref,
)
from otolith.errors import BadRef, CommitNotFound, RefNotFound
from otolith.stores import MemoryStore
from otolith.types import Hash


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_any_text_names_a_session(id):
    ref = scope_ref("session", id, "main")
    assert split_ref(ref) == ("session", id, "main")
    assert ref.count("/") == 2


@pytest.mark.parametrize(
    "name", ["main", "a/b", "v1.2", "fix-3", "a+b=c", "ünïcode", "x:y", "me@home", "1"]
)
def test_these_name_branches_and_tags(name):
    assert check_name(name) == name
    assert tag_ref(name) == f"tag/{name}"
    assert split_ref(scope_ref("session", "s", name)) == ("session", "s", name)
    assert stage_ref(scope_ref("session", "s", name)) == f"stage/s/{name}"


@pytest.mark.parametrize(
    "name", ["", "@", "a b", "a~", "a^", "-a", ".a", "a..b", "a/", "/a", "a@{1}", "a.lock", "a\n"]
)
def test_these_do_not(name):
    with pytest.raises(BadRef):
        check_name(name)


@pytest.fixture
def state():
    state = otolith.open("memory:").session("s")
    for number in range(4):
        state["n"] = number
        state.commit(str(number))
    return state


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("@", "3"),
        ("@~", "2"),
        ("@~0", "3"),
        ("@~3", "0"),
        ("@^^^", "0"),
        ("@~1^~1", "0"),
        ("@^0^1", "2"),
        ("@{1}", "2"),
        ("@{1}~1", "1"),
        ("main@{3}", "0"),
    ],
)
def test_steps_are_taken_one_after_the_other(state, expression, message):
    assert state.resolve(expression).message == message


@pytest.mark.parametrize("expression", ["@~4", "@^2", "@{4}", "@~9999999999", "dead", "@^^^^"])
def test_steps_beyond_the_beginning_are_not_found(state, expression):
    with pytest.raises(CommitNotFound):
        state.resolve(expression)


@pytest.mark.parametrize("expression", ["nobody", "main~x", "@{x}", "main^~nobody", "DEAD"])
def test_other_text_names_nothing(state, expression):
    with pytest.raises(RefNotFound):
        state.resolve(expression)


def test_an_empty_expression_is_refused(state):
    with pytest.raises(BadRef):
        state.resolve("")


def test_a_branch_of_the_session_comes_before_a_tag_and_a_tag_before_digits(state):
    repo = otolith.open("memory:")
    state = repo.session("s")
    state["n"] = 0
    zero = state.commit()
    digits = zero.id[:6]
    state["n"] = 1
    one = state.commit()
    assert state.resolve(digits) == zero
    repo.tag(digits, one)
    assert state.resolve(digits) == one
    state.fork(digits, at="@~1")
    assert state.resolve(digits) == zero


def test_another_session_is_named_before_a_slash():
    repo = otolith.open("memory:")
    there = repo.session("a/b")
    there["n"] = 1
    made = there.commit()
    here = repo.session("c")
    assert here.resolve("a/b/main") == made
    assert here.resolve(there.ref) == made


def test_where_a_branch_was_is_known_after_undo(state):
    state.undo()
    assert [state.resolve(f"@{{{moves}}}").message for moves in range(5)] == [*"23210"]


class Haystack(MemoryStore):
    """A store with so many objects that a hundred begin like any commit."""

    def find(self, prefix, *, limit=16):
        hay = [Hash(prefix + bytes(29) + bytes([number])) for number in range(100)]
        return [*hay, *super().find(prefix, limit=limit)][:limit]


def test_a_prefix_finds_its_commit_among_many_objects():
    repo = Repo(Haystack())
    made = repo.session("s").commit("needle")
    assert repo.resolve(made.id[:4]) == made


class Deleting(MemoryStore):
    """A store in which a branch is deleted and collected right after its name was read."""

    def __init__(self):
        super().__init__()
        self.acts = []

    def ref(self, name):
        found = super().ref(name)
        if self.acts and name == "session/s/main":
            self.acts.pop()()
        return found


def test_a_branch_that_is_collected_while_it_is_opened_is_a_branch_that_is_gone():
    store = Deleting()
    writer = Repo(store)
    state = writer.session("s")
    state["x"] = 1
    state.commit()

    def delete():
        writer.delete_branch("s", "main")
        prune(writer, expire_seconds=0)

    reader = Repo(store)
    store.acts.append(delete)

    assert reader.session("s").head is None
