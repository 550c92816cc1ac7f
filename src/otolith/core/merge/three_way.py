"""Three-way merge: two states and what they have in common, joined path by path.

Rule 1: where only one side differs from the base, that side wins; no policy is consulted.
Rule 2: where both do, maps are merged key by key, models of one class field by field, lists and
documents by their edits, sets by element.
Rule 3: anything else follows the policy of its path; without one it is a conflict. Two equal edits,
or two removals, count as one, except where a policy says otherwise: `counter` and `append` count
both edits, and for `error` they are a conflict, because each side may have acted on what it read.
Rule 4: a conflict is a value. The merge continues with our side there, and reports it.
Rule 5: events never conflict: what either side recorded stays, what either took back is gone.
Rule 6: the order of a dict never conflicts. A merged dict has the order of the side that reordered
it, else of the earlier side, and then the new keys of the other in their order; where both sides
are in key order, so is it.
Rule 7: a model that was put together from both sides must be one that its class accepts, where that
class is known. Otherwise the model as a whole is a conflict, whatever became of its fields. So is
the plan of a run in which tasks would wait for each other.

Theory of operation. Cells are canonical, so "differs" is a comparison of bytes, and only the
paths on which the sides differ from the base are visited. The policies are themselves part of the
state (`.policy`): they are merged first, and decide about everything else.

Two histories can have several lowest common ancestors (after A merged B while B merged A). Any one
of them as base counts some edits twice. So the bases are merged into a *virtual base* first,
recursively, as git does. A conflict inside a virtual base leaves a *dispute* there: a value that
equals neither side, so that both sides differ from it whatever they decided, the older base
included. Where they decided alike, that is the answer; where they did not, only a policy of the
path may choose, and the conflict is reported once, at the top.

Merging must not depend on who merges whom, or histories never meet again. So wherever the content
of both sides stays in some order (lists, dicts), the side whose head is earlier comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from otolith.core.history.commits import Commit, Graph
from otolith.core.merge.diff import (
    WalkLimit,
    has_same_content,
    in_order_of,
    is_reordered,
    too_deep,
)
from otolith.core.merge.edit_sets import DocumentMerge
from otolith.core.merge.policies import CALL, RESERVED, Policies, Resolver, whole_check
from otolith.core.merge.values import NoDecision, ValueMerger
from otolith.core.paths import EVENTS, POLICY, SNAPSHOTS, Path, format_path, parse_path
from otolith.core.trees.cells import EMPTY_MAP, Cells
from otolith.core.trees.layout import digest
from otolith.core.trees.model_tables import ModelTables, model_in
from otolith.errors import BadPath, Closed, Corrupt, Error, Unavailable
from otolith.types import Tag, short_repr


@short_repr("path", "kind", "why", "absent")
@dataclass(frozen=True, slots=True, order=True)
class PathConflict:
    """A path that both sides changed and no rule decides.

    A side without a value there has None, and is named in `absent`. Values are read on demand; what
    cannot be read here, such as one of an unknown class, is an `Opaque`.
    """

    path: str
    kind: str  # edit/edit, edit/delete, delete/delete or add/add
    why: str
    absent: tuple[str, ...]
    cells: Mapping[str, bytes] = field(compare=False, repr=False)
    _read: Cells = field(compare=False, repr=False)
    keys: Path = field(compare=False, repr=False)
    """The keys of the path. Those of a dict may be of any type, and not all can be told by text."""

    @property
    def base(self) -> Any:
        """The value that both sides started from."""
        return self._value("base")

    @property
    def ours(self) -> Any:
        """The value on this branch."""
        return self._value("ours")

    @property
    def theirs(self) -> Any:
        """The value on the other branch."""
        return self._value("theirs")

    def _value(self, side: str) -> Any:
        """Return the value of one side."""
        cell = self.cells.get(side)
        return None if cell is None else self._read.load_readable(cell)


SIDES = ("base", "ours", "theirs")
NOTES = ("kind", "why", "keys")
"""What is stored of a conflict, beside its sides."""


def conflict_at(path: Path, why: str, sides: Sequence[bytes | None], cells: Cells) -> PathConflict:
    """Return the conflict at a path; `sides` are the cells of base, ours and theirs."""
    base, ours, theirs = sides
    kind = "edit/edit" if base is not None else "add/add"
    if ours is None or theirs is None:
        kind = "edit/delete" if ours is not theirs else "delete/delete"
    present = {side: cell for side, cell in zip(SIDES, sides, strict=True) if cell is not None}
    absent = tuple(side for side in SIDES if side not in present)
    return PathConflict(format_path(path), kind, why, absent, present, cells.frozen(), path)


def notes_of(conflict: PathConflict) -> dict[str, object]:
    """Return what is stored of a conflict; its keys only if its path does not tell them."""
    found: dict[str, object] = {"kind": conflict.kind, "why": conflict.why}
    return (
        found if _told(conflict.path) == conflict.keys else {**found, "keys": list(conflict.keys)}
    )


def _told(path: str) -> Path:
    """Return the keys that a path tells, if it can be read."""
    try:
        return parse_path(path)
    except BadPath:
        return (path,)


def conflict_noted(
    path: str, notes: Sequence[object], sides: Mapping[str, bytes], cells: Cells
) -> PathConflict:
    """Return the conflict that is stored with these notes; what earlier versions lack is None."""
    kind, why = (str(note or "") for note in notes[:2])
    absent = tuple(side for side in SIDES if side not in sides)
    keys = tuple(notes[2]) if isinstance(notes[2], list) and notes[2] else _told(path)
    return PathConflict(path, kind, why, absent, sides, cells, keys)


@short_repr("kind", "commit", "conflicts")
@dataclass(frozen=True, slots=True)
class Merge:
    """The result of a merge: a commit, or conflicts to decide."""

    kind: str  # merged, fast-forward, up-to-date or conflicted
    commit: Commit | None
    conflicts: tuple[PathConflict, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there is nothing to decide."""
        return not self.conflicts


