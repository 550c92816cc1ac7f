"""What changed of a profile is told by `status` and `diff`, beside the values of the user."""

from __future__ import annotations


def told(changes):
    return [str(change.summary) for change in changes]


def test_status_tells_what_was_set_learned_and_agreed_to(ann):
    ann.set("seat", "window")
    ann.set("seat", "aisle")
    ann.observe("drink", "tea")
    ann.observe("drink", "coffee")
    ann.consent("ads", granted=False)

    assert told(ann.state.status()) == [
        "profile seat: set 'aisle'",
        "profile drink: +2 evidence",
        "profile ads: consent or retention",
    ]


def test_diff_tells_what_changed_between_commits(ann):
    ann.set("seat", "aisle")
    ann.observe("drink", "tea")
    first = ann.commit("first")
    ann.unset("seat")
    ann.forget("drink")
    second = ann.commit("second")

    found = ann.state.diff(first, second)

    assert told(found) == ["profile seat: unset", "profile drink: evidence"]
    assert [change.kind for change in found] == ["changed", "removed"]


def test_a_forgotten_key_is_not_named_by_what_comes_after(ann):
    ann.observe("drink", "tea")
    ann.forget("drink")
    ann.observe("seat", "aisle")

    assert told(ann.state.status()) == ["profile seat: +1 evidence"]
