"""A value is rebuilt from events as if all were replayed, and nearly none are."""

from __future__ import annotations

from functools import partial

import pytest

from otolith import Disk, Live, Memory, Versioned
from otolith.errors import BadValue, Invalid, Unsupported
from otolith.state.stored_events import EVERY

SEEN: list[int] = []


def total(value, event):
    SEEN.append(event.index)
    return (value or 0) + event.data["n"]


def gather(value, event):
    value["all"].append(event.data["n"])
    return value


@pytest.fixture(autouse=True)
def _nothing_seen():
    SEEN.clear()


@pytest.fixture
def state():
    return Versioned(Memory())


def record(state, *numbers):
    for number in numbers:
        state.events.append("add", n=number)


def replayed(state, **options):
    SEEN.clear()
    state.events.rebuild(total, **options)
    return len(SEEN)


LONG = 3 * EVERY + 10


def test_a_value_is_what_the_reducer_makes_of_all_events(state):
    record(state, 1, 2, 3)

    assert state.events.rebuild(total) == 6
    assert state.events.rebuild(total, 10) == 16
    assert Versioned(Memory()).events.rebuild(total, 5) == 5


def test_a_second_rebuild_goes_on_from_a_snapshot(state):
    record(state, *range(LONG))
    assert replayed(state) == LONG

    assert replayed(state) == 10
    assert state.events.rebuild(total) == sum(range(LONG))


def test_snapshots_are_found_by_another_process(tmp_path):
    state = Versioned(Disk(tmp_path / "a.db"))
    record(state, *range(LONG))
    state.events.rebuild(total)
    state.commit()
    state.close()

    again = Versioned(Disk(tmp_path / "a.db"))

    assert replayed(again) == 10
    assert again.events.rebuild(total) == sum(range(LONG))


def test_rebuilding_alone_leaves_nothing_to_commit(state):
    record(state, *range(LONG))
    head = state.commit()
    state.events.rebuild(total)

    assert state.is_clean
    assert state.commit() == head
    state["x"] = 1
    state.commit()
    assert state.cell_at((".snapshots",)) is not None


def test_an_old_index_costs_at_most_the_events_since_a_snapshot(state):
    record(state, *range(LONG))
    state.events.rebuild(total)
    state.commit()

    for upto in (0, 7, EVERY - 1, EVERY, EVERY + 5, 2 * EVERY - 1, LONG):
        assert replayed(state, upto=upto) < EVERY
        assert (state.events.rebuild(total, upto=upto) or 0) == sum(range(upto))


def test_upto_a_commit_are_the_events_that_it_contains(state):
    record(state, 1, 2)
    first = state.commit()
    record(state, 3)
    state.commit()

    assert state.events.rebuild(total, upto=first) == 3
    assert state.events.rebuild(total, upto="@~1") == 3
    assert state.events.rebuild(total, upto="@") == 6


@pytest.mark.parametrize("upto", [-1, 1.5, True])
def test_a_count_is_a_count(state, upto):
    with pytest.raises(Invalid, match="upto must be"):
        state.events.rebuild(total, upto=upto)


def test_a_reducer_may_change_the_value_it_returned(state):
    record(state, *range(LONG))
    first = state.events.rebuild(gather, {"all": []})
    first["all"].clear()
    state.commit()

    for upto in (EVERY, 2 * EVERY + 3, LONG):
        value = state.events.rebuild(gather, {"all": []}, upto=upto)
        assert value == {"all": list(range(upto))}
        value["all"].append("spoilt")


def test_an_initial_value_is_not_changed(state):
    record(state, 1, 2)
    initial: dict[str, list[int]] = {"all": []}
    state.events.rebuild(gather, initial)

    assert initial == {"all": []}
    assert state.events.rebuild(gather, initial) == {"all": [1, 2]}


def test_another_initial_value_another_version_and_another_name_have_their_own(state):
    record(state, *range(LONG))
    state.events.rebuild(total)
    state.commit()

    assert state.events.rebuild(total, 1000) == 1000 + sum(range(LONG))
    assert replayed(state, version=2) == LONG
    assert replayed(state, name="other") == LONG


