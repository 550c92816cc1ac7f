"""The dialogues hold together and are as varied as their README says."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.dialogues.loading import KINDS, REASONS, Message, Topic, dialogues, problems

ALL = dialogues()
TASKS = [d for d in ALL if any(message.role == "tool" for message in d.messages)]
FIRST = ALL[0]


@pytest.mark.parametrize("dialogue", ALL, ids=lambda dialogue: dialogue.id)
def test_a_dialogue_holds_together(dialogue):
    assert problems(dialogue) == []


@pytest.mark.parametrize("dialogue", ALL, ids=lambda dialogue: dialogue.id)
def test_a_dialogue_is_of_a_usual_length(dialogue):
    assert 8 <= len(dialogue.messages) <= 40
    assert 4 <= len(dialogue.references) <= 15


def test_there_are_forty_and_half_of_them_use_tools():
    assert [d.id for d in ALL] == [f"d{number:02}" for number in range(1, 41)]
    assert len(TASKS) == 20


def test_four_are_german():
    assert Counter(d.language for d in ALL) == {"en": 36, "de": 4}


def test_topics_stay_change_return_and_interleave():
    several = [d for d in ALL if len(d.topics) > 1]
    spans = {d.id: sum(len(topic.spans) for topic in d.topics) for d in ALL}

    assert len(ALL) - len(several) >= 5
    assert len(several) >= 12
    assert sum(spans[d.id] == len(d.topics) for d in several) >= 5
    assert sum(spans[d.id] > len(d.topics) for d in several) >= 8
    assert sum(spans[d.id] > len(d.topics) + 1 for d in several) >= 5


def test_every_kind_of_reference_occurs_and_so_does_every_reason_for_none():
    references = [reference for d in ALL for reference in d.references]

    assert {reference.kind for reference in references} == set(KINDS)
    assert {reference.why for reference in references} == {None, *REASONS}
    assert any(len(reference.entities) > 1 for reference in references)


def _with_reference(**changes):
    return replace(FIRST, references=(replace(FIRST.references[0], **changes),))


BROKEN = {
    "a role nobody has": replace(FIRST, messages=(Message("oracle", "Hm."), *FIRST.messages[1:])),
    "an empty message": replace(FIRST, messages=(Message("user", " "), *FIRST.messages[1:])),
    "a result of no tool": replace(FIRST, messages=(Message("tool", "ok"), *FIRST.messages[1:])),
    "a span past the end": replace(FIRST, topics=(Topic("late", ((0, 999),)),)),
    "a topic without a span": replace(FIRST, topics=(Topic("nowhere", ()),)),
    "spans that overlap": replace(FIRST, topics=(Topic("a", ((0, 3),)), Topic("b", ((3, 5),)))),
    "a phrase nobody said": _with_reference(phrase="the fifth one"),
    "a phrase somewhere else": _with_reference(start=0),
    "a message that is not there": _with_reference(message=999),
    "a kind that is none": _with_reference(kind="guess"),
    "an entity nobody mentioned": _with_reference(entities=("BA 000",)),
    "an entity mentioned only later": _with_reference(mentioned_in=(10,)),
    "entities without their places": _with_reference(mentioned_in=()),
    "nothing, and no reason": _with_reference(entities=(), mentioned_in=()),
}


@pytest.mark.parametrize("dialogue", BROKEN.values(), ids=BROKEN)
def test_what_does_not_hold_together_is_found(dialogue):
    assert problems(dialogue) != []
