"""Ranking: which texts answer a question, the best first; for messages, notes and preferences.

`TextIndex` holds the words of texts by key and grows and shrinks with them:

    index = TextIndex[str]()
    index.add("seat", "an aisle seat near the front")
    index.rank("which seats?")[0].key            # "seat"

Words are compared as `terms.py` says: by their stems, without case and accents. The score of a text
is the sum over the words of the question (BM25):

    rarity        the fewer texts have the word, the more it counts; words that any text may have
                  ("the", "which") count a fifth
    frequency     a word that a text has often counts more, up to 1.9 times
    size          a word in a short text counts more than one in a long text
    neighbours    with `near`, a text has a part of what its neighbours have: a word counts once,
                  from the text or from the neighbour that gives most
    closeness     if wanted, two words of the question that stand together add up to the lesser of
                  their rarities; `place` is where they are

Only texts with a word of the question are found, or with `related` those about the same subject. Of
equal texts the one that was added last comes first. The same texts, added in the same order, give
the same ranking, whatever was added and removed between.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from otolith.text.terms import spelled_terms, terms
from otolith.text.words import STOP_WORDS

K = TypeVar("K", bound=Hashable)

_SATURATION, _SIZE_WEIGHT = 0.9, 0.4
"""k1 and b of BM25, as is usual for short texts."""
_COMMON_WEIGHT = 0.2
_PREFIX_WEIGHT, _PREFIX_LETTERS = 0.6, 5
"""What a word counts that only begins like the word of the question, or contains it."""
_SUBJECT_WEIGHT = 0.8
"""What a subject counts that question and text share."""
_MAX_SHARED, _MAX_FREQUENT = 300, 1000
"""A word that more texts have says little about their neighbours, and is not shared with them; one
that still more have is counted for the best texts only."""
_FIELD_GAP = 100
"""How far apart the words of two fields are at least."""

_SUBJECTS = """
travel trip journey vacation holiday tour tourist destination itinerary visit country abroad cruise
hotel hostel resort accommodation lodging stay room guesthouse inn suite
flight fly plane airline airport seat aisle train bus subway metro transportation taxi ride ferry
car vehicle drive truck sedan hybrid engine motorcycle fuel gas mileage dealership auto
restaurant dinner lunch breakfast cafe bar bistro buffet eat menu reservation cuisine food meal dish
cook recipe kitchen bake ingredient meal dish snack dessert food eat flavor spice sauce
diet vegan vegetarian meat fish seafood dairy gluten sugar calorie protein allergy food meal eat
restaurant dinner lunch recipe cook vegan vegetarian meat fish seafood dairy gluten allergy
drink coffee tea wine beer alcohol cocktail juice beverage
exercise workout fitness gym training yoga run cardio strength muscle class routine
sport team game match player league football soccer basketball baseball tennis golf athlete swim
health doctor medicine medication treatment therapy symptom pain illness remedy sleep stress anxiety
skin skincare makeup beauty cosmetic hair face cream moisturizer fragrance perfume nail shampoo
clothes clothing wear outfit fashion dress shirt shoe jacket fabric wool leather style jewelry
home house apartment furniture room decor sofa bed kitchen bathroom carpet wall garden appliance
computer laptop phone smartphone tablet device screen software app battery camera keyboard gadget
game gaming play player video console multiplayer puzzle board strategy
movie film show series television watch episode stream documentary comedy drama horror actor
music song album artist band listen concert playlist genre jazz rock classical
book novel read author fiction story literature audiobook genre writer
learn study course class lesson teach school university student lecture exam degree skill online
work job career office company employer remote team colleague meeting project business salary
pet dog cat puppy kitten animal breed bird
price cost budget cheap expensive affordable luxury pay save money
outdoor nature hike camp beach mountain park trail forest lake adventure scenery
child kid family baby parent son daughter toddler
art museum gallery painting culture history theater exhibition
crowd busy noise loud quiet peaceful
environment sustainable green recycle plastic climate ethical
"""


@cache
def _common() -> frozenset[str]:
    """Return the stems of words that any text may have."""
    return frozenset(term for word in STOP_WORDS for term in terms(word))


@cache
def _subjects() -> dict[str, tuple[str, ...]]:
    """Return the subjects of each word that has one; no word looks like a subject."""
    found: dict[str, list[str]] = defaultdict(list)
    for number, words in enumerate(_SUBJECTS.strip().splitlines()):
        for term in dict.fromkeys(terms(words)):
            found[term].append(f"#{number}")
    return {term: tuple(subjects) for term, subjects in found.items()}


Near = Callable[[K], Iterable[tuple[K, float]]]
"""Returns the neighbours of a text, and how much of its words counts for each."""


@dataclass(frozen=True, slots=True)
class TextMatch(Generic[K]):
    """A text that was found."""

    key: K
    score: float
    share: float
    """From 0 to 1: what part of the question it has; rare words weigh more."""
    words: tuple[str, ...]
    """The words of the question that it has, as they were asked for."""
    place: int = 0
    """The number of its word where they are closest together."""


class _Text(NamedTuple):
    number: int
    size: int
    terms: tuple[str, ...]


class TextIndex(Generic[K]):
    """The words of texts by key, to rank them for a question.

    With `prefixes`, a word is also found by one that begins like it or contains it. With `related`,
    texts about the same subject are found although they share no word: for short texts, as settings
    and preferences are.
    """

    def __init__(self, *, prefixes: bool = False, related: bool = False) -> None:
        self._prefixes, self._related = prefixes, related
        self._places: dict[str, dict[K, list[int]]] = defaultdict(dict)
        self._texts: dict[K, _Text] = {}
        self._fields: dict[K, tuple[str, ...]] = {}
        self._size = self._added = 0

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[K]:
        return iter(self._texts)

    def __contains__(self, key: K) -> bool:
        return key in self._texts

    def __repr__(self) -> str:
        return f"<TextIndex {len(self)} texts, {len(self._places)} words>"

    def add(self, key: K, *fields: str) -> None:
        """Add a text, in one part or several; one with the same key is replaced."""
        if key in self._texts:
            self.remove(key)
        place = size = 0
        own: dict[str, list[int]] = {}
        for field in filter(None, fields):
            found = terms(field)
            for at, term in enumerate(found, place):
                if term in own:
                    own[term].append(at)
                else:
                    own[term] = [at]
            size += len(found)
            place += len(found) + _FIELD_GAP
        if self._related:
            for term in [*own]:
                for subject in _subjects().get(term, ()):
                    own.setdefault(subject, []).extend(own[term])
        for term, places in own.items():
            self._places[term][key] = places
        self._texts[key] = _Text(self._added, size, tuple(own))
        self._added += 1
        self._size += size

    def remove(self, key: K) -> None:
        """Remove a text; without one of this key nothing changes."""
        self._fields.pop(key, None)
        text = self._texts.pop(key, None)
        if text is None:
            return
        self._size -= text.size
        for term in text.terms:
            places = self._places[term]
            del places[key]
            if not places:
                del self._places[term]

    def update(self, texts: Mapping[K, tuple[str, ...]]) -> None:
        """Hold exactly these texts, in this order; only changed ones are read."""
        for key in [key for key in self._texts if key not in texts]:
            self.remove(key)
        for key, fields in texts.items():
            if self._fields.get(key) != fields:
                self.add(key, *fields)
                self._fields[key] = fields
        for number, key in enumerate(texts):
            if self._texts[key].number != number:
                self._texts[key] = self._texts[key]._replace(number=number)
        self._added = len(texts)

    def rank(
        self,
        question: str,
        limit: int | None = None,
        *,
        near: Near[K] | None = None,
        closeness: bool = False,
    ) -> list[TextMatch[K]]:
        """Return the texts for a question, the best first; `limit` is how many at most."""
        wanted: dict[str, str] = {}
        for term, word in zip(terms(question), spelled_terms(question), strict=True):
            wanted.setdefault(term, word)
        rarities = {term: self._rarity(term) for term in wanted}
        frequent = [term for term in wanted if self._is_frequent(term)]
        telling = [term for term in wanted if term not in frequent]
        worths = {term: self._worths(term, rarities[term]) for term in telling}
        scores: dict[K, float] = defaultdict(float)
        for by_key in worths.values():
            for key, worth in by_key.items():
                scores[key] += worth
        if near is not None:
            for by_key in worths.values():
                _share(by_key, scores, near)
        if self._related:
            self._add_subjects(question, scores)
        best = self._best(scores, limit)
        for term in frequent:
            worths[term] = self._worths(term, rarities[term], best)
            for key, worth in worths[term].items():
                scores[key] += worth
        total = sum(rarities.values()) or 1.0
        found = []
        for key in scores if best is None else best:
            words = tuple(term for term in wanted if key in worths[term])
            match = TextMatch(key, scores[key], min(round(scores[key] / total, 6), 1.0), words)
            found.append(self._closer(match, rarities) if closeness else match)
        found.sort(key=lambda each: (-round(each.score, 6), -self._texts[each.key].number))
        return [
            replace(
                each, score=round(each.score, 6), words=tuple(wanted[term] for term in each.words)
            )
            for each in found[:limit]
        ]

    def _rarity(self, term: str) -> float:
        """Return the weight of a word: the fewer texts have it, the higher."""
        rarity = math.log(1 + (len(self._texts) + 1) / (len(self._places.get(term, ())) + 0.5))
        return rarity * (_COMMON_WEIGHT if term in _common() else 1)

    def _is_frequent(self, term: str) -> bool:
        return term in _common() or len(self._places.get(term, ())) > _MAX_FREQUENT

    def _worths(
        self, term: str, rarity: float, keys: Collection[K] | None = None
    ) -> dict[K, float]:
        """Return what a word of the question counts in each text, or in each of some."""
        worths = self._counted(term, rarity, keys)
        for other, part in self._alike(term):
            for key, worth in self._counted(other, rarity * part, keys).items():
                worths[key] = max(worth, worths.get(key, 0.0))
        return worths

    def _counted(
        self, term: str, weight: float, keys: Collection[K] | None = None
    ) -> dict[K, float]:
        """Return what a word counts in each text that has it, by how often and how short it is."""
        places = self._places.get(term, {})
        if keys is not None:
            places = {key: places[key] for key in keys if key in places}
        mean = self._size / max(len(self._texts), 1) or 1
        fixed = _SATURATION * (1 - _SIZE_WEIGHT)
        by_size = _SATURATION * _SIZE_WEIGHT / mean
        weight *= _SATURATION + 1
        texts, counted = self._texts, {}
        for key, found in places.items():
            count = len(found)
            counted[key] = weight * count / (count + fixed + by_size * texts[key].size)
        return counted

    def _alike(self, term: str) -> Iterable[tuple[str, float]]:
        """Yield other words that a word may be found by."""
        if self._prefixes and len(term) >= _PREFIX_LETTERS and term not in _common():
            start = term[:_PREFIX_LETTERS]
            for other in self._places:
                if other != term and (other.startswith(start) or term in other):
                    yield other, _PREFIX_WEIGHT

    def _add_subjects(self, question: str, scores: dict[K, float]) -> None:
        """Count the subjects that texts share with a question."""
        asked = Counter(each for term in terms(question) for each in _subjects().get(term, ()))
        for subject, count in asked.items():
            frequency = count * (_SATURATION + 1) / (count + _SATURATION)
            weight = _SUBJECT_WEIGHT * frequency * self._rarity(subject)
            for key, worth in self._counted(subject, weight).items():
                scores[key] += worth

    def _best(self, scores: Mapping[K, float], limit: int | None) -> list[K] | None:
        """Return the texts for which frequent words and closeness are counted; None for all.

        Neither can lift a text far. If less than `limit` texts have another word of the question,
        those that have only frequent ones are found as well.
        """
        if limit is None or len(scores) < limit:
            return None
        best = max(20 * limit, 200)
        if len(scores) <= best:
            return list(scores)
        return heapq.nsmallest(
            best, scores, key=lambda key: (-scores[key], -self._texts[key].number)
        )

    def _closer(self, match: TextMatch[K], rarities: dict[str, float]) -> TextMatch[K]:
        """Return a match whose score includes how close together its words are."""
        places = (
            (place, term)
            for term in match.words
            for place in self._places.get(term, {}).get(match.key, ())
        )
        occurrences = sorted(places)
        best, closeness = occurrences[0][0] if occurrences else 0, 0.0
        for (one, first), (other, second) in pairwise(occurrences):
            if first != second:
                worth = min(rarities[first], rarities[second]) / (other - one) ** 2
                if worth > closeness:
                    closeness, best = worth, one
        return replace(match, score=match.score + closeness, place=best)


def _share(worths: Mapping[K, float], scores: dict[K, float], near: Near[K]) -> None:
    """Let the texts that were found have a part of a word of their neighbours."""
    if len(worths) > _MAX_SHARED:
        return
    lifted: dict[K, float] = {}
    for key, worth in worths.items():
        for other, part in near(key):
            if other in scores and part * worth > lifted.get(other, 0.0):
                lifted[other] = part * worth
    for key, worth in lifted.items():
        scores[key] += max(worth - worths.get(key, 0.0), 0.0)
