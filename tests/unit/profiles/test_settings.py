"""Settings: declared by a class, typed, documented, and controlled by the user."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal

import pytest

from otolith.errors import BadValue, KeyNotFound


class Tone(Enum):
    WARM = "warm"
    DRY = "dry"


class Answers:
    length: Annotated[Literal["short", "long"], "How long answers are"] = "short"
    emojis: Annotated[bool, "Whether there are emojis"] = False
    tone: Tone = Tone.WARM
    temperature: float = 0.5
    topics: list[str] = []  # noqa: RUF012 - a default


def test_declared_settings_have_their_defaults(ann):
    found = ann.declare(Answers)

    assert dict(found) == {
        "length": "short", "emojis": False, "tone": "warm", "temperature": 0.5, "topics": [],
    }  # fmt: skip


def test_the_user_sets_and_unsets_them_like_a_dict(ann):
    settings = ann.declare(Answers)
    settings["length"] = "long"
    changed = settings["length"]
    del settings["length"]

    assert (changed, settings["length"]) == ("long", "short")


def test_a_setting_describes_itself(ann):
    found = ann.declare(Answers).describe("length")

    assert (found.about, found.type, found.choices) == (
        "How long answers are", "text", ("short", "long"),
    )  # fmt: skip
    assert (found.value, found.basis) == ("short", "default")


def test_a_setting_can_be_learned(ann):
    ann.declare(Answers)
    ann.observe("length", "long")

    assert ann.settings["length"] == "long"
    assert ann.settings.describe("length").basis == "learned"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("length", "middle", 'must be one of "short", "long"'),
        ("emojis", "no", "must be a yes or no"),
        ("emojis", 1, "must be a yes or no"),
        ("temperature", "hot", "must be a number"),
        ("tone", "cold", "must be one of"),
    ],
)
def test_values_that_do_not_fit_are_refused_however_they_come(ann, name, value, why):
    ann.declare(Answers)

    for verb in (ann.set, ann.observe):
        with pytest.raises(BadValue, match=f"the setting {name} {why}"):
            verb(name, value)


def test_declarations_are_stored_for_who_has_no_code(ann, reopened):
    ann.declare(Answers)

    assert reopened().settings.describe("emojis").about == "Whether there are emojis"


def test_declaring_again_changes_nothing(ann, reopened):
    ann.declare(Answers)
    other = reopened()
    other.declare(Answers)

    assert other.state.is_clean


def test_an_undeclared_setting_names_those_that_are(ann):
    ann.declare(Answers)

    with pytest.raises(KeyNotFound, match=r"declared are: emojis, length"):
        ann.settings["lenght"] = "short"


class NoDefault:
    length: str


class StrangeType:
    when: object = None


class WrongDefault:
    length: Literal["short"] = "long"  # type: ignore[assignment]


@pytest.mark.parametrize("model", [NoDefault, StrangeType, WrongDefault, "Answers", 5])
def test_declarations_that_cannot_be_are_refused(ann, model):
    with pytest.raises(BadValue):
        ann.declare(model)

    assert len(ann.settings) == 0


def test_what_does_not_fit_a_later_declaration_is_not_used(ann):
    ann.set("length", "gigantic")
    ann.declare(Answers)

    assert ann.settings["length"] == "short"
    assert ann.settings.describe("length").basis == "default"
