"""What holds for a key: what was set, else what is learned, else a default; and why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from otolith.errors import BadValue, CommitNotFound, Invalid, KeyNotFound, ReadOnly, Unsupported
from tests.unit.profiles.conftest import DAY


def test_what_is_set_holds(ann):
    ann.set("seat", "aisle")

    found = ann.prefer("seat")

    assert (found.value, found.basis, found.confidence) == ("aisle", "set", 1.0)


def test_what_is_observed_never_overrides_what_was_set(ann):
    ann.set("seat", "aisle")
    for number in range(100):
        ann.observe("seat", "window", source=f"flight {number}")

    found = ann.prefer("seat")

    assert (found.value, found.basis) == ("aisle", "set")
    assert found.runner_up.value == "window"


def test_after_unset_what_is_learned_holds_again(ann):
    ann.set("seat", "aisle")
    ann.observe("seat", "window")
    ann.unset("seat")

    assert (ann.prefer("seat").value, ann.prefer("seat").basis) == ("window", "learned")


def test_what_was_not_set_cannot_be_unset(ann):
    ann.observe("seat", "window")

    with pytest.raises(KeyNotFound, match="seat is not set"):
        ann.unset("seat")


def test_an_unknown_key_has_the_default(ann):
    found = ann.prefer("seat", "any")

    assert (found.value, found.basis, found.confidence) == ("any", "default", 0.0)


def test_a_then_b_then_a_again_is_a_with_three_pieces_of_evidence(ann):
    for value in ("coke", "coffee", "coke"):
        ann.observe("drink", value)
        ann.commit(value)

    assert ann.prefer("drink").value == "coke"
    assert len(ann.why("drink").lines) == 3
    assert len(ann.prefer("drink").evidence) == 3


def test_doubt_leaves_the_default(ann):
    for number in range(30):
        ann.observe("colour", f"colour {number}")

    assert ann.prefer("colour", "none").basis == "default"


def test_a_value_that_is_disliked_loses(ann):
    ann.observe("tone", "formal")
    ann.feedback("tone", "formal", liked=False)
    ann.feedback("tone", "shorter", liked=True)

    assert ann.prefer("tone").value == "shorter"


def test_dislike_alone_makes_no_preference(ann):
    ann.feedback("tone", "formal", liked=False)
    ann.feedback("tone", "formal", liked=False)

    assert ann.prefer("tone").basis == "default"


def test_the_same_source_counts_once(ann):
    for _ in range(3):
        ann.observe("seat", "window", source="message 1")

    assert len(ann.history("seat")) == 1


def test_the_same_source_counts_once_in_another_process(ann, reopened):
    ann.observe("seat", "window", source="message 1")
    other = reopened()

    other.observe("seat", "window", source="message 1")

    assert len(other.history("seat")) == 1
    assert other.state.is_clean


def test_a_message_gives_its_id_and_its_time(ann, clock):
    message = SimpleNamespace(id="m7", time=clock.now - DAY)

    found = ann.observe("seat", "window", source=message)

    assert (found.source, found.time) == ("m7", clock.now - DAY)


def test_evidence_is_in_the_order_of_its_time(ann, clock):
    ann.observe("seat", "new")
    ann.observe("seat", "old", source=SimpleNamespace(id="m1", time=clock.now - DAY))

    assert [each.value for each in ann.history("seat")] == ["old", "new"]


def test_a_clock_that_went_back_keeps_the_order(ann, clock):
    ann.set("seat", "aisle")
    clock.advance(days=-400)
    ann.set("seat", "window")

    assert ann.prefer("seat").value == "window"


def test_a_context_has_a_value_of_its_own(ann):
    ann.set("seat", "window")
    ann.set("seat", "aisle", context="business trips")

    assert ann.prefer("seat").value == "window"
    assert ann.prefer("seat", context="on a business trip").value == "aisle"
    assert ann.prefer("seat", context="holidays").value == "window"


def test_what_was_set_for_always_holds_over_what_is_learned_in_a_context(ann):
    ann.set("seat", "window")
    ann.observe("seat", "aisle", context="business trips")

    assert ann.prefer("seat", context="business trips").value == "window"


def test_why_has_all_evidence_with_its_commits(ann):
    ann.set("seat", "aisle")
    first = ann.commit("set")
    ann.observe("seat", "window", source="m1")

    lines = ann.why("seat").lines

    assert [line.commit for line in lines] == [first.id, ""]
    assert "aisle" in str(ann.why("seat"))
    assert "[staged]" in str(ann.why("seat"))


def test_why_of_an_unknown_key_is_an_error(ann):
    with pytest.raises(KeyNotFound, match="nothing is known of 'seat'"):
        ann.why("seat")


def test_the_commit_of_each_piece_is_found_among_many(ann):
    commits = []
    for number in range(40):
        ann.observe("seat", "window", source=f"m{number}")
        commits.append(ann.commit(f"{number}").id)

    assert [line.commit for line in ann.why("seat").lines] == commits


def test_the_profile_as_it_was(ann):
    ann.set("seat", "aisle")
    first = ann.commit("first")
    ann.set("seat", "window")
    ann.commit("second")

    then = ann.at(first)

    assert then.prefer("seat").value == "aisle"
    assert then.prefer("seat").evidence == [first.id]
    with pytest.raises(ReadOnly):
        then.set("seat", "middle")
    with pytest.raises(Invalid, match="of one commit"):
        then.at(first)
    with pytest.raises(Invalid, match="cannot be erased"):
        then.erase()


def test_the_profile_as_it_was_at_a_time(ann, clock):
    ann.set("seat", "aisle")
    ann.commit("first")
    clock.advance(days=30)
    ann.set("seat", "window")
    ann.commit("second")

    last_week = datetime.fromtimestamp(clock.now / 1e6, UTC) - timedelta(days=7)

    assert ann.at(last_week).prefer("seat").value == "aisle"
    with pytest.raises(CommitNotFound, match="no commit of this user up to"):
        ann.at(last_week - timedelta(days=100))


def test_changes_tell_what_was_set_and_unset(ann, clock):
    ann.set("seat", "aisle")
    clock.advance(days=10)
    ann.set("seat", "window")
    clock.advance(days=10)
    ann.unset("seat")

    found = ann.changes()

    assert [(each.old, each.new) for each in found] == [
        (None, "aisle"), ("aisle", "window"), ("window", None),
    ]  # fmt: skip
    assert [each.new for each in ann.changes(since="15d")] == ["window", None]
    assert ann.changes(since="1d") == found[-1:]


def test_changes_tell_where_taste_drifted_with_the_evidence(ann, clock):
    for value in ["tea"] * 20 + ["coffee"] * 20:
        clock.advance(days=1)
        ann.observe("drink", value)

    (change,) = ann.changes()

    assert (change.old, change.new, change.basis) == ("tea", "coffee", "learned")
    assert [each.value for each in change.evidence] == ["coffee"] * 20
    assert change.time == ann.history("drink")[20].time


def test_changes_since_a_commit(ann, clock):
    ann.set("seat", "aisle")
    first = ann.commit("first")
    clock.advance(days=1)
    ann.set("seat", "window")

    assert [each.new for each in ann.changes(since=first)] == ["window"]


def test_a_wrong_since_is_refused(ann):
    with pytest.raises(BadValue):
        ann.changes(since="yesterday")


def test_clear_evidence_against_what_was_set_is_asked_about(ann, clock):
    ann.set("seat", "aisle")
    for _ in range(5):
        clock.advance(days=1)
        ann.observe("seat", "window")

    (found,) = ann.contradictions()

    assert found.values == ("aisle", "window")
    assert "Which holds?" in found.question


def test_setting_it_again_settles_a_contradiction(ann, clock):
    ann.set("seat", "aisle")
    for _ in range(5):
        ann.observe("seat", "window")
    ann.set("seat", "aisle")

    assert ann.contradictions() == []


def test_preferences_come_surest_first_and_without_defaults(ann):
    ann.observe("drink", "tea")
    ann.set("seat", "aisle")
    for number in range(30):
        ann.observe("colour", f"colour {number}")

    assert [each.key for each in ann.preferences()] == ["seat", "drink"]


def test_ten_thousand_options_are_survived(ann):
    options = [{"kind": "choice", "value": f"option {at}"} for at in range(10_000)]
    stamped = [{**each, "stamp": f"{at:014x}.{at:016x}"} for at, each in enumerate(options)]
    ann.load({"format": "otolith profile 1", "evidence": {"word": stamped}})

    assert ann.prefer("word", "none").value == "none"
    ann.set("word", "option 7")
    assert ann.prefer("word").value == "option 7"
    assert len(ann.why("word").lines) == 10_001


def test_a_reopened_profile_believes_the_same(ann, reopened):
    for number in range(600):
        ann.observe("drink", "tea" if number % 3 else "coffee")
        if number % 40 == 0:
            ann.prefer("drink")

    assert reopened().prefer("drink") == ann.prefer("drink")


@pytest.mark.parametrize("value", [object(), {1: 2}, (1, 2), {1, 2}, float("nan"), b"x", "\ud800"])
def test_values_that_are_no_plain_data_are_refused_by_name(ann, value):
    with pytest.raises(BadValue, match="seat"):
        ann.set("seat", value)

    assert ann.state.is_clean


def test_values_without_a_hash_are_values_like_others(ann):
    ann.observe("stops", ["Rome", {"nights": 2}])
    ann.observe("stops", ["Rome", {"nights": 2}])

    assert ann.prefer("stops").value == ["Rome", {"nights": 2}]


def test_numbers_and_yes_are_told_apart(ann):
    ann.set("x", True)
    ann.set("y", 1)
    ann.set("z", 1.0)

    assert [repr(ann.prefer(key).value) for key in "xyz"] == ["True", "1", "1.0"]


@pytest.mark.parametrize("key", ["", " seat", "a\nb", "x" * 201, 5, None, "\u202ex"])
def test_keys_are_short_texts_on_one_line(ann, key):
    with pytest.raises(BadValue, match="a key must be"):
        ann.set(key, "aisle")


@pytest.mark.parametrize("weight", [0, -1, float("inf"), float("nan"), "1", True, 10**9])
def test_weights_are_numbers_above_zero(ann, weight):
    with pytest.raises(BadValue, match="weight"):
        ann.observe("seat", "aisle", weight=weight)


def test_a_key_may_have_a_slash(ann, reopened):
    ann.set("answers/length", "short")

    assert reopened().prefer("answers/length").value == "short"
    assert reopened().why("answers/length").lines[0].commit


def test_only_users_have_a_profile(repo):
    with pytest.raises(Unsupported, match=r"repo\.user"):
        repo.session("trip").profile  # noqa: B018


def test_a_session_reaches_the_profile_of_its_user(repo, ann, reopened):
    ann.set("seat", "aisle")
    reopened()

    assert repo.session("trip", user="ann").user.profile.prefer("seat").value == "aisle"


def test_what_is_handed_out_is_a_copy(ann):
    ann.set("stops", ["Rome"])
    ann.prefer("stops").value.append("Paris")

    assert ann.prefer("stops").value == ["Rome"]


@pytest.mark.parametrize("context", ["in the", "???", "a\x07b c"])
def test_a_context_that_says_nothing_is_refused(ann, context):
    with pytest.raises(BadValue, match="does not say when"):
        ann.set("seat", "aisle", context=context)


def test_contexts_are_told_apart_by_their_signs(ann):
    ann.set("style", "short", context="in C++")
    ann.set("style", "long", context="in C#")

    assert ann.prefer("style", context="C++").value == "short"


@pytest.mark.parametrize("source", ["x" * 1001, "a\nb"])
def test_a_source_is_a_short_text_on_one_line(ann, source):
    with pytest.raises(BadValue, match="source must be"):
        ann.observe("seat", "aisle", source=source)


def test_refusing_what_was_set_is_asked_about(ann):
    ann.set("seat", "aisle")
    for _ in range(3):
        ann.feedback("seat", "aisle", liked=False)

    (found,) = ann.contradictions()
    assert "refused it since" in found.question
