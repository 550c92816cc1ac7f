"""What changed lately: what is not committed, the last commits, and the latest events.

Layout: many things in few tokens, each with a line before any gets a page.

First every thing gets its name and what it is. What is left is shared out evenly, those that need
little first; a thing with names in it that is too long for its share becomes lines of its own, laid
out by the same rule, but with half of the room for values. What does not fit is counted.

What a view shows of an agent's own rooms: what was said, what it works with, where it is.

View: what an agent knows, as text for a prompt or a person, within a budget of tokens.

`full` shows every name with its type, size and value; `recent` what the last commits changed, what
is not committed yet, and the latest events. Neither loads a long value, nor any pickle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Literal, NamedTuple

from otolith import conversation, memory
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
from otolith.state.base import State
from otolith.state.live import Live
from otolith.text.tokens import DOTS, cut, estimate_tokens
from otolith.types import Hash
from otolith.views.changes import words_of
from otolith.views.describe import (
    Item,
    Looks,
    ObjectLooks,
    Parts,
    StoredLooks,
    bytes_text,
    joined,
    number_of,
    printable,
)

_CHARACTERS = 8
"""More than a token has."""

_FEWEST = 24
"""Below so many tokens, lines of its own are not worth it."""

_SHORT = 6
"""A text of so many tokens goes before shares are even; one that is longer is not cut to less."""

_INDENT = "  "


def lay_out(parts: Parts, budget: int, *, indent: str = "", is_nested: bool = False) -> list[str]:
    """Return lines that show things within a budget of tokens, line ends included."""
    shown, last = _heads(parts, budget // 2 if is_nested else budget, indent)
    heads = [indent + item.head for item in shown]
    left = budget - sum(map(cost, [*heads, *last]))
    texts = _texts(shown, left, indent)
    lines = [line for head, body in zip(heads, texts, strict=True) for line in _joined(head, body)]
    return [*lines, *last]


def cost(line: str) -> int:
    """Return what a line costs with its end."""
    return estimate_tokens(line) + 1


def _joined(head: str, body: str | list[str]) -> list[str]:
    if isinstance(body, list):
        return [head, *body]
    return [f"{head} = {body}" if body else head]


def _heads(parts: Parts, budget: int, indent: str) -> tuple[list[Item], list[str]]:
    """Return the things that get a line, and what is said of the others."""
    shown: list[Item] = []
    costs: list[int] = []
    for item in parts.items:
        costs.append(cost(indent + item.head))
        if sum(costs) > budget:
            costs.pop()
            break
        shown.append(item)
    while len(shown) < parts.total:
        last = f"{indent}{DOTS} {_more(parts.total - len(shown), parts.noun)}"
        if sum(costs) + cost(last) <= budget:
            return shown, [last]
        if not shown:
            break
        shown.pop()
        costs.pop()
    return shown, []


def _more(number: int, noun: str) -> str:
    return f"{number:,} more {noun}" if number > 1 else f"1 more {noun.removesuffix('s')}"


def _texts(items: list[Item], left: int, indent: str) -> list[str | list[str]]:
    """Share out what is left; return the text or the lines of each thing."""
    found: list[str | list[str]] = ["" for _ in items]
    most = max(left * _CHARACTERS // max(len(items), 1) * 4, 80)
    texts = [item.text(most) if left > 0 else "" for item in items]
    order = sorted(range(len(items)), key=lambda at: len(texts[at]))
    for done, at in enumerate(order):
        share = max(left // (len(order) - done), min(_SHORT, left))
        found[at], used = _fitted(items[at], texts[at], share, indent)
        left -= used
    return found


def _fitted(item: Item, text: str, share: int, indent: str) -> tuple[str | list[str], int]:
    """Return a thing within its share, and what that costs."""
    needed = estimate_tokens(text) + 1  # for the sign between the head and the text
    if not text or (needed > share and share <= _SHORT):
        return "", 0
    if needed <= share and not text.endswith(DOTS):
        return text, needed
    parts = item.parts() if share >= _FEWEST else None
    if parts is not None and parts.total:
        lines = lay_out(parts, share, indent=indent + _INDENT, is_nested=True)
        return lines, sum(map(cost, lines))
    short = cut(text, share - 1)
    return short, estimate_tokens(short) + 1


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


def mind(state: StateReader) -> list[Item]:
    """Return where runs are, what the agent works with, and the last that was said."""
    looks = _MindLooks()
    found = [*_runs(state), *_memory(state), *_threads(state)]
    return [Item(name, thing, looks) for name, thing in found]


def _runs(state: StateReader) -> Iterator[tuple[str, _Thing]]:
    cell = state.cell_at((LOOP, "runs"))
    for key, _ in () if cell is None else state.cells.entries(cell):
        name = str(state.cells.encoding.unkey(key))
        head: Any = state.cells.load(state.cell_at((LOOP, "runs", name, "head")) or b"\x80")
        words = f"{head.get('phase', '')}, step {head.get('iteration', 0)}"
        yield f"(run {printable(name)})", _Thing(words, head.get("question") or head.get("task"))


def _memory(state: StateReader) -> Iterator[tuple[str, _Thing]]:
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


def _threads(state: StateReader) -> Iterator[tuple[str, _Thing]]:
    if state.cell_at((CONVERSATION,)) is None:
        return
    for name, thread in conversation.Conversation(state).threads().items():
        start = max(thread.messages - _LAST, 0)
        said = conversation.Conversation(state, thread=name)[start:]
        lines = {f"[{at}] {each.role}": words_of(each) for at, each in enumerate(said, start)}
        words = number_of(thread.messages, "messages")
        yield f"(conversation {printable(name)})", _Thing(words, lines)


_EMPTY_MAP = b"\x80"
_MOST_COMMITS, _MOST_CHANGES, _MOST_EVENTS = 12, 2_000, 20
_LEAST = 16
"""A section of fewer tokens would say nothing."""

_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


class Section(NamedTuple):
    """A title, and what is below it."""

    title: str
    parts: Parts


class _Before(NamedTuple):
    """A value, and the one that it took the place of."""

    old: bytes
    new: bytes


class _ChangeLooks:
    """Looks of a value that took the place of another."""

    def __init__(self, looks: StoredLooks) -> None:
        self._looks = looks

    def what(self, thing: _Before) -> str:
        old, new = self._looks.what(thing.old), self._looks.what(thing.new)
        return new if old == new else f"{old} -> {new}"

    def pieces(self, thing: _Before) -> Iterator[str]:
        old, new = (list(islice(self._looks.pieces(each), 40)) for each in thing)
        if old != new and old and new:
            yield joined(iter(old), 60)
            yield " -> "
            yield from self._looks.pieces(thing.new)

    def parts(self, thing: _Before) -> None:
        return None


class _Told(NamedTuple):
    """An event: who and when, and the data to look at."""

    words: str
    data: Any


class _EventLooks:
    """Looks of events."""

    def __init__(self, looks: Looks[Any]) -> None:
        self._looks = looks

    def what(self, thing: _Told) -> str:
        return thing.words

    def pieces(self, thing: _Told) -> Iterator[str]:
        return self._looks.pieces(thing.data) if thing.data is not None else iter(())

    def parts(self, thing: _Told) -> None:
        return None


def sections_within(sections: Iterable[Section], budget: int) -> list[str]:
    """Return the lines of sections; what one leaves over is for those that follow."""
    every = list(sections)
    lines: list[str] = []
    for at, section in enumerate(every):
        share = max(2 * budget // (len(every) - at + 1), min(_LEAST, budget))
        if share < cost(section.title):
            break
        body = lay_out(section.parts, share - cost(section.title), indent="  ")
        lines += [section.title, *body]
        budget -= sum(map(cost, [section.title, *body]))
    return lines


def recent_sections(state: StateReader, looks: StoredLooks) -> Iterator[Section]:
    """Yield what is not committed, what the agent has in mind, events, then the latest commits."""
    head = state.head if isinstance(state, Branch) else getattr(state, "commit", None)
    now = _now(state, head)
    if isinstance(state, Branch):
        waiting = _changes(state.cells, head, state, looks)
        if waiting.total:
            yield Section("not committed:", waiting)
    own = mind(state)
    if own:
        yield Section("in mind:", Parts(own, len(own), "things"))
    happened = _events(state, looks, now)
    if happened.total:
        yield Section("events:", happened)
    for commit in islice(_line(state.cells, head), _MOST_COMMITS):
        before = next(_line(state.cells, commit, skip=1), None)
        snapshot = Snapshot(state.cells, commit)
        yield Section(_commit_title(commit, now), _changes(state.cells, before, snapshot, looks))


def _now(state: StateReader, head: Commit | None) -> int:
    """Return the time to count from: that of the repo's clock, or that of a state as it was."""
    repo = getattr(state, "repo", None)
    if repo is not None:
        return int(repo.clock())
    return head.time if head is not None else 0


