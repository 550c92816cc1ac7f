"""What evidence may be used for: consent, sensitive subjects, and for how long."""

from __future__ import annotations

import pytest

from otolith.errors import Invalid, NoConsent


def test_learning_needs_no_question_at_first(ann):
    assert ann.purposes["learning"].allowed
    assert ann.purposes["learning"].consent is None


def test_evidence_without_consent_is_refused_by_name(ann):
    ann.consent("learning", granted=False)

    with pytest.raises(NoConsent, match=r"seat: the user has not agreed to learning") as caught:
        ann.observe("seat", "window")

    assert caught.value.purpose == "learning"
    assert "consent('learning', True)" in caught.value.hint
    assert "seat" not in ann


def test_evidence_that_is_there_is_not_used_without_consent(ann):
    ann.observe("seat", "window")
    ann.consent("learning", granted=False)
    refused = ann.prefer("seat").basis
    ann.consent("learning", granted=True)

    assert (refused, ann.prefer("seat").basis) == ("default", "learned")


def test_what_the_user_sets_needs_no_consent(ann):
    ann.consent("learning", granted=False)
    ann.set("seat", "aisle")

    assert ann.prefer("seat").value == "aisle"


@pytest.mark.parametrize(
    ("key", "value", "subject"),
    [
        ("diet", "diabetic meals", "health"),
        ("meals", "halal", "religion"),
        ("newsletter", "the socialist weekly", "politics"),
        ("insulin pump", True, "health"),
        ("events", ["pride", {"kind": "gay bars"}], "sexuality"),
    ],
)
def test_nothing_sensitive_is_learned_by_default(ann, key, value, subject):
    with pytest.raises(NoConsent, match=f"{subject} .sensitive."):
        ann.observe(key, value)

    ann.consent(subject, granted=True)
    ann.observe(key, value)
    assert ann.prefer(key).value == value


def test_a_purpose_of_the_application_is_asked_for_by_name(ann):
    with pytest.raises(NoConsent, match=r"ads .not asked yet."):
        ann.observe("seat", "window", purpose="ads")
    ann.consent("ads", granted=True)
    ann.observe("seat", "window", purpose="ads")
    ann.observe("seat", "aisle")
    ann.observe("seat", "aisle")

    assert ann.prefer("seat").value == "aisle"
    assert ann.prefer("seat", purpose="ads").value == "window"


def test_evidence_is_used_for_as_long_as_its_purpose_says(ann, clock):
    ann.retain("learning", "30d")
    ann.observe("seat", "window")
    young = ann.prefer("seat").basis
    clock.advance(days=31)

    assert (young, ann.prefer("seat").basis) == ("learned", "default")


def test_a_later_retention_counts_for_what_is_there(ann, clock):
    ann.observe("seat", "window")
    clock.advance(days=31)
    ann.retain("learning", "30d")

    assert ann.prefer("seat").basis == "default"
    ann.retain("learning", None)
    assert ann.prefer("seat").basis == "learned"


def test_what_is_too_old_is_removed_when_something_is_added(ann, clock):
    ann.retain("learning", "30d")
    ann.observe("seat", "window")
    clock.advance(days=31)
    ann.observe("seat", "aisle")

    assert [each.value for each in ann.history("seat")] == ["aisle"]


def test_expire_removes_all_that_is_too_old(ann, clock):
    ann.set("seat", "aisle")
    for number in range(100):
        ann.observe("seat", "window", source=f"m{number}")
    ann.retain("learning", "30d")
    clock.advance(days=31)

    assert ann.expire() == 100
    assert [str(each.kind) for each in ann.history("seat")] == ["set"]


def test_purposes_are_there_after_reopening(ann, reopened):
    ann.consent("learning", granted=False)
    ann.retain("ads", "7d", about="what is shown beside answers")

    found = reopened().purposes

    assert not found["learning"].allowed
    assert (found["ads"].retention_seconds, found["ads"].about) == (
        7 * 24 * 3600,
        "what is shown beside answers",
    )
    assert not found["ads"].allowed


@pytest.mark.parametrize("granted", ["yes", 1, None])
def test_consent_is_yes_or_no(ann, granted):
    with pytest.raises(Invalid, match="granted"):
        ann.consent("learning", granted)


def test_a_consent_that_one_branch_took_back_is_taken_back(repo, ann, clock):
    ann.consent("learning", granted=True)
    ann.commit("yes")
    other = ann.state.fork("other").profile
    ann.consent("learning", granted=False)
    ann.commit("no")
    clock.advance(days=1)
    other.consent("learning", granted=False)
    other.consent("learning", granted=True)
    other.retain("learning", "9d")
    other.commit("yes again, without knowing")
    ann.state.merge("other")

    assert not ann.purposes["learning"].allowed
    assert ann.purposes["learning"].retention_seconds == 9 * 24 * 3600


def test_evidence_for_a_purpose_is_used_for_no_other(ann):
    ann.consent("ads", granted=True)
    ann.observe("seat", "window", purpose="ads")

    assert ann.prefer("seat").basis == "default"
    assert ann.prompt().text == ""
    assert ann.prefer("seat", purpose="ads").value == "window"


def test_what_is_said_while_learning_is_refused_is_not_learned_later(repo, ann):
    trip = repo.session("trip")
    trip.conversation.user("I always want an aisle seat.")
    ann.consent("learning", granted=False)
    with pytest.raises(NoConsent):
        ann.learn(trip.conversation)
    ann.consent("learning", granted=True)
    trip.conversation.user("I always want a vegetarian meal.")

    assert [each.key for each in ann.learn(trip.conversation).evidence] == ["meal"]


@pytest.mark.parametrize(
    "words",
    [
        "health",
        "userDiabetesType",
        "h.i.v status",
        "\uff43\uff41\uff4e\uff43\uff45\uff52 ward",
        "my_medication",
        "chemo",
        "socialism",
    ],
)
def test_sensitive_words_are_found_in_other_forms(ann, words):
    with pytest.raises(NoConsent):
        ann.observe(words, "yes")
    with pytest.raises(NoConsent):
        ann.observe("notes", "yes", source=words)
