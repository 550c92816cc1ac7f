"""Texts are ranked for a question, always in the same order."""

from __future__ import annotations

from typing import Any

import pytest

from otolith.text.ranking import TextIndex


def index_of(*texts, **options):
    index = TextIndex[Any](**options)
    for number, text in enumerate(texts):
        index.add(number, text)
    return index


def ranked(index, question, **options):
    return [match.key for match in index.rank(question, **options)]


def test_a_rare_word_counts_more_than_one_that_many_texts_have():
    index = index_of("a zebra", "a flight", "flight home", "flight back")

    assert ranked(index, "flight zebra")[0] == 0


def test_a_common_word_counts_less_than_any_other():
    index = index_of("who was that", "a zebra of many words that nobody needs to know about at all")

    assert ranked(index, "who was that zebra")[0] == 1


def test_a_word_that_a_text_has_often_counts_more():
    index = index_of("seat seat here", "seat there now")

    assert ranked(index, "seat") == [0, 1]


def test_a_word_of_a_short_text_counts_more():
    index = index_of("aisle seat", "an aisle seat among ever so many other things that were wanted")

    assert ranked(index, "aisle") == [0, 1]


def test_of_equal_texts_the_last_one_comes_first():
    assert ranked(index_of("one seat", "two seats", "six seats"), "seat") == [2, 1, 0]


def test_a_text_without_a_word_of_the_question_is_not_found():
    assert ranked(index_of("a window", "a seat"), "seat") == [1]
    assert ranked(index_of("a window"), "?!") == ranked(TextIndex[Any](), "seat") == []


def test_a_limit_gives_the_first_of_all():
    index = index_of(*(f"seat {'far ' * (number % 7)}" for number in range(50)))

    assert ranked(index, "seat", limit=9) == ranked(index, "seat")[:9]


def test_the_share_is_what_part_of_the_question_a_text_has():
    whole, half, none = (
        {match.key: match.share for match in index_of("aisle seat", "a seat").rank(question)}
        for question in ("aisle seat", "seat zebra", "zebra")
    )

    assert whole[0] == pytest.approx(1, abs=0.05)
    assert 0 < half[0] < 0.5
    assert none == {}


def test_a_text_that_has_the_question_in_the_usual_size_has_all_of_it():
    (match,) = index_of("the airline: Delta").rank("airline")

    assert match.share == 1


def test_a_match_names_the_words_as_they_were_asked_for():
    (match,) = index_of("cities, and prices of cars").rank("the price in a CITY")

    assert match.words == ("price", "city")


def test_every_field_of_a_text_is_ranked():
    index = TextIndex[Any]()
    index.add("a", "an aisle seat", "ann")
    index.add("b", "an aisle seat", "bob")

    assert ranked(index, "bob aisle") == ["b", "a"]


def test_words_of_two_fields_do_not_stand_together():
    index = TextIndex[Any]()
    index.add("one", "window aisle")
    index.add("two", "window", "aisle")

    assert ranked(index, "window aisle", closeness=True) == ["one", "two"]


def test_words_that_stand_together_count_more_and_say_where():
    index = index_of("a seat near here, in the aisle", "near here in the aisle seat, I said")

    best, _ = index.rank("aisle seat", closeness=True)

    assert (best.key, best.place) == (1, 4)


def test_a_neighbour_gives_a_part_of_what_it_has():
    texts = ("Where is the zebra?", "At home, I think", "one home", "a home")

    plain = ranked(index_of(*texts), "home of the zebra")
    near = ranked(index_of(*texts), "home of the zebra", near=lambda at: [(at + 1, 0.7)])

    assert plain[:3] == [0, 3, 2]
    assert near[:2] == [1, 0]


def test_a_neighbour_without_a_word_of_the_question_is_not_found():
    index = index_of("a zebra", "hello")

    assert ranked(index, "zebra", near=lambda at: [(at + 1, 0.7)]) == [0]


def test_a_word_counts_once_for_a_text_that_has_it_and_its_neighbour():
    texts = ("zebra", "zebra")

    alone, near = (
        index_of(*texts).rank("zebra", near=lambda at, part=part: [(1 - at, part)])[0].score
        for part in (0, 0.9)
    )

    assert near == alone


def test_a_beginning_is_found_if_wanted():
    texts = ("Flugbuchung", "the airlines", "something else")

    assert ranked(index_of(*texts, prefixes=True), "airliner") == [1]
    assert ranked(index_of(*texts), "airliner") == []


def test_a_text_about_the_same_subject_is_found_if_wanted():
    texts = ("I am vegetarian", "I dislike jazz")

    assert ranked(index_of(*texts, related=True), "a recipe with chicken or fish?") == [0]
    assert ranked(index_of(*texts), "a recipe with chicken or fish?") == []


def test_a_subject_is_no_word_of_a_match():
    (match,) = index_of("I am vegetarian", related=True).rank("fish?")

    assert match.words == ()


def test_a_text_is_replaced_by_one_with_its_key():
    index = index_of("a seat")
    index.add(0, "a window")

    assert ranked(index, "seat") == []
    assert ranked(index, "window") == [0]
    assert len(index) == 1


def test_a_text_that_is_not_there_is_removed_in_peace():
    index = index_of("a seat")
    index.remove("nothing")

    assert ranked(index, "seat") == [0]


def test_an_update_reads_only_what_changed(monkeypatch):
    index = TextIndex[Any]()
    index.update({"a": ("a seat",), "b": ("a window",), "c": ("an exit",)})
    added = []
    monkeypatch.setattr(index, "add", lambda key, *fields: added.append(key))

    index.update({"a": ("a seat",), "c": ("the exit",)})

    assert added == ["c"]
    assert "b" not in index


def test_a_frequent_word_is_counted_for_the_best_of_many_texts():
    texts = [f"seat {number}" for number in range(1500)]
    index = index_of(*texts, "zebra", "zebra seat", "zebra cage")

    assert ranked(index, "zebra seat", limit=3) == [1501, 1500, 1502]
    assert len(ranked(index, "zebra seat", limit=5)) == 5