def _commit_title(commit: Commit, now: int) -> str:
    kind = "" if commit.kind == "step" else f"{commit.kind}, "
    words = f"{commit.short} {kind}{_age(now - commit.time)} by {commit.author}: {commit.message}"
    return printable(words[:300])


def _line(cells: Cells, commit: Commit | None, *, skip: int = 0) -> Iterator[Commit]:
    """Yield a commit and its first parents."""
    while commit is not None:
        if skip <= 0:
            yield commit
        skip -= 1
        if not commit.parents:
            return
        hash = Hash(bytes.fromhex(commit.parents[0]))
        commit = decode_commit(hash, cells.objects.data(hash))


def _changes(cells: Cells, before: Commit | None, after: StateReader, looks: StoredLooks) -> Parts:
    root = before.cell if before is not None else _EMPTY_MAP
    found = differences(cells, root, after.cell_at(()) or _EMPTY_MAP)
    own = (change for change in found if not change.path.startswith("."))
    some = list(islice(own, _MOST_CHANGES))
    old = Snapshot(cells, before) if before is not None else None
    items = (_change_item(change, old, after, looks) for change in some)
    return Parts(items, len(some), "changes" if len(some) < _MOST_CHANGES else "changes, or more")


def _change_item(
    change: Change, old: StateReader | None, new: StateReader, looks: StoredLooks
) -> Item:
    before = old.cell_at(change.keys) if old is not None and change.kind != "added" else None
    after = new.cell_at(change.keys) if change.kind != "removed" else None
    name = f"{_SIGNS[change.kind]} {printable(change.path)}"
    if before is not None and after is not None:
        return Item(name, _Before(before, after), _ChangeLooks(looks))
    return Item(name, after if after is not None else before, looks)