def test_after_a_rollback_other_events_are_other_snapshots(state):
    record(state, *range(EVERY + 5))
    early = state.commit()
    record(state, *range(EVERY))
    state.events.rebuild(total)
    state.commit()
    state.rollback(early)
    record(state, *([1000] * EVERY))

    assert state.events.rebuild(total) == sum(range(EVERY + 5)) + 1000 * EVERY
    state.commit()
    assert state.events.rebuild(total) == sum(range(EVERY + 5)) + 1000 * EVERY


def test_snapshots_that_waited_through_a_rollback_are_dropped(state):
    record(state, 5)
    early = state.commit()
    record(state, *range(EVERY))
    state.commit()
    state.events.rebuild(total)
    state.rollback(early)
    state["x"] = 1
    state.commit()

    assert state.cell_at((".snapshots",)) is None


def test_after_a_merge_the_snapshots_that_still_hold_are_used(state):
    record(state, *range(2 * EVERY))
    state.events.rebuild(total)
    state.commit()
    other = state.fork("other")
    record(state, *([1] * EVERY))
    record(other, *([1000] * EVERY))
    for branch in (state, other):
        branch.events.rebuild(total)
        branch.commit()

    assert state.merge(other).ok

    expected = sum(range(2 * EVERY)) + 1001 * EVERY
    assert replayed(state) <= 2 * EVERY
    assert state.events.rebuild(total) == expected


def test_branches_that_merge_each_other_meet_again(state):
    record(state, *range(EVERY))
    state.commit()
    other = state.fork("other")
    record(state, *range(EVERY))
    record(other, *range(EVERY, 2 * EVERY))
    for branch in (state, other):
        branch.events.rebuild(total)
        branch.commit()

    first, second = state.head, other.head
    one = state.merge(second).commit
    two = other.merge(first).commit

    assert one.root == two.root


def test_snapshots_never_conflict(state):
    state["x"] = 1
    start = state.commit()
    record(state, *range(EVERY))
    state.events.rebuild(total)
    state.commit()
    other = state.fork("other")
    state.rollback(start)
    record(other, *range(EVERY))
    other.events.rebuild(total)
    other.commit()

    assert state.merge(other).ok
    assert state.events.rebuild(total) == sum(range(EVERY))


def test_on_a_snapshot_it_uses_what_is_there_and_writes_nothing(state):
    record(state, *range(LONG))
    state.events.rebuild(total)
    commit = state.commit()
    then = state.at(commit)

    assert replayed_on(then) == 10
    assert then.events.rebuild(total, version=2) == sum(range(LONG))
    assert state.is_clean


def replayed_on(then):
    SEEN.clear()
    then.events.rebuild(total)
    return len(SEEN)


@pytest.mark.parametrize(
    "reducer", [lambda value, event: 1, partial(total)], ids=["lambda", "partial"]
)
def test_a_reducer_without_a_name_needs_one(state, reducer):
    record(state, 1)

    with pytest.raises(Invalid, match="name="):
        state.events.rebuild(reducer)
    assert state.events.rebuild(reducer, name="one") == 1


def test_a_value_that_cannot_be_kept_is_made_of_all_events_each_time(state):
    record(state, *range(LONG))

    def odd(value, event):
        return (each for each in [event.index])

    assert next(state.events.rebuild(odd, name="odd")) == LONG - 1
    assert next(state.events.rebuild(odd, name="odd")) == LONG - 1


def test_an_initial_value_that_cannot_be_kept_is_refused(state):
    with pytest.raises(BadValue):
        state.events.rebuild(total, (x for x in "ab"))


def test_an_error_in_a_reducer_comes_through_and_spoils_nothing(state):
    record(state, *range(LONG))

    def fails(value, event):
        if event.index == EVERY + 3:
            raise ZeroDivisionError
        return (value or 0) + 1

    with pytest.raises(ZeroDivisionError):
        state.events.rebuild(fails, name="counted")

    assert state.events.rebuild(lambda value, event: (value or 0) + 1, name="counted") == LONG


def test_live_state_replays_everything():
    state = Live()
    record(state, 1, 2, 3)

    assert state.events.rebuild(total) == 6
    assert state.events.rebuild(total, upto=2) == 3
    assert state.events.rebuild(gather, {"all": []}) == {"all": [1, 2, 3]}
    with pytest.raises(Unsupported, match="no commits"):
        state.events.rebuild(total, upto="@")
