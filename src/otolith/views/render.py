"""View: what an agent knows, as text for a prompt or a person, within a budget of tokens.

`full` shows every name with its type, size and value; `recent` what the last commits changed, what
is not committed yet, and the latest events. Neither loads a long value, nor any pickle.

Layout: first every value gets a line with its name and outline. The rest of the budget is shared
evenly, those that need little first. A value with names in it that is too long for its share is
laid out on lines below it by the same rule, with half of the budget for their names. What does not
fit is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Literal, NamedTuple

from otolith import conversation, memory
from otolith.changes import message_line
from otolith.core import (
    CONVERSATION,
    EVENTS,
    LOOP,
    MEMORY,
    Branch,
    Cells,
    Change,
    Commit,
    Snapshot,
    StateReader,
    decode_commit,
    differences,
)
from otolith.errors import Invalid
from otolith.live import Live
from otolith.shapes import check_argument
from otolith.state.base import AnyState
from otolith.state.live import LiveValues
from otolith.text.lines import ELLIPSIS, clip_pieces, counted, printable, size_text
from otolith.text.tokens import cut, estimate_tokens
from otolith.types import Hash
from otolith.views.describe import (
    CellDescriber,
    NamedValue,
    NamedValues,
    describe_object,
    object_pieces,
)
from otolith.views.workspace import describe_workspace

_CHARACTERS_PER_TOKEN = 8
"""More than a token has."""

_MIN_NESTED = 24
"""With fewer tokens, lines below a value are not worth it."""

_SHORT = 6
"""A text of so many tokens goes before shares are even; one that is longer is not cut to less."""

_MIN_SECTION = 16
"""A section of fewer tokens would say nothing."""

_INDENT = "  "
_EMPTY_MAP = b"\x80"
_LAST_MESSAGES, _MAX_COMMITS, _MAX_CHANGES, _MAX_EVENTS = 6, 12, 2_000, 20
"""Of each thread, of the history, of each commit, and of the events."""
_UNITS = ((86_400, "days"), (3_600, "hours"), (60, "minutes"), (1, "seconds"))
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}
FOCUSES = ("recent", "full")


class Section(NamedTuple):
    """A title, and the values below it."""

    title: str
    values: NamedValues


def view(
    state: AnyState | StateReader | None,
    focus: Literal["recent", "full"] = "recent",
    *,
    max_tokens: int = 4096,
) -> str:
    """Return what is in a state, as text of at most about `max_tokens` tokens.

    `focus="recent"` shows what changed lately and what happened; "full" shows everything, as far as
    it fits, and how much does not.

        print(view(state, "full", max_tokens=500))

    Raises:
        Invalid: the focus is unknown, `max_tokens` is below 1, or `state` is not a state.
    """
    if focus not in FOCUSES:
        raise Invalid(f"focus must be {' or '.join(FOCUSES)}, got {focus!r}")
    check_argument(max_tokens, "max_tokens", int, "a whole number of at least 1")
    if max_tokens < 1:
        raise Invalid(f"max_tokens must be at least 1, got {max_tokens}")
    if state is None:
        return cut("no state: nothing is stored", max_tokens)
    lines = _lines(state, focus, max_tokens)
    while len(lines) > 1 and estimate_tokens("\n".join(lines)) > max_tokens:
        lines.pop()
    return cut("\n".join(lines), max_tokens)


def _lines(state: AnyState | StateReader, focus: str, budget: int) -> list[str]:
    """Return the lines of a view of any kind of state, read under its lock."""
    if isinstance(state, StateReader):
        with state.lock:
            return _stored_lines(state, focus, budget)
    if isinstance(state, LiveValues):
        with state.lock:
            return _live_lines(state, focus, budget)
    raise Invalid(
        f"state must be a Versioned, a Live, a snapshot or None, got {type(state).__name__}"
    )


def _stored_lines(state: StateReader, focus: str, budget: int) -> list[str]:
    """Return the lines of a state that is stored: its title, then values or sections."""
    root = state.cell_at(())
    describer = CellDescriber(state.cells)
    title = _title(state, size_text(state.cells.full_size(root or b"")))
    left = budget - cost(title)
    if focus == "full":
        named, own = describer.top(root or _EMPTY_MAP, len(state)), _agent_values(state, describer)
        every = NamedValues([*own, *named.items], len(own) + named.total) if own else named
        return [title, *lay_out(every, left)]
    return [title, *_lay_out_sections(_recent_sections(state, describer), left)]


def _title(state: StateReader, size: str) -> str:
    """Return what a state is, where it is, and whether it has uncommitted changes."""
    keys = f"{counted(len(state), 'keys')}, {size}"
    if isinstance(state, Snapshot):
        return f"read-only at {state.commit.short}: {keys}"
    if not isinstance(state, Branch):
        return keys
    head = f"at {state.head.short}" if state.head is not None else "no commit yet"
    changes = "" if state.is_clean else ", with uncommitted changes"
    merging = ", in the middle of a merge" if state.merging is not None else ""
    return printable(f"{state.session}/{state.name} {head}: {keys}{changes}{merging}")


def _live_lines(state: LiveValues, focus: str, budget: int) -> list[str]:
    """Return the lines of a state that is only in memory."""
    title = f"{type(state).__name__}: {counted(len(state), 'keys')}, in memory only"
    left = budget - cost(title)
    if focus == "full":
        named, own = _live_values(state), _live_agent(state)
        every = NamedValues([*own, *named.items], len(own) + named.total) if own else named
        return [title, *lay_out(every, left)]
    return [title, *_lay_out_sections(_live_sections(state), left)]


# Layout


def lay_out(
    parts: NamedValues, budget: int, *, indent: str = "", is_nested: bool = False
) -> list[str]:
    """Return lines that show values within a budget of tokens, line ends included.

    Names come first: a value without its text still says that it is there. Values inside another
    one may spend half of their budget on names, so that some of their text is shown as well.
    """
    shown, last = _heads(parts, budget // 2 if is_nested else budget, indent)
    heads = [indent + item.head for item in shown]
    left = budget - sum(map(cost, [*heads, *last]))
    texts = _texts(shown, left, indent)
    lines: list[str] = []
    for head, body in zip(heads, texts, strict=True):
        if isinstance(body, list):
            lines += [head, *body]
        else:
            lines.append(f"{head} = {body}" if body else head)
    return [*lines, *last]


def cost(line: str) -> int:
    """Return the tokens of a line with its end."""
    return estimate_tokens(line) + 1


def _heads(parts: NamedValues, budget: int, indent: str) -> tuple[list[NamedValue], list[str]]:
    """Return the values that get a line, and the line that counts the others."""
    shown: list[NamedValue] = []
    costs: list[int] = []
    for item in parts.items:
        costs.append(cost(indent + item.head))
        if sum(costs) > budget:
            costs.pop()
            break
        shown.append(item)
    while len(shown) < parts.total:
        more = counted(parts.total - len(shown), f"more {parts.noun}")
        last = f"{indent}{ELLIPSIS} {more}"
        if sum(costs) + cost(last) <= budget:
            return shown, [last]
        if not shown:
            break
        shown.pop()
        costs.pop()
    return shown, []


def _texts(items: list[NamedValue], left: int, indent: str) -> list[str | list[str]]:
    """Share what is left of the budget; return the text or the lines of each value.

    Values are served from the shortest to the longest, so that what a short one does not need is
    shared by the longer ones after it.
    """
    found: list[str | list[str]] = ["" for _ in items]
    most = max(left * _CHARACTERS_PER_TOKEN // max(len(items), 1) * 4, 80)
    texts = [item.text(most) if left > 0 else "" for item in items]
    order = sorted(range(len(items)), key=lambda at: len(texts[at]))
    for done, at in enumerate(order):
        share = max(left // (len(order) - done), min(_SHORT, left))
        found[at], used = _fitted(items[at], texts[at], share, indent)
        left -= used
    return found


def _fitted(item: NamedValue, text: str, share: int, indent: str) -> tuple[str | list[str], int]:
    """Return a value within its share, and what that costs."""
    needed = estimate_tokens(text) + 1  # for the sign between the head and the text
    if not text or (needed > share and share <= _SHORT):
        return "", 0
    if needed <= share and not text.endswith(ELLIPSIS):
        return text, needed
    parts = item.parts() if share >= _MIN_NESTED else None
    if parts is not None and parts.total:
        lines = lay_out(parts, share, indent=indent + _INDENT, is_nested=True)
        return lines, sum(map(cost, lines))
    short = cut(text, share - 1)
    return short, estimate_tokens(short) + 1


def _lay_out_sections(sections: Iterable[Section], budget: int) -> list[str]:
    """Return the lines of sections; what one leaves over is for those that follow."""
    every = list(sections)
    lines: list[str] = []
    for at, section in enumerate(every):
        share = max(2 * budget // (len(every) - at + 1), min(_MIN_SECTION, budget))
        if share < cost(section.title):
            break
        body = lay_out(section.values, share - cost(section.title), indent=_INDENT)
        lines += [section.title, *body]
        budget -= sum(map(cost, [section.title, *body]))
    return lines


# The agent: its runs, its memory, and the last messages


def _agent_values(state: StateReader, describer: CellDescriber) -> list[NamedValue]:
    """Return where runs are, what the agent works with, and the last messages."""
    work = describe_workspace(state, describer)
    return [*_runs(state), *_memory(state), *_threads(state), *work]


def _worded(name: str, words: str, value: object) -> NamedValue:
    """Return an object with an outline in words; the entries of a dict are shown as they are."""
    if not isinstance(value, dict):
        return NamedValue(name, printable(words), partial(object_pieces, value))
    items = [describe_object(str(key), part) for key, part in value.items()]
    parts = NamedValues(items, len(items))
    return NamedValue(name, printable(words), partial(object_pieces, value), lambda: parts)


def _runs(state: StateReader) -> Iterator[NamedValue]:
    """Yield the runs of an agent with the phase, the step, and the question or the task."""
    cell = state.cell_at((LOOP, "runs"))
    for key, _ in () if cell is None else state.cells.entries(cell):
        name = str(state.cells.encoding.unkey(key))
        head: Any = state.cells.load(state.cell_at((LOOP, "runs", name, "head")) or _EMPTY_MAP)
        words = f"{head.get('phase', '')}, step {head.get('iteration', 0)}"
        subject = head.get("question") or head.get("task")
        name = f"(run {printable(name)})"
        yield NamedValue(name, words) if subject is None else _worded(name, words, subject)


def _memory(state: StateReader) -> Iterator[NamedValue]:
    """Yield the goal, the plan and the notes of an agent."""
    if state.cell_at((MEMORY,)) is None:
        return
    held = memory.Memory(state)
    task = held.task
    plan = {step.text: str(step.state) for step in held.steps}
    notes = {note.key: note.value for note in held.notes.all()}
    if task.goal:
        yield _worded("(goal)", str(task.status), task.goal)
    if plan:
        done, left = len(task.steps_done), len(task.steps_left)
        yield _worded("(plan)", f"{done} done, {left} left", plan)
    if notes:
        yield _worded("(notes)", counted(len(notes), "notes"), notes)


def _threads(state: StateReader) -> Iterator[NamedValue]:
    """Yield the last messages of each thread."""
    if state.cell_at((CONVERSATION,)) is None:
        return
    for name, thread in conversation.Conversation(state).threads().items():
        start = max(thread.messages - _LAST_MESSAGES, 0)
        messages = conversation.Conversation(state, thread=name)[start:]
        lines = {f"[{at}] {x.role}": message_line(x) for at, x in enumerate(messages, start)}
        words = counted(thread.messages, "messages")
        yield _worded(f"(conversation {printable(name)})", words, lines)


# Recent changes and events


def _recent_sections(state: StateReader, describer: CellDescriber) -> Iterator[Section]:
    """Yield what is not committed, the agent, events, then the latest commits."""
    head = state.head if isinstance(state, Branch) else getattr(state, "commit", None)
    repo = getattr(state, "repo", None)
    now = int(repo.clock()) if repo is not None else head.time if head is not None else 0
    if isinstance(state, Branch):
        waiting = _changes(state.cells, head, state, describer)
        if waiting.total:
            yield Section("not committed:", waiting)
    own = _agent_values(state, describer)
    if own:
        yield Section("the agent:", NamedValues(own, len(own), "values"))
    events = _events(state, describer, now)
    if events.total:
        yield Section("events:", events)
    for commit in islice(_first_parents(state.cells, head), _MAX_COMMITS):
        before = next(islice(_first_parents(state.cells, commit), 1, None), None)
        kind = "" if commit.kind == "step" else f"{commit.kind}, "
        by = f"{kind}{_age(now - commit.time)} by {commit.author}"
        title = printable(f"{commit.short} {by}: {commit.message}"[:300])
        snapshot = Snapshot(state.cells, commit)
        yield Section(title, _changes(state.cells, before, snapshot, describer))


def _first_parents(cells: Cells, commit: Commit | None) -> Iterator[Commit]:
    """Yield a commit and its first parents."""
    while commit is not None:
        yield commit
        if not commit.parents:
            return
        hash = Hash(bytes.fromhex(commit.parents[0]))
        commit = decode_commit(hash, cells.objects.data(hash))


def _changes(
    cells: Cells, before: Commit | None, after: StateReader, describer: CellDescriber
) -> NamedValues:
    """Return what differs between a commit and a later state, but for the reserved names."""
    root = before.cell if before is not None else _EMPTY_MAP
    found = differences(cells, root, after.cell_at(()) or _EMPTY_MAP)
    own = (change for change in found if not change.path.startswith("."))
    some = list(islice(own, _MAX_CHANGES))
    old = Snapshot(cells, before) if before is not None else None
    items = (_change(change, old, after, describer) for change in some)
    noun = "changes" if len(some) < _MAX_CHANGES else "changes, or more"
    return NamedValues(items, len(some), noun)


def _change(
    change: Change, old: StateReader | None, new: StateReader, describer: CellDescriber
) -> NamedValue:
    """Return a change with the outline of both values, and the new one as text."""
    before = old.cell_at(change.keys) if old is not None and change.kind != "added" else None
    after = new.cell_at(change.keys) if change.kind != "removed" else None
    name = f"{_SIGNS[change.kind]} {printable(change.path)}"
    if before is None or after is None:
        return describer.named(name, after or before or b"")
    outlines = describer.outline(before), describer.outline(after)
    outline = outlines[1] if outlines[0] == outlines[1] else " -> ".join(outlines)
    return NamedValue(name, outline, partial(_change_pieces, before, after, describer))


def _change_pieces(before: bytes, after: bytes, describer: CellDescriber) -> Iterator[str]:
    """Yield the beginning of the old value and the new one, if the beginnings differ."""
    old, new = (list(islice(describer.pieces(cell), 40)) for cell in (before, after))
    if old != new and old and new:
        yield clip_pieces(old, 60)
        yield " -> "
        yield from describer.pieces(after)


def _events(state: StateReader, describer: CellDescriber, now: int) -> NamedValues:
    """Return the latest events, the last one first."""
    log = state.cell_at((EVENTS,))
    length = state.cells.length(log) if log is not None else 0
    items = []
    for index in range(length - 1, max(length - 1 - _MAX_EVENTS, -1), -1):
        fields = dict(state.cells.entries(state.cells.element(log or b"", index)))
        names = (b"kind", b"time", b"agent")
        head = {name: state.cells.load(fields[name]) for name in names if name in fields}
        age, data = now - int(str(head[b"time"])), fields.get(b"data")
        pieces = partial(describer.pieces, data) if data is not None else None
        items.append(_event(index, str(head[b"kind"]), head.get(b"agent"), age, pieces))
    return NamedValues(items, length, "events")


def _event(
    index: int, kind: str, agent: object, age: int, pieces: partial[Iterator[str]] | None
) -> NamedValue:
    """Return an event with its age and the agent; its data is the text."""
    by = f" by {printable(str(agent))}" if agent else ""
    name, outline = f"{index} {printable(kind)}", _age(age) + by
    return NamedValue(name, outline, pieces) if pieces else NamedValue(name, outline)


def _age(microseconds: int) -> str:
    """Return a duration in its largest unit: "3 hours ago"."""
    seconds = microseconds // 1_000_000
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{counted(seconds // size, unit)} ago"
    return "just now"


# Live states


def _live_sections(state: LiveValues) -> Iterator[Section]:
    """Yield the agent and the latest events of a state without history, then what is in it."""
    own = _live_agent(state)
    if own:
        yield Section("the agent:", NamedValues(own, len(own), "values"))
    now = state.now()
    items = []
    for event in state.events.list(limit=_MAX_EVENTS)[::-1]:
        pieces = partial(object_pieces, dict(event.data)) if event.data else None
        items.append(_event(event.index, event.kind, event.agent, now - event.time, pieces))
    if items:
        yield Section("events:", NamedValues(items, len(state.events), "events"))
    yield Section("values, without history:", _live_values(state))


def _live_values(state: LiveValues) -> NamedValues:
    """Return the values of a state that is only in memory."""
    return NamedValues((describe_object(name, state[name]) for name in state), len(state))


def _live_agent(state: LiveValues) -> list[NamedValue]:
    """Return what the agent works with in a state that is only in memory."""
    if not isinstance(state, Live) or not state.has_rooms:
        return []
    return _agent_values(state.rooms, CellDescriber(state.rooms.cells))
