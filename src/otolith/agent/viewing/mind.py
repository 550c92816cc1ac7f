"""What a view shows of an agent's own rooms: what was said, what it works with, where it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from otolith.agent import conversation, memory
from otolith.agent.recounting import words_of
from otolith.agent.viewing.looks import Item, Parts, number_of, printable
from otolith.agent.viewing.objects import ObjectLooks
from otolith.core import CONVERSATION, LOOP, MEMORY, Reading

_LAST = 6


class _Thing(NamedTuple):
    """What is said of something, and what is in it."""

    words: str
    value: Any


class _MindLooks:
    """Looks of what an agent has in mind."""

    def __init__(self) -> None:
        self._objects = ObjectLooks()

    def what(self, thing: _Thing) -> str:
        return printable(thing.words)

    def pieces(self, thing: _Thing) -> Iterator[str]:
        return iter(()) if thing.value is None else self._objects.pieces(thing.value)

    def parts(self, thing: _Thing) -> Parts | None:
        if not isinstance(thing.value, dict):
            return None
        items = [Item(str(name), part, self._objects) for name, part in thing.value.items()]
        return Parts(items, len(items))


def mind(state: Reading) -> list[Item]:
    """Return where runs are, what the agent works with, and the last that was said."""
    looks = _MindLooks()
    found = [*_runs(state), *_memory(state), *_threads(state)]
    return [Item(name, thing, looks) for name, thing in found]


def _runs(state: Reading) -> Iterator[tuple[str, _Thing]]:
    cell = state.cell_at((LOOP, "runs"))
    for key, _ in () if cell is None else state.cells.entries(cell):
        name = str(state.cells.encoding.unkey(key))
        head: Any = state.cells.load(state.cell_at((LOOP, "runs", name, "head")) or b"\x80")
        words = f"{head.get('phase', '')}, step {head.get('iteration', 0)}"
        yield f"(run {printable(name)})", _Thing(words, head.get("question") or head.get("task"))


def _memory(state: Reading) -> Iterator[tuple[str, _Thing]]:
    if state.cell_at((MEMORY,)) is None:
        return
    held = memory.Memory(state)
    task = held.task
    plan = {step.text: str(step.state) for step in held.steps}
    notes = {note.key: note.value for note in held.notes.all()}
    if task.goal:
        yield "(goal)", _Thing(str(task.status), task.goal)
    if plan:
        words = f"{len(task.steps_done)} done, {len(task.steps_left)} left"
        yield "(plan)", _Thing(words, plan)
    if notes:
        yield "(notes)", _Thing(number_of(len(notes), "notes"), notes)


def _threads(state: Reading) -> Iterator[tuple[str, _Thing]]:
    if state.cell_at((CONVERSATION,)) is None:
        return
    for name, thread in conversation.Conversation(state).threads().items():
        start = max(thread.messages - _LAST, 0)
        said = conversation.Conversation(state, thread=name)[start:]
        lines = {f"[{at}] {each.role}": words_of(each) for at, each in enumerate(said, start)}
        words = number_of(thread.messages, "messages")
        yield f"(conversation {printable(name)})", _Thing(words, lines)
