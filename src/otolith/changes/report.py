"""Changes of the rooms: what an agent said, planned, noted, computed and did between two states.

Messages, the goal, the plan, notes, calls of tools, runs, variables and files are compared by what
they mean: a message that only got another time or count of tokens, or a call that only took longer,
has not changed. Subtrees that are the same in both states are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from otolith import conversation, memory, workspace
from otolith.core import (
    CONVERSATION,
    LOOP,
    MEMORY,
    PROFILE,
    WORKSPACE,
    Branch,
    Change,
    Commit,
    Path,
    Snapshot,
    StateReader,
    Target,
    differences,
)
from otolith.text.lines import ELLIPSIS, clip_line

if TYPE_CHECKING:
    from otolith.conversation import Message
    from otolith.memory import Memory, Note, PlanStep, ToolRecord
    from otolith.workspace import Difference

T = TypeVar("T")
_EMPTY = {"map": b"\x80", "list": b"\x90"}
"""Cells without entries, for a path that one of the states does not have."""
_MAX_LINES, _LINE, _ARGUMENTS, _REPR = 20, 300, 160, 80
"""Lines for each thread or for calls; characters of a line, of the arguments of a call, of a repr.
"""


class ChangeLine(NamedTuple):
    """One change of a conversation, of the memory, of a run, or of what is known about a user."""

    what: str
    """message, goal, task, step, note, call, run or profile."""
    name: str
    how: str
    """added, changed or removed."""
    text: str

    def __str__(self) -> str:
        return f"{self.what}{'' if self.what == self.name else f' {self.name}'}: {self.text}"


class AgentChange(Change):
    """A message, a step of the plan, a note, a call or a run that differs.

    `old` and `new` are the messages and values themselves; `summary` says in a line what changed.
    """

    __slots__ = ("_sides", "summary")

    def __init__(self, keys: Path, summary: ChangeLine, old: object, new: object) -> None:
        self.keys = keys
        self.kind = summary.how
        self.summary = summary
        self._sides = (old, new)

    @property
    def old(self) -> Any:
        """What was there before; None if it was added."""
        return self._sides[0]

    @property
    def new(self) -> Any:
        """What is there after; None if it was removed."""
        return self._sides[1]

    def __repr__(self) -> str:
        return f"<{self.kind} {clip_line(str(self.summary), _REPR)}>"


class WorkspaceChange(Change):
    """A variable or a file that differs; `old` and `new` are descriptions of a variable."""

    __slots__ = ("summary",)

    def __init__(self, summary: Difference) -> None:
        table = "vars" if summary.what == "variable" else "files"
        self.keys = (WORKSPACE, table, summary.name)
        self.kind = {"created": "added", "deleted": "removed"}.get(summary.how, summary.how)
        self.summary = summary

    @property
    def old(self) -> Any:
        """What the variable was; None if it was added, or is a file."""
        return self.summary.before or None

    @property
    def new(self) -> Any:
        """What the variable is; None if it was removed, or is a file."""
        return self.summary.after or None

    def __repr__(self) -> str:
        sides = " -> ".join(filter(None, (self.old, self.new)))
        text = f"{self.summary.what} {self.summary.name}{sides and f': {sides}'}"
        return f"<{self.kind} {clip_line(text, _REPR)}>"


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
    found = _agent_changes(_States(before, Snapshot(state.cells, after)))
    return [each.summary for each in found]


def room_changes(state: Branch, old: Commit | None, new: Commit | None) -> list[Change]:
    """Return what differs of the workspace, the conversation, the memory and the runs.

    `new` is the staged state by default; `old` is None for nothing at all.
    """
    before = None if old is None else Snapshot(state.cells, old)
    states = _States(before, state if new is None else Snapshot(state.cells, new))
    return [*_workspace_changes(states), *_agent_changes(states)]


def _workspace_changes(states: _States) -> Iterator[WorkspaceChange]:
    """Yield the variables and files that differ."""
    was, now = (None if state is None else state.cell_at((WORKSPACE,)) for state in states)
    yield from map(WorkspaceChange, workspace.table_differences(states.new.cells, was, now))


def _agent_changes(states: _States) -> Iterator[AgentChange]:
    """Yield what an agent said, planned, noted and did."""
    yield from _message_changes(states)
    yield from _memory_changes(states)
    yield from _run_changes(states)
    yield from _profile_changes(states)


def _message_changes(states: _States) -> Iterator[AgentChange]:
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
        found = (
            AgentChange((CONVERSATION, thread, str(at)), _message(thread, at, old, new), old, new)
            for at, old, new in sides
            if _without_metadata(old) != _without_metadata(new)
        )
        yield from islice(found, _MAX_LINES)
        more = sum(1 for _ in found)
        if more:
            line = ChangeLine("message", thread, "changed", f"and {more:,} more")
            yield AgentChange((CONVERSATION, thread), line, None, None)


def _at(log: Sequence[T], index: int) -> T | None:
    """Return an element of a log; None after its end."""
    return log[index] if index < len(log) else None


def _without_metadata(message: Message | None) -> Message | None:
    """Return a message without its id, its time and its count of tokens."""
    return message and replace(message, id="", time=0, tokens=None)


def _message(thread: str, at: int, old: Message | None, new: Message | None) -> ChangeLine:
    """Return how a message changed, and the message on one line."""
    message = new or old
    assert message is not None
    text = f"{message.role}: {message_line(message)}"
    return ChangeLine("message", f"{thread}[{at}]", _how(old, new), text)


def _how(old: object, new: object) -> str:
    """Return how something changed of which each side may be None."""
    return "added" if old is None else "removed" if new is None else "changed"


def _remembered(line: ChangeLine, table: str, old: object, new: object) -> AgentChange:
    """Return a change of the memory, by what the line is about."""
    keys = (MEMORY, table) if table == line.name else (MEMORY, table, line.name)
    return AgentChange(keys, line, old, new)


def message_line(message: Message) -> str:
    """Return a message on one line: its text, its calls and its results."""
    calls = (f"-> {call.name}({_arguments(call.arguments)})" for call in message.calls)
    contents = (result.content for result in message.results)
    results = (f"<- {each if isinstance(each, str) else ELLIPSIS}" for each in contents)
    return clip_line(" ".join([message.text, *calls, *results]), _LINE)


def _arguments(arguments: Any) -> str:
    """Return the arguments of a call, as in source code."""
    return ", ".join(f"{name}={value!r}" for name, value in dict(arguments).items())


def _memory_changes(states: _States) -> Iterator[AgentChange]:
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


def _task(states: _States, was: Memory | None, now: Memory) -> Iterator[AgentChange]:
    """Yield changes of the goal, of the status and of the data of the task."""
    goal = "" if was is None else was.goal
    if now.goal != goal:
        how = "changed" if goal else "added"
        line = ChangeLine("goal", "goal", how, clip_line(now.goal, _LINE))
        yield _remembered(line, "goal", goal or None, now.goal)
    if not states.is_same((MEMORY, "task", "status")):  # the agent reported how it ended
        line = ChangeLine("task", "status", "changed", now.task.status)
        yield _remembered(line, "task", None if was is None else was.task.status, now.task.status)
    for name in sorted({str(change.keys[0]) for change in states.changes((MEMORY, "data"))}):
        old = None if was is None else was.task.data.get(name)
        new = now.task.data.get(name)
        is_old = was is not None and name in was.task.data
        how = ("changed" if is_old else "added") if name in now.task.data else "removed"
        text = "" if how == "removed" else clip_line(str(new), _LINE)
        yield _remembered(ChangeLine("task", name, how, text), "data", old, new)


def _calls(states: _States, was: Memory | None, now: Memory) -> Iterator[AgentChange]:
    """Yield calls that were added, removed or replaced; another duration alone does not count."""
    before = () if was is None else was.tool_calls
    for at in islice(states.touched((MEMORY, "calls")), _MAX_LINES):
        old, new = _at(before, at), _at(now.tool_calls, at)
        call = new or old
        assert call is not None
        if old is None or new is None or _without_duration(old) != _without_duration(new):
            line = ChangeLine("call", call.id, _how(old, new), _call(call))
            yield _remembered(line, "calls", old, new)


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


def _steps(was: Memory | None, now: Memory) -> Iterator[AgentChange]:
    """Yield steps of the plan that were added or removed, or have another state."""
    before = {} if was is None else {step.id: step for step in was.steps}
    for step in now.steps:
        known = before.pop(step.id, None)
        if known is None or known.state is not step.state:
            yield _step(known, step)
    for gone in before.values():
        yield _step(gone, None)


def _step(old: PlanStep | None, new: PlanStep | None) -> AgentChange:
    step = new or old
    assert step is not None
    line = ChangeLine("step", clip_line(step.text, _LINE), _how(old, new), str(step.state))
    return _remembered(line, "steps", old, new)


def _note(states: _States, was: Memory | None, now: Memory, key: str) -> Iterator[AgentChange]:
    """Yield the change of a note: of its value, or else of what is known about it."""
    before = None if was is None else was.notes.get(key)
    after = now.notes.get(key)
    note = after or before
    if note is None:
        return
    text = clip_line(str(note.value), _LINE)
    if before and after and states.is_same((MEMORY, "notes", key, "value")):
        text = ", ".join(_note_metadata(before, after)) or "written again"
    yield _remembered(ChangeLine("note", key, _how(before, after), text), "notes", before, after)


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


def _run_changes(states: _States) -> Iterator[AgentChange]:
    """Yield runs that began, or came further, with the step and the phase they are in."""
    for name in states.names((LOOP, "runs")):
        was, now = (_run_head(state, name) for state in states)
        if now is not None and (was is None or _progress(was) != _progress(now)):
            subject = now.get("error") or now.get("question") or now.get("task")
            text = f"step {now.get('iteration', 0)}, {now.get('phase', '')}"
            line = ChangeLine("run", name, _how(was, now), clip_line(f"{text}: {subject}", _LINE))
            yield AgentChange((LOOP, "runs", name), line, was, now)


def _run_head(state: StateReader | None, name: str) -> dict[str, Any] | None:
    """Return the stored head of a run; None if there is none."""
    cell = None if state is None else state.cell_at((LOOP, "runs", name, "head"))
    found: Any = None if cell is None or state is None else state.cells.load(cell)
    return found if isinstance(found, dict) else None


def _progress(head: dict[str, Any]) -> tuple[Any, ...]:
    """Return what of a run counts as a change."""
    return head.get("iteration"), head.get("phase"), head.get("task"), head.get("error")


def _profile_changes(states: _States) -> Iterator[AgentChange]:
    """Yield what was set, learned and agreed to, key by key."""
    if states.is_same((PROFILE,)):
        return
    for table, what in _PROFILE_TABLES.items():
        for name in states.names((PROFILE, table)):
            path = (PROFILE, table, name)
            if not states.is_same(path):
                old, new = (None if each is None else each.cell_at(path) for each in states)
                text = _profile_text(states.new, table, old, new) or what
                line = ChangeLine("profile", name, _how(old, new), clip_line(text, _LINE))
                yield AgentChange(path, line, None, None)


def _profile_text(
    state: StateReader, table: str, old: bytes | None, new: bytes | None
) -> str | None:
    """Return what became of a key: how much evidence there is more, or what was set last."""
    if new is None:
        return None
    cells = state.cells
    if table == "evidence":
        more = cells.length(new) - (0 if old is None else cells.length(old))
        return f"{more:+,} evidence"
    last: Any = cells.load([*cells.entries_from(new, b"")][-1][1]) if table == "set" else None
    if not isinstance(last, dict) or last.get("kind") == "unset":
        return None if last is None else "unset"
    return f"set {last.get('value')!r}"


_PROFILE_TABLES = {
    "set": "what was set",
    "evidence": "evidence",
    "purposes": "consent or retention",
    "settings": "declaration of the setting",
}
"""The tables of a profile that changes are told of, and what is in them."""
