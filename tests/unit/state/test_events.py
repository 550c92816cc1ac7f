"""Events are recorded in order, committed with the rest, and know the commit they came with."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otolith import Disk, Event, Live, Memory, MergeConflict, Versioned, events
from otolith.errors import BadPath, BadValue, Invalid, NotFound, ReadOnly, Unsupported
from otolith.types import Hash

SECOND = 1_000_000


def clock():
    ticks = count(1_000 * SECOND, SECOND)
    return lambda: next(ticks)


@pytest.fixture
def state():
    return Versioned(Memory(), clock=clock())


def told(found):
    return [event.data.get("n") for event in found]


# ---------------------------------------------------------------- recording


def test_an_event_is_what_was_recorded(state):
    now = state.repo.clock()
    event = state.events.append("tool_call", agent="planner", tool="search", args={"q": "NYC"})

    assert (event.kind, event.agent, event.index) == ("tool_call", "planner", 0)
    assert event.data == {"tool": "search", "args": {"q": "NYC"}}
    assert event.time == now + SECOND
    assert event.when == datetime.fromtimestamp(event.time / SECOND, UTC)
    assert event == state.events[0]


def test_any_word_is_a_kind_and_nothing_else_is(state):
    assert state.events.append("my own kind").kind == "my own kind"
    for kind in ("", 5, None):
        with pytest.raises(Invalid, match="kind of an event"):
            state.events.append(kind)


def test_data_may_be_called_kind_or_time(state):
    assert state.events.append("note", kind="x", time=3).data == {"kind": "x", "time": 3}


def test_an_event_keeps_the_data_as_it_was(state):
    steps = ["search"]
    event = state.events.append("note", steps=steps)
    steps.append("book")
    state.commit()

    assert event.data == {"steps": ["search"]}
    assert state.events[0].data == {"steps": ["search"]}


def test_changing_the_data_of_an_event_changes_no_other(state):
    state.events.append("note", steps=["search"])
    state.events[0].data["steps"].append("book")

    assert state.events[0].data == {"steps": ["search"]}
    state.commit()
    assert state.events[0].data == {"steps": ["search"]}


def test_an_event_cannot_be_changed(state):
    event = state.events.append("note")

    with pytest.raises(AttributeError):
        event.kind = "error"


def test_data_that_cannot_be_kept_is_refused_and_named(state):
    with pytest.raises(BadValue, match=r"event output.*rows"):
        state.events.append("output", rows=(x for x in "ab"))

    assert len(state.events) == 0


def test_appending_reads_none_of_what_is_there(state, monkeypatch):
    for n in range(5000):
        state.events.append("note", n=n, text="x" * 100)
    state.commit()
    read: list[Hash] = []
    monkeypatch.setattr(state.cells.objects.stored, "_load", read.append)

    state.events.append("note")

    assert read == []


def test_events_are_committed_and_found_again(tmp_path):
    with Versioned(Disk(tmp_path / "a.db")).repo as repo:
        state = repo_state(repo)
        state.events.append("action", n=1)
        assert not state.is_clean
        state.commit()
    with Versioned(Disk(tmp_path / "a.db")).repo as repo:
        assert told(events(repo_state(repo))) == [1]


def repo_state(repo):
    return Versioned(repo)


def test_nobody_else_writes_where_events_are(state):
    for path in (".events", ".events/0/kind"):
        with pytest.raises(BadPath, match="belong to otolith"):
            state[path] = "x"
    with pytest.raises(BadPath, match="belong to otolith"):
        state.list(".events").append({})


def test_events_are_no_keys_of_the_state(state):
    state["x"] = 1
    state.events.append("note")

    assert list(state) == ["x"]
    assert [change.path for change in state.status()] == ["x"]


# ---------------------------------------------------------------- reading


def test_a_log_is_a_sequence(state):
    for n in range(5):
        state.events.append("note", n=n)

    assert told(state.events) == [0, 1, 2, 3, 4]
    assert told(state.events[1:3]) == [1, 2]
    assert told(state.events[::-2]) == [4, 2, 0]
    assert state.events[-1].index == 4
    assert state.events[1] in state.events
    with pytest.raises(IndexError, match="5 events"):
        state.events[5]


def test_events_are_filtered_by_kind_and_agent(state):
    for n, (kind, agent) in enumerate([("action", "a"), ("error", "b"), ("note", "a")]):
        state.events.append(kind, agent=agent, n=n)

    assert told(events(state, kind="error")) == [1]
    assert told(events(state, kind={"error", "note"})) == [1, 2]
    assert told(events(state, agent="a")) == [0, 2]
    assert told(events(state, agent="a", kind="note")) == [2]


def test_a_limit_is_for_the_last_of_those_that_fit(state):
    for n in range(10):
        state.events.append("even" if n % 2 == 0 else "odd", n=n)

    assert told(events(state, limit=3)) == [7, 8, 9]
    assert told(events(state, kind="even", limit=2)) == [6, 8]
    assert events(state, limit=0) == []
    with pytest.raises(Invalid, match="limit"):
        events(state, limit=-1)


def test_events_are_filtered_by_time(state):
    times = [state.events.append("note", n=n).time for n in range(4)]
    moment = datetime.fromtimestamp(times[2] // SECOND, UTC)

    assert told(events(state, since=times[2])) == [2, 3]
    assert told(events(state, since=moment)) == [2, 3]
    assert told(events(state, until=times[1])) == [0, 1]
    assert told(events(state, since=times[1], until=moment)) == [1, 2]


def test_a_time_without_a_zone_is_refused(state):
    with pytest.raises(Invalid, match="no zone"):
        events(state, since=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the mistake
    with pytest.raises(Invalid, match="not a time"):
        events(state, since=1.5)  # type: ignore[arg-type]


def test_events_are_filtered_by_commit(state):
    state.events.append("note", n=0)
    first = state.commit()
    state.events.append("note", n=1)
    state.commit()
    state.events.append("note", n=2)

    assert told(events(state, since=first)) == [1, 2]
    assert told(events(state, since="@")) == [2]
    assert told(events(state, until="@")) == [0, 1]
    assert told(events(state, until=first)) == [0]
    assert told(events(state, since="@~1", until="@")) == [1]


def test_no_state_has_no_events():
    assert events(None) == []
    with pytest.raises(Invalid, match="not a state"):
        events({})  # type: ignore[arg-type]


def test_live_state_has_events_without_commits():
    state = Live()
    event = state.events.append("note", n=1)
    state.commit()

    assert told(events(state, kind="note")) == [1]
    assert event.commit is None
    with pytest.raises(Unsupported, match="no commits"):
        events(state, since="main")


def test_an_unknown_type_in_one_event_leaves_the_others_readable(tmp_path):
    path = tmp_path / "a.db"
    writer = Versioned(Disk(path), pickle="signed", secret=lambda: b"a" * 32)
    writer.events.append("output", n=0, odd=Odd())
    writer.events.append("output", n=1)
    writer.commit()
    writer.close()

    reader = Versioned(Disk(path), secret=lambda: b"b" * 32)

    assert [event.kind for event in events(reader)] == ["output", "output"]
    assert events(reader)[1].data == {"n": 1}


class Odd:
    pass


# ---------------------------------------------------------------- commits


def test_an_event_knows_the_commit_it_came_with(state):
    event = state.events.append("action")
    assert event.commit is None

    first = state.commit()
    state["x"] = 1
    state.commit()
    state.events.append("success")
    third = state.commit()

    assert event.commit == first.id
    assert [each.commit for each in events(state)] == [first.id, third.id]
    assert len(state.checkout(event.commit).events) == 1


def test_events_of_one_commit_have_one_commit(state):
    for n in range(300):
        state.events.append("note", n=n)
        if n % 100 == 99:
            state.commit(f"{n}")
    state.events.append("note")

    found = [event.commit for event in events(state)]

    ids = [commit.id for commit in state.log()][::-1]
    assert found == [*[id for id in ids for _ in range(100)], None]


def test_asking_about_recent_events_reads_recent_history(tmp_path, monkeypatch):
    state = Versioned(Disk(tmp_path / "a.db", durability="fast"))
    for n in range(400):
        state.events.append("note", n=n)
        state.commit()
    state.close()
    state = Versioned(Disk(tmp_path / "a.db"))
    objects = state.cells.objects.stored
    load, before = objects._load, list[Hash]()

    def noted(name):
        before.append(name)
        return load(name)

    monkeypatch.setattr(objects, "_load", noted)

    found = [event.commit for event in events(state, limit=5)]

    assert found == [commit.id for commit in state.log(limit=5)][::-1]
    assert 0 < len(before) < 60


def test_events_of_both_sides_of_a_merge_keep_their_commits(state):
    state.events.append("note", n="base")
    base = state.commit()
    other = state.fork("other")
    state.events.append("note", n="ours")
    ours = state.commit()
    other.events.append("note", n="theirs")
    theirs = other.commit()

    assert state.merge(other).ok

    found = {event.data["n"]: event.commit for event in events(state)}
    assert found == {"base": base.id, "ours": ours.id, "theirs": theirs.id}


def test_two_branches_that_record_the_same_both_did(state):
    state.events.append("note", n="base")
    state.commit()
    other = state.fork("other")
    for branch in (state, other):
        branch.events._clock = lambda: 5
        branch.events.append("note", n="same")
        branch.commit()

    state.merge(other)

    assert told(events(state)) == ["base", "same", "same"]


@pytest.mark.parametrize("early", [True, False], ids=["before any event", "between"])
def test_a_rollback_on_one_side_and_events_on_the_other_do_not_conflict(state, early):
    state["x"] = 1
    first = state.commit()
    state.events.append("note", n=1)
    second = state.commit()
    state.events.append("note", n=2)
    state.commit()
    other = state.fork("other")
    state.rollback(first if early else second)
    state.events.append("note", n=3)
    state.commit()
    other.events.append("note", n=4)
    other.commit()
    ours, theirs = state.head, other.head

    assert state.merge(theirs).ok
    assert other.merge(ours).ok

    assert told(events(state)) == told(events(other)) == ([3, 4] if early else [1, 3, 4])
    assert state.head.root == other.head.root


def test_events_add_no_policy_of_the_users(state):
    state.events.append("note")
    state.commit()

    assert state.policies() == {}


def test_an_event_of_a_lost_race_knows_where_it_landed():
    repo = Versioned(Memory(), clock=clock()).repo
    one, two = Versioned(repo), Versioned(repo)
    mine = one.events.append("note", n=1)
    two.events.append("note", n=2)
    first = two.commit()
    second = one.commit()

    assert told(events(one)) == [2, 1]
    assert mine.commit == second.id
    assert [event.commit for event in events(one)] == [first.id, second.id]


def test_events_of_a_merge_in_progress_are_of_either_side(state):
    state["x"] = 0
    state.events.append("note", n="base")
    state.commit()
    other = state.fork("other")
    for branch, value in ((state, 1), (other, 2)):
        branch["x"] = value
        branch.events.append("note", n=value)
        branch.commit()
    state.merge(other)
    with pytest.raises(MergeConflict):
        state.commit()
    state.events.append("note", n="now")

    sides = {event.data["n"]: event.commit for event in events(state)}

    assert sides[1] == state.head.id
    assert sides[2] == other.head.id
    assert sides["now"] is None

    state["x"] = 3
    merged = state.commit()
    sides = {event.data["n"]: event.commit for event in events(state)}
    assert sides["now"] == merged.id
    assert sides[2] == other.head.id


def test_a_rollback_takes_events_out_of_the_state_and_leaves_them_in_history(state):
    state.events.append("action", n=1)
    good = state.commit()
    state.events.append("error", n=2)
    bad = state.commit()

    state.rollback(good)

    assert told(events(state)) == [1]
    assert told(events(state.at(bad))) == [1, 2]
    state.events.append("note", n=3)
    last = state.commit()
    assert [event.commit for event in events(state)] == [good.id, last.id]


def test_going_back_to_what_was_rolled_back_brings_its_events_again(state):
    state.events.append("note", n=1)
    first = state.commit()
    state.events.append("note", n=2)
    second = state.commit()
    state.rollback(first)
    state.events.append("note", n=3)
    state.commit()
    again = state.rollback(second)

    assert told(events(state)) == [1, 2]
    assert [event.commit for event in events(state)] == [first.id, again.id]


def test_undo_takes_events_back_and_redo_brings_them_again(state):
    state.events.append("note", n=1)
    state.commit()
    state.events.append("note", n=2)
    second = state.commit()
    state.undo()
    assert told(events(state)) == [1]

    state.redo()

    assert [event.commit for event in events(state)][-1] == second.id


def test_a_discarded_event_never_happened(state):
    state.events.append("note", n=1)
    state.commit()
    event = state.events.append("note", n=2)
    state.discard()

    assert told(events(state)) == [1]
    assert event.commit is None
    assert event.data == {"n": 2}


@given(st.lists(st.sampled_from("aaabccmrsu"), max_size=40), st.randoms(use_true_random=False))
def test_the_commit_of_an_event_is_the_first_that_contains_it(steps, chance):
    state = Versioned(Memory(), clock=clock())
    branches, numbers = [state], count()
    for step in steps:
        branch = chance.choice(branches)
        if step == "a":
            branch.events.append("note", n=next(numbers))
        elif step == "b" and branch.head:
            branches.append(branch.fork(f"b{len(branches)}"))
        elif step == "u" and branch.is_clean:
            with suppress(NotFound):  # where the branch began
                branch.undo()
        elif step == "r" and branch.head:
            branch.rollback(chance.choice(list(branch.log())), discard=True)
        elif step == "m" and branch.is_clean and (other := chance.choice(branches)).head:
            branch.merge(other)
        elif step == "s":
            [event.commit for event in events(branch)]
        else:
            branch.commit()

    for branch in branches:
        for event in events(branch):
            check_origin(branch, event)


def check_origin(branch, event):
    number = event.data["n"]
    if event.commit is None:
        assert branch.head is None or number not in told(branch.at("@").events)
        return
    commit = branch.resolve(event.commit)
    assert number in told(branch.at(commit).events)
    for parent in commit.parents:
        assert number not in told(branch.at(parent).events)


# ---------------------------------------------------------------- as it was


def test_a_snapshot_has_the_events_of_then(state):
    state.events.append("note", n=1)
    first = state.commit()
    state.events.append("note", n=2)
    state.commit()

    assert told(state.at(first).events) == [1]
    assert told(events(state.checkout("@"), since=first)) == [2]
    assert [event.commit for event in events(state.at(first))] == [first.id]
    with pytest.raises(ReadOnly, match="read-only"):
        state.at(first).events.append("note")


def test_a_plain_snapshot_of_a_repo_has_events_too(state):
    state.events.append("note", n=1)
    first = state.commit()

    found = events(state.repo.at(first))

    assert told(found) == [1]
    assert found[0].commit == first.id


def test_an_event_as_plain_data(state):
    event = state.events.append("note", agent="a", n=1)
    commit = state.commit()

    assert event.to_dict() == {
        "index": 0,
        "kind": "note",
        "time": event.time,
        "agent": "a",
        "commit": commit.id,
        "data": {"n": 1},
    }
    assert isinstance(event, Event)
    assert repr(event) == "<Event 0 note by a {'n': 1}>"
