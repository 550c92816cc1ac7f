"""What an agent said, planned, noted and did between two commits, told in lines."""

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

if TYPE_CHECKING:
    from otolith.conversation import Message
    from otolith.memory import Memory, Note, ToolRecord

M = TypeVar("M")
_NOTHING = {"map": b"\x80", "list": b"\x90"}
_MOST, _LETTERS, _CALL_LETTERS = 20, 300, 160


class ChangeLine(NamedTuple):
    """One thing that changed of what an agent said, has in mind, or does."""

    what: str
    """message, goal, task, step, note, call or run."""
    name: str
    how: str
    """added, changed or removed."""
    text: str


class _Pair(NamedTuple):
    """A state, and an earlier one or None."""

    old: StateReader | None
    new: StateReader

    def changes(self, path: Path, kind: str = "map") -> Iterator[Change]:
        """Yield what differs below a path."""
        empty = _NOTHING[kind]
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

    By default: in the last commit, or in `new`. Of many messages the first are told, and the others
    counted.
    """
    after = state.resolve("@" if new is None else new)
    if old is None:
        old = after.parents[0] if after.parents else None
    before = None if old is None else Snapshot(state.cells, state.resolve(old))
    pair = _Pair(before, Snapshot(state.cells, after))
    return [*_said(pair), *_has_in_mind(pair), *_runs(pair)]


def _said(pair: _Pair) -> Iterator[ChangeLine]:
    for thread in pair.names((CONVERSATION,)):
        if thread.startswith("."):
            continue
        was, now = (
            () if state is None else conversation.Conversation(state, thread=thread)
            for state in pair
        )
        told = (
            _message(f"{thread}[{at}]", *sides)
            for at in pair.touched((CONVERSATION, thread))
            if _says(sides := (_at(was, at), _at(now, at)))
        )
        yield from islice(told, _MOST)
        more = sum(1 for _ in told)
        if more:
            yield ChangeLine("message", thread, "changed", f"and {more:,} more")


def _at(log: Sequence[M], index: int) -> M | None:
    return log[index] if index < len(log) else None


def _says(sides: tuple[Message | None, Message | None]) -> bool:
    """Tell whether two messages differ in more than when they were said, and how they count."""
    bare = [each and replace(each, id="", time=0, tokens=None) for each in sides]
    return bare[0] != bare[1]


def _message(place: str, was: Message | None, now: Message | None) -> ChangeLine:
    how = "added" if was is None else "removed" if now is None else "changed"
    message = now or was
    assert message is not None
    return ChangeLine("message", place, how, f"{message.role}: {words_of(message)}")


def words_of(message: Message) -> str:
    """Return a message on one line: what was said, called and answered."""
    calls = (f"-> {call.name}({_arguments(call.arguments)})" for call in message.calls)
    answers = (f"<- {_answer(result.content)}" for result in message.results)
    return _short(" ".join([message.text, *calls, *answers]))


def _arguments(arguments: Any) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in dict(arguments).items())


def _answer(content: object) -> str:
    return content if isinstance(content, str) else "…"


def _short(text: str, most: int = _LETTERS) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _has_in_mind(pair: _Pair) -> Iterator[ChangeLine]:
    if not any(True for _ in pair.changes((MEMORY,))):
        return
    now = memory.Memory(pair.new)
    was = None if pair.old is None else memory.Memory(pair.old)
    yield from _task(pair, was, now)
    yield from _steps(was, now)
    touched = sorted({str(change.keys[0]) for change in pair.changes((MEMORY, "notes"))})
    yield from (told for key in touched for told in _note(pair, was, now, key))
    yield from _calls(pair, was, now)


def _task(pair: _Pair, was: Memory | None, now: Memory) -> Iterator[ChangeLine]:
    goal = "" if was is None else was.goal
    if now.goal != goal:
        yield ChangeLine("goal", "goal", "changed" if goal else "added", _short(now.goal))
    if not pair.is_same((MEMORY, "task", "status")):  # somebody said how it ended
        yield ChangeLine("task", "status", "changed", now.task.status)
    for name in sorted({str(change.keys[0]) for change in pair.changes((MEMORY, "data"))}):
        before = was is not None and name in was.task.data
        if name in now.task.data:
            text = _short(str(now.task.data[name]))
            yield ChangeLine("task", name, "changed" if before else "added", text)
        else:
            yield ChangeLine("task", name, "removed", "")


def _calls(pair: _Pair, was: Memory | None, now: Memory) -> Iterator[ChangeLine]:
    """Tell which calls came, went or are others now; not how long they took this time."""
    before = () if was is None else was.tool_calls
    for at in islice(pair.touched((MEMORY, "calls")), _MOST):
        old, new = _at(before, at), _at(now.tool_calls, at)
        if old is None or new is None:
            call = new or old
            assert call is not None
            yield ChangeLine("call", call.id, "removed" if new is None else "added", _call(call))
        elif _came_to(old) != _came_to(new):
            yield ChangeLine("call", new.id, "changed", _call(new))


def _came_to(call: ToolRecord) -> tuple[object, ...]:
    return call.name, call.arguments, call.result, call.error


def _call(call: ToolRecord) -> str:
    took = "" if call.duration_ms is None else f" {call.duration_ms:,.0f} ms"
    failed = f": {call.error}" if call.error else ""
    return _short(f"{call.name}({_short(_arguments(call.arguments), _CALL_LETTERS)}){took}{failed}")


def _steps(was: Memory | None, now: Memory) -> Iterator[ChangeLine]:
    before = {} if was is None else {step.id: step for step in was.steps}
    for step in now.steps:
        known = before.pop(step.id, None)
        if known is None or known.state is not step.state:
            how = "added" if known is None else "changed"
            yield ChangeLine("step", _short(step.text), how, str(step.state))
    for step in before.values():
        yield ChangeLine("step", _short(step.text), "removed", str(step.state))


def _note(pair: _Pair, was: Memory | None, now: Memory, key: str) -> Iterator[ChangeLine]:
    before = None if was is None else was.notes.get(key)
    after = now.notes.get(key)
    if after is None:
        if before is not None:
            yield ChangeLine("note", key, "removed", _short(str(before.value)))
    elif before is None:
        yield ChangeLine("note", key, "added", _short(str(after.value)))
    elif not pair.is_same((MEMORY, "notes", key, "value")):
        yield ChangeLine("note", key, "changed", _short(str(after.value)))
    else:
        yield ChangeLine(
            "note", key, "changed", ", ".join(_about(before, after)) or "written again"
        )


def _about(before: Note, after: Note) -> Iterator[str]:
    """Yield what changed of a note that says what it said."""
    if before.is_pinned != after.is_pinned:
        yield "pinned" if after.is_pinned else "not pinned any more"
    if before.importance != after.importance:
        yield f"importance {after.importance:g}"
    if before.uses != after.uses:
        yield f"used {after.uses} times" if after.uses > 1 else "used once"
    if before.replaced_by != after.replaced_by and after.replaced_by:
        yield f"replaced by {after.replaced_by}"


def _runs(pair: _Pair) -> Iterator[ChangeLine]:
    for name in pair.names((LOOP, "runs")):
        was, now = (_head(state, name) for state in pair)
        if now is not None and (was is None or _where(was) != _where(now)):
            text = f"step {now.get('iteration', 0)}, {now.get('phase', '')}"
            how = "added" if was is None else "changed"
            yield ChangeLine("run", name, how, _short(f"{text}: {_why(now)}"))


def _head(state: StateReader | None, name: str) -> dict[str, Any] | None:
    cell = None if state is None else state.cell_at((LOOP, "runs", name, "head"))
    found: Any = None if cell is None or state is None else state.cells.load(cell)
    return found if isinstance(found, dict) else None


def _why(head: dict[str, Any]) -> object:
    return head.get("error") or head.get("question") or head.get("task")


def _where(head: dict[str, Any]) -> tuple[Any, ...]:
    return head.get("iteration"), head.get("phase"), head.get("task"), head.get("error")
