"""Relevance: which notes, tool calls and plan steps matter for a question, within a token budget.

The score of a note is relevance x strength. Relevance, from 0 to 1, is the share of the words of
the question that the note has; words that few notes have weigh more. Words are compared by their
stems; signs of scripts without spaces are words by themselves, as in a search.

`choose` fills a budget: the goal and the current step come first, then pinned notes, then all else
by its score. An item that does not fit is left out and listed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from otolith import text as language
from otolith.errors import BadValue
from otolith.memory.notes import Note
from otolith.memory.plan import TaskState
from otolith.memory.tool_calls import ToolRecord
from otolith.text.tokens import cut, estimate_tokens
from otolith.types import short_repr

Relevance: TypeAlias = Callable[[str, Note], float]
"""A judge of your own: takes the question and a note, returns a relevance from 0 to 1."""

_PREFIX_MATCH = 0.6
"""The weight of a word that only begins like the word of the question, or contains it."""
_PREFIX_LETTERS = 5
_FIRST_SCORE, _PINNED_SCORE, _PLAN_SCORE = 3.0, 2.0, 0.4
_CALL_TOKENS = 120
_CALL_DECAY = 0.8
"""The factor by which a tool call counts less for each later call."""
_MIN_SCORE, _MIN_CUT_TOKENS = 0.01, 8


# Relevance of words


class NoteWords:
    """A cache of the words of notes; a note whose text has changed is read again."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, frozenset[str]]] = {}

    def of(self, note: Note) -> frozenset[str]:
        """Return the stems of the words in a note."""
        text = note.text
        known = self._known.get(note.key)
        if known is None or known[0] != text:
            known = self._known[note.key] = text, frozenset(_compared_words(text))
        return known[1]


def _compared_words(text: str) -> set[str]:
    """Return stems of words, and the signs that are words by themselves."""
    signs, words = set(language.signs(text)), set(language.content_words(text))
    if not signs:
        return words
    return signs | {word for word in words if signs.isdisjoint(language.signs(word))}


def relevances(query: str, words_by_key: Mapping[str, frozenset[str]]) -> dict[str, float]:
    """Return the relevance of each text, given by its words; 1 for all if the query is empty."""
    asked = _compared_words(query)
    if not asked:
        return dict.fromkeys(words_by_key, 1.0)
    counts = Counter(word for words in words_by_key.values() for word in words)
    texts = len(words_by_key)
    weights = {word: math.log(1 + (texts + 1) / (counts[word] + 0.5)) for word in sorted(asked)}
    total = sum(weights.values())
    return {
        key: sum(weight * _match(word, words) for word, weight in weights.items()) / total
        for key, words in words_by_key.items()
    }


def _match(word: str, words: frozenset[str]) -> float:
    if word in words:
        return 1.0
    if len(word) < _PREFIX_LETTERS:
        return 0.0
    start = word[:_PREFIX_LETTERS]
    return _PREFIX_MATCH if any(each.startswith(start) or word in each for each in words) else 0.0


@short_repr("note", "score")
class RecalledNote(NamedTuple):
    """A note that answers a question, with its score and how that is made up."""

    note: Note
    score: float
    relevance: float
    strength: float

    @property
    def key(self) -> str:
        """The key of the note."""
        return self.note.key

    @property
    def value(self) -> Any:
        """The value of the note."""
        return self.note.value


# Choosing for a decision


@short_repr("kind", "name", "text", "score")
class RelevantItem(NamedTuple):
    """A line about the goal, a step, the plan, a note or a tool call."""

    kind: str
    """goal, step, plan, note or call."""
    name: str
    text: str
    score: float
    why: str


