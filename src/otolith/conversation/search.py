"""Full-text search over a thread: the same answer every time, and why.

A message is ranked by how rare the words of the query are in the thread, how often it has them and
how short it is (BM25), and by how close together they stand in it. Where two are equal, the later
one comes first. What is a word, and which are the same, is said in text/terms.py.

The index is made when a thread is first searched: about 0.1 ms a message, so a second for 10,000.
It is kept in memory and grows by what is new. If the log no longer begins with what is in it, it is
made anew.

Texts as vectors: with a static model that is on this machine, and nothing is downloaded.

A static model has a vector for each word and takes their mean: no network, no card, some ten
thousand texts a second. What it makes of a text depends on the text alone, so a search with it
gives the same answer every time.

    chat.search("somewhere to sit", embed=embeddings("models/potion-base-8M"))
"""

from __future__ import annotations

import heapq
import math
import os
from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import pairwise
from math import hypot
from operator import mul
from pathlib import Path
from typing import Any

from otolith.conversation.formats.parts import words
from otolith.conversation.message import Message, Reasoning
from otolith.errors import BadValue, MissingExtra, NotFound
from otolith.text.terms import place_of, terms, whole

Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""Texts in, a vector for each of them out; the same text must give the same vector."""

_SATURATION, _LENGTH = 1.2, 0.75
_NEAR, _FUSION = 1.0, 60


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that was found."""

    index: int
    message: Message
    score: float
    words: tuple[str, ...]
    """The words of the query that it has."""
    snippet: str
    """The part of its text where they stand closest together."""


@dataclass(frozen=True, slots=True)
class Found:
    """Where something was found, before its message is read."""

    index: int
    score: float
    words: tuple[str, ...]
    place: int


class Index:
    """The words of the first messages of a thread, and where they are."""

    def __init__(self) -> None:
        self.length = 0
        self._places: dict[str, dict[int, list[int]]] = defaultdict(dict)
        self._sizes: list[int] = []
        self._embed: Embed | None = None
        self._vectors: list[array[float]] = []

    def add(self, message: Message) -> None:
        """Take one more message."""
        found = terms(said(message))
        for place, term in enumerate(found):
            self._places[term].setdefault(self.length, []).append(place)
        self._sizes.append(len(found))
        self.length += 1

    def find(self, query: str, k: int) -> list[Found]:
        """Return the best messages for a query, the best first."""
        wanted = list(dict.fromkeys(terms(query)))
        scores: dict[int, float] = defaultdict(float)
        having: dict[int, list[str]] = defaultdict(list)
        weights = {term: self._rarity(term) for term in wanted}
        mean = sum(self._sizes) / max(len(self._sizes), 1) or 1
        for term in wanted:
            for at, places in self._places.get(term, {}).items():
                often = len(places)
                size = 1 - _LENGTH + _LENGTH * self._sizes[at] / mean
                scores[at] += (
                    weights[term] * often * (_SATURATION + 1) / (often + _SATURATION * size)
                )
                having[at].append(term)
        # Words that stand together cannot lift a message far: only the best are looked at closely.
        best = heapq.nsmallest(max(20 * k, 200), scores, key=lambda at: (-scores[at], -at))
        found = [self._scored(at, scores[at], having[at], weights) for at in best]
        return sorted(found, key=lambda each: (-each.score, -each.index))[:k]

    def _rarity(self, term: str) -> float:
        many, having = self.length, len(self._places.get(term, ()))
        return math.log(1 + (many - having + 0.5) / (having + 0.5))

    def _scored(self, at: int, score: float, having: list[str], weights: dict[str, float]) -> Found:
        """Return a message with what its words are worth for standing together."""
        marks = sorted((p, term) for term in having for p in self._places[term][at])
        place, near = marks[0][0], 0.0
        for (one, first), (other, second) in pairwise(marks):
            if first == second:
                continue
            worth = min(weights[first], weights[second]) / (other - one) ** 2
            if worth > near:
                near, place = worth, one
        return Found(at, round(score + _NEAR * near, 6), tuple(having), place)

    def fused(
        self, query: str, found: list[Found], k: int, embed: Embed, texts: Callable[[int], str]
    ) -> list[Found]:
        """Return the best by words and by meaning together: by their ranks in both."""
        asked = self._asked(query, embed, texts)
        near = {at: _product(asked, each) for at, each in enumerate(self._vectors)}
        alike = sorted((at for at in near if near[at] > 0), key=lambda at: (-near[at], -at))
        known = {each.index: each for each in found}
        ranks = {each.index: 1 / (_FUSION + rank) for rank, each in enumerate(found)}
        for rank, at in enumerate(alike[: max(10 * k, _FUSION)]):
            ranks[at] = ranks.get(at, 0.0) + 1 / (_FUSION + rank)
        best = sorted(ranks, key=lambda at: (-ranks[at], -at))[:k]
        return [
            replace(known.get(at, Found(at, 0, (), 0)), score=round(ranks[at], 6)) for at in best
        ]

    def _asked(self, query: str, embed: Embed, texts: Callable[[int], str]) -> array[float]:
        """Return the vector of a query, after every message has one by the same function."""
        if embed != self._embed:
            self._embed, self._vectors = embed, []
        missing = [query, *map(texts, range(len(self._vectors), self.length))]
        vectors = list(map(_unit, embed(missing)))
        sizes = {len(each) for each in (*vectors, *self._vectors[:1])}
        if len(vectors) != len(missing) or len(sizes) > 1:
            why = f"{len(missing)} texts were given, and {len(vectors)} vectors of {sizes} numbers"
            raise BadValue(why, hint="embed returns one vector a text, all of one length")
        self._vectors += vectors[1:]
        return vectors[0]


