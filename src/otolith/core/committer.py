"""Where edits meet history: landing commits, merging, and the conflicts in between.

A branch at hand has a head, a stage, and while a merge waits for decisions a second parent. The
conflicts of such a merge are kept in the staged state itself, under `.conflicts`, so that they can
be stored, shown and settled like any other value; they never become part of a commit.

Head, parent, stage and stash say something only together: a head without its state would undo the
work of others, a state without its head would count it twice. So they change as a whole (`_whole`),
whatever is raised in between: by a disk, for want of memory, or by Control-C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from otolith.core.backend import Backend
from otolith.core.history.commits import Commit, make_commit
from otolith.core.merge.policies import Policies
from otolith.core.merge.three_way import SIDES, Merger, PathConflict
from otolith.core.paths import CONFLICTS, POLICY, Path, format_path
from otolith.core.stage import Stage
from otolith.core.trees.cells import EMPTY_MAP, Cells
from otolith.core.trees.layout import cell_links
from otolith.errors import (
    Busy,
    Closed,
    Conflict,
    Denied,
    Full,
    Invalid,
    KeyNotFound,
    MergeConflict,
    NotFound,
    ReadOnly,
    RefNotFound,
    StaleRef,
    Unavailable,
)
from otolith.stores import Batch, Object, Swap
from otolith.types import Hash

_T = TypeVar("_T")

_REFUSALS = (Busy, Closed, Conflict, Denied, Full, Invalid, NotFound, ReadOnly)
"""What a store raises only if nothing was written."""

_ATTEMPTS = 1000
"""Each lost race means that somebody else's commit landed, so this many are never needed."""


IfMoved: TypeAlias = Literal["merge", "replace", "refuse"]
"""What becomes of a staged state when others have committed since: merged with theirs, put in its
place, or refused."""


