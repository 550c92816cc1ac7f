"""Relevance: which notes, tool calls and plan steps matter for a question, within a token budget.

The score of a note is relevance x strength. Relevance, from 0 to 1, is the share of the words of
the question that the note has; words that few notes have weigh more, and so do words of a short
note. `text/ranking.py` compares words, as in a search.

`choose` fills a budget: the goal and the current step come first, then pinned notes, then all else
by its score. An item that does not fit is left out and listed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, TypeVar

from otolith.errors import BadValue
from otolith.memory.notes import Note
from otolith.memory.plan import TaskState
from otolith.memory.tool_calls import ToolRecord
from otolith.text.ranking import TextIndex
from otolith.text.tokens import cut, estimate_tokens
from otolith.text.words import content_spellings, split_names
from otolith.types import short_repr

K = TypeVar("K", bound=Hashable)
Relevance: TypeAlias = Callable[[str, Note], float]
"""A judge of your own: takes the question and a note, returns a relevance from 0 to 1."""

_FIRST_SCORE, _PINNED_SCORE, _PLAN_SCORE = 3.0, 2.0, 0.4
_CALL_TOKENS = 120
_CALL_DECAY = 0.8
"""The factor by which a tool call counts less for each later call."""
_MIN_SCORE, _MIN_CUT_TOKENS = 0.01, 8


# Relevance of words


class NoteIndex:
    """The words of notes; a note whose text has changed is read again."""

    @cached_property
    def _index(self) -> TextIndex[str]:
        return TextIndex(prefixes=True)

    def relevances(self, query: str, notes: Iterable[Note]) -> dict[str, float]:
        """Return the relevance of each of these notes, by key."""
        self._index.update({note.key: (split_names(note.text),) for note in notes})
        return relevances(query, self._index)


def relevances(query: str, index: TextIndex[K]) -> dict[K, float]:
    """Return the relevance of each text; 1 for all if the query has no content words."""
    asked = " ".join(content_spellings(query))
    found = dict.fromkeys(index, 0.0 if asked else 1.0)
    found.update((match.key, match.share) for match in index.rank(asked))
    return found


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
    index = TextIndex[int](prefixes=True)
    for at, text in enumerate(texts):
        index.add(at, split_names(text))
    items = []
    for at, relevance in relevances(decision, index).items():
        age = len(calls) - 1 - at
        score = (0.2 + 0.8 * relevance) * _CALL_DECAY**age
        if score >= _MIN_SCORE:
            why = f"{age} calls ago, relevance {relevance:.2f}"
            items.append(RelevantItem("call", calls[at].id, texts[at], score, why))
    return items


def _describe_call(call: ToolRecord) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    return f"{call.name}({arguments}) -> {call.observation}"