def _events(state: StateReader, looks: StoredLooks, now: int) -> Parts:
    log = state.cell_at((EVENTS,))
    length = state.cells.length(log) if log is not None else 0
    items: list[Item] = []
    told = _EventLooks(looks)
    for index in range(length - 1, max(length - 1 - _MOST_EVENTS, -1), -1):
        parts = dict(state.cells.entries(state.cells.element(log or b"", index)))
        head = {
            key: state.cells.load(parts[key])
            for key in (b"kind", b"time", b"agent")
            if key in parts
        }
        words = _event_words(head.get(b"agent"), now - int(str(head[b"time"])))
        name = f"{index} {printable(str(head[b'kind']))}"
        items.append(Item(name, _Told(words, parts.get(b"data")), told))
    return Parts(items, length, "events")


def live_sections(state: Live, looks: ObjectLooks) -> Iterator[Section]:
    """Yield the latest events of a state without history, then what is in it."""
    told, now = _EventLooks(looks), state.now()
    latest = state.events.list(limit=_MOST_EVENTS)[::-1]
    items = [
        Item(
            f"{event.index} {printable(event.kind)}",
            _Told(_event_words(event.agent, now - event.time), _shown(event.data)),
            told,
        )
        for event in latest
    ]
    if items:
        yield Section("events:", Parts(items, len(state.events), "events"))
    values = (Item(name, state[name], looks) for name in state)
    yield Section("values, of which no past is known:", Parts(values, len(state)))


