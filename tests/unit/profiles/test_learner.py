"""The learner: what is most probably chosen next, and how sure that is."""

from __future__ import annotations

import random

import pytest

from otolith.profiles import Learner


def learned(options):
    learner = Learner()
    for option in options:
        learner.add(option)
    return learner


def simulated(rng, *, events=600, options=4):
    """Yield choices of somebody whose taste changes twice, with what an oracle would guess."""
    changes = sorted(rng.sample(range(60, events - 60), 2))
    tastes = []
    for _ in range(3):
        weights = [rng.gammavariate(0.5, 1) for _ in range(options)]
        tastes.append(weights)
    for at in range(events):
        taste = tastes[sum(at >= change for change in changes)]
        yield str(rng.choices(range(options), taste)[0]), str(taste.index(max(taste)))


def test_nothing_is_learned_from_nothing():
    assert Learner().best() is None
    assert Learner().ranking() == []


def test_what_is_chosen_more_often_is_preferred():
    assert learned(["a", "b", "a"]).best().text == "a"


def test_of_equal_options_the_last_one_is_preferred():
    assert learned(["a", "b"]).best().text == "b"


def test_more_evidence_makes_it_surer():
    sure = [learned(["a"] * count).best().confidence for count in (1, 3, 10, 100)]

    assert sure == sorted(sure)
    assert sure[-1] > 0.95


def test_a_new_taste_is_followed_soon():
    learner = learned(["a"] * 200 + ["b"] * 6)

    assert learner.best().text == "b"


def test_a_single_exception_does_not_turn_a_long_habit():
    assert learned(["a"] * 50 + ["b"]).ranking()[0].text == "a"


def test_a_change_is_marked_where_it_happened():
    (shift,) = learned(["a"] * 50 + ["b"] * 20).shifts()

    assert (shift.at, shift.old, shift.new) == (50, "a", "b")


def test_a_false_alarm_is_taken_back():
    learner = learned(["a"] * 50 + ["b"] * 2 + ["a"] * 50)

    assert learner.shifts() == []


def test_the_beginning_of_what_holds_is_known():
    assert learned(["b", *["a"] * 30, *["b"] * 20]).since("b") == 31


def test_a_heavier_weight_counts_more():
    learner = Learner()
    learner.add("a", 1)
    learner.add("b", 3)
    learner.add("a", 1)

    assert learner.ranking()[0].text == "b"


@pytest.mark.parametrize("weight", [1e-3, 1.0, 1000.0, -1000.0])
def test_any_weight_leaves_probabilities(weight):
    learner = learned(["a", "b"])
    learner.add("a", weight)

    assert all(0 <= each.confidence <= 1 for each in learner.ranking())


def test_it_reaches_nearly_all_that_an_oracle_could():
    rng, right, possible = random.Random(7), 0, 0
    for _ in range(30):
        learner = Learner()
        for choice, oracle in simulated(rng):
            best = learner.best()
            right += best is not None and best.text == choice
            possible += oracle == choice
            learner.add(choice)

    assert right >= 0.96 * possible  # the bench has the budget of 0.97, with more users


def test_confidence_means_how_often_it_is_right():
    rng, said, right, count = random.Random(11), 0.0, 0, 0
    for _ in range(20):
        learner = Learner()
        for choice, _ in simulated(rng, events=300):
            best = learner.best()
            if best is not None and best.confidence >= 0.7:
                said, right, count = (
                    said + best.confidence,
                    right + (best.text == choice),
                    count + 1,
                )
            learner.add(choice)

    assert abs(said / count - right / count) < 0.05
