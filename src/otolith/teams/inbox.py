"""The inbox: conflicts between members as values, which a policy, an agent or a person decides.

`team.merge` brings the work of a branch into the team's state. Where both changed the same path and
no policy decides, the team's value stays, and the conflict becomes an entry of the inbox, in the
same commit: who changed what, when, and from which value. Nothing waits for the decision, and
nothing is lost. A decision is a commit as well: it sets the value, and moves the entry to the list
of settled ones.

A decision names the value that its author has seen. If the path was changed since, it is refused:
it would undo what another member did without knowing of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from numbers import Real
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from otolith.core import Branch, Commit, Path, PathConflict
from otolith.errors import Conflict, Invalid, KeyNotFound
from otolith.shapes import NOTHING, Shape, check_argument, fields
from otolith.teams.records import INBOX, SETTLED, TeamRecords
from otolith.types import short_repr

SIDES = ("base", "ours", "theirs")
_SHAPE: Shape = {
    "path": str,
    "keys": list,
    "kind": str,
    "why": str,
    "time": int,
    "note": str,
    "base_commit": (str, NOTHING),
    "our_commit": str,
    "their_commit": str,
    "our_author": str,
    "their_author": str,
}
_SETTLED_SHAPE: Shape = {
    "path": str,
    "by": str,
    "how": str,
    "time": int,
    "our_author": str,
    "their_author": str,
}

Resolver: TypeAlias = Callable[["InboxConflict"], object]
"""Called with a conflict, returns the value that holds, or `LEAVE` to leave it to others."""

LEAVE = NotImplemented


@short_repr("path", "our_author", "their_author", "kind")
@dataclass(frozen=True, slots=True)
class InboxConflict:
    """A path that two members changed, and that nobody has decided. Values are read on access."""

    id: str
    time: int  # of the merge, in microseconds since 1970
    our_author: str
    their_author: str
    our_commit: str
    their_commit: str
    base_commit: str | None
    note: str  # why a resolver did not decide
    conflict: PathConflict
    is_changed: bool  # whether the team's value was changed since the merge, and is not `ours`
    seen: bytes  # a digest of the value that the path had when this was read
    _state: Branch

    @property
    def path(self) -> str:
        """The path as text."""
        return self.conflict.path

    @property
    def keys(self) -> Path:
        """The keys of the path."""
        return self.conflict.keys

    @property
    def kind(self) -> str:
        """`edit/edit`, `edit/delete`, `delete/delete` or `add/add`."""
        return self.conflict.kind

    @property
    def why(self) -> str:
        """Why its policy could not decide, if it has one."""
        return self.conflict.why

    @property
    def base(self) -> Any:
        """The value that both started from; None if there was none."""
        return self.conflict.base

    @property
    def ours(self) -> Any:
        """The team's value at the time of the merge; None if it was removed."""
        return self.conflict.ours

    @property
    def theirs(self) -> Any:
        """The value of the branch that was merged; None if it was removed."""
        return self.conflict.theirs

    @property
    def absent(self) -> tuple[str, ...]:
        """The sides that have no value, as opposed to None."""
        return self.conflict.absent

    def history(self, side: str, *, limit: int = 20) -> list[Commit]:
        """Return the commits of a side that changed the path since both parted, newest first."""
        if side not in ("ours", "theirs"):
            raise Invalid(f"{side!r} is not a side", hint="ask for 'ours' or 'theirs'")
        tip = self.our_commit if side == "ours" else self.their_commit
        found: list[Commit] = []
        base = None if self.base_commit is None else self._state.resolve(self.base_commit)
        for commit in self._state.log(tip, path=self.keys, limit=limit):
            if base is not None and commit.generation <= base.generation:
                break
            found.append(commit)
        return found


def misfit(conflict: InboxConflict, answer: object) -> str:
    """Return why an answer is of another kind than the values in conflict; "" if it is not."""
    sides = [side for side in SIDES if side not in conflict.absent]
    values = [getattr(conflict, side) for side in sides]
    if any(_is_alike(answer, value) for value in values):
        return ""
    kinds = sorted({type(value).__name__ for value in values})
    got = "NaN" if isinstance(answer, Real) and answer != answer else type(answer).__name__
    return f"it is a {got}, and the values in conflict are of {' and '.join(kinds)}"


