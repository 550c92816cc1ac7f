"""Whether a question finds the turns of a dialogue, or the preference, that it is about.

The dialogues are those of https://github.com/snap-research/locomo: ten conversations over months,
with questions and the turns that answer them. The preferences are those of
https://github.com/amazon-science/PrefEval, each with a question that it matters for; here, one user
has them all. `OTOLITH_LOCOMO` and `OTOLITH_PREFEVAL` name clones, and `OTOLITH_STATIC_MODEL` the
folder of a static model of model2vec; nothing of them is a part of this project.

The weights of the ranking were chosen on every second dialogue and every second preference, those
with an even number; what counts at all was first tried on all dialogues. The other half is reported
by itself.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from operator import mul
from pathlib import Path
from statistics import mean, median
from time import process_time
from typing import NamedTuple

from sklearn.feature_extraction.text import TfidfVectorizer

import otolith
from bench.ground import Ground, tell
from bench.table import Absent, Budget, Figure, Row
from bench.words import Words
from otolith.conversation import Conversation, Message, Role, Text, embeddings
from otolith.text import TextIndex

DIALOGUES = {5: 61.6, 10: 70.3, 20: 77.8}
"""The percentage of evidence that the best so many turns must have."""
_BEST = 5
_PEER = "TF-IDF"
_TURN = re.compile(r"D:?(\d+):(\d+)")

Rank = Callable[[str, int], Sequence[int]]
"""Returns the numbers of the best texts for a question."""


class Dialogue(NamedTuple):
    """What was said, by whom, and for each question the numbers of the turns with its evidence."""

    turns: list[tuple[str, str]]
    questions: list[tuple[str, set[int]]]


def rows(ground: Ground) -> Iterator[Row]:
    """Yield the rows."""
    yield from _dialogues(dialogues())
    yield from _preferences(preferences())
    yield from _speed(ground)


def dialogues() -> list[Dialogue]:
    """Return the dialogues of the clone."""
    folder = os.environ.get("OTOLITH_LOCOMO")
    samples = json.loads((Path(folder) / "data" / "locomo10.json").read_bytes()) if folder else []
    return [_dialogue(sample) for sample in samples]


def _dialogue(sample: dict[str, object]) -> Dialogue:
    said, questions = sample["conversation"], sample["qa"]
    assert isinstance(said, dict)
    assert isinstance(questions, list)
    numbers = (int(key.removeprefix("session_")) for key in said if key[8:].isdigit())
    turns = [*chain.from_iterable(said[f"session_{number}"] for number in sorted(numbers))]
    place = {_TURN.findall(turn["dia_id"])[0]: at for at, turn in enumerate(turns)}
    asked = []
    for each in questions:
        named = _TURN.findall(" ".join(each.get("evidence", ())))
        evidence = {place[turn] for turn in named if turn in place}
        if evidence:
            asked.append((each["question"], evidence))
    return Dialogue([(turn["speaker"], turn["text"]) for turn in turns], asked)


def preferences() -> list[tuple[str, str]]:
    """Return the preferences of the clone, each with its question."""
    folder = os.environ.get("OTOLITH_PREFEVAL")
    place = Path(folder or "") / "benchmark_dataset" / "explicit_preference"
    paths = sorted(place.glob("*.json")) if folder else []
    entries = chain.from_iterable(json.loads(path.read_bytes()) for path in paths)
    return [(each["preference"], each["question"]) for each in entries]


def _dialogues(found: list[Dialogue]) -> Iterator[Row]:
    tell(f"{len(found)} dialogues")
    for name, some in (("dialogue", found), ("dialogue-unseen", found[1::2])):
        ours = _evidence_found(some, conversation_rank)
        theirs = _evidence_found(some, lambda each: tfidf_rank([text for _, text in each.turns]))
        count = "five long dialogues unseen" if some is not found else "ten long dialogues"
        for at, (best, least) in enumerate(DIALOGUES.items()):
            work = f"{count}: evidence of a question in the best {best} turns"
            row = Row(
                f"{name}-{best}",
                work,
                Absent("not run: OTOLITH_LOCOMO does not name a clone"),
                budget=Budget(least, "%", at_least=True) if some is found else None,
            )
            yield _beside(row, ours[at], theirs[at]) if some else row


def _beside(row: Row, ours: float, theirs: float) -> Row:
    figures = Figure(100 * ours, "%"), Figure(100 * theirs, "%")
    return replace(row, ours=figures[0], peer=_PEER, theirs=figures[1], ratio=ours / theirs)


def _evidence_found(found: list[Dialogue], ranked: Callable[[Dialogue], Rank]) -> list[float]:
    """Return what share of the evidence the best turns have, for each number of turns."""
    shares: list[list[float]] = [[] for _ in DIALOGUES]
    for dialogue in found:
        rank = ranked(dialogue)
        for question, evidence in dialogue.questions:
            best = rank(question, max(DIALOGUES))
            for count, share in zip(DIALOGUES, shares, strict=True):
                share.append(len(evidence.intersection(best[:count])) / len(evidence))
    return [mean(share) if share else 0.0 for share in shares]


def conversation_rank(dialogue: Dialogue) -> Rank:
    """Rank the turns as `conversation.search` does."""
    chat = Conversation(otolith.open("memory:").session("bench"), clock=lambda: 1)
    for speaker, text in dialogue.turns:
        chat.append(Message(Role.USER, (Text(text),), name=speaker))
    return lambda question, k: [hit.index for hit in chat.search(question, k)]


def tfidf_rank(texts: list[str]) -> Rank:
    """Rank texts by the cosine of TF-IDF vectors, as scikit-learn makes them by default."""
    vectorizer = TfidfVectorizer()
    vectors = vectorizer.fit_transform(texts)

    def rank(question: str, k: int) -> list[int]:
        scores = (vectors @ vectorizer.transform([question]).T).toarray()[:, 0].tolist()
        return sorted(range(len(texts)), key=lambda at: -scores[at])[:k]

    return rank


def _preferences(pairs: list[tuple[str, str]]) -> Iterator[Row]:
    tell(f"{len(pairs)} preferences")
    texts, unseen = [text for text, _ in pairs], range(1, len(pairs), 2)
    work = f"{len(pairs) or 1000:,} preferences, questions unseen: found among the best {_BEST}"
    plain = Row(
        "preference-words",
        f"{work}, by words and subjects",
        Absent("not run: OTOLITH_PREFEVAL does not name a clone"),
        budget=Budget(1.5, "x", of="ratio", at_least=True),
    )
    static = replace(
        plain,
        name="preference-static",
        work=f"{work}, by a static model",
        budget=Budget(3, "x", of="ratio", at_least=True),
    )
    if not pairs:
        yield from (plain, static)
        return
    theirs = _pairs_found(pairs, unseen, tfidf_rank(texts))
    index = TextIndex[int](related=True)
    for at, text in enumerate(texts):
        index.add(at, text)
    ours = _pairs_found(pairs, unseen, lambda asked, k: [x.key for x in index.rank(asked, k)])
    yield _beside(plain, ours, theirs)
    model = os.environ.get("OTOLITH_STATIC_MODEL")
    if model is None:
        yield replace(static, ours=Absent("not run: OTOLITH_STATIC_MODEL does not name a model"))
        return
    yield _beside(static, _pairs_found(pairs, unseen, static_rank(texts, model)), theirs)


def _pairs_found(pairs: list[tuple[str, str]], numbers: Sequence[int], rank: Rank) -> float:
    """Return the share of the questions whose preference is among the best."""
    return mean(at in rank(pairs[at][1], _BEST) for at in numbers)


def static_rank(texts: list[str], model: str) -> Rank:
    """Rank texts by the dot product of their vectors, as a judge for `memory.recall` does."""
    embed = embeddings(model)
    vectors = embed(texts)

    def rank(question: str, k: int) -> list[int]:
        (asked,) = embed([question])
        scores = [sum(map(mul, asked, vector)) for vector in vectors]
        return sorted(range(len(texts)), key=lambda at: -scores[at])[:k]

    return rank


def _speed(ground: Ground) -> Iterator[Row]:
    """Yield what search in a long thread costs."""
    count, words = ground.sizes.many_messages, Words(3)
    tell(f"a thread of {count:,} messages")
    said = [words.text(200) for _ in range(count)]
    chat = Conversation(otolith.open("memory:").session("bench"))
    for text in said:
        chat.append(Message(Role.USER, (Text(text),), name="ann"))
    first = _search_seconds(chat, said[0])
    took = [_search_seconds(chat, text) for text in said[:: max(count // 100, 1)]]
    work = f"a thread of {count:,} messages of 200 letters, processor"
    yield Row("search-first", f"{work}: first search, by messages", Figure(first / count, "s"))
    figure = Figure(median(took), "s", min(took), max(took))
    yield Row("search-again", f"{work}: search again", figure, budget=Budget(5e-3, "s"))


def _search_seconds(chat: Conversation, text: str) -> float:
    began = process_time()
    chat.search(f"what did you say about {text[:40]}?", _BEST)
    return process_time() - began
