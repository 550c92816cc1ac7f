"""Three-way merge: two states and what they have in common, joined path by path.

Rule 1: where only one side differs from the base, that side wins; no policy is asked.
Rule 2: where both do, maps are merged key by key, lists by their edits, sets by element.
Rule 3: anything else follows the policy of its path; without one it is a conflict.
Rule 4: a conflict is a value. The merge goes on, keeps our side there, and reports it.
Rule 5: events never conflict: what either side recorded is kept, what either took back is gone.

Theory of operation. Cells are canonical, so "differs" is a comparison of bytes, and only the
paths on which the sides differ from the base are visited.

Two histories can have several lowest common ancestors (after A merged B while B merged A). Any one
of them as base counts some edits twice. So the bases are merged into a *virtual base* first,
recursively, as git does. A conflict inside a virtual base leaves a *dispute* there: a value that
equals neither side, so that both sides differ from it whatever they decided, the older base
included. Where they decided alike, that is the answer; where they did not, only a policy of the
path may choose, and the question is asked once, at the top.

Merging must not depend on who merges whom, or histories never meet again. So wherever both sides'
content is kept in some order (lists), the side whose head is earlier comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from otolith.core.history.commits import Commit, Graph
from otolith.core.merge.diff import Endless, map_differences
from otolith.core.merge.policies import CALL, Policies, Resolver
from otolith.core.merge.values import (
    Undecided,
    add_up,
    append,
    call,
    extreme,
    log,
    set_of,
    text,
)
from otolith.core.paths import EVENTS, POLICY, SNAPSHOTS, Path, format_path
from otolith.core.trees.cells import EMPTY_MAP, Cells
from otolith.core.trees.layout import digest
from otolith.errors import UnknownType


@dataclass(frozen=True, slots=True, order=True)
class Conflict:
    """A path on which both sides changed and no rule decides.

    A side without a value there has None, and is named in `absent`. Values are read when they are
    asked for; one of a class that is not known here is a `Tagged`, as it is stored.
    """

    path: str
    kind: str  # edit/edit, edit/delete or add/add
    why: str
    absent: tuple[str, ...]
    cells: Mapping[str, bytes] = field(compare=False, repr=False)
    _read: Cells = field(compare=False, repr=False)

    @property
    def base(self) -> Any:
        """What both sides began with."""
        return self._value("base")

    @property
    def ours(self) -> Any:
        """What it is on this branch."""
        return self._value("ours")

    @property
    def theirs(self) -> Any:
        """What it is on the other branch."""
        return self._value("theirs")

    def _value(self, side: str) -> Any:
        cell = self.cells.get(side)
        if cell is None:
            return None
        try:
            return self._read.load(cell)
        except UnknownType:
            return self._read.as_stored().load(cell)


SIDES = ("base", "ours", "theirs")

LaterWriter = Callable[[Path], bool]
"""Tells whether the last writer of a path was on their side."""

_Known: TypeAlias = dict[tuple[frozenset[str], frozenset[str]], bytes]
"""Virtual bases by what they are the base of. Their objects are never stored, so they are good for
one merge only."""

_Disputes: TypeAlias = dict[bytes, bytes | None]
"""The cells that stand for disputes in virtual bases, and what both sides began with there."""


class Merger:
    """Merges states of one repo."""

    def __init__(
        self, cells: Cells, graph: Graph, *, resolvers: Mapping[str, Resolver] | None = None
    ) -> None:
        self._cells = cells
        self._graph = graph
        self._resolvers = {} if resolvers is None else resolvers
        self._disputes: _Disputes = {}  # of the virtual base that was made last

    def merge(
        self,
        base: bytes,
        ours: bytes,
        theirs: bytes,
        *,
        ours_first: bool = True,
        theirs_later: LaterWriter = lambda path: True,
    ) -> tuple[bytes, list[Conflict]]:
        """Return the merged state and what is left to decide."""
        walk = _Walk(
            self._cells, self._resolvers, theirs_later, self._disputes, ours_first=ours_first
        )
        return walk.run(base, ours, theirs), walk.conflicts

    def virtual_base(self, left: list[Commit], right: list[Commit]) -> bytes:
        """Return what two sets of commits have in common, as a base for `merge`."""
        self._disputes = {}
        return self._common(left, right, {})

    def _common(self, left: list[Commit], right: list[Commit], known: _Known) -> bytes:
        key = frozenset(commit.id for commit in left), frozenset(commit.id for commit in right)
        if key not in known:
            known[key] = self._fold(self._graph.bases(left, right), known)
        return known[key]

    def _fold(self, bases: list[Commit], known: _Known) -> bytes:
        if not bases:
            return EMPTY_MAP
        merged, tips = bases[0].cell, bases[:1]
        for commit in bases[1:]:
            base = self._common(tips, [commit], known)
            walk = _Walk(
                self._cells, self._resolvers, lambda path: True, self._disputes, is_virtual=True
            )
            merged = walk.run(base, merged, commit.cell)
            tips = [*tips, commit]
        return merged


class _Walk:
    """One walk down three states."""

    def __init__(
        self,
        cells: Cells,
        resolvers: Mapping[str, Resolver],
        theirs_later: LaterWriter,
        disputes: _Disputes,
        *,
        ours_first: bool = True,
        is_virtual: bool = False,
    ) -> None:
        self._cells = cells
        self._resolvers = resolvers
        self._theirs_later = theirs_later
        self._disputes = disputes
        self._ours_first = ours_first
        self._is_virtual = is_virtual
        self._policies = Policies({})
        self._walk = Endless(cells, EMPTY_MAP)
        self.conflicts: list[Conflict] = []

    def run(self, base: bytes, ours: bytes, theirs: bytes) -> bytes:
        """Merge whole states: first the policies, then all the rest by them."""
        self._walk = Endless(self._cells, base, ours, theirs)
        name = self._cells.encoding.key(POLICY)
        before, mine, yours = (self._cells.entry(cell, name) for cell in (base, ours, theirs))
        self._policies = Policies(self._rules(self._cell((POLICY,), before, mine, yours)))
        self.conflicts = []  # those of the policies come up again on the way down
        return self._map((), base, ours, theirs)

    def _rules(self, cell: bytes | None) -> dict[str, str]:
        rules = self._cells.load(cell) if cell is not None else {}
        pairs = rules.items() if isinstance(rules, dict) else ()
        texts = (pair for pair in pairs if type(pair[1]) is str)  # a dispute is not a rule
        return {str(pattern): policy for pattern, policy in texts}

    def _cell(
        self, path: Path, base: bytes | None, ours: bytes | None, theirs: bytes | None
    ) -> bytes | None:
        self._walk.step()
        is_disputed = base in self._disputes
        if self._cells.same(ours if is_disputed else base, theirs):
            return ours
        if not is_disputed and self._cells.same(base, ours):
            return theirs
        if path[0] in (EVENTS, SNAPSHOTS):
            return self._own(path, base, ours, theirs)
        if ours in self._disputes or theirs in self._disputes:
            return self._conflict(path, "", base, ours, theirs)
        return self._both_changed(path, base, ours, theirs)

    def _both_changed(
        self, path: Path, base: bytes | None, ours: bytes | None, theirs: bytes | None
    ) -> bytes | None:
        natural = self._natural(ours, theirs)
        rule = self._policies.find(path, is_map=natural == "map")
        default = "error" if base in self._disputes else natural
        policy = default if rule is None else rule
        is_twice = policy == "map" or rule in _ADDING
        if (ours is None or not is_twice) and self._cells.same(ours, theirs):
            return ours
        if policy == "last-writer":
            policy = "theirs" if self._theirs_later(path) else "ours"
        if policy in ("ours", "theirs"):
            return ours if policy == "ours" else theirs
        if ours is None or theirs is None:
            return self._conflict(path, "", base, ours, theirs)
        try:
            return self._decide(policy, path, base, ours, theirs)
        except Undecided as undecided:
            return self._conflict(path, str(undecided), base, ours, theirs)

    def _own(
        self, path: Path, base: bytes | None, ours: bytes | None, theirs: bytes | None
    ) -> bytes | None:
        """Merge what otolith itself keeps: events, and snapshots of what was made of them."""
        if path == (EVENTS,):
            return log(self._cells, base, ours, theirs, ours_first=self._ours_first)
        if ours is not None and theirs is not None and self._natural(ours, theirs) == "map":
            return self._map(path, base, ours, theirs)
        return ours if self._ours_first else theirs  # a snapshot can be made again

    def _natural(self, ours: bytes | None, theirs: bytes | None) -> str:
        """Return what two values of one kind do without a rule."""
        if ours is None or theirs is None:
            return "error"
        kind = self._cells.kind(ours)
        if kind != self._cells.kind(theirs):
            return "error"
        if kind == "tagged":
            return "set" if self._sets(ours, theirs) else self._of_type(ours, theirs)
        return {"map": "map", "list": "append"}.get(kind, "error")

    def _of_type(self, ours: bytes, theirs: bytes) -> str:
        """Return what two values of one type do, if somebody has registered that."""
        tags = {tag.code for cell in (ours, theirs) if (tag := self._cells.tag(cell)) is not None}
        name = f"tag {next(iter(tags), None)}"
        return CALL + name if len(tags) == 1 and name in self._resolvers else "error"

    def _sets(self, *cells: bytes | None) -> list[tuple[int, bytes]]:
        """Return the elements of cells that are sets of one type, else nothing."""
        sets = [found for cell in cells if (found := set_of(self._cells, cell)) is not None]
        return sets if len(sets) == len(cells) and len({code for code, _ in sets}) == 1 else []

    def _decide(
        self, policy: str, path: Path, base: bytes | None, ours: bytes, theirs: bytes
    ) -> bytes:
        if policy == "map":
            return self._map(path, base, ours, theirs)
        base = self._without_disputes(base)
        if policy == "set":
            return self._set(path, base, ours, theirs)
        if policy == "append":
            first, twins = self._ours_first, self._policies.find(path) == "append"
            return append(self._cells, base, ours, theirs, ours_first=first, keep_twins=twins)
        if policy == "counter":
            return add_up(self._cells, base, ours, theirs)
        if policy in ("max", "min"):
            return extreme(self._cells, ours, theirs, pick=max if policy == "max" else min)
        if policy == "text":
            return text(self._cells, base, ours, theirs, ours_first=self._ours_first)
        if policy.startswith(CALL):
            resolver = self._resolvers.get(policy[len(CALL) :])
            return call(self._cells, resolver, base, ours, theirs)
        raise Undecided("" if policy == "error" else f"no policy is called {policy!r}")

    def _map(self, path: Path, base: bytes | None, ours: bytes, theirs: bytes) -> bytes:
        if self._cells.kind(ours) != "map" or self._cells.kind(theirs) != "map":
            raise Undecided("policy map needs maps")
        start = base if base is not None and self._cells.kind(base) == "map" else EMPTY_MAP
        mine = {key: new for key, _, new in map_differences(self._cells, start, ours)}
        edits: dict[bytes, bytes | None] = {}
        for key, before, after in map_differences(self._cells, start, theirs):
            merged = after
            if key in mine:
                merged = self._cell(self._below(path, key), before, mine[key], after)
            edits[key] = None if merged is None else self._cells.loosen(merged)
        for key, other in self._doubled(ours, edits):
            sides = self._cells.entry(ours, other), edits[key]
            first, second = sorted((key, other))
            before = self._cells.entry(start, key) or self._cells.entry(start, other)
            merged = self._cell(self._below(path, first), before, *sides)
            edits[first] = None if merged is None else self._cells.loosen(merged)
            edits[second] = None
        return self._cells.edit_map(ours, edits) if edits else ours

    def _below(self, path: Path, key: bytes) -> Path:
        return (*path, self._cells.encoding.unkey(key))

    def _doubled(
        self, ours: bytes, edits: Mapping[bytes, bytes | None]
    ) -> list[tuple[bytes, bytes]]:
        """Return keys to be added that Python takes for another key of ours, and that key."""
        return [
            (key, other)
            for key, cell in edits.items()
            if cell is not None
            for other in self._cells.encoding.equal_keys(key)
            if other not in edits and self._cells.entry(ours, other) is not None
        ]

    def _set(self, path: Path, base: bytes | None, ours: bytes, theirs: bytes) -> bytes:
        """Merge two sets: an element is in or out, so no policy is asked."""
        both = self._sets(ours, theirs)
        if not both:
            raise Undecided("policy set needs two sets of one type")
        (code, mine), (_, yours) = both
        before = set_of(self._cells, base)
        start = EMPTY_MAP if before is None else before[1]
        edits: dict[bytes, bytes | None] = {
            key: None if after is None else self._cells.loosen(after)
            for key, _, after in map_differences(self._cells, start, yours)
        }
        for key, other in self._doubled(mine, edits):
            edits[max(key, other)] = None
        return self._cells.tagged_cell(code, self._cells.edit_map(mine, edits) if edits else mine)

    def _conflict(
        self, path: Path, why: str, base: bytes | None, ours: bytes | None, theirs: bytes | None
    ) -> bytes | None:
        base = self._without_disputes(base)
        if self._is_virtual:
            return self._dispute(base, ours, theirs)
        kind = "edit/edit" if base is not None else "add/add"
        if ours is None or theirs is None:
            kind = "edit/delete"
        sides = zip(SIDES, (base, ours, theirs), strict=True)
        cells = {side: cell for side, cell in sides if cell is not None}
        absent = tuple(side for side in SIDES if side not in cells)
        text = format_path(path)
        self.conflicts.append(Conflict(text, kind, why, absent, cells, self._cells.frozen()))
        return ours

    def _dispute(self, base: bytes | None, ours: bytes | None, theirs: bytes | None) -> bytes:
        """Return a cell that equals neither side, the same whichever side is called ours."""
        sides = sorted((ours or b"", theirs or b""))
        cell = self._cells.put(digest(b"\0".join((b"dispute", base or b"", *sides))))
        self._disputes[cell] = base
        return cell

    def _without_disputes(self, base: bytes | None) -> bytes | None:
        """Return a base as a person would know it: where there is a dispute, what came before."""
        if base is None or not self._disputes:
            return base
        if base in self._disputes:
            return self._disputes[base]
        if self._cells.kind(base) != "map":
            return base
        plain = {
            key: self._without_disputes(cell) for key, cell in self._cells.all_entries(base).items()
        }
        edits = {
            key: None if cell is None else self._cells.loosen(cell)
            for key, cell in plain.items()
            if not self._cells.same(cell, self._cells.entry(base, key))
        }
        return self._cells.edit_map(base, edits) if edits else base


_ADDING = ("counter", "append")
"""Where two equal edits are two edits: both sides counted, both sides appended."""
