"""Full-text search over a thread: deterministic, and each hit names the words that were found.

`text/ranking.py` ranks messages by the words of the query, and by how close together they are. The
name of who said a message counts as a part of it. A message also has a part of the words of its
neighbours, most of those before it: an answer seldom repeats the question. Of equal messages the
later one comes first.

The index is made when a thread is first searched, at about 0.1 ms a message. It stays in memory and
grows with the thread.

With `embed`, texts are also compared as vectors, and both rankings are fused. `embeddings` loads a
static model from this machine: it has a vector for each word and takes their mean, some ten
thousand texts a second without a network or a GPU, and equal texts have equal vectors.

    chat.search("somewhere to sit", embed=embeddings("models/potion-base-8M"))
"""

from __future__ import annotations

import math
import os
from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from operator import mul
from pathlib import Path
from typing import Any

from otolith.conversation.formats.parts import part_text
from otolith.conversation.message import Message, Reasoning
from otolith.errors import BadValue, MissingExtra, NotFound
from otolith.text.ranking import TextIndex, TextMatch
from otolith.text.terms import place_of, whole
from otolith.types import short_repr

Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""A function that returns a vector for each text; equal texts must have equal vectors."""

_NEIGHBOURS = ((1, 0.7), (2, 0.5), (-1, 0.4), (-2, 0.25))
"""How many messages later another one is, and how much of the words counts for it."""
_RANK_OFFSET = 60
"""The usual k of reciprocal rank fusion."""


@short_repr("index", "score", "snippet")
@dataclass(frozen=True, slots=True)
class Hit:
    """A message that was found."""

    index: int
    message: Message
    score: float
    words: tuple[str, ...]
    """The words of the query that it has."""
    snippet: str
    """The part of its text where these words are closest together."""


class SearchIndex:
    """The words of the messages of a thread, and their vectors if there are any."""

    def __init__(self) -> None:
        self._index = TextIndex[int]()
        self._embed: Embed | None = None
        self._vectors: list[array[float]] = []

    def __repr__(self) -> str:
        return f"<SearchIndex {len(self._index)} messages>"

    def add(self, message: Message) -> None:
        """Add the next message."""
        self._index.add(len(self._index), searched_text(message), message.name)

    def find(self, query: str, k: int) -> list[TextMatch[int]]:
        """Return the best `k` messages for a query, the best first."""
        return self._index.rank(query, k, near=_neighbours, closeness=True)

    def fuse(
        self,
        query: str,
        matches: list[TextMatch[int]],
        k: int,
        embed: Embed,
        text: Callable[[int], str],
    ) -> list[TextMatch[int]]:
        """Return the best `k` by words and by vectors together; `text` returns that of a message.

        Raises:
            BadValue: `embed` does not return one vector for each text.
        """
        asked = self._query_vector(query, embed, text)
        products: dict[int, float] = {
            at: sum(map(mul, asked, vector)) for at, vector in enumerate(self._vectors)
        }
        alike = [at for at in products if products[at] > 0]
        alike.sort(key=lambda at: (-products[at], -at))
        scores: dict[int, float] = defaultdict(float)
        for ranking in ([each.key for each in matches], alike[: max(10 * k, _RANK_OFFSET)]):
            for rank, at in enumerate(ranking):
                scores[at] += 1 / (_RANK_OFFSET + rank)
        known = {each.key: each for each in matches}
        best = sorted(scores, key=lambda at: (-scores[at], -at))[:k]
        return [
            replace(known.get(at, TextMatch(at, 0, 0, ())), score=round(scores[at], 6))
            for at in best
        ]

    def _query_vector(self, query: str, embed: Embed, text: Callable[[int], str]) -> array[float]:
        """Return the vector of a query; messages without a vector by this function get one."""
        if embed != self._embed:
            self._embed, self._vectors = embed, []
        texts = [query, *map(text, range(len(self._vectors), len(self._index)))]
        vectors = [array("d", _normalised(vector)) for vector in embed(texts)]
        sizes = {len(each) for each in (*vectors, *self._vectors[:1])}
        if len(vectors) != len(texts) or len(sizes) > 1:
            raise BadValue(
                f"embed got {len(texts)} texts and returned {len(vectors)} vectors"
                f" of {sizes} numbers",
                hint="embed returns one vector a text, all of one length",
            )
        self._vectors += vectors[1:]
        return vectors[0]


def _neighbours(at: int) -> list[tuple[int, float]]:
    return [(at + distance, part) for distance, part in _NEIGHBOURS]


def searched_text(message: Message) -> str:
    """Return the text of a message that is searched: all of it except reasoning."""
    parts = (part for part in message.parts if not isinstance(part, Reasoning))
    return "\n".join(filter(None, map(part_text, parts)))


def snippet(text: str, place: int, width: int = 160) -> str:
    """Return the part of a text around one of its words, in one line."""
    full = whole(text)
    start = max(min(place_of(full, place) - width // 4, len(full) - width), 0)
    part = full[start : start + width].strip()
    end = "…" if start + width < len(full) else ""
    return f"{'…' if start else ''}{part}{end}".replace("\n", " ")


def _normalised(vector: Sequence[float]) -> list[float]:
    """Return a vector of length 1; one that has no direction is all zeros."""
    length = math.hypot(*vector)
    return [each / length if 0 < length < math.inf else 0.0 for each in vector]


def embeddings(place: str | os.PathLike[str]) -> Embed:
    """Return a function that gives texts vectors of length 1, with a static model of model2vec.

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
    folder = _model_folder(place)
    try:
        model = model2vec.StaticModel.from_pretrained(folder, force_download=False)
    except Exception as error:  # three libraries read its parts, each with other errors
        why = f"{folder} does not hold a static model: {error}"
        raise NotFound(why, hint="give the folder that StaticModel.save_pretrained made") from error

    def embed(texts: Sequence[str]) -> list[list[float]]:
        """Return a vector of length 1 for each text."""
        made = model.encode(list(texts), use_multiprocessing=False)
        return [_normalised(vector.tolist()) for vector in made]

    return embed


def _model_folder(place: str | os.PathLike[str]) -> Path:
    """Return the folder of a model: that given, or the last download with this name."""
    given = Path(place)
    if given.is_dir():
        return given.resolve()
    owner, _, name = str(place).partition("/")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface"
    hub = Path(os.environ.get("HF_HOME", home)) / "hub"
    download = Path(os.environ.get("HF_HUB_CACHE", hub)) / f"models--{owner}--{name}"
    newest = download / "refs" / "main"
    if name and newest.is_file():
        folder = download / "snapshots" / newest.read_text().strip()
        if folder.is_dir():
            return folder
    raise NotFound(
        f"the model {place} is not on this machine, and nothing is downloaded here",
        hint=f"run model2vec.StaticModel.from_pretrained({str(place)!r}) once where there is"
        " a network, or give a folder",
    )
