"""The ledger: what was done to the world, in the same history as everything else.

    .loop / ledger / <key>    one call of a tool with effects: what, when, how it ended

An entry is committed before the call begins and again when it has ended, apart from whatever a step
has staged: a step that is cut off leaves no half of its edits behind, but its effects are known.
Whoever finds an entry that was begun and has not ended knows that a process died in between.

Who is at it: names a run of this process, and tells whether that of another one still lives.

A call that was begun and has not ended belongs to a process that died, or to one that is in the
middle of it. On one machine the two can be told apart; of another machine nothing is known.

What a state stands on: its history without what rollbacks have left behind.

A rollback is a commit on top of what it takes back, so that a walk through history meets what is no
longer so. Whoever looks there for what was done already must not find that: here, a rollback is
followed by where it went, and not by where it came from.
"""

from __future__ import annotations

import heapq
import os
import socket
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path as Folder
from threading import Lock
from typing import Any, Literal, TypeAlias, get_args
from uuid import uuid4

from otolith.agent.state import Observation
from otolith.core import LOOP, Branch, Commit, Path, StateReader, Target, digest
from otolith.errors import BadValue, Busy, Corrupt, Invalid, NotFound
from otolith.frozen import EMPTY, freeze, thaw
from otolith.shapes import Shape, fields
from otolith.state.live import Live

LEDGER: Path = (LOOP, "ledger")
_KEY_BYTES = 16

Status: TypeAlias = Literal["begun", "done", "failed", "unknown"]


_ENTRY: Shape = {
    "arguments": dict,
    "status": str,
    "result": object,
    "error": str,
    "call_id": str,
    "run": str,
    "iteration": int,
    "time": int,
    "duration_ms": float,
    "by": str,
}


def _nothing() -> Mapping[str, Any]:
    return EMPTY


@dataclass(frozen=True, slots=True)
class Entry:
    """One call of a tool with effects."""

    key: str
    tool: str
    effects: str
    arguments: Mapping[str, Any] = field(default_factory=_nothing)
    status: Status = "begun"
    result: Any = None
    error: str = ""
    call_id: str = ""
    run: str = "main"
    iteration: int = 0
    time: int = 0
    duration_ms: float = 0.0
    by: str = ""
    """The run that began it; see `ledger.py`. No two of them can begin the same entry."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", freeze(dict(self.arguments)))
        object.__setattr__(self, "result", freeze(self.result))

    @property
    def may_have_happened(self) -> bool:
        """Whether the world may be another one because of it."""
        return self.status != "failed"

    def ended(self, status: Status, **changes: Any) -> Entry:
        """Return it with how it ended."""
        return replace(self, status=status, **changes)

    def observation(self, id: str) -> Observation:
        """Return it as a call that has ended."""
        return Observation(
            id, self.tool, self.arguments, self.result, self.error, self.duration_ms, self.time
        )

    def to_data(self) -> dict[str, Any]:
        """Return what is kept of it."""
        return {
            "tool": self.tool,
            "effects": self.effects,
            "arguments": thaw(self.arguments),
            "status": self.status,
            "result": thaw(self.result),
            "error": self.error,
            "call_id": self.call_id,
            "run": self.run,
            "iteration": self.iteration,
            "time": self.time,
            "duration_ms": self.duration_ms,
            "by": self.by,
        }

    @classmethod
    def from_data(cls, key: str, data: Mapping[str, Any]) -> Entry:
        """Return what `to_data` gave.

        Raises:
            Corrupt: it is no entry.
        """
        what = f".loop/ledger/{key}"
        given = fields(data, what, {"tool": str, "effects": str}, _ENTRY)
        if given.get("status", "begun") not in get_args(Status):
            raise Corrupt(f"{what} has no status that is known", hint="run otolith fsck")
        try:
            return cls(key, **given)
        except BadValue as error:
            raise Corrupt(
                f"{what} is no entry: {error.message}", hint="run otolith fsck"
            ) from error


def key_of(*parts: Any, state: StateReader) -> str:
    """Return a name for a call: that of the same call of the same step, and of no other."""
    return digest(state.cells.encoding.encode(list(parts)))[:_KEY_BYTES].hex()


def ledger_in(state: StateReader) -> list[Entry]:
    """Return what was done to the world by a state's past, the oldest first."""
    with state.lock:
        return sorted(_entries(state), key=lambda entry: (entry.time, entry.key))


def entry_at(state: StateReader, key: str) -> Entry | None:
    """Return the entry of a key, if there is one."""
    with state.lock:
        cell = state.cell_at((*LEDGER, key))
        return None if cell is None else _entry(state, key, cell)


def effects_after(state: Branch, target: Target | None = None) -> list[Entry]:
    """Return the effects after a commit that may have happened, and that no rollback takes back.

    It looks at what the branch did since, also at what was rolled back already in between, and at
    what sub-agents did on their forks. Without a commit: all that was ever done.
    """
    goal = None if target is None else state.resolve(target)
    then = None if goal is None else state.at(goal)
    past = () if then is None else _entries(then)
    known = {entry.key for entry in past if entry.status != "begun"}
    older = set() if then is None else {branch for _, branch in _forks(then)}
    seen: set[str] = set()
    found: dict[str, Entry] = {}
    views = deque((view, 0) for view in ends(state, goal))
    while views:
        view, since = views.popleft()
        for entry in _entries(view):
            if entry.key not in known and entry.may_have_happened and entry.time >= since:
                found.setdefault(entry.key, entry)
        fresh = [branch for _, branch in _forks(view) if branch not in seen]
        seen.update(fresh)
        for branch in fresh:  # what went on at the commit had done something before it, too
            since = goal.time if goal is not None and branch in older else 0
            views.extend((head, since) for head in _heads(state, [branch]))
    return sorted(found.values(), key=lambda entry: (entry.time, entry.key))


