"""The ledger: every effect on the world, in the same history as everything else.

    .loop / ledger / <key>    one call of a tool with effects: its arguments, time, status, result

An entry is committed before the call begins and again when it has ended, apart from the changes
that the step has staged: a step that is cut off leaves no half of its edits behind, but its effects
are known. An entry that was begun and has not ended belongs to a process that died, or to one that
is in the middle of the call: each entry names its owner, and `owners.py` tells the two cases apart.

The ledger is a part of the branch. A fork in the middle of a step, or an undo, does not have what
was begun since; of a call that must not happen twice, the *attempts* of the session know it, which
no branch can take back (`core/attempts.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Literal, TypeAlias, get_args

from otolith.agent.history import states_since, subagent_branches
from otolith.agent.state import Observation
from otolith.core import LOOP, Branch, Path, StateReader, Target, digest
from otolith.errors import BadValue, Busy, Corrupt, NotFound
from otolith.frozen import freeze, thaw
from otolith.shapes import Shape, check_argument, fields
from otolith.state import LiveValues
from otolith.types import short_repr

LEDGER: Path = (LOOP, "ledger")
Status: TypeAlias = Literal["begun", "done", "failed", "unknown"]

_KEY_BYTES = 16
_REQUIRED: Shape = {"tool": str, "effects": str}
_OPTIONAL: Shape = {
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


@short_repr("key", "tool", "arguments", "status", "result", "error")
@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One call of a tool with effects."""

    key: str
    tool: str
    effects: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    status: Status = "begun"
    result: Any = None
    error: str = ""
    call_id: str = ""
    run: str = "main"
    iteration: int = 0
    time: int = 0
    duration_ms: float = 0.0
    by: str = ""
    """The owner that began it; see `owners.py`. No two can begin one entry."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", freeze(dict(self.arguments)))
        object.__setattr__(self, "result", freeze(self.result))

    @property
    def may_have_happened(self) -> bool:
        """Whether it may have had an effect: all but failed calls."""
        return self.status != "failed"

    def ended(self, status: Status, **changes: Any) -> LedgerEntry:
        """Return the entry with its end."""
        return replace(self, status=status, **changes)

    def observation(self, id: str) -> Observation:
        """Return the entry as a finished tool call."""
        return Observation(
            id, self.tool, self.arguments, self.result, self.error, self.duration_ms, self.time
        )

    def to_data(self) -> dict[str, Any]:
        """Return the entry as plain data, without its key."""
        return {name: thaw(getattr(self, name)) for name in (*_REQUIRED, *_OPTIONAL)}

    @classmethod
    def from_data(cls, key: str, data: Mapping[str, Any]) -> LedgerEntry:
        """Return the entry that `to_data` described.

        Raises:
            Corrupt: the data does not describe an entry.
        """
        what = f".loop/ledger/{key}"
        found = fields(data, what, _REQUIRED, _OPTIONAL)
        if found.get("status", "begun") not in get_args(Status):
            raise Corrupt(
                f"{what} has the unknown status {found['status']!r}", hint="run otolith fsck"
            )
        try:
            return cls(key, **found)
        except BadValue as error:
            why = f"{what} is not a valid entry: {error.message}"
            raise Corrupt(why, hint="run otolith fsck") from error


def call_key(*parts: Any, state: StateReader) -> str:
    """Return the key of a call: the same for the same call of the same step, unlike any other."""
    return digest(state.cells.encoding.encode(list(parts)))[:_KEY_BYTES].hex()


def ledger_in(state: StateReader) -> list[LedgerEntry]:
    """Return all entries in a state, the oldest first."""
    check_argument(state, "state", StateReader, "a state")
    with state.lock:
        return _by_time(_entries(state))


def entry_at(state: StateReader, key: str) -> LedgerEntry | None:
    """Return the entry of a key; None if there is none."""
    with state.lock:
        cell = state.cell_at((*LEDGER, key))
        return None if cell is None else _entry(state, key, cell)


def effects_after(state: Branch, target: Target | None = None) -> list[LedgerEntry]:
    """Return the effects after a commit that may have happened, and that no rollback undoes.

    These are effects of the branch, also of parts that were rolled back, and of sub-agents on their
    forks. Without a commit: all effects there ever were.
    """
    goal = None if target is None else state.resolve(target)
    past = None if goal is None else state.at(goal)
    older = set() if past is None else {branch for _, branch in subagent_branches(past)}
    past_entries = () if past is None else _entries(past)
    known = {each.key for each in past_entries if each.status != "begun"}
    seen: set[str] = set()
    found: dict[str, LedgerEntry] = {}
    views = deque((view, 0) for view in states_since(state, goal))
    while views:
        view, since = views.popleft()
        for entry in _entries(view):
            if entry.key not in known and entry.may_have_happened and entry.time >= since:
                found.setdefault(entry.key, entry)
        fresh = [branch for _, branch in subagent_branches(view) if branch not in seen]
        seen.update(fresh)
        for branch in fresh:
            # A fork that was there at the commit has effects from before it, too.
            since = goal.time if goal is not None and branch in older else 0
            with suppress(NotFound):  # the branch was deleted
                views.append((state.at(branch), since))
    return _by_time(found.values())


def later_entries(before: StateReader, views: Iterable[StateReader]) -> list[LedgerEntry]:
    """Return the entries of later states that had not ended in an earlier one."""
    past = {entry.key for entry in ledger_in(before) if entry.status != "begun"}
    found: dict[str, LedgerEntry] = {}
    for entry in (entry for view in views for entry in ledger_in(view)):
        if entry.key not in past:
            found.setdefault(entry.key, entry)
    return _by_time(found.values())


def _by_time(entries: Iterable[LedgerEntry]) -> list[LedgerEntry]:
    return sorted(entries, key=lambda entry: (entry.time, entry.key))


def _entries(state: StateReader) -> Iterator[LedgerEntry]:
    cells, ledger = state.cells, state.cell_at(LEDGER)
    for key, cell in cells.entries(ledger) if ledger is not None else ():
        yield _entry(state, str(cells.encoding.unkey(key)), cell)


def _entry(state: StateReader, key: str, cell: bytes) -> LedgerEntry:
    stored: Any = state.cells.load(cell)
    return LedgerEntry.from_data(key, stored)


# One orchestrator for each state object

_STATES_IN_USE: set[int] = set()
_STATES_LOCK = Lock()


@contextmanager
def exclusive(state: object) -> Iterator[None]:
    """Return a context in which no other orchestrator runs in the same state object.

    What is staged there must belong to one step. A state without history stages nothing.

    Raises:
        Busy: another one does.
    """
    if isinstance(state, LiveValues):
        yield
        return
    with _STATES_LOCK:
        if id(state) in _STATES_IN_USE:
            raise Busy(
                "another orchestrator runs in this state object",
                hint="open a state for each; in a step, use delegate()",
            )
        _STATES_IN_USE.add(id(state))
    try:
        yield
    finally:
        _STATES_IN_USE.discard(id(state))