def _is_alike(answer: object, value: object) -> bool:
    """Tell whether an answer is of the kind of a value: all numbers but NaN are of one."""
    if isinstance(answer, Real) and answer != answer:
        return isinstance(value, Real) and value != value
    ours, other = type(answer), type(value)
    if bool in (ours, other):
        return ours is other
    return issubclass(ours, other) or (issubclass(ours, Real) and issubclass(other, Real))


class ConflictCount(NamedTuple):
    """How often two members changed the same path, and who decided."""

    path: str
    members: tuple[str, str]
    open: int
    settled: int
    by: dict[str, int]


class InboxEntry(Protocol):
    """What an inbox knows of a conflict."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def path(self) -> str:
        """The path that two members changed."""

    @property
    def our_author(self) -> str:
        """The member that changed it in the team's state."""

    @property
    def their_author(self) -> str:
        """The member that changed it in the branch that was merged."""


C = TypeVar("C", bound=InboxEntry)
D = TypeVar("D", bound=InboxEntry)


class Inbox(Sequence[C], Generic[C]):
    """The open conflicts of a team, the oldest first, as they were when it was read."""

    def __init__(self, entries: Sequence[C], settled: Sequence[Mapping[str, Any]]) -> None:
        self._entries = list(entries)
        self._settled = settled

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, at: Any) -> Any:
        """Return a conflict by its place, its path, its id or the beginning of it."""
        check_argument(at, "a conflict", (int, slice, str), "a number, a path or an id")
        if not isinstance(at, str):
            return self._entries[at]
        named = [each for each in self._entries if at and each.id.startswith(at)]
        found = [each for each in self._entries if at == each.path] or named
        if len(found) != 1:
            what = f"{len(found)} conflicts fit" if found else "there is no conflict"
            raise KeyNotFound(f"{what} {at!r}", hint="list(team.inbox) shows them")
        return found[0]

    def __iter__(self) -> Iterator[C]:
        return iter(self._entries)

    def map(self, function: Callable[[C], D]) -> Inbox[D]:
        """Return the same inbox, with something else for each conflict."""
        return Inbox([function(each) for each in self], self._settled)

    def __repr__(self) -> str:
        return f"<Inbox {len(self)} open, {len(self._settled)} settled>"

    def statistics(self) -> list[ConflictCount]:
        """Return who conflicts where, the most frequent first."""
        open_ones = Counter(_place(each.path, each.our_author, each.their_author) for each in self)
        settled: dict[tuple[str, tuple[str, str]], Counter[str]] = {}
        for each in self._settled:
            place = _place(each["path"], each["our_author"], each["their_author"])
            settled.setdefault(place, Counter())[each["by"]] += 1
        counts = [
            ConflictCount(*place, open_ones[place], by.total(), dict(by))
            for place in open_ones.keys() | settled.keys()
            for by in [settled.get(place, Counter())]
        ]
        return sorted(counts, key=lambda each: (-each.open - each.settled, each.path, each.members))


def _place(path: str, one: str, other: str) -> tuple[str, tuple[str, str]]:
    first, second = sorted((one, other))
    return path, (first, second)


def read_inbox(records: TeamRecords, state: Branch) -> Inbox[InboxConflict]:
    """Return the open conflicts of a team, and what was settled; `state` knows their history."""
    found = [_entry(state, records, id) for id, _ in _names(records)]
    settled = [
        fields(data, "a settled conflict", _SETTLED_SHAPE) for data in records.elements(SETTLED)
    ]
    return Inbox(sorted(found, key=lambda each: (each.time, each.id)), settled)


def _names(records: TeamRecords) -> Iterator[tuple[str, bytes]]:
    cell = records.cell(INBOX)
    for key, stored in () if cell is None else records.cells.entries(cell):
        yield str(records.cells.encoding.unkey(key)), stored


def _entry(state: Branch, records: TeamRecords, id: str) -> InboxConflict:
    found = fields(records.value(INBOX, id, "about"), f"conflict {id}", _SHAPE)
    sides = {side: records.cell(INBOX, id, side) for side in SIDES}
    cells = {side: cell for side, cell in sides.items() if cell is not None}
    path, kind, why = (found.pop(name) for name in ("path", "kind", "why"))
    keys, absent = tuple(found.pop("keys")), tuple(side for side in SIDES if side not in cells)
    conflict = PathConflict(path, kind, why, absent, cells, records.cells.frozen(), keys)
    is_changed = not records.cells.same(records.outside(keys), cells.get("ours"))
    seen = _digest(records, keys)
    return InboxConflict(
        id, **found, conflict=conflict, is_changed=is_changed, seen=seen, _state=state
    )