def _shown(data: Mapping[str, Any]) -> dict[str, Any] | None:
    return dict(data) or None


def _event_words(agent: object, microseconds: int) -> str:
    by = f" by {printable(str(agent))}" if agent else ""
    return _age(microseconds) + by


def _age(microseconds: int) -> str:
    seconds = microseconds // 1_000_000
    for size, unit in _UNITS:
        if seconds >= size:
            number = seconds // size
            return f"{number} {unit}{'s' if number > 1 else ''} ago"
    return "just now"


FOCUSES = ("recent", "full")


def view(
    state: State | StateReader | None,
    focus: Literal["recent", "full"] = "recent",
    *,
    max_tokens: int = 4096,
) -> str:
    """Return what is in a state, as text of at most about so many tokens.

    `focus="recent"` shows what changed lately and what happened; "full" shows everything there is,
    as far as it fits, and says how much does not.

    Raises:
        Invalid: the focus is not one of the two, or there is no room for anything.
    """
    if focus not in FOCUSES:
        raise Invalid(f"focus {focus!r} is not known", hint=f"use {' or '.join(FOCUSES)}")
    if max_tokens < 1:
        raise Invalid(f"max_tokens={max_tokens} is no room", hint="give at least 1")
    if state is None:
        return cut("no state: nothing is kept", max_tokens)
    lines = _lines(state, focus, max_tokens)
    while len(lines) > 1 and estimate_tokens("\n".join(lines)) > max_tokens:
        lines.pop()
    return cut("\n".join(lines), max_tokens)


def _lines(state: State | StateReader, focus: str, budget: int) -> list[str]:
    if isinstance(state, StateReader):
        with state.lock:
            return _kept(state, focus, budget)
    if isinstance(state, Live):
        with state.lock:
            return _live(state, focus, budget)
    raise Invalid(
        f"a {type(state).__name__} is no state", hint="use Versioned, Live, a snapshot or None"
    )


def _kept(state: StateReader, focus: str, budget: int) -> list[str]:
    root = state.cell_at(())
    looks = StoredLooks(state.cells)
    title = _title(state, bytes_text(state.cells.full_size(root or b"")))
    left = budget - cost(title)
    if focus == "full":
        named, own = looks.top(root or b"\x80", len(state)), mind(state)
        every = Parts([*own, *named.items], len(own) + named.total) if own else named
        return [title, *lay_out(every, left)]
    return [title, *sections_within(recent_sections(state, looks), left)]


def _title(state: StateReader, size: str) -> str:
    keys = f"{number_of(len(state), 'keys')}, {size}"
    if isinstance(state, Snapshot):
        return f"as it was at {state.commit.short}: {keys}"
    if not isinstance(state, Branch):
        return keys
    head = f"at {state.head.short}" if state.head is not None else "no commit yet"
    changes = "" if state.is_clean else ", with uncommitted changes"
    merging = ", in the middle of a merge" if state.merging is not None else ""
    return printable(f"{state.session}/{state.name} {head}: {keys}{changes}{merging}")


def _live(state: Live, focus: str, budget: int) -> list[str]:
    looks = ObjectLooks()
    title = f"{type(state).__name__}: {number_of(len(state), 'keys')}, in memory only"
    left = budget - cost(title)
    if focus == "full":
        items = (Item(name, state[name], looks) for name in state)
        return [title, *lay_out(Parts(items, len(state)), left)]
    return [title, *sections_within(live_sections(state, looks), left)]