@short_repr("items", "tokens")
@dataclass(frozen=True, slots=True)
class RelevantItems:
    """The items that fit into a budget of tokens, the best first."""

    items: tuple[RelevantItem, ...]
    tokens: int
    left_out: tuple[RelevantItem, ...]

    @property
    def text(self) -> str:
        """All of them, a line each."""
        return "\n".join(item.text for item in self.items)

    @property
    def used(self) -> tuple[str, ...]:
        """The keys of its notes: pass them to `memory.use` if they helped."""
        return tuple(item.name for item in self.items if item.kind == "note")


def choose(
    items: Iterable[RelevantItem], budget: int, *, count: Callable[[str], int] = estimate_tokens
) -> RelevantItems:
    """Return the best items that fit into a budget of tokens; each costs one more for its line.

    Raises:
        BadValue: the budget is not a count.
    """
    if type(budget) is not int or budget < 0:
        raise BadValue(f"budget must be 0 or more, got {budget!r}", hint="use a count of tokens")
    chosen: list[RelevantItem] = []
    left_out: list[RelevantItem] = []
    spent = 0
    for item in sorted(items, key=lambda each: (-each.score, each.kind, each.name)):
        room = budget - spent - 1
        if item.score >= _FIRST_SCORE and count(item.text) > room >= _MIN_CUT_TOKENS:
            short = _cut_to(item.text, room, count)
            item = item._replace(text=short or item.text)  # noqa: PLW2901  # must not be missing
        cost = count(item.text) + 1
        if spent + cost <= budget:
            chosen.append(item)
            spent += cost
        else:
            left_out.append(item)
    return RelevantItems(tuple(chosen), spent, tuple(left_out))


def _cut_to(text: str, room: int, count: Callable[[str], int]) -> str:
    """Return a text, cut until a counter counts no more than fits."""
    size = room
    short = cut(text, size)
    while size > 1 and count(short) > room:
        size = min(size - 1, size * room // count(short))
        short = cut(text, max(size, 1))
    return short


def task_items(task: TaskState) -> list[RelevantItem]:
    """Return items for the goal, the current step, and the rest of the plan."""
    items = []
    if task.goal:
        text = f"Goal: {task.goal}"
        items.append(RelevantItem("goal", "goal", text, _FIRST_SCORE + 1, "the goal"))
    current = task.current_step
    if current is not None:
        text = f"Now: {current.text}"
        items.append(RelevantItem("step", current.id, text, _FIRST_SCORE, "the current step"))
    rest = [step.text for step in task.steps_left if step != current]
    if rest:
        text = f"Then: {'; '.join(rest)}"
        items.append(RelevantItem("plan", "plan", text, _PLAN_SCORE, "what is left"))
    return items


def note_items(notes: Iterable[RecalledNote]) -> list[RelevantItem]:
    """Return items for notes; pinned notes are always among them, before all others."""
    items = []
    for each in notes:
        if each.note.is_pinned or each.score >= _MIN_SCORE:
            why = f"relevance {each.relevance:.2f} x strength {each.strength:.2f}"
            why = f"pinned; {why}" if each.note.is_pinned else why
            score = each.score + (_PINNED_SCORE if each.note.is_pinned else 0)
            items.append(RelevantItem("note", each.key, each.note.text, score, why))
    return items


def call_items(decision: str, calls: Sequence[ToolRecord]) -> list[RelevantItem]:
    """Return items for tool calls, shortened; later calls score higher."""
    texts = [cut(_describe_call(call), _CALL_TOKENS) for call in calls]
    words = {str(at): frozenset(language.content_words(text)) for at, text in enumerate(texts)}
    items = []
    for at, relevance in enumerate(relevances(decision, words).values()):
        age = len(calls) - 1 - at
        score = (0.2 + 0.8 * relevance) * _CALL_DECAY**age
        if score >= _MIN_SCORE:
            why = f"{age} calls ago, relevance {relevance:.2f}"
            items.append(RelevantItem("call", calls[at].id, texts[at], score, why))
    return items


def _describe_call(call: ToolRecord) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    return f"{call.name}({arguments}) -> {call.observation}"