def said(message: Message) -> str:
    """Return what is searched in a message: all that was said, called and answered."""
    parts = (part for part in message.parts if not isinstance(part, Reasoning))
    return "\n".join(filter(None, map(words, parts)))


def snippet(text: str, place: int, width: int = 160) -> str:
    """Return the part of a text around its word at a place, as it was said."""
    shown = whole(text)
    middle = place_of(shown, place)
    start = max(min(middle - width // 4, len(shown) - width), 0)
    cut = shown[start : start + width].strip()
    before = "…" if start else ""
    return f"{before}{cut}{'…' if start + width < len(shown) else ''}".replace("\n", " ")


def _unit(vector: Sequence[float]) -> array[float]:
    """Return a vector of length 1, or of nothing but zeros."""
    length = math.hypot(*vector)
    return array("d", [each / length if 0 < length < math.inf else 0.0 for each in vector])


def _product(one: array[float], other: array[float]) -> float:
    total: float = sum(map(mul, one, other))
    return total


def embeddings(place: str | os.PathLike[str]) -> Embed:
    """Return a function that gives texts vectors of length 1, with a static model of model2vec's.

    `place` is the folder of the model, or its name (`owner/name`) if it was downloaded before.

    Raises:
        MissingExtra: model2vec is not installed.
        NotFound: the model is not on this machine.
    """
    try:
        model2vec: Any = import_module("model2vec")
    except ImportError:
        hint = "pip install 'otolith[embeddings]'"
        raise MissingExtra("model2vec is not installed", hint=hint) from None
    folder = _folder(place)
    try:
        model = model2vec.StaticModel.from_pretrained(folder, force_download=False)
    except Exception as error:  # its parts are read by three libraries, each with errors of its own
        why = f"{folder} is no folder of a static model: {error}"
        raise NotFound(why, hint="give the folder that StaticModel.save_pretrained made") from error

    def embed(texts: Sequence[str]) -> list[list[float]]:
        made = model.encode(list(texts), use_multiprocessing=False)
        return [_of_length_one(vector.tolist()) for vector in made]

    return embed


def _folder(place: str | os.PathLike[str]) -> Path:
    """Return where a model is: a folder, or what was downloaded of that name last."""
    given = Path(place)
    if given.is_dir():
        return given.resolve()
    owner, _, name = str(place).partition("/")
    kept = _cache() / f"models--{owner}--{name}"
    chosen = kept / "refs" / "main"
    if name and chosen.is_file():
        folder = kept / "snapshots" / chosen.read_text().strip()
        if folder.is_dir():
            return folder
    raise NotFound(
        f"the model {place} is not on this machine, and nothing is downloaded here",
        hint=f"run model2vec.StaticModel.from_pretrained({str(place)!r}) once where there is"
        " a network, or give a folder",
    )


def _cache() -> Path:
    """Return where models are kept that were downloaded from Hugging Face."""
    if "HF_HUB_CACHE" in os.environ:
        return Path(os.environ["HF_HUB_CACHE"])
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface"
    return Path(os.environ.get("HF_HOME", home)) / "hub"


def _of_length_one(vector: list[float]) -> list[float]:
    length = hypot(*vector)
    return [each / length for each in vector] if length else vector
