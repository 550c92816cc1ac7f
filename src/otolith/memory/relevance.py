"""What to put before a model that has to decide something: as much as fits, the best first.

The goal and the step at hand come first, then pinned notes, then everything else by its score:
notes by relevance and strength, calls of tools by relevance and how recent they are, and the rest
of the plan. What does not fit is left out and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from otolith.errors import BadValue
from otolith.memory.notes import Recalled, relevances
from otolith.memory.plan import TaskState
from otolith.memory.tool_calls import ToolRecord
from otolith.text import tokens
from otolith.text.words import content_words

_FIRST, _PINNED = 3.0, 2.0
_PLAN = 0.4
_CALL_TOKENS = 120
_RECENT = 0.8
"""How much less a call counts for each call after it."""
_LEAST, _LEAST_TOKENS = 0.01, 8


class Item(NamedTuple):
    """Something worth saying."""

    kind: str  # goal, step, plan, note or call
    name: str
    text: str
    score: float
    why: str


@dataclass(frozen=True, slots=True)
class Choice:
    """What fits, in the order of its worth."""

    items: tuple[Item, ...]
    tokens: int
    left_out: tuple[Item, ...]

    @property
    def text(self) -> str:
        """All of it, a line each."""
        return "\n".join(item.text for item in self.items)

    @property
    def used(self) -> tuple[str, ...]:
        """The keys of the notes in it: give them to `memory.use` if they served."""
        return tuple(item.name for item in self.items if item.kind == "note")


def choose(
    items: Iterable[Item], budget: int, *, count: Callable[[str], int] = tokens.estimate_tokens
) -> Choice:
    """Return what fits into a budget of tokens.

    Raises:
        BadValue: the budget is no count.
    """
    if type(budget) is not int or budget < 0:
        raise BadValue(f"budget={budget!r}", hint="use a count of tokens")
    taken: list[Item] = []
    left: list[Item] = []
    spent = 0
    for each in sorted(items, key=lambda item: (-item.score, item.kind, item.name)):
        item = _cut(each, budget - spent - 1) if each.score >= _FIRST else each
        cost = count(item.text) + 1  # and the end of the line
        if spent + cost <= budget:
            taken.append(item)
            spent += cost
        else:
            left.append(item)
    return Choice(tuple(taken), spent, tuple(left))


def _cut(item: Item, tokens_left: int) -> Item:
    """Return what must not be missing, as much of it as there is room for."""
    if tokens.estimate_tokens(item.text) <= tokens_left or tokens_left < _LEAST_TOKENS:
        return item
    return item._replace(text=tokens.cut(item.text, tokens_left))


def task_items(task: TaskState) -> list[Item]:
    """Return the goal, the step at hand, and the rest of the plan."""
    items = []
    if task.goal:
        items.append(Item("goal", "goal", f"Goal: {task.goal}", _FIRST + 1, "the goal"))
    now = task.current_step
    if now is not None:
        items.append(Item("step", now.id, f"Now: {now.text}", _FIRST, "the step at hand"))
    rest = [step.text for step in task.steps_left if step is not now and step != now]
    if rest:
        items.append(Item("plan", "plan", f"Then: {'; '.join(rest)}", _PLAN, "what is left"))
    return items


def note_items(recalled: Iterable[Recalled]) -> list[Item]:
    """Return notes, those that are pinned before all others."""
    return [_note_item(each) for each in recalled if each.note.is_pinned or each.score >= _LEAST]


def call_items(decision: str, calls: Sequence[ToolRecord]) -> list[Item]:
    """Return calls of tools, the newest the strongest, and shortened."""
    texts = {str(at): _call_text(call) for at, call in enumerate(calls)}
    words = {at: frozenset(content_words(text)) for at, text in texts.items()}
    relevant = relevances(decision, words)
    items = []
    for at, call in enumerate(calls):
        age = len(calls) - 1 - at
        score = (0.2 + 0.8 * relevant[str(at)]) * _RECENT**age
        if score >= _LEAST:
            why = f"{age} calls ago, relevance {relevant[str(at)]:.2f}"
            items.append(Item("call", call.id, texts[str(at)], score, why))
    return items


def _note_item(each: Recalled) -> Item:
    why = f"relevance {each.relevance:.2f} x strength {each.strength:.2f}"
    if each.note.is_pinned:
        return Item("note", each.key, each.note.text, _PINNED + each.score, f"pinned; {why}")
    return Item("note", each.key, each.note.text, each.score, why)


def _call_text(call: ToolRecord) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    return tokens.cut(f"{call.name}({given}) -> {call.observation}", _CALL_TOKENS)