LaterWriter = Callable[[Path], bool]
"""Tells whether the last writer of a path was on their side."""

_VirtualBases: TypeAlias = dict[tuple[frozenset[str], frozenset[str]], bytes]
"""Virtual bases by the ids of both sides; their objects are not stored, so they serve one merge."""

_Cells: TypeAlias = Mapping[bytes, bytes | None]
"""Cells by key bytes; None where a key was removed."""

_Disputes: TypeAlias = dict[bytes, bytes | None]
"""The cells that stand for disputes in virtual bases, and what both sides started from there."""

_ADDING = ("counter", "append", "log")
"""Policies for which two equal edits are two edits: both sides counted, both sides appended."""


_TWINS = "both sides made the same edit"


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
    ) -> tuple[bytes, list[PathConflict]]:
        """Return the merged state and what is left to decide.

        `ours_first` is whether our head is the earlier one; `theirs_later` answers for the policy
        last-writer.
        """
        walk = _Walk(
            self._cells, self._resolvers, theirs_later, self._disputes, ours_first=ours_first
        )
        return walk.run(base, ours, theirs), walk.conflicts

    def merge_commits(
        self, ours: Commit, root: bytes, theirs: Commit, *, writer: Callable[[Commit, Path], Commit]
    ) -> tuple[bytes, bytes, list[PathConflict]]:
        """Merge a commit into a state that was staged on ours; return the base as well.

        `writer` returns the commit that wrote a path last.
        """

        def is_later(path: Path) -> bool:
            """Return whether their side wrote the path later than ours."""
            mine, yours = writer(ours, path), writer(theirs, path)
            return (mine.time, mine.id) < (yours.time, yours.id)

        apart = self._merge_names(ours, root, theirs)
        if apart is not None:
            return *apart, []
        base = self.virtual_base([ours], [theirs])
        ours_first = (ours.time, ours.id) < (theirs.time, theirs.id)
        merged, conflicts = self.merge(
            base, root, theirs.cell, ours_first=ours_first, theirs_later=is_later
        )
        return base, merged, conflicts

    def _merge_names(self, ours: Commit, root: bytes, theirs: Commit) -> tuple[bytes, bytes] | None:
        """Return the base and the merge of two states that changed different names at the top.

        That is rule 1, and so what a walk finds. None if both changed one of them, or if the base
        is not the only parent of theirs.
        """
        base = self._graph.parents(theirs)[0] if len(theirs.parents) == 1 else None
        if base is None or not self._graph.is_ancestor(base, ours):
            return None
        mine = {key for key, _, _ in self._cells.map_differences(base.cell, root)}
        yours = {key: new for key, _, new in self._cells.map_differences(base.cell, theirs.cell)}
        is_text = all(type(self._cells.encoding.unkey(key)) is str for key in (*mine, *yours))
        if not mine.isdisjoint(yours) or not is_text:  # keys of other types can be equal in Python
            return None
        edits = {key: None if c is None else self._cells.loosen(c) for key, c in yours.items()}
        return base.cell, self._cells.edit_state(root, edits)

    def virtual_base(self, left: list[Commit], right: list[Commit]) -> bytes:
        """Return what two sets of commits have in common, as a base for `merge`."""
        self._disputes = {}
        return self._common(left, right, {})

    def _common(self, left: list[Commit], right: list[Commit], known: _VirtualBases) -> bytes:
        """Return the virtual base of two sets of commits, computed once for each pair."""
        key = frozenset(commit.id for commit in left), frozenset(commit.id for commit in right)
        if key not in known:
            known[key] = self._fold(self._graph.bases(left, right), known)
        return known[key]

    def _fold(self, bases: list[Commit], known: _VirtualBases) -> bytes:
        """Merge several bases into one, one after the other."""
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
        self._limit = WalkLimit(cells, EMPTY_MAP)
        self._values = ValueMerger(cells, resolvers, ours_first=ours_first)
        self.conflicts: list[PathConflict] = []

    def run(self, base: bytes, ours: bytes, theirs: bytes) -> bytes:
        """Merge whole states.

        Raises:
            Corrupt: a value is nested deeper than any that can be stored.
        """
        try:
            return self._merged(base, ours, theirs)
        except RecursionError:
            raise too_deep("merged") from None

    def _merged(self, base: bytes, ours: bytes, theirs: bytes) -> bytes:
        """Merge whole states: first the policies, then all the rest by them."""
        self._limit = WalkLimit(self._cells, base, ours, theirs)
        name = self._cells.encoding.key(POLICY)
        before, mine, yours = (self._cells.entry(cell, name) for cell in (base, ours, theirs))
        merged = self._cell((POLICY,), before, mine, yours)
        rules = self._cells.load(merged) if merged is not None else {}
        pairs = rules.items() if isinstance(rules, dict) else ()
        self._policies = Policies(
            {str(pattern): name for pattern, name in pairs if type(name) is str}  # not a dispute
        )
        self.conflicts = []  # those of the policies are found again on the way down
        return self._map((), base, ours, theirs)

    def _cell(
        self, path: Path, base: bytes | None, ours: bytes | None, theirs: bytes | None
    ) -> bytes | None:
        """Merge what is at one path (rules 1 and 5); None is absence, on either side."""
        self._limit.step()
        is_disputed = base in self._disputes
        if self._cells.same(ours if is_disputed else base, theirs):
            return ours
        if not is_disputed and self._cells.same(base, ours):
            return theirs
        if path[0] in (EVENTS, SNAPSHOTS):
            return self._events(path, base, ours, theirs)
        if ours in self._disputes or theirs in self._disputes:
            return self._conflict(path, "", base, ours, theirs)
        return self._both_changed(path, base, ours, theirs)

    def _both_changed(
        self, path: Path, base: bytes | None, ours: bytes | None, theirs: bytes | None
    ) -> bytes | None:
        """Merge a path that both sides changed (rules 2 and 3)."""
        by_kind = self._policy_by_kind(path, ours, theirs)
        rule = self._policies.find(path, is_map=by_kind == "map")
        default = "error" if base in self._disputes else by_kind
        policy = default if rule is None else rule
        counts_twice = policy == "map" or rule in _ADDING
        is_strict = rule == "error" and path[0] not in RESERVED  # equal pickles are one pickle
        if is_strict and self._cells.same(ours, theirs):
            return self._conflict(path, _TWINS, base, ours, theirs)
        if (ours is None or not counts_twice) and self._cells.same(ours, theirs):
            return ours
        if policy == "last-writer":
            policy = "theirs" if self._theirs_later(path) else "ours"
        if policy in ("ours", "theirs"):
            return ours if policy == "ours" else theirs
        if ours is None or theirs is None:
            return self._conflict(path, "", base, ours, theirs)
        try:
            if policy == "map":
                return self._by_name(path, base, ours, theirs)
            base = self._without_disputes(base)
            if policy == "set":
                return self._set(path, base, ours, theirs)
            if policy == "document":
                return self._document(path, base, ours, theirs)
            twins = rule == "append"
            return self._values.merge(policy, base, ours, theirs, keep_twins=twins)
        except NoDecision as reason:
            return self._conflict(path, str(reason), base, ours, theirs)

    def _events(
        self, path: Path, base: bytes | None, ours: bytes | None, theirs: bytes | None
    ) -> bytes | None:
        """Merge events, and the snapshots of states that were computed from them."""
        if path == (EVENTS,):
            return self._values.log(base, ours, theirs)
        by_kind = self._policy_by_kind(path, ours, theirs)
        if ours is not None and theirs is not None and by_kind == "map":
            return self._map(path, base, ours, theirs)
        return ours if self._ours_first else theirs  # a snapshot can be computed again

    def _policy_by_kind(self, path: Path, ours: bytes | None, theirs: bytes | None) -> str:
        """Return the policy for two values of one kind or type if no rule names another."""
        kind = "" if ours is None else self._cells.kind(ours)
        if ours is None or theirs is None or kind != self._cells.kind(theirs):
            return "error"
        if kind == "tagged":
            if self._like_models(path, ours, theirs) is not None:
                return "map"
            tags = {tag.code for tag in map(self._cells.tag, (ours, theirs)) if tag is not None}
            if len(tags) == 1 and tags <= {Tag.SET, Tag.FROZENSET}:
                return "set"
            if tags == {Tag.DOCUMENT}:
                return "document"
            name = f"tag {next(iter(tags), None)}"
            return CALL + name if len(tags) == 1 and name in self._resolvers else "error"
        return {"map": "map", "list": "append"}.get(kind, "error")

    def _like_models(
        self, path: Path, ours: bytes, theirs: bytes
    ) -> tuple[ModelTables, ModelTables] | None:
        """Return two models of one class, which merge by field; None for any other values.

        What otolith stores itself has rules of its own: there a model is one value.
        """
        is_ours = isinstance(path[0], str) and path[0].startswith(".")
        mine = None if is_ours else model_in(self._cells, ours)
        yours = None if mine is None else model_in(self._cells, theirs)
        if mine is None or yours is None or not mine.is_like(yours, self._cells):
            return None
        return mine, yours

    def _by_name(self, path: Path, base: bytes | None, ours: bytes, theirs: bytes) -> bytes:
        """Merge two maps key by key, or two models field by field."""
        models = self._like_models(path, ours, theirs)
        reported = len(self.conflicts)
        if models is None:
            merged = self._map(path, base, ours, theirs)
            why = self._fault(path, merged)
        else:
            merged = self._model(path, base, *models)
            why = self._refusal(merged, ours, theirs)
        if why:
            del self.conflicts[reported:]  # those of its fields
            raise NoDecision(why)
        return merged

    def _model(
        self, path: Path, base: bytes | None, mine: ModelTables, yours: ModelTables
    ) -> bytes:
        """Merge two models table by table; their names are apart."""
        old = None if base is None else model_in(self._cells, base)
        old = old if old is not None and old.is_like(mine, self._cells) else None
        start = [None] * len(mine.tables) if old is None else old.tables
        tables = [
            None if ours is None or theirs is None else self._map(path, before, ours, theirs)
            for before, ours, theirs in zip(start, mine.tables, yours.tables, strict=True)
        ]
        if mine.given is None or yours.given is None:
            return mine.replaced(tables, None, self._cells)
        before = frozenset() if old is None or old.given is None else old.given
        given = mine.given | yours.given
        for name in (mine.given ^ yours.given) & before:
            side = yours if name in mine.given else mine  # where it was reset
            found = (table and self._cells.entry(table, name) for table in tables)
            if self._cells.same(next(filter(None, found), None), side.entry(name, self._cells)):
                given -= {name}
        return mine.replaced(tables, given, self._cells)

    def _fault(self, path: Path, merged: bytes) -> str:
        """Return why a merged map makes no sense as a whole (rule 7)."""
        check = self._resolvers.get(whole_check(path) or "")
        if check is None or self._is_virtual or self._disputes:
            return ""
        value = self._cells.load(merged)
        return str(check(None, value, value))

    def _refusal(self, merged: bytes, ours: bytes, theirs: bytes) -> str:
        """Return why the class of a merged model refuses it (rule 7)."""
        if self._cells.same(merged, ours) or self._cells.same(merged, theirs):
            return ""
        if self._disputes and not self._cells.same(merged, self._without_disputes(merged)):
            return ""  # it has no value yet
        return refusal(self._cells, merged, ours, theirs)

    def _map(self, path: Path, base: bytes | None, ours: bytes, theirs: bytes) -> bytes:
        """Merge two maps key by key; keys that are equal in Python are one key."""
        if self._cells.kind(ours) != "map" or self._cells.kind(theirs) != "map":
            raise NoDecision("policy map needs maps")
        start = base if base is not None and self._cells.kind(base) == "map" else EMPTY_MAP
        mine = {key: new for key, _, new in self._cells.map_differences(start, ours)}
        edits: dict[bytes, bytes | None] = {}
        for key, before, after in self._cells.map_differences(start, theirs):
            merged = after
            if key in mine:
                merged = self._cell(self._below(path, key), before, mine[key], after)
            edits[key] = None if merged is None else self._cells.loosen(merged)
        for key, other in self._equal_keys(ours, edits):
            sides = self._cells.entry(ours, other), edits[key]
            first, second = sorted((key, other))
            before = self._cells.entry(start, key) or self._cells.entry(start, other)
            merged = self._cell(self._below(path, first), before, *sides)
            edits[first] = None if merged is None else self._cells.loosen(merged)
            edits[second] = None
        return self._joined(start, (ours, mine), (theirs, edits))

    def _joined(
        self, start: bytes, ours: tuple[bytes, _Cells], theirs: tuple[bytes, _Cells]
    ) -> bytes:
        """Return a merged map in its order (rule 6).

        With each side come the cells that it changed; theirs are merged already.
        """
        edits = {key: None if c is None else self._cells.loosen(c) for key, c in ours[1].items()}
        edits |= theirs[1]
        if self._cells.is_sorted(ours[0]) and self._cells.is_sorted(theirs[0]):
            return self._cells.edit_map(ours[0], edits, is_table=True) if theirs[1] else ours[0]
        moved = [is_reordered(self._cells, start, side) for side, _ in (ours, theirs)]
        is_first = moved[0] if moved[0] != moved[1] else self._ours_first
        first, second = (ours[0], theirs[0]) if is_first else (theirs[0], ours[0])
        entry = self._cells.entries_of(first)
        new = {key for key, cell in edits.items() if cell is not None and entry(key) is None}
        edits |= {key: edits.pop(key) for key in in_order_of(self._cells, new, start, second)}
        return self._cells.edit_map(first, edits)

    def _below(self, path: Path, key: bytes) -> Path:
        return (*path, self._cells.encoding.unkey(key))

    def _equal_keys(
        self, ours: bytes, edits: Mapping[bytes, bytes | None]
    ) -> list[tuple[bytes, bytes]]:
        """Return keys to be added that equal another key of ours in Python, and that key."""
        return [
            (key, other)
            for key, cell in edits.items()
            if cell is not None
            for other in self._cells.encoding.equal_keys(key)
            if other not in edits and self._cells.entry(ours, other) is not None
        ]

    def _set(self, path: Path, base: bytes | None, ours: bytes, theirs: bytes) -> bytes:
        """Merge two sets: an element is in or out, so no policy is consulted."""
        mine, yours = self.set_of(ours), self.set_of(theirs)
        if mine is None or yours is None or mine[0] != yours[0]:
            raise NoDecision("policy set needs two sets of one type")
        before = self.set_of(base)
        edits: dict[bytes, bytes | None] = {
            key: None if after is None else self._cells.loosen(after)
            for key, _, after in self._cells.map_differences(
                EMPTY_MAP if before is None else before[1], yours[1]
            )
        }
        code, elements = mine
        for key, other in self._equal_keys(elements, edits):
            edits[max(key, other)] = None
        merged = self._cells.edit_map(elements, edits, is_table=True)
        return self._cells.tagged_cell(code, merged)

    def _document(self, path: Path, base: bytes | None, ours: bytes, theirs: bytes) -> bytes:
        """Merge two documents: edits are put together, so no policy is consulted."""
        before, mine, yours = map(self._document_of, (base, ours, theirs))
        if mine is None or yours is None:
            raise NoDecision("policy document needs two documents")
        try:
            merged = DocumentMerge(self._cells, before, mine, yours).merged()
        except Corrupt as error:
            message = f"{format_path(path)}: {error.message}"
            raise Corrupt(message, hint=error.hint) from None
        return self._cells.tagged_cell(Tag.DOCUMENT, merged)

    def _document_of(self, cell: bytes | None) -> bytes | None:
        """Return the map of the runs of a document; None for other values."""
        tag = self._cells.tag(cell) if cell is not None else None
        if tag is None or tag.code != Tag.DOCUMENT or not isinstance(tag.data, bytes):
            return None
        return tag.data if self._cells.kind(tag.data) == "map" else None

    def set_of(self, cell: bytes | None) -> tuple[int, bytes] | None:
        """Return the code of a set or frozenset, and the map of its elements; else None."""
        tag = self._cells.tag(cell) if cell is not None else None
        if tag is None or not isinstance(tag.data, bytes):
            return None
        return (tag.code, tag.data) if tag.code in (Tag.SET, Tag.FROZENSET) else None

    def _conflict(
        self, path: Path, why: str, base: bytes | None, ours: bytes | None, theirs: bytes | None
    ) -> bytes | None:
        """Report a conflict and return our side (rule 4); in a virtual base, return a dispute."""
        is_disputed = base in self._disputes
        base = self._without_disputes(base)
        if self._only_reordered(ours, theirs):
            return ours if self._ours_first else theirs
        if not is_disputed and self._only_reordered(base, ours):
            return theirs
        if not is_disputed and self._only_reordered(base, theirs):
            return ours
        if self._is_virtual:
            # A cell that equals neither side, the same whichever side is called ours.
            sides = sorted((ours or b"", theirs or b""))
            cell = self._cells.put(digest(b"\0".join((b"dispute", base or b"", *sides))))
            self._disputes[cell] = base
            return cell
        self.conflicts.append(conflict_at(path, why, (base, ours, theirs), self._cells))
        return ours

    def _only_reordered(self, old: bytes | None, new: bytes | None) -> bool:
        """Tell whether two cells differ, and only in the order of dicts (rule 6)."""
        return not self._cells.same(old, new) and has_same_content(self._cells, old, new)

    def _without_disputes(self, base: bytes | None) -> bytes | None:
        """Return a base with what both sides started from in place of every dispute."""
        if base is None or not self._disputes:
            return base
        if base in self._disputes:
            return self._disputes[base]
        if (model := model_in(self._cells, base)) is not None:
            return self._model_without_disputes(base, model)
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

    def _model_without_disputes(self, base: bytes, model: ModelTables) -> bytes | None:
        """Return a model without disputes in it; None if a field has no value then."""
        tables = [table and self._without_disputes(table) for table in model.tables]
        if tables == list(model.tables):
            return base
        plain = model.replaced(tables, model.given, self._cells)
        found = model_in(self._cells, plain)
        return plain if found is not None and found.names[0] == model.names[0] else None


def refusal(cells: Cells, model: bytes, *others: bytes) -> str:
    """Return why the class of a model refuses it, or an empty text.

    A class that is not known here, or checks nothing, refuses nothing. One that refuses these
    others as well, all of them, cannot be asked: its instances are made of something else.
    """
    found = model_in(cells, model)
    name = None if found is None else cells.load(found.head[0])
    check = cells.encoding.codec.validator(name) if isinstance(name, str) else None
    if check is None:
        return ""

    def reason(cell: bytes) -> str:
        try:
            return check(cells.load(cell))
        except (Closed, Unavailable):
            raise
        except Error as error:  # a class whose constructor refuses what is stored
            return error.hint or error.message

    why = reason(model)
    return why if why and not all(map(reason, others)) else ""