def _heads(state: Branch, branches: list[str]) -> Iterator[StateReader]:
    """Yield other branches of a session as they are now, where they still are."""
    for branch in branches:
        try:
            yield state.at(branch)
        except NotFound:  # it was deleted
            continue


def refuse_forks(state: Branch, commit: Commit, name: str) -> None:
    """Refuse to go back to a commit of a sub-agent: on its fork, nothing is known of this run.

    Raises:
        Invalid: it is one.
    """
    run = commit.meta.get("run", name)
    if run != name and run in {sub for sub, _ in _forks(state)}:
        raise Invalid(
            f"{commit.short} is a commit of the sub-agent {run}, on its fork",
            hint=f"choose a commit of {name}: `otolith log` has them, each with its step",
        )


def _forks(state: StateReader) -> Iterator[tuple[str, str]]:
    """Yield the sub-agents of all runs of a state, and their branches."""
    cells, runs = state.cells, state.cell_at((LOOP, "runs"))
    for key, _ in cells.entries(runs) if runs is not None else ():
        cell = state.cell_at((LOOP, "runs", str(cells.encoding.unkey(key)), "forks"))
        for each in cells.elements(cell) if cell is not None else ():
            kept: Any = cells.load(each)
            yield kept[1], kept[2]


def ends(state: Branch, goal: Commit | None) -> Iterator[StateReader]:
    """Yield where a branch came to since a commit: the head, and what each rollback left behind."""
    yield state
    if state.head is None:
        return
    commits = state.log()
    for commit in commits:
        if goal is not None and commit.time <= goal.time:  # all that follows a commit is later
            return
        if commit.kind == "rollback":
            yield from (state.at(parent) for parent in commit.parents[:1])


def _entries(state: StateReader) -> Iterator[Entry]:
    cell = state.cell_at(LEDGER)
    if cell is None:
        return
    cells = state.cells
    for key, value in cells.entries(cell):
        yield _entry(state, str(cells.encoding.unkey(key)), value)


def _entry(state: StateReader, key: str, cell: bytes) -> Entry:
    kept: Any = state.cells.load(cell)
    return Entry.from_data(key, kept)


_PROC = Folder("/proc")
_RUNNING: set[str] = set()
"""The runs of this process."""

_TAKEN: set[int] = set()
_GUARD = Lock()


@contextmanager
def register_owner() -> Iterator[str]:
    """Give a run its name, and let it be known as alive until it ends, however it does."""
    name = f"{_process(os.getpid())}/{uuid4().hex[:8]}"
    _RUNNING.add(name)
    try:
        yield name
    finally:
        _RUNNING.discard(name)


@contextmanager
def exclusive(state: object) -> Iterator[None]:
    """Let nobody else run in a state meanwhile: what a step stages there must be its own.

    Nothing is staged in a state without history, so that others may.

    Raises:
        Busy: somebody does.
    """
    if isinstance(state, Live):
        yield
        return
    with _GUARD:
        if id(state) in _TAKEN:
            raise Busy(
                "another orchestrator runs in this very state",
                hint="open a state for each; in a step, use delegate()",
            )
        _TAKEN.add(id(state))
    try:
        yield
    finally:
        _TAKEN.discard(id(state))


def is_alive(name: str) -> bool:
    """Tell whether a run is known to be alive; False if nothing is known of it."""
    process, _, token = name.rpartition("/")
    if not process or not token:
        return False
    if process == _process(os.getpid()):
        return name in _RUNNING
    host, pid, _ = process.split("/", 2)
    return host == socket.gethostname() and pid.isdigit() and _process(int(pid)) == process


def _process(pid: int) -> str:
    """Name a process so that no later one of the same number has its name; "" if there is none."""
    began = _began(pid)
    return "" if began is None else f"{socket.gethostname()}/{pid}/{began}"


def _began(pid: int) -> str | None:
    """Return when a process began, in whatever the system counts; None if it is gone."""
    if (_PROC / "self" / "stat").exists():
        try:
            fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            return None
        return None if fields[0] in (b"Z", b"X") else fields[19].decode()
    if pid == os.getpid():
        return "-"
    if os.name == "nt":  # there, signal 0 is a real one
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return "-"
    return "-"


def effective_history(state: Branch) -> Iterator[Commit]:
    """Yield the commits that a state stands on, the latest first."""
    heap = [] if state.head is None else [(-state.head.time, state.head.id, state.head)]
    seen: set[str] = set()
    while heap:
        _, id, commit = heapq.heappop(heap)
        if id in seen:
            continue
        seen.add(id)
        yield commit
        for below in map(state.resolve, _below(commit)):
            heapq.heappush(heap, (-below.time, below.id, below))


def is_in_effect(state: Branch, goal: Commit) -> bool:
    """Tell whether a commit is one of those that a state stands on."""
    for commit in effective_history(state):
        if commit.id == goal.id:
            return True
        if commit.time < goal.time:
            return False
    return False


def _below(commit: Commit) -> tuple[str, ...]:
    return (str(commit.meta["to"]),) if commit.kind == "rollback" else commit.parents
