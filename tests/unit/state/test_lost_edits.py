"""Staged edits are not lost in silence."""

from __future__ import annotations

import gc
import subprocess
import sys
import warnings
import weakref

import pytest

import otolith

pytestmark = pytest.mark.filterwarnings("always::ResourceWarning")


def lost(recorded):
    """Return what was said about lost edits."""
    return [str(each.message) for each in recorded if each.category is ResourceWarning]


@pytest.fixture
def repo():
    return otolith.open("memory:")


def test_closing_a_repo_names_the_edits_that_are_lost(repo):
    state, clean = repo.session("trip"), repo.session("other")
    state["plan"] = {"steps": []}
    clean["a"] = 1
    clean.commit()
    state["plan"]["steps"].append("search")
    state.conversation.user("Hello")
    with pytest.warns(ResourceWarning, match="staged edits") as recorded:
        repo.close()
    (said,) = lost(recorded)
    assert said.startswith("session trip, branch main, was closed with staged edits")
    assert "lost: conversation, plan;" in said


def test_a_change_in_place_is_found_when_a_state_is_closed():
    state = otolith.Versioned()
    state["rows"] = [1]
    state.commit()
    state["rows"].append(2)
    with pytest.warns(ResourceWarning, match="rows/1"):
        state.close()


@pytest.mark.parametrize("verb", ["commit", "discard", "stash"])
def test_edits_that_are_not_lost_are_not_warned_of(repo, verb):
    state = repo.session("trip")
    state["a"] = 1
    getattr(state, verb)()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        repo.close()
        repo.close()


def test_a_state_that_is_dropped_names_what_was_assigned(repo):
    state = repo.session("trip")
    state["a"], state["b"] = 1, [2]
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        del state
        gc.collect()
    (said,) = lost(recorded)
    assert "was dropped with staged edits, which are lost: a, b;" in said


def test_a_closed_state_warns_once(repo):
    state = repo.session("trip")
    state["a"] = 1
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        repo.close()
        del state
        gc.collect()
    assert len(lost(recorded)) == 1


def test_many_names_are_counted(repo):
    state = repo.session("trip")
    state.update({f"k{number}": 1 for number in range(9)})
    with pytest.warns(ResourceWarning, match="k0, k1, k2, k3, k4 and 4 more"):
        repo.close()


def test_the_end_of_the_interpreter_names_the_edits_that_are_lost(tmp_path):
    program = (
        "import otolith; s = otolith.Versioned('a.db'); s['x'] = [1]; s.commit(); s['x'] += [2]"
    )
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "session main, branch main, was left open with staged edits" in done.stderr
    assert done.stderr.count("staged edits") == 1


def test_where_the_warning_is_hidden_nothing_is_compared(repo, monkeypatch):
    state = repo.session("trip")
    state["a"] = 1
    monkeypatch.setattr(type(state), "_warn_of_staged", lambda *_: pytest.fail("it compared"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        repo.close()
        del state


# The user of a session


def test_a_commit_says_that_its_user_has_staged_edits(repo):
    trip = repo.session("trip", user="ann")
    trip.user["seat"] = "aisle"
    trip["a"] = 1
    match = "user of this session, ann, has staged edits.*seat"
    with pytest.warns(UserWarning, match=match) as warned:
        trip.commit()
    assert [each.filename for each in warned] == [__file__]  # the line of the user's commit
    assert repo.user("ann").head is None
    trip.user.discard()


def test_a_commit_takes_the_edits_of_its_user_along(repo):
    trip = repo.session("trip", user="ann", app="shop")
    trip.user["seat"], trip.app["open"], trip["a"] = "aisle", True, 1
    made = trip.commit("both", user=True)
    assert repo.user("ann").to_dict() == {"seat": "aisle"}
    assert repo.app("shop").to_dict() == {"open": True}
    assert (repo.user("ann").head.message, trip.at(made).user["seat"]) == ("both", "aisle")


def test_nothing_of_the_user_is_committed_if_the_session_cannot_be(repo):
    trip = repo.session("trip", user="ann")
    trip.user["seat"] = "aisle"
    trip["bad"] = (each for each in [1])
    with pytest.raises(otolith.Unstorable):
        trip.commit(user=True)
    assert repo.user("ann").head is None


def test_a_handle_that_nobody_has_is_freed_at_once(repo):
    gc.disable()
    try:
        state = repo.session("a")
        state["x"] = {"y": [1]}
        state["x"]["y"].append(2)
        state.text("t").append("z")
        state.commit()
        seen = weakref.ref(state)
        del state
        assert seen() is None
    finally:
        gc.enable()
