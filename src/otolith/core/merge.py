"""Three-way merge: two states and what they have in common, joined path by path.

Rule 1: where only one side differs from the base, that side wins; no policy is asked.
Rule 2: where both do, maps are merged key by key, lists by their edits, sets by element.
Rule 3: anything else follows the policy of its path; without one it is a conflict.
Rule 4: a conflict is a value. The merge goes on, keeps our side there, and reports it.

Theory of operation. Cells are canonical, so "differs" is a comparison of bytes, and only the
paths on which the sides differ from the base are visited.

Two histories can have several lowest common ancestors (after A merged B while B merged A). Any one
of them as base counts some edits twice. So the bases are merged into a *virtual base* first,
recursively, as git does. A conflict inside a virtual base is settled in favour of its own base:
both sides then differ from it and the question is asked once, at the top.

Merging must not depend on who merges whom, or histories never meet again. So wherever both sides'
content is kept in some order (lists), the side whose head is earlier comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from otolith.core.cells import EMPTY_MAP, Cells
from otolith.core.diff import map_differences
from otolith.core.graph import Commit, Graph
from otolith.core.hunks import combine_lists, combine_lines
from otolith.core.paths import POLICY, Path, format_path
from otolith.core.policy import CALL, Policies, Resolver
from otolith.types import Tag, Tagged


class Conflict(NamedTuple):
    """A path on which both sides changed and no rule decides. Absent values are None."""

    path: str
    kind: str  # edit/edit, edit/delete, add/add or policy
    base: object
    ours: object
    theirs: object
    why: str = ""


LaterWriter = Callable[[Path], bool]
"""Tells whether the last writer of a path was on their side."""


class Merger:
    """Merges states of one repo."""

    def __init__(
        self, cells: Cells, graph: Graph, *, resolvers: Mapping[str, Resolver] | None = None
    ) -> None:
        self._cells = cells
        self._graph = graph
        self._resolvers = resolvers or {}
        self._virtual: dict[tuple[frozenset[str], frozenset[str]], bytes] = {}

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
        join = _Join(self._cells, self._resolvers, ours_first, theirs_later)
        return join.run(base, ours, theirs), join.conflicts

    def virtual_base(self, left: list[Commit], right: list[Commit]) -> bytes:
        """Return what two sets of commits have in common, as a state."""
        key = frozenset(commit.id for commit in left), frozenset(commit.id for commit in right)
        if key not in self._virtual:
            self._virtual[key] = self._fold(self._graph.bases(left, right))
        return self._virtual[key]

    def _fold(self, bases: list[Commit]) -> bytes:
        if not bases:
            return EMPTY_MAP
        merged, tips = bases[0].cell, bases[:1]
        for commit in bases[1:]:
            base = self.virtual_base(tips, [commit])
            join = _Join(self._cells, self._resolvers, True, lambda path: True, is_virtual=True)
            merged = join.run(base, merged, commit.cell)
            tips = [*tips, commit]
        return merged


class _Join:
    """One run of a merge."""

    def __init__(
        self,
        cells: Cells,
        resolvers: Mapping[str, Resolver],
        ours_first: bool,
        theirs_later: LaterWriter,
        *,
        is_virtual: bool = False,
    ) -> None:
        self._cells = cells
        self._resolvers = resolvers
        self._ours_first = ours_first
        self._theirs_later = theirs_later
        self._is_virtual = is_virtual
        self._policies = Policies({})
        self.conflicts: list[Conflict] = []

    def run(self, base: bytes, ours: bytes, theirs: bytes) -> bytes:
        """Merge whole states: first the policies, then all the rest by them."""
        name = self._cells.encoding.key(POLICY)
        rules = self._cell((POLICY,), *(self._cells.entry(cell, name) for cell in (base, ours, theirs)))
        self._policies = Policies(self._rules(rules))
        self.conflicts = []  # those of the policies come up again on the way down
        return self._map((), base, ours, theirs)

    def _rules(self, cell: bytes | None) -> dict[str, str]:
        rules = self._cells.load(cell) if cell is not None else {}
        pairs = rules.items() if isinstance(rules, dict) else ()
        return {str(pattern): str(policy) for pattern, policy in pairs}

    def _cell(
        self, path: Path, base: bytes | None, ours: bytes | None, theirs: bytes | None
    ) -> bytes | None:
        if self._cells.same(base, theirs):
            return ours
        if self._cells.same(base, ours):
            return theirs
        rule = self._policies.find(path)
        policy = self._natural(ours, theirs) if rule is None else rule
        if policy != "map" and rule not in _ADDING and self._cells.same(ours, theirs):
            return ours
        if policy in _SIDES:
            return self._take(policy, path, ours, theirs)
        if ours is None or theirs is None:
            return self._conflict(path, base, ours, theirs)
        if policy.startswith(CALL):
            return self._call(policy[len(CALL) :], path, base, ours, theirs)
        if policy not in _JOINS:
            return self._conflict(path, base, ours, theirs, f"no policy is called {policy!r}")
        return _JOINS[policy](self, path, base, ours, theirs)

    def _natural(self, ours: bytes | None, theirs: bytes | None) -> str:
        """Return what two values of one kind do without a rule."""
        if ours is None or theirs is None:
            return "error"
        kind = self._cells.kind(ours)
        if kind != self._cells.kind(theirs):
            return "error"
        if kind == "tagged":
            return "set" if self._both_sets(ours, theirs) else "error"
        return {"map": "map", "list": "append"}.get(kind, "error")

    def _both_sets(self, *cells: bytes) -> bool:
        tags = [self._cells.tag(cell) for cell in cells]
        return all(tag is not None and tag.code in (Tag.SET, Tag.FROZENSET) for tag in tags) and (
            len({tag.code for tag in tags if tag is not None}) == 1
        )

    def _take(
        self, policy: str, path: Path, ours: bytes | None, theirs: bytes | None
    ) -> bytes | None:
        if policy == "last-writer":
            return theirs if self._theirs_later(path) else ours
        return ours if policy == "ours" else theirs

    def _error(self, path: Path, base: bytes | None, ours: bytes, theirs: bytes) -> bytes | None:
        return self._conflict(path, base, ours, theirs)

    def _map(self, path: Path, base: bytes | None, ours: bytes, theirs: bytes) -> bytes:
        if self._cells.kind(ours) != "map" or self._cells.kind(theirs) != "map":
            merged = self._conflict(path, base, ours, theirs, "policy map needs maps")
            return ours if merged is None else merged
        start = base if base is not None and self._cells.kind(base) == "map" else EMPTY_MAP
        mine = {key: new for key, _, new in map_differences(self._cells, start, ours)}
        edits: dict[bytes, bytes | None] = {}
        for key, before, after in map_differences(self._cells, start, theirs):
            if key not in mine:
                edits[key] = None if after is None else self._cells.loosen(after)
                continue
            where = (*path, self._cells.encoding.unkey(key))
            merged = self._cell(where, before, mine[key], after)
            edits[key] = None if merged is None else self._cells.loosen(merged)
        return self._cells.edit_map(ours, edits) if edits else ours

    def _append(self, path: Path, base: bytes | None, ours: bytes, theirs: bytes) -> bytes | None:
        kinds = {self._cells.kind(cell) for cell in (ours, theirs)}
        if kinds != {"list"}:
            return self._conflict(path, base, ours, theirs, "policy append needs lists")
        start = base if base is not None and self._cells.kind(base) == "list" else None
        merged = combine_lists(
            self._cells,
            start,
            ours,
            theirs,
            ours_first=self._ours_first,
            keep_twins=self._policies.find(path) == "append",
        )
        if merged is None:
            return self._conflict(path, base, ours, theirs, "both sides edited the same elements")
        return merged

    def _set(self, path: Path, base: bytes | None, ours: bytes, theirs: bytes) -> bytes | None:
        if not self._both_sets(ours, theirs):
            return self._conflict(path, base, ours, theirs, "policy set needs two sets of one type")
        start = self._cells.tag(base) if base is not None and self._both_sets(ours, base) else None
        a, b = self._cells.tag(ours), self._cells.tag(theirs)
        if a is None or b is None:
            return ours
        elements = self._map(path, _data(start) if start else None, _data(a), _data(b))
        return self._cells.tagged_cell(a.code, elements)

    def _counter(self, path: Path, base: bytes | None, ours: bytes, theirs: bytes) -> bytes | None:
        numbers = self._numbers(base, ours, theirs)
        if numbers is None:
            return self._conflict(path, base, ours, theirs, "policy counter needs numbers of one type")
        start, a, b = numbers
        return self._cells.put(a + b - (0 if start is None else start))

    def _max(self, path: Path, base: bytes | None, ours: bytes, theirs: bytes) -> bytes | None:
        return self._extreme(path, base, ours, theirs, pick=max)

    def _min(self, path: Path, base: bytes | None, ours: bytes, theirs: bytes) -> bytes | None:
        return self._extreme(path, base, ours, theirs, pick=min)

    def _extreme(
        self,
        path: Path,
        base: bytes | None,
        ours: bytes,
        theirs: bytes,
        *,
        pick: Callable[[Any, Any], Any],
    ) -> bytes | None:
        a, b = self._cells.load(ours), self._cells.load(theirs)
        try:
            if a == b:  # 1 and 1.0: any choice will do if both sides make the same
                return min(ours, theirs)
            return ours if pick(a, b) is a else theirs
        except TypeError:
            return self._conflict(path, base, ours, theirs, "the two values cannot be compared")

    def _text(self, path: Path, base: bytes | None, ours: bytes, theirs: bytes) -> bytes | None:
        texts = [self._cells.load(cell) if cell is not None else "" for cell in (base, ours, theirs)]
        if not all(type(text) is str for text in texts):
            return self._conflict(path, base, ours, theirs, "policy text needs str")
        merged = combine_lines(*map(str, texts), ours_first=self._ours_first)
        if merged is None:
            return self._conflict(path, base, ours, theirs, "both sides edited the same lines")
        return self._cells.put(merged)

    def _call(
        self, name: str, path: Path, base: bytes | None, ours: bytes, theirs: bytes
    ) -> bytes | None:
        resolver = self._resolvers.get(name)
        if resolver is None:
            return self._conflict(path, base, ours, theirs, f"no resolver {name!r} is registered")
        values = [None if cell is None else self._cells.load(cell) for cell in (base, ours, theirs)]
        return self._cells.put(resolver(*values))

    def _numbers(self, *cells: bytes | None) -> list[Any] | None:
        """Return three numbers that can be added, or None if they cannot."""
        values = [None if cell is None else self._cells.load(cell) for cell in cells]
        if values[1] is None or values[2] is None:
            return None
        kinds = {type(value) for value in values if value is not None}
        if kinds <= {int, float} or kinds == {Decimal} or kinds == {int, Decimal}:
            return values
        return None

    def _conflict(
        self,
        path: Path,
        base: bytes | None,
        ours: bytes | None,
        theirs: bytes | None,
        why: str = "",
    ) -> bytes | None:
        if self._is_virtual:
            return base
        kind = "edit/edit"
        if ours is None or theirs is None:
            kind = "edit/delete"
        elif base is None:
            kind = "add/add"
        values = [None if cell is None else self._cells.load(cell) for cell in (base, ours, theirs)]
        self.conflicts.append(Conflict(format_path(path), kind, *values, why))
        return ours


_SIDES = ("ours", "theirs", "last-writer")

_ADDING = ("counter", "append")
"""Where two equal edits are two edits: both sides counted, both sides appended."""

_JOINS: dict[str, Callable[[_Join, Path, bytes | None, bytes, bytes], bytes | None]] = {
    "error": _Join._error,
    "max": _Join._max,
    "min": _Join._min,
    "counter": _Join._counter,
    "set": _Join._set,
    "append": _Join._append,
    "map": _Join._map,
    "text": _Join._text,
}


def _data(tag: Tagged) -> bytes:
    if not isinstance(tag.data, bytes):
        raise TypeError("a tag of a cell holds a cell")
    return tag.data