def _digest(records: TeamRecords, path: Path) -> bytes:
    """Return a digest of what is at a path of the state."""
    cell = records.outside(path)
    stored = b"absent" if cell is None else b"=" + records.cells.settle(cell)
    return blake2b(stored, digest_size=16).digest()


def put_conflicts(
    state: Branch,
    records: TeamRecords,
    conflicts: Sequence[PathConflict],
    *,
    theirs: Commit,
    base: Commit | None,
    now: int,
) -> list[str]:
    """Stage the conflicts of a merge as entries of the inbox; return their ids."""
    ours = state.head
    assert ours is not None
    ids = []
    for conflict in conflicts:
        name = f"{conflict.path} {ours.id} {theirs.id}".encode(errors="surrogatepass")
        id = blake2b(name, digest_size=6).hexdigest()
        authors = [_last_author(state, commit, conflict.keys) for commit in (ours, theirs)]
        about = {
            "path": conflict.path,
            "keys": list(conflict.keys),
            "kind": conflict.kind,
            "why": conflict.why,
            "time": now,
            "base_commit": None if base is None else base.id,
            "note": "",
            "our_commit": ours.id,
            "their_commit": theirs.id,
            "our_author": authors[0],
            "their_author": authors[1],
        }
        records.put(about, INBOX, id, "about")
        for side, cell in conflict.cells.items():
            records.put_cell(cell, INBOX, id, side)
        ids.append(id)
    return ids


def _last_author(state: Branch, commit: Commit, path: Path) -> str:
    """Return who has changed a path last, as of a commit."""
    found = next(state.log(commit, path=path, limit=1), commit)
    return found.author


def settle_conflict(
    state: Branch,
    records: TeamRecords,
    conflict: InboxConflict,
    *,
    take: str | None,
    value: object,
    by: str,
    now: int,
) -> None:
    """Stage a decision, and move the entry to the settled ones.

    Raises:
        KeyNotFound: somebody has decided already.
        Conflict: the path was changed since the conflict was read.
        Invalid: neither a side nor a value is given, or both are.
    """
    if (take is None) == (value is ...):
        raise Invalid(
            "decide by a side or by a value", hint="give take='ours' or 'theirs', or value=…"
        )
    if take is not None and take not in SIDES:
        raise Invalid(f"{take!r} is not a side", hint="take 'ours', 'theirs' or 'base'")
    if records.cell(INBOX, conflict.id) is None:
        raise KeyNotFound(
            f"the conflict at {conflict.path} was decided already", hint="see team.inbox"
        )
    path = conflict.keys
    if _digest(records, path) != conflict.seen:
        raise Conflict(
            f"{conflict.path} was changed since you looked at the conflict",
            hint="look at team.inbox again, and decide on what is there now",
        )
    if take is None:
        state[path] = value
    elif take not in conflict.absent:
        _write(state, path, records.cells.loosen(conflict.conflict.cells[take]))
    elif state.cell_at(path) is not None:
        _write(state, path, None)
    records.remove(INBOX, conflict.id)
    settled = {
        "path": conflict.path,
        "by": by,
        "how": take or "value",
        "time": now,
        "our_author": conflict.our_author,
        "their_author": conflict.their_author,
    }
    records.append(settled, SETTLED)


def _write(state: Branch, path: Path, cell: bytes | None) -> None:
    """Stage a cell; a conflict can also be at what belongs to otolith, such as a merge policy."""
    if str(path[0]).startswith("."):
        state.write_reserved(path, cell)
    elif cell is not None:
        state.write_cell(path, cell)
    else:
        del state[path]


def note_failure(records: TeamRecords, conflict: InboxConflict, note: str) -> None:
    """Stage why a resolver did not decide."""
    about = records.value(INBOX, conflict.id, "about")
    if isinstance(about, dict):
        told = note[:500].encode(errors="replace").decode()  # without lone surrogates
        records.put({**about, "note": told}, INBOX, conflict.id, "about")
