"""The figures of the page on topics and references are those that the held-out dialogues give."""

from __future__ import annotations

import re
from pathlib import Path

from tests.dialogues.loading import dialogues
from tests.unit.conversation.scoring import (
    every,
    found_labels,
    reference_scores,
    topic_scores,
)

PAGE = Path(__file__).parents[3] / "docs/explanation/topics-and-references.md"
LANGUAGES = {"English": "en", "German": "de"}


def rows(start: str) -> list[list[str]]:
    lines = re.findall(rf"^\| ({start}.*) \|$", PAGE.read_text(), re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def chosen(language: str):
    return [each for each in dialogues() if each.language == LANGUAGES[language]]


def test_the_page_says_how_well_topics_are_found():
    names = ("f1", "f1 within 1", "pk", "windowdiff", "return recall", "return precision")
    finders = {
        "boundaries": found_labels,
        "no boundaries": lambda d: [0] * len(d.messages),
        "one every 11": lambda d: every(11, d),
    }
    for language in LANGUAGES:
        told = [row for row in rows(language) if len(row) == 8]
        assert len(told) == len(finders)
        for row, find in zip(told, finders.values(), strict=True):
            scores = topic_scores(chosen(language), find)
            assert row[2:] == [f"{scores[name]:.2f}" for name in names]


def test_the_page_says_how_well_references_are_found():
    for language in LANGUAGES:
        scores = reference_scores(chosen(language))
        told = {row[0].split(", ")[1]: row[1:] for row in rows(language) if len(row) == 7}
        assert told.keys() == scores.keys() - {"nothing"}
        for kind, row in told.items():
            total = scores[kind]["total"]
            names = ("first", "third", "simple", "simple3")
            assert row[0] == str(total)
            assert row[2:] == [f"{scores[kind][name] / total:.2f}" for name in names]
