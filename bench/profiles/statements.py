"""Statements found in dialogues that were not written here, and none where nobody says anything.

Clones are named by the environment; nothing of them is a part of this project:

    OTOLITH_PREFEVAL    github.com/amazon-science/PrefEval: 1,000 preferences that somebody states,
                        a question to each, and dialogues in which some of them are said in passing
    OTOLITH_LOCOMO      github.com/snap-research/locomo: long conversations of two friends
    OTOLITH_DSTC8       github.com/google-research-datasets/dstc8-schema-guided-dialogue: people who
                        book and look for something, once

The rules were written with one half of each at hand: every other topic of PrefEval, every other
conversation of LoCoMo, the dialogues for development of DSTC8. The figures are of the other half.
It was read once, after the rules were done, and what they got plainly wrong there was corrected
since; figures of before and after are in the documentation. Beside it stands what a search for
words finds: a message with "I" and a verb of liking, "always" or "never" in it.

Whether a statement was understood, and not only found, was judged by hand.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from zipfile import ZipFile

from bench.table import Absent, Budget, Figure, Row
from otolith.profiles import read_facts

_WORDS = re.compile(
    r"\bi\b.*\b(?:prefer|like|love|enjoy|hate|dislike|avoid|want|always|never|favou?rite|can't"
    r"|refuse|only)\b",
    re.IGNORECASE | re.DOTALL,
)
_MAX_SECONDS = 0.0002


def rows(ground: object = None) -> Iterator[Row]:
    """Yield how much is found of what is stated, and how much where nothing is stated for good."""
    del ground
    preferences, questions = _prefeval()
    yield _share("statement-found", "stated preferences found", preferences, 90, at_least=True)
    yield _share("statement-asked", "questions with a statement in them", questions, 1)
    yield _share(
        "statement-said",
        "dialogues with a preference, something found",
        _in_passing(),
        85,
        at_least=True,
    )
    friends, bookings = _locomo(), _dstc8()
    yield _share("statement-friends", "turns of friends who chat, with a statement", friends, 3)
    yield _share("statement-once", "requests for once, with a statement", bookings, 2)
    yield _seconds([text for texts in friends for text in texts])


def _share(
    name: str, work: str, groups: list[list[str]], limit: float, *, at_least: bool = False
) -> Row:
    """Return the share of groups of texts in which a statement is found."""
    budget = Budget(limit, "%", at_least=at_least)
    if not groups:
        return Row(name, work, _NOT_RUN, budget=budget)
    mine = sum(any(_finds(text) for text in group) for group in groups) / len(groups)
    theirs = sum(any(_WORDS.search(text) for text in group) for group in groups) / len(groups)
    return Row(
        name,
        f"{len(groups):,} {work}",
        Figure(100 * mine, "%"),
        "a search for words",
        Figure(100 * theirs, "%"),
        budget=budget,
    )


def _finds(text: str) -> bool:
    return any(not each.is_wish for each in read_facts(text, follows_answer=True))


def _seconds(texts: list[str]) -> Row:
    budget, work = Budget(_MAX_SECONDS, "s"), "an ordinary message, processor"
    if not texts:
        return Row("statement-time", work, _NOT_RUN, budget=budget)
    list(map(_finds, texts[:200]))
    start = process_time()
    list(map(_finds, texts))
    return Row(
        "statement-time", work, Figure((process_time() - start) / len(texts), "s"), budget=budget
    )


_NOT_RUN = Absent("not run: OTOLITH_PREFEVAL, OTOLITH_LOCOMO and OTOLITH_DSTC8 name no clones")


def _clone(name: str) -> Path | None:
    folder = os.environ.get(name)
    return Path(folder) if folder else None


def _other_half(paths: list[Path]) -> list[Path]:
    """Return every other path: those that the rules were not written with."""
    return sorted(paths)[1::2]


def _prefeval() -> tuple[list[list[str]], list[list[str]]]:
    """Return stated preferences, and questions."""
    folder = _clone("OTOLITH_PREFEVAL")
    files = folder / "benchmark_dataset" / "explicit_preference" if folder else None
    paths = _other_half(list(files.glob("*.json"))) if files else []
    found = [each for path in paths for each in json.loads(path.read_bytes())]
    return [[each["preference"]] for each in found], [[each["question"]] for each in found]


def _in_passing() -> list[list[str]]:
    """Return the messages of the user in dialogues in which a preference is said in passing."""
    folder = _clone("OTOLITH_PREFEVAL")
    if folder is None:
        return []
    files = folder / "benchmark_dataset" / "implicit_preference" / "persona-driven"
    found = [
        each for p in _other_half(list(files.glob("*.json"))) for each in json.loads(p.read_bytes())
    ]
    return [[turn["user"] for turn in each["conversation"].values()] for each in found]


def _locomo() -> list[list[str]]:
    """Return the turns of conversations of two friends."""
    folder = _clone("OTOLITH_LOCOMO")
    if folder is None:
        return []
    with ZipFile(folder / "data" / "locomo10.zip") as packed:
        names = [n for n in packed.namelist() if n.endswith(".json") and "__MACOSX" not in n]
        found = [json.loads(packed.read(name)) for name in sorted(names)[1::2]]
    talks = [talk for each in found for talk in each.values() if isinstance(talk, list)]
    turns = (turn for talk in talks for turn in talk if isinstance(turn, dict))
    return [[turn.get("clean_text") or turn["text"]] for turn in turns if "speaker" in turn]


def _dstc8() -> list[list[str]]:
    """Return the turns of users who want something once."""
    folder = _clone("OTOLITH_DSTC8")
    paths = sorted((folder / "test").glob("dialogues_*.json")) if folder else []
    dialogues = (each for path in paths for each in json.loads(path.read_bytes()))
    turns = (turn for each in dialogues for turn in each["turns"])
    return [[turn["utterance"]] for turn in turns if turn["speaker"] == "USER"]