@dataclass(frozen=True, slots=True)
class Merge:
    """What a merge did: a commit, or conflicts to decide."""

    kind: str  # merged, fast-forward, up-to-date or conflicted
    commit: Commit | None
    conflicts: tuple[PathConflict, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there is nothing to decide."""
        return not self.conflicts


class Committer:
    """The head of a branch at hand, and what waits to be joined to it."""

    def __init__(self, backend: Backend, cells: Cells, stage: Stage, ref: str) -> None:
        self._backend = backend
        self._cells = cells
        self._stage = stage
        self._ref = ref
        self._merger = Merger(cells, backend.graph, resolvers=backend.resolvers)
        self.head: Commit | None = None
        self.parent: Commit | None = None
        self.stash: Swap | None = None  # removes the stashed edits when these land
        self.stash_seen: Swap | None = None  # removes what this handle last saw on the stash
        # Removes what was put there with no reply, and whether that is what is staged.
        self._stash_in_doubt: tuple[Swap, bool] | None = None
        self.edited_from: list[Hash] = []  # earlier heads whose objects the stage may share
        self._undecided: set[str] = set()
        self._in_doubt: list[Commit] = []  # written with no reply: any of them may have landed

    @property
    def head_cell(self) -> bytes:
        """The cell of the head, or of an empty state before the first commit."""
        return self.head.cell if self.head is not None else EMPTY_MAP

    # Standing

    def _whole(self, change: Callable[[], _T]) -> _T:
        """Change where this handle stands, as a whole: if that fails, nothing has changed."""
        root = self._stage.root()
        before = (
            self.head,
            self.parent,
            self.stash,
            self.stash_seen,
            self._stash_in_doubt,
            self.edited_from,
            self._undecided,
            self._in_doubt,
        )
        try:
            return change()
        except BaseException:
            self._stage.reset(root)
            (
                self.head,
                self.parent,
                self.stash,
                self.stash_seen,
                self._stash_in_doubt,
                self.edited_from,
                self._undecided,
                self._in_doubt,
            ) = before
            raise

    def stand_on(self, head: Commit | None) -> None:
        """Go on from a commit, with nothing staged."""
        self._whole(lambda: self._stand_on(head))

    def _stand_on(self, head: Commit | None) -> None:
        self.head = head
        self._stage.reset(head.cell if head is not None else EMPTY_MAP)
        self.forget()

    def take_up(self, held: Commit, takedown: Swap) -> None:
        """Go on with what was put away, where it was made; committing takes it down."""

        def change() -> None:
            self.forget()
            self.stash = self.stash_seen = takedown
            self.head = parents[0] if parents else None
            self.parent = parents[1] if len(parents) > 1 else None
            self._stage.reset(held.cell)
            self.reload()

        parents = self._backend.graph.parents(held)
        self._whole(change)

    def unmoved(self) -> Swap:
        """Return the check that the branch is where it is now.

        Raises:
            RefNotFound: it was deleted.
        """
        now = self._backend.store.ref(self._ref)
        if now is None and self.head is not None:
            raise self._deleted()
        return Swap(self._ref, now, now)

    def put_on_stash(self, batch: Batch, takedown: Swap) -> None:
        """Put the staged state away.

        Raises:
            StaleRef: another process has put something else there meanwhile.
            NotFound: what was edited is gone, and was collected.
        """
        self._stash_in_doubt = (takedown, True)
        try:
            self._backend.store.write(batch)
        except _REFUSALS:
            self._stash_in_doubt = None
            raise
        except Unavailable:
            self.settle_stash()
            if self.stash != takedown:
                raise
        self.stash, self.stash_seen, self._stash_in_doubt = takedown, takedown, None

    def leave_stash(self) -> None:
        """Let what was put away stay there when the staged state lands."""
        doubt = self._stash_in_doubt
        self.stash, self._stash_in_doubt = None, (doubt[0], False) if doubt is not None else None

    def settle_stash(self) -> None:
        """Find out whether what was put away without a reply is there."""
        if self._stash_in_doubt is None:
            return
        takedown, is_staged = self._stash_in_doubt
        if self._backend.store.ref(takedown.name) == takedown.old:
            self.stash_seen, self.stash = takedown, takedown if is_staged else self.stash
        self._stash_in_doubt = None

    # Policies

    def rules(self) -> dict[str, str]:
        """Return the merge policies of the staged state, by pattern."""
        cell = self._stage.get((POLICY,))
        rules = self._cells.load(cell) if cell is not None else {}
        return rules if isinstance(rules, dict) else {}

    def policies(self) -> Policies:
        """Return the merge policies of the staged state."""
        return Policies(self.rules())

    # Conflicts

    def conflicts(self) -> list[PathConflict]:
        """Return what is left to decide."""
        return list(self._recorded()) if self._undecided else []

    def reload(self) -> None:
        """Find the conflicts that a staged state from elsewhere brought along."""
        cell = self._stage.get((CONFLICTS,))
        is_map = cell is not None and self._cells.kind(cell) == "map"
        self._undecided = set(self._names(cell)) if cell is not None and is_map else set()

    def _names(self, cell: bytes) -> list[str]:
        return [str(self._cells.encoding.unkey(key)) for key, _ in self._cells.entries(cell)]

    def _recorded(self) -> Iterator[PathConflict]:
        for path in sorted(self._undecided):
            found = {side: self._stage.get((CONFLICTS, path, side)) for side in SIDES}
            cells = {side: cell for side, cell in found.items() if cell is not None}
            absent = tuple(side for side in SIDES if side not in cells)
            kind, why = (str(self._noted(path, name)) for name in ("kind", "why"))
            yield PathConflict(path, kind, why, absent, cells, self._cells)

    def _noted(self, path: str, name: str) -> object:
        cell = self._stage.get((CONFLICTS, path, name))
        return "" if cell is None else self._cells.load(cell)

    def _record(self, merged: bytes, conflicts: list[PathConflict]) -> None:
        self._stage.reset(merged)
        for conflict in conflicts:
            notes = {"kind": conflict.kind, "why": conflict.why}
            cells = {name: self._cells.put(note) for name, note in notes.items()}
            for name, cell in (cells | dict(conflict.cells)).items():
                self._stage.put((CONFLICTS, conflict.path, name), self._cells.loosen(cell))
        self._undecided = {conflict.path for conflict in conflicts}

    def settled(self, path: Path) -> None:
        """Note that somebody wrote to a path: conflicts at it, above or below it are decided."""
        if self._undecided:
            self._whole(lambda: self._settled(format_path(path) + "/"))

    def _settled(self, written: str) -> None:
        for conflict in sorted(self._undecided):
            if (conflict + "/").startswith(written) or written.startswith(conflict + "/"):
                self._decide(conflict)

    def _decide(self, conflict: str) -> None:
        self._undecided = self._undecided - {conflict}
        self._stage.remove((CONFLICTS, conflict))
        if not self._undecided:
            self._stage.remove((CONFLICTS,))

    def take(self, path: Path, side: str) -> None:
        """Decide a conflict for one side."""
        text = format_path(path)
        if text not in self._undecided:
            raise KeyNotFound(f"there is no conflict at {text}", hint="see state.conflicts")
        if side not in SIDES:
            raise Invalid(f"{side!r} is not a side", hint="take ours, theirs or base")
        self._whole(lambda: self._take(path, text, side))

    def _take(self, path: Path, text: str, side: str) -> None:
        cell = self._stage.get((CONFLICTS, text, side))
        if cell is not None:
            self._stage.put(path, cell)
        elif self._stage.get(path) is not None:
            self._stage.remove(path)
        self._decide(text)

    def check_resolved(self) -> None:
        """Refuse to go on while something is undecided."""
        if self._undecided:
            paths = tuple(sorted(self._undecided))
            raise MergeConflict(
                f"{len(paths)} conflict(s) to decide first: {', '.join(paths[:5])}",
                paths=paths,
                hint="write to each path, or resolve_conflict(path, take='ours' or 'theirs')",
            )

    def forget(self) -> None:
        """Drop the merge in progress."""
        self.parent = None
        self.edited_from = []
        self._undecided = set()
        self._in_doubt = []

    # Merging

    def merge(self, theirs: Commit, details: Mapping[str, Any]) -> Merge:
        """Merge a commit into the branch, again if somebody else was faster."""
        for _ in range(_ATTEMPTS):
            try:
                return self._merge(theirs, details)
            except StaleRef:
                self.stand_on(self._moved_head())
        raise self._starved()

    def _merge(self, theirs: Commit, details: Mapping[str, Any]) -> Merge:
        ours = self.head
        if ours is not None and self._backend.graph.is_ancestor(theirs, ours):
            return Merge("up-to-date", ours)
        if ours is None or self._backend.graph.is_ancestor(ours, theirs):
            note = f"merge: fast-forward to {theirs.short}"
            self._backend.move(self._ref, ours.hash if ours else None, theirs, note=note)
            return Merge("fast-forward", theirs)
        base = self._merger.virtual_base([ours], [theirs])
        history = self._backend.past(self._cells)
        merged, conflicts = self._merger.merge(
            base,
            ours.cell,
            theirs.cell,
            ours_first=(ours.time, ours.id) < (theirs.time, theirs.id),
            theirs_later=lambda path: _later(history.writer, ours, theirs, path),
        )
        if conflicts:
            self._whole(lambda: self._leave_open(merged, conflicts, theirs))
            return Merge("conflicted", None, tuple(conflicts))
        commit = self._whole(lambda: self._write_merged(merged, (ours, theirs), details))
        return Merge("merged", commit)

    def _write_merged(
        self, merged: bytes, parents: tuple[Commit, Commit], details: Mapping[str, Any]
    ) -> Commit:
        self._stage.reset(merged)
        commit = self._write(parents, details, {})
        self._stand_on(commit)
        return commit

    def _leave_open(self, merged: bytes, conflicts: list[PathConflict], theirs: Commit) -> None:
        self._record(merged, conflicts)
        self.parent = theirs

    # Landing

    def land(
        self, details: Mapping[str, Any], fences: Mapping[str, int], *, if_moved: IfMoved = "merge"
    ) -> Commit:
        """Commit the staged state, on top of whatever is there by now. Call `settle_doubts` first.

        Raises:
            StaleRef: others have committed since, and that is to be refused.
        """
        for _ in range(_ATTEMPTS):
            parents = tuple(commit for commit in (self.head, self.parent) if commit is not None)
            try:
                return self._write(parents, details, fences)
            except StaleRef as stale:
                if stale.name != self._ref or if_moved == "refuse":
                    raise
                self._catch_up(keep_root=if_moved == "replace")
        raise self._starved()

    def land_instead(self, goal: Commit, details: Mapping[str, Any]) -> Commit:
        """Commit the state of another commit on top of whatever is there, in place of all edits.

        If it fails, the edits are staged as they were.
        """

        def change() -> Commit:
            self.settle_stash()
            head, stash = self._backend.refs.head(self._ref), self.stash
            self._stand_on(self.head if head is None else head)
            self.stash = stash  # dropped, too, if it was taken up here
            self._stage.reset(goal.cell)
            return self.land(details, {}, if_moved="replace")

        return self._whole(change)

    def settle_doubts(self) -> None:
        """Find out whether a commit whose reply was lost has landed; go on from there if it has.

        Its edits are staged still. Merged with their own landed copy they would count twice.
        """
        self.settle_stash()
        if self._in_doubt:
            self._arrive_at_landed(self._backend.refs.head(self._ref))

    def _arrive_at_landed(self, head: Commit | None) -> None:
        is_ancestor = self._backend.graph.is_ancestor
        landed = (each for each in self._in_doubt if head is not None and is_ancestor(each, head))
        commit = next(landed, None)
        if commit is not None:
            self._whole(lambda: self._arrive_at(commit))

    def _arrive_at(self, commit: Commit) -> None:
        self.head, self.parent = commit, None
        self.edited_from, self._in_doubt = [], []
        self._empty_stash()

    def _catch_up(self, *, keep_root: bool) -> None:
        """Put the staged edits on top of what somebody else has committed."""
        head = self._moved_head()
        self._arrive_at_landed(head)
        merged, conflicts = self._stage.root(), list[PathConflict]()
        if not keep_root:
            merged, conflicts = self._merger.merge(
                self.head_cell,
                merged,
                head.cell if head is not None else EMPTY_MAP,
                ours_first=False,
                theirs_later=lambda path: False,
            )
        self._whole(lambda: self._move_onto(head, merged, conflicts))
        self.check_resolved()

    def _move_onto(self, head: Commit | None, merged: bytes, conflicts: list[PathConflict]) -> None:
        self._record(merged, conflicts)
        before = [self.head.hash] if self.head is not None else []
        self.edited_from = [*self.edited_from, *before]
        self.head = head

    def _moved_head(self) -> Commit | None:
        head = self._backend.refs.head(self._ref)
        if head is None and self.head is not None:
            raise self._deleted()
        return head

    def _deleted(self) -> RefNotFound:
        return RefNotFound(
            f"{self._ref} was deleted while this handle had it open",
            hint="open the branch again, or fork it from a commit; the edits are still staged",
        )

    def _write(
        self, parents: tuple[Commit, ...], details: Mapping[str, Any], fences: Mapping[str, int]
    ) -> Commit:
        before = parents[0] if parents else None
        resembles = next(cell_links(before.cell)) if before is not None else None
        cell = self._cells.root(self._stage.root(), base=resembles)
        root = next(cell_links(cell))
        objects = self._cells.objects.reachable(root)
        commit, data = make_commit(cell, parents, objects=objects, **details)
        objects.append(Object(commit.hash, data))
        swaps = [Swap(self._ref, before.hash if before is not None else None, commit.hash)]
        batch = Batch(
            objects=objects,
            swaps=swaps if self.stash is None else [*swaps, self.stash],
            fences=fences,
            needs=[
                *self._shared(parents),
                *details.get("reads", {}).values(),
                *([] if len(objects) > 1 else [root]),
            ],
            time=commit.time,
        )
        self._send(batch, commit)
        self._cells.objects.settle(objects)
        self._empty_stash()
        return commit

    def _empty_stash(self) -> None:
        """Note that what was on the stash is part of history now."""
        if self.stash is not None:
            self.stash = self.stash_seen = None

    def _shared(self, parents: tuple[Commit, ...]) -> list[Hash]:
        """Return what the new objects may link to and the swap of the ref does not vouch for."""
        return [*(parent.hash for parent in parents[1:]), *self.edited_from]

    def _send(self, batch: Batch, commit: Commit) -> None:
        """Write; if the reply is lost, look whether the commit is there, as its id is a hash."""
        before = self._in_doubt
        # Until the handle stands on it: whatever is raised until then, it may have landed.
        self._in_doubt = [*before, commit]
        try:
            self._backend.store.write(batch)
        except _REFUSALS:
            self._in_doubt = before
            raise
        except Unavailable:
            if not self._landed(commit):
                raise

    def _landed(self, commit: Commit) -> bool:
        head: Hash | None = self._backend.store.ref(self._ref)
        if head is None:
            return False
        return self._backend.graph.is_ancestor(commit, self._backend.graph.commit(head))

    def _starved(self) -> Conflict:
        return Conflict(
            f"{self._ref} moved {_ATTEMPTS} times while this commit tried to land",
            hint="try again; nothing was written and the edits are still staged",
        )


def _later(writer: Any, ours: Commit, theirs: Commit, path: Path) -> bool:
    mine, yours = writer(ours, path), writer(theirs, path)
    return bool((mine.time, mine.id) < (yours.time, yours.id))
