"""What changed lately: what is not committed, the last commits, and the latest events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from otolith.agent.live import Live
from otolith.agent.viewing.layout import cost, lay_out
from otolith.agent.viewing.looks import Item, Looks, Parts, joined, printable
from otolith.agent.viewing.mind import mind
from otolith.agent.viewing.objects import ObjectLooks
from otolith.agent.viewing.stored import StoredLooks
from otolith.core import (
    EVENTS,
    Branch,
    Cells,
    Change,
    Commit,
    Reading,
    Snapshot,
    decode_commit,
    differences,
)
from otolith.types import Hash

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


def recent_sections(state: Reading, looks: StoredLooks) -> Iterator[Section]:
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


def _now(state: Reading, head: Commit | None) -> int:
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


def _changes(cells: Cells, before: Commit | None, after: Reading, looks: StoredLooks) -> Parts:
    root = before.cell if before is not None else _EMPTY_MAP
    found = differences(cells, root, after.cell_at(()) or _EMPTY_MAP)
    own = (change for change in found if not change.path.startswith("."))
    some = list(islice(own, _MOST_CHANGES))
    old = Snapshot(cells, before) if before is not None else None
    items = (_change_item(change, old, after, looks) for change in some)
    return Parts(items, len(some), "changes" if len(some) < _MOST_CHANGES else "changes, or more")


def _change_item(change: Change, old: Reading | None, new: Reading, looks: StoredLooks) -> Item:
    before = old.cell_at(change.keys) if old is not None and change.kind != "added" else None
    after = new.cell_at(change.keys) if change.kind != "removed" else None
    name = f"{_SIGNS[change.kind]} {printable(change.path)}"
    if before is not None and after is not None:
        return Item(name, _Before(before, after), _ChangeLooks(looks))
    return Item(name, after if after is not None else before, looks)


def _events(state: Reading, looks: StoredLooks, now: int) -> Parts:
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
