"""Attempts: one of many gets a key, and all learn how it ended."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from otolith import Disk, Versioned
from otolith.core import Attempt
from otolith.errors import Corrupt, StaleRef, Unavailable
from otolith.stores import Batch, MemoryStore


def test_one_of_many_gets_a_key(tmp_path):
    with Versioned(Disk(tmp_path / "a.db")) as state:
        attempts = state.attempts()

        def claim(number: int) -> list[bool]:
            claims = [Attempt("begun", f"{number}") for _ in range(8)]
            return [attempts.swap(f"key {at}", None, each) for at, each in enumerate(claims)]

        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(claim, range(8)))
        assert [sum(column) for column in zip(*won, strict=True)] == [1] * 8


def test_a_swap_needs_the_attempt_it_saw():
    attempts = Versioned().attempts()
    first, second = Attempt("begun", "a", 1), Attempt("begun", "b", 2)
    assert attempts.swap("k", None, first)
    assert not attempts.swap("k", None, second)
    assert not attempts.swap("k", second, None)
    assert attempts.swap("k", first, first.ended("done", result=[1, {"x": 2}]))
    assert not attempts.swap("k", first, second)

    assert attempts.find("k") == Attempt("done", "a", 1, [1, {"x": 2}])
    assert attempts.find("other") is None


def test_what_is_removed_can_be_claimed_again():
    attempts = Versioned().attempts()
    attempts.swap("k", None, Attempt("begun", "a"))
    assert attempts.swap("k", Attempt("begun", "a"), None)
    assert attempts.swap("absent", None, None)
    assert attempts.swap("k", None, Attempt("begun", "b"))


def test_branches_of_a_session_share_attempts_and_sessions_do_not():
    state = Versioned()
    state["x"] = 1
    state.commit("one")
    state.attempts().swap("k", None, Attempt("begun", "a"))

    assert state.fork("other").attempts().find("k") is not None
    assert Versioned(state.repo, session="other").attempts().find("k") is None
    assert Versioned(state.repo, session="other").attempts(state.ref).find("k") is not None
    assert Versioned(state.repo, scope="user").attempts().find("k") is None


def test_attempts_are_not_a_session_or_a_branch():
    state = Versioned()
    state["x"] = 1
    state.commit("one")
    state.attempts().swap("k", None, Attempt("begun", "a"))

    assert [session.id for session in state.repo.sessions()] == ["main"]
    assert list(state.repo.branches("main")) == ["main"]


class LosesReplies(MemoryStore):
    """Writes, and says that it does not know; or does not write, and says so."""

    is_written = True

    def write(self, batch: Batch) -> None:
        if any(swap.name.startswith(".attempts/") for swap in batch.swaps):
            if self.is_written:
                super().write(batch)
            raise Unavailable("no reply")
        super().write(batch)


def test_a_claim_whose_reply_was_lost_is_looked_for():
    store = LosesReplies()
    attempts = Versioned(store).attempts()
    assert attempts.swap("k", None, Attempt("begun", "a", 1))
    store.is_written = False
    with pytest.raises(Unavailable):
        attempts.swap("other", None, Attempt("begun", "a", 1))


class Races(MemoryStore):
    """Loses the first races for the attempts."""

    losses = 3

    def write(self, batch: Batch) -> None:
        if batch.swaps[0].name.startswith(".attempts/") and self.losses:
            self.losses -= 1
            raise StaleRef(batch.swaps[0].name, expected=None, actual=None)
        super().write(batch)


def test_a_lost_race_is_run_again():
    assert Versioned(Races()).attempts().swap("k", None, Attempt("begun", "a"))


@pytest.mark.parametrize(
    "data",
    [
        {"status": "maybe", "by": "", "time": 0, "result": None, "error": ""},
        {"status": "done"},
        {"status": "done", "by": 1, "time": 0, "result": None, "error": ""},
        "done",
    ],
)
def test_what_is_not_an_attempt_is_damage(data):
    with pytest.raises(Corrupt, match="attempt"):
        Attempt.from_data(data, "k")


# A change that is made again


def test_a_change_is_made_again_on_what_others_committed():
    state = Versioned()
    state["count"] = 1
    state.commit("one")
    other = Versioned(state.repo)
    seen: list[int] = []

    def add() -> bool:
        seen.append(state["count"])
        if len(seen) == 1:  # another process is faster
            other["count"] = 10
            other.commit("ten")
        state["count"] = seen[-1] + 1
        return True

    assert state.commit_change(add, "add")
    assert seen == [1, 10]
    assert state["count"] == 11
    assert [commit.message for commit in state.log()] == ["add", "ten", "one"]


def test_a_change_that_is_not_needed_commits_nothing():
    state = Versioned()
    state["x"] = 1
    head = state.commit("one")
    assert not state.commit_change(lambda: False, "nothing")
    assert state.head == head


def test_a_change_that_fails_leaves_nothing_staged():
    state = Versioned()
    state["x"] = 1
    state.commit("one")
    state["staged"] = True

    def fail() -> bool:
        state["x"] = 2
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        state.commit_change(fail, "fails")
    assert dict(state) == {"x": 1, "staged": True}


def test_edits_from_before_a_change_are_merged_and_committed_with_it():
    state = Versioned()
    state["x"] = 1
    state.commit("one")
    other = Versioned(state.repo)
    other["theirs"] = 1
    other.commit("theirs")
    state["mine"] = 1

    def change() -> bool:
        state["changed"] = 1
        return True

    state.commit_change(change, "change")
    assert dict(state) == {"x": 1, "theirs": 1, "mine": 1, "changed": 1}
    assert state.is_clean
