"""Change report: what an agent said, planned, noted and did between two commits, in lines.

Messages, the goal, the plan, notes, calls of tools and runs are compared by what they mean: a
message that only got another time or count of tokens, or a call that only took longer, has not
changed. Subtrees that are the same in both commits are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from otolith import conversation, memory
from otolith.core import (
    CONVERSATION,
    LOOP,
    MEMORY,
    Branch,
    Change,
    Path,
    Snapshot,
    StateReader,
    Target,
    differences,
)
from otolith.text.lines import ELLIPSIS, clip_line

if TYPE_CHECKING:
    from otolith.conversation import Message
    from otolith.memory import Memory, Note, ToolRecord

T = TypeVar("T")
_EMPTY = {"map": b"\x80", "list": b"\x90"}
"""Cells without entries, for a path that one of the states does not have."""
_MAX_LINES, _LINE, _ARGUMENTS = 20, 300, 160
"""Lines for each thread or for calls; characters of a line, and of the arguments of a call."""


class ChangeLine(NamedTuple):
    """One change of a conversation, of the memory, or of a run."""

    what: str
    """message, goal, task, step, note, call or run."""
    name: str
    how: str
    """added, changed or removed."""
    text: str


class _States(NamedTuple):
    """A state, and an earlier one or None.

    All comparisons are of cells: the same hash means the same content, and nothing below is read.
    """

    old: StateReader | None
    new: StateReader

    def changes(self, path: Path, kind: str = "map") -> Iterator[Change]:
        """Yield what differs below a path."""
        empty = _EMPTY[kind]
        before = (self.old.cell_at(path) if self.old is not None else None) or empty
        return differences(self.new.cells, before, self.new.cell_at(path) or empty)

    def touched(self, path: Path) -> Iterator[int]:
        """Yield the places of a list at which something differs, each once."""
        places = (int(str(change.keys[0])) for change in self.changes(path, "list"))
        return (place for place, _ in groupby(places))

    def is_same(self, path: Path) -> bool:
        """Tell whether both have the same at a path."""
        before = None if self.old is None else self.old.cell_at(path)
        return self.new.cells.same(before, self.new.cell_at(path))

    def names(self, path: Path) -> list[str]:
        """Return the keys of a map that both or one of them has."""
        found: set[str] = set()
        for state in (self.old, self.new):
            cell = state.cell_at(path) if state is not None else None
            entries = () if cell is None or state is None else state.cells.entries(cell)
            found |= {str(self.new.cells.encoding.unkey(key)) for key, _ in entries}
        return sorted(found)


def change_report(
    state: Branch, old: Target | None = None, new: Target | None = None
) -> list[ChangeLine]:
    """Return what an agent said, planned, noted and did between two commits, in short.

    Without `old`, what the commit `new` changed; without both, what the last commit changed. Of
    many messages the first ones are listed, and the others counted.
    """
    after = state.resolve("@" if new is None else new)
    if old is None:
        old = after.parents[0] if after.parents else None
    before = None if old is None else Snapshot(state.cells, state.resolve(old))
    states = _States(before, Snapshot(state.cells, after))
    return [*_message_changes(states), *_memory_changes(states), *_run_changes(states)]


def _message_changes(states: _States) -> Iterator[ChangeLine]:
    """Yield the messages that differ, thread by thread; many of them are counted."""
    for thread in states.names((CONVERSATION,)):
        if thread.startswith("."):
            continue
        was, now = (
            () if state is None else conversation.Conversation(state, thread=thread)
            for state in states
        )
        places = states.touched((CONVERSATION, thread))
        sides = ((at, _at(was, at), _at(now, at)) for at in places)
        lines = (
            ChangeLine("message", f"{thread}[{at}]", *_how(old, new))
            for at, old, new in sides
            if _without_metadata(old) != _without_metadata(new)
        )
        yield from islice(lines, _MAX_LINES)
        more = sum(1 for _ in lines)
        if more:
            yield ChangeLine("message", thread, "changed", f"and {more:,} more")


def _at(log: Sequence[T], index: int) -> T | None:
    """Return an element of a log; None after its end."""
    return log[index] if index < len(log) else None


def _without_metadata(message: Message | None) -> Message | None:
    """Return a message without its id, its time and its count of tokens."""
    return message and replace(message, id="", time=0, tokens=None)


def _how(old: Message | None, new: Message | None) -> tuple[str, str]:
    """Return how a message changed, and the message on one line."""
    message = new or old
    assert message is not None
    how = "added" if old is None else "removed" if new is None else "changed"
    return how, f"{message.role}: {message_line(message)}"


def message_line(message: Message) -> str:
    """Return a message on one line: its text, its calls and its results."""
    calls = (f"-> {call.name}({_arguments(call.arguments)})" for call in message.calls)
    contents = (result.content for result in message.results)
    results = (f"<- {each if isinstance(each, str) else ELLIPSIS}" for each in contents)
    return clip_line(" ".join([message.text, *calls, *results]), _LINE)


def _arguments(arguments: Any) -> str:
    """Return the arguments of a call, as in source code."""
    return ", ".join(f"{name}={value!r}" for name, value in dict(arguments).items())


def _memory_changes(states: _States) -> Iterator[ChangeLine]:
    """Yield what changed of the task, the plan, the notes and the calls of tools."""
    if not any(True for _ in states.changes((MEMORY,))):
        return
    now = memory.Memory(states.new)
    was = None if states.old is None else memory.Memory(states.old)
    yield from _task(states, was, now)
    yield from _steps(was, now)
    touched = sorted({str(change.keys[0]) for change in states.changes((MEMORY, "notes"))})
    yield from (line for key in touched for line in _note(states, was, now, key))
    yield from _calls(states, was, now)


def _task(states: _States, was: Memory | None, now: Memory) -> Iterator[ChangeLine]:
    """Yield changes of the goal, of the status and of the data of the task."""
    goal = "" if was is None else was.goal
    if now.goal != goal:
        yield ChangeLine("goal", "goal", "changed" if goal else "added", clip_line(now.goal, _LINE))
    if not states.is_same((MEMORY, "task", "status")):  # the agent reported how it ended
        yield ChangeLine("task", "status", "changed", now.task.status)
    for name in sorted({str(change.keys[0]) for change in states.changes((MEMORY, "data"))}):
        before = was is not None and name in was.task.data
        if name in now.task.data:
            text = clip_line(str(now.task.data[name]), _LINE)
            yield ChangeLine("task", name, "changed" if before else "added", text)
        else:
            yield ChangeLine("task", name, "removed", "")


def _calls(states: _States, was: Memory | None, now: Memory) -> Iterator[ChangeLine]:
    """Yield calls that were added, removed or replaced; another duration alone does not count."""
    before = () if was is None else was.tool_calls
    for at in islice(states.touched((MEMORY, "calls")), _MAX_LINES):
        old, new = _at(before, at), _at(now.tool_calls, at)
        if old is None or new is None:
            call = new or old
            assert call is not None
            yield ChangeLine("call", call.id, "removed" if new is None else "added", _call(call))
        elif _without_duration(old) != _without_duration(new):
            yield ChangeLine("call", new.id, "changed", _call(new))


def _without_duration(call: ToolRecord) -> tuple[object, ...]:
    """Return what makes two records of a call the same."""
    return call.name, call.arguments, call.result, call.error


def _call(call: ToolRecord) -> str:
    """Return a call on one line: its arguments, how long it took, and its error."""
    took = "" if call.duration_ms is None else f" {call.duration_ms:,.0f} ms"
    failed = f": {call.error}" if call.error else ""
    return clip_line(
        f"{call.name}({clip_line(_arguments(call.arguments), _ARGUMENTS)}){took}{failed}", _LINE
    )


def _steps(was: Memory | None, now: Memory) -> Iterator[ChangeLine]:
    """Yield steps of the plan that were added or removed, or have another state."""
    before = {} if was is None else {step.id: step for step in was.steps}
    for step in now.steps:
        known = before.pop(step.id, None)
        if known is None or known.state is not step.state:
            how = "added" if known is None else "changed"
            yield ChangeLine("step", clip_line(step.text, _LINE), how, str(step.state))
    for step in before.values():
        yield ChangeLine("step", clip_line(step.text, _LINE), "removed", str(step.state))


def _note(states: _States, was: Memory | None, now: Memory, key: str) -> Iterator[ChangeLine]:
    """Yield the change of a note: of its value, or else of what is known about it."""
    before = None if was is None else was.notes.get(key)
    after = now.notes.get(key)
    if after is None:
        if before is not None:
            yield ChangeLine("note", key, "removed", clip_line(str(before.value), _LINE))
    elif before is None:
        yield ChangeLine("note", key, "added", clip_line(str(after.value), _LINE))
    elif not states.is_same((MEMORY, "notes", key, "value")):
        yield ChangeLine("note", key, "changed", clip_line(str(after.value), _LINE))
    else:
        yield ChangeLine(
            "note", key, "changed", ", ".join(_note_metadata(before, after)) or "written again"
        )


def _note_metadata(before: Note, after: Note) -> Iterator[str]:
    """Yield what changed of a note apart from its value."""
    if before.is_pinned != after.is_pinned:
        yield "pinned" if after.is_pinned else "not pinned any more"
    if before.importance != after.importance:
        yield f"importance {after.importance:g}"
    if before.uses != after.uses:
        yield f"used {after.uses} times" if after.uses > 1 else "used once"
    if before.replaced_by != after.replaced_by and after.replaced_by:
        yield f"replaced by {after.replaced_by}"


def _run_changes(states: _States) -> Iterator[ChangeLine]:
    """Yield runs that began, or came further, with the step and the phase they are in."""
    for name in states.names((LOOP, "runs")):
        was, now = (_run_head(state, name) for state in states)
        if now is not None and (was is None or _progress(was) != _progress(now)):
            subject = now.get("error") or now.get("question") or now.get("task")
            text = f"step {now.get('iteration', 0)}, {now.get('phase', '')}"
            how = "added" if was is None else "changed"
            yield ChangeLine("run", name, how, clip_line(f"{text}: {subject}", _LINE))


def _run_head(state: StateReader | None, name: str) -> dict[str, Any] | None:
    """Return the stored head of a run; None if there is none."""
    cell = None if state is None else state.cell_at((LOOP, "runs", name, "head"))
    found: Any = None if cell is None or state is None else state.cells.load(cell)
    return found if isinstance(found, dict) else None


def _progress(head: dict[str, Any]) -> tuple[Any, ...]:
    """Return what of a run counts as a change."""
    return head.get("iteration"), head.get("phase"), head.get("task"), head.get("error")
