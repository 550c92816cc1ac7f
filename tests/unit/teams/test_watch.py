"""Watching a team: every change once, in order, from wherever a watch was."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from threading import Thread

import pytest

import otolith
from otolith import Repo
from otolith.errors import Closed, Invalid, RefNotFound, Unavailable
from otolith.stores import MemoryStore
from otolith.testing import Fault, FaultyStore
from tests.patience import HANG_SECONDS


@pytest.fixture
def repo(tmp_path):
    with otolith.open(str(tmp_path / "team.db")) as repo:
        yield repo


@pytest.fixture
def team(repo):
    team = repo.team("research", member="planner")
    team.transact(lambda state: state.update(plan={"name": "A"}, other=0), "begin")
    return team


def drain(watch):
    found = []
    while (change := watch.next(0)) is not None:
        found.append(change)
    return found


def told(changes):
    return [(each.path, each.kind, each.old, each.new, each.by) for each in changes]


def test_changes_below_a_path_come_in_order(repo, team):
    critic = repo.team("research", member="critic")
    with team.watch("plan/") as watch:
        team.transact(lambda state: state.update({"plan/name": "B", "other": 1}))
        critic.transact(lambda state: state.update({"plan/steps": ["x"], "plan/name": "C"}))
        critic.transact(lambda state: state.pop("plan/name"))
        assert told(drain(watch)) == [
            ("plan/name", "changed", "A", "B", "planner"),
            ("plan/name", "changed", "B", "C", "critic"),
            ("plan/steps", "added", None, ["x"], "critic"),
            ("plan/name", "removed", "C", None, "critic"),
        ]
        assert drain(watch) == []


def test_a_watch_of_everything_leaves_out_what_belongs_to_otolith(team):
    with team.watch() as watch:
        team.add("ann")
        team.transact(lambda state: state.update(other=5))
        assert [each.path for each in drain(watch)] == ["other"]


def test_a_watch_goes_on_after_any_change_and_delivers_none_twice(team):
    first = team.watch(since=team.state.head)
    for number in range(3):
        team.transact(lambda state, n=number: state.update({"a": n, "b": n, "c": n}))
    everything = told(drain(first))
    assert len(everything) == 9
    for taken in range(10):
        watch = team.watch(since=team.state.resolve("@~3"))
        before = [watch.next(0) for _ in range(taken)]
        cursor = watch.cursor
        rest = drain(team.watch(since=cursor))
        assert told(before) + told(rest) == everything


def test_a_watch_begins_after_a_commit_or_an_expression(team):
    team.transact(lambda state: state.update(other=1))
    team.transact(lambda state: state.update(other=2))
    assert [each.new for each in drain(team.watch("other", since="@~1"))] == [2]
    assert [each.new for each in drain(team.watch("other", since=team.state.head))] == []


def test_a_watch_of_a_team_without_commits_sees_the_first(repo):
    team = repo.team("new", member="a")
    watch = team.watch()
    team.transact(lambda state: state.update(x=1))
    assert told(drain(watch)) == [("x", "added", None, 1, "a")]


def test_a_merge_is_one_step_and_an_undo_another(team):
    fork = team.state.fork("try")
    fork["other"] = 10
    fork.commit()
    fork["plan/name"] = "F"
    fork.commit()
    team.transact(lambda state: state.update(more=1))
    watch = team.watch()
    team.merge(fork)
    assert {each.path for each in drain(watch)} == {"other", "plan/name"}
    team.state.undo()
    assert {each.path for each in drain(watch)} == {"other", "plan/name"}
    team.state.redo()
    found = drain(watch)
    assert {each.path for each in found} == {"other", "plan/name"}
    assert told(drain(team.watch(since=found[0].cursor))) == told(found[1:])


def test_a_fast_forward_reports_each_commit_of_the_branch(team):
    fork = team.state.fork("try")
    for number in range(3):
        fork["other"] = number + 1
        fork.commit()
    watch = team.watch()
    team.state.merge(fork)
    assert [each.new for each in drain(watch)] == [1, 2, 3]


def test_a_watch_wakes_up_when_another_thread_commits(repo, team):
    other = repo.team("research", member="critic")
    watch = team.watch("other")
    thread = Thread(target=lambda: other.transact(lambda state: state.update(other=7)))
    thread.start()
    found = watch.next(HANG_SECONDS)
    thread.join()
    assert (found.new, found.by) == (7, "critic")


def test_a_watch_that_does_not_wait_listens_to_nothing(team, monkeypatch):
    monkeypatch.setattr("otolith.teams.change_watch.news_of", lambda *_: pytest.fail("it listens"))
    watch = team.watch()
    team.transact(lambda state: state.update(x=1))
    assert [each.path for each in drain(watch)] == ["x"]
    watch.close()


def test_a_closed_watch_ends(team):
    watch = team.watch()
    watch.close()
    with pytest.raises(Closed):
        watch.next(HANG_SECONDS)


def test_a_watch_of_a_branch_that_was_deleted_says_so(repo, team):
    watch = team.watch()
    repo.delete_branch("research", "main", scope="team")
    with pytest.raises(RefNotFound, match="was deleted"):
        watch.next(HANG_SECONDS)


def test_a_prefix_must_be_a_path(team):
    with pytest.raises(Invalid):
        team.watch(7)


@pytest.mark.parametrize("since", [5, b"x", [], 1.5])
def test_a_watch_begins_at_a_place_in_history(team, since):
    with pytest.raises(Invalid, match="since must be"):
        team.watch(since=since)


@pytest.mark.parametrize("timeout", ["soon", [], float("nan"), -1, "-1s", True])
def test_a_watch_waits_for_a_duration(team, timeout):
    with team.watch() as watch, pytest.raises(Invalid, match="timeout must be a time"):
        watch.next(timeout)


def test_a_watch_takes_durations_as_they_are_written(team):
    with team.watch() as watch:
        assert [watch.next(each) for each in ("1ms", 0, "0s", timedelta(milliseconds=1))] == (
            [None] * 4
        )


def test_a_path_that_comes_and_goes_is_one_change_each(team):
    watch = team.watch("deep/er")
    team.transact(lambda state: state.update({"deep": {"er": {"x": 1}}}))
    team.transact(lambda state: state.pop("deep"))
    assert told(drain(watch)) == [
        ("deep/er", "added", None, {"x": 1}, "planner"),
        ("deep/er", "removed", {"x": 1}, None, "planner"),
    ]


def _updater(values):
    return lambda state: state.update(values)


@pytest.mark.parametrize("fault", ["refuse", "lose"])
def test_a_store_that_fails_makes_a_watch_miss_nothing(fault):
    inner = MemoryStore()
    team = Repo(inner, author="test").team("research", member="planner")
    team.transact(lambda state: state.update(n=0))
    store = FaultyStore(inner)
    watch = Repo(store, author="test", cache_bytes=0).team("research").watch()
    for number in range(1, 5):
        new = {"n": number, f"more {number}": [number] * 200}
        team.transact(_updater(new))
    found: list[tuple[str, str]] = []
    calls = 0
    while len(found) < 8:
        calls += 1
        store.calls.clear()
        store.plan = [Fault("*", at=calls % 7 + 1, kind=fault)]
        with suppress(Unavailable):
            change = watch.next(0)
            found += [] if change is None else [(change.path, change.commit.id)]
    commits = [commit.id for commit in reversed(list(team.state.log(limit=4)))]
    assert found == [
        (path, commit)
        for number, commit in enumerate(commits, 1)
        for path in (f"more {number}", "n")
    ]
    assert calls > 8
