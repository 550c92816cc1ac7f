"""Committer: lands staged edits on a branch, merges commits, and records conflicts to decide.

Rule 1: head, second parent, stage and stash change as a whole (`_whole`), whatever is raised in
between: by a disk, for want of memory, or by Control-C. A head without its state would undo the
work of others, a state without its head would count it twice.
Rule 2: a ref moves only from where this handle saw it. A lost race (`StaleRef`) means that another
commit landed: the staged edits are merged into it, and the write is tried again.
Rule 3: a write without a reply may have landed. Its commit stays *in doubt* until its id, which is
a hash, is looked for in the history of the branch; only then is it tried again or stood on.
Rule 4: what a merge made is checked (`misfits`) before it is written, and what is not allowed is a
conflict: nothing lands that could not have been committed.
Rule 5: the conflicts of a merge are part of the staged state, under `.conflicts`, so that they can
be stashed, read and decided like any other value. They never become part of a commit.

Theory of operation. `land` writes the objects that the staged root reaches, the commit, and the
move of the ref in one batch. The ref vouches for the objects of the old head; whatever else the new
objects may share (a merged parent, heads that the edits were moved from) is named in `needs`, so
that a collection that runs at the same time cannot drop it. `merge` first looks for a fast-forward,
then merges against the virtual base of both heads; without conflicts it lands like an edit, with
conflicts it stages the result and remembers the other head as second parent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, NoReturn, TypeAlias

from otolith.core.backend import Backend
from otolith.core.history.commits import Commit, make_commit
from otolith.core.merge.policies import Policies
from otolith.core.merge.three_way import (
    NOTES,
    SIDES,
    Merge,
    Merger,
    PathConflict,
    conflict_at,
    conflict_noted,
    notes_of,
)
from otolith.core.paths import CONFLICTS, POLICY, Path, format_path
from otolith.core.stage import Stage
from otolith.core.stash import REFUSALS, Stash
from otolith.core.trees.cells import EMPTY_MAP, Cells
from otolith.core.trees.layout import cell_links
from otolith.errors import (
    CommitNotFound,
    Contention,
    Error,
    Invalid,
    KeyNotFound,
    MergeConflict,
    RefNotFound,
    StaleRef,
    Unavailable,
)
from otolith.stores import FREE_TURN, Batch, Object, Swap, turn_at
from otolith.types import Hash

_ATTEMPTS = 1000
"""Each lost race means that another commit landed, so this many are never needed."""

_STILL_STAGED = "the edits are still staged: discard() them and read again, or commit() to merge"

_MAY_HAVE_LANDED = (
    "the commit may have landed: commit() again finds out, and lands it once; do not discard() and"
    " repeat it"
)

IfMoved: TypeAlias = Literal["merge", "replace", "refuse"]
"""If others have committed: our state is merged with theirs, replaces theirs, or is refused."""

Misfits: TypeAlias = Callable[[bytes, bytes], Mapping[str, str]]
"""Returns which names at the top of a state, of those that differ from an earlier state, have a
value that the state must not have, and why: a merge of two allowed values need not be one."""


class Committer:
    """The head of a branch, the merge in progress, and the way of staged edits into history."""

    def __init__(self, backend: Backend, cells: Cells, stage: Stage, ref: str) -> None:
        self._backend = backend
        self._cells = cells
        self._stage = stage
        self._ref = ref
        self._merger = Merger(cells, backend.graph, resolvers=backend.resolvers)
        self.stash = Stash(backend, ref, fences=self.all_fences)
        self.author: str | None = None  # of all commits that do not name one
        self.fences: Mapping[str, int] = {}  # of all writes
        self.refusal: Callable[[], Error] | None = None  # of all writes
        # What goes with the commit of what is staged.
        self._fences_carried: dict[str, int] = {}
        self._reads_carried: dict[str, Hash] = {}
        self._drafted: dict[Hash, Object] = {}
        self.head: Commit | None = None
        self.parent: Commit | None = None  # the commit that is being merged
        self._edited_from: list[Hash] = []  # earlier heads whose objects the stage may share
        self._undecided: set[str] = set()
        self._in_doubt: list[Commit] = []  # written with no reply: any of them may have landed
        self.misfits: Misfits = lambda before, after: {}

    @property
    def head_cell(self) -> bytes:
        """The cell of the head, or of an empty state before the first commit."""
        return self.head.cell if self.head is not None else EMPTY_MAP

    def all_fences(self) -> dict[str, int]:
        """Return what every write of this handle carries; an error if it may not write."""
        if self.refusal is not None:
            raise self.refusal()
        return {**self._backend.fences(), **self.fences}

    def move(self, ref: str, old: Hash | None, new: Commit, *, note: str) -> None:
        """Move a branch to a commit that is there."""
        self._backend.move(ref, old, new, note=note, fences=self.all_fences())

    def details(
        self, message: str, author: str | None, kind: str, meta: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return what a commit records beside its state, as arguments of `make_commit`."""
        default = self._backend.author if self.author is None else self.author
        return {
            "now": self._backend.clock(),
            "author": default if author is None else author,
            "message": message,
            "kind": kind,
            "meta": meta or {},
        }

    def _parents(self) -> tuple[Commit, ...]:
        return tuple(commit for commit in (self.head, self.parent) if commit is not None)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Restore the stage and all attributes if the block raises (rule 1).

        Attributes are only ever rebound, so that a shallow copy is enough.
        """
        root = self._stage.root()
        here, stash = vars(self).copy(), vars(self.stash).copy()
        try:
            yield
        except BaseException:
            self._stage.reset(root)
            vars(self).update(here)
            vars(self.stash).update(stash)
            raise

    def stand_on(self, head: Commit | None) -> None:
        """Continue from a commit, with nothing staged."""
        with self._whole():
            self.head = head
            self._stage.reset(self.head_cell)
            self.drop_merge()

    def drop_merge(self) -> None:
        """Forget the merge in progress, commits in doubt, and what goes with what was staged."""
        self.parent = None
        self._edited_from = []
        self._undecided = set()
        self._in_doubt = []
        self._drop_carried()

    def _drop_carried(self) -> None:
        """Forget what the commit of what was staged carries."""
        self._fences_carried, self._reads_carried, self._drafted = {}, {}, {}

    # The stash

    def stash_edits(self, root: bytes) -> None:
        """Write a staged state to the stash, as long as the branch is there.

        Raises:
            StaleRef: another process has written a stash that this handle has not seen.
            RefNotFound: the branch was deleted.
        """
        cell, older = self._cells.root(root), self._edited_from
        while True:
            now = self._backend.store.ref(self._ref)
            if now is None and self.head is not None:
                raise self._deleted()
            branch = Swap(self._ref, now, now)
            try:
                self.stash.write(
                    cell, self._parents(), self._cells.objects, branch=branch, edited_from=older
                )
            except StaleRef as stale:
                if stale.name != self._ref:
                    raise
            else:
                return

    def take_up_stash(self) -> bool:
        """Stage the stash, on the head it was made on; return whether there was one."""
        stashed = self.stash.load()
        if stashed is None:
            return False
        parents = self._backend.graph.parents(stashed)
        with self._whole():
            self.drop_merge()
            self.stash.take_up(stashed)
            self.head = parents[0] if parents else None
            self.parent = parents[1] if len(parents) > 1 else None
            self._stage.reset(stashed.cell)
            cell = self._stage.get((CONFLICTS,))
            if cell is not None and self._cells.kind(cell) == "map":
                unkey = self._cells.encoding.unkey
                self._undecided = {str(unkey(key)) for key, _ in self._cells.entries(cell)}
        return True

    # Policies

    def rules(self) -> dict[str, str]:
        """Return the merge policies of the staged state, by pattern."""
        cell = self._stage.get((POLICY,))
        rules = self._cells.load(cell) if cell is not None else {}
        return rules if isinstance(rules, dict) else {}

    def policies(self) -> Policies:
        """Return these policies, to find that of a path."""
        return Policies(self.rules())

    # Conflicts

    def conflicts(self) -> list[PathConflict]:
        """Return what is left to decide."""
        found: list[PathConflict] = []
        for path in sorted(self._undecided):
            sides = {side: self._stage.get((CONFLICTS, path, side)) for side in SIDES}
            cells = {side: cell for side, cell in sides.items() if cell is not None}
            notes = [self._stage.get((CONFLICTS, path, name)) for name in NOTES]
            loaded = [None if note is None else self._cells.load(note) for note in notes]
            found.append(conflict_noted(path, loaded, cells, self._cells))
        return found

    def _record(self, merged: bytes, conflicts: list[PathConflict]) -> None:
        """Stage a merged state with its conflicts."""
        self._stage.reset(merged)
        for conflict in conflicts:
            cells = {name: self._cells.put(note) for name, note in notes_of(conflict).items()}
            for name, cell in (cells | dict(conflict.cells)).items():
                self._stage.put((CONFLICTS, conflict.path, name), self._cells.loosen(cell))
        self._undecided = {conflict.path for conflict in conflicts}

    def settled(self, path: Path) -> None:
        """Note that a path was written: conflicts at it, above or below it are decided."""
        if not self._undecided:
            return
        written = format_path(path) + "/"
        with self._whole():
            for conflict in sorted(self._undecided):
                if (conflict + "/").startswith(written) or written.startswith(conflict + "/"):
                    self._decided(conflict)

    def _decided(self, conflict: str) -> None:
        """Remove one conflict from those that are left to resolve."""
        self._undecided = self._undecided - {conflict}
        self._stage.remove((CONFLICTS, conflict))
        if not self._undecided:
            self._stage.remove((CONFLICTS,))

    def check_conflict(self, path: Path) -> str:
        """Return the path of an undecided conflict as text, or raise KeyNotFound."""
        text = format_path(path)
        if text not in self._undecided:
            raise KeyNotFound(f"there is no conflict at {text}", hint="see state.conflicts")
        return text

    def take_side(self, path: Path, side: str) -> None:
        """Decide a conflict for one side."""
        text = self.check_conflict(path)
        if side not in SIDES:
            raise Invalid(f"{side!r} is not a side", hint="take ours, theirs or base")
        with self._whole():
            cell = self._stage.get((CONFLICTS, text, side))
            if cell is not None:
                self._stage.put(path, cell)
            elif self._stage.get(path) is not None:
                self._stage.remove(path)
            self._decided(text)

    def check_resolved(self) -> None:
        """Refuse to commit while a conflict is undecided."""
        if self._undecided:
            paths = tuple(sorted(self._undecided))
            raise MergeConflict(
                f"{len(paths)} conflict(s) to decide first: {', '.join(paths[:5])}",
                paths=paths,
                hint="write to each path, or resolve_conflict(path, take='ours' or 'theirs')",
            )

    # Merging

    def merge(self, theirs: Commit, details: Mapping[str, Any]) -> Merge:
        """Merge a commit into the branch; again, if another commit landed first."""
        with turn_at(self._backend.store, self._ref) as turn:
            for _ in range(_ATTEMPTS):
                try:
                    return self._merge(theirs, details)
                except StaleRef:
                    turn.wait()
                    self.stand_on(self._moved_head())
        raise self._starved()

    def _merge(self, theirs: Commit, details: Mapping[str, Any]) -> Merge:
        """Merge a commit into the head: nothing, a fast-forward, a commit, or conflicts."""
        ours = self.head
        if ours is not None and self._backend.graph.is_ancestor(theirs, ours):
            return Merge("up-to-date", ours)
        if ours is None or self._backend.graph.is_ancestor(ours, theirs):
            return self._fast_forward(ours, theirs)
        merged, conflicts = self._merged(ours, ours.cell, theirs)
        if conflicts:
            return self._stage_merge(theirs, merged, conflicts)
        with self._whole():
            self._record(merged, conflicts)
            commit = self._write((ours, theirs), details, {})
            self.stand_on(commit)
        return Merge("merged", commit)

    def _merged(
        self, ours: Commit, root: bytes, theirs: Commit
    ) -> tuple[bytes, list[PathConflict]]:
        """Merge a commit into a state that was staged on ours."""
        writer = self._backend.path_history(self._cells).writer
        base, merged, conflicts = self._merger.merge_commits(ours, root, theirs, writer=writer)
        merged = self._without_misfits(merged, conflicts, (base, root, theirs.cell), ours.cell)
        return merged, conflicts

    def stage_merge(self, theirs: Commit) -> list[PathConflict]:
        """Stage what a commit changed, for the next commit to have it as its second parent.

        Where the two disagree our side is staged; the conflicts are returned, and not recorded.
        """
        if self.head is None:
            raise CommitNotFound("the branch has no commit yet", hint="commit first")
        if self._backend.graph.is_ancestor(theirs, self.head):
            return []
        merged, conflicts = self._merged(self.head, self._stage.root(), theirs)
        with self._whole():
            self._stage.reset(merged)
            self.parent = theirs
        return conflicts

    def make_draft(self, details: Mapping[str, Any], before: bytes) -> Commit:
        """Make the staged state a commit for the next one to write; what was staged before stays.

        No ref names it, so what does not refer to it soon loses it to the next collection.
        """
        commit, objects = self._make(self._parents(), details)
        with self._whole():
            self._stage.reset(before)
            self._drafted = {**self._drafted, **{each.hash: each for each in objects}}
        return commit

    def carry(self, fences: Mapping[str, int], reads: Mapping[str, Hash]) -> None:
        """Let the commit of what is staged have more fences and reads."""
        self._fences_carried = {**self._fences_carried, **fences}
        self._reads_carried = {**self._reads_carried, **reads}

    def _fast_forward(self, ours: Commit | None, theirs: Commit) -> Merge:
        """Move the branch to a later commit, or stage it if it has what must not be there."""
        conflicts: list[PathConflict] = []
        if ours is not None:
            sides = ours.cell, ours.cell, theirs.cell
            merged = self._without_misfits(theirs.cell, conflicts, sides, ours.cell)
            if conflicts:
                return self._stage_merge(theirs, merged, conflicts)
        note = f"merge: fast-forward to {theirs.short}"
        self.move(self._ref, ours.hash if ours else None, theirs, note=note)
        return Merge("fast-forward", theirs)

    def _stage_merge(self, theirs: Commit, merged: bytes, conflicts: list[PathConflict]) -> Merge:
        """Stage a merge that needs decisions."""
        with self._whole():
            self._record(merged, conflicts)
            self.parent = theirs
        return Merge("conflicted", None, tuple(conflicts))

    def _without_misfits(
        self,
        merged: bytes,
        conflicts: list[PathConflict],
        sides: tuple[bytes, bytes, bytes],
        before: bytes,
    ) -> bytes:
        """Return a merged state with our side wherever the merge made what must not be (rule 4).

        Each is added to the conflicts. `before` is the state of the commit that is landed on.
        """
        undecided = {conflict.path.partition("/")[0] for conflict in conflicts}
        for name, why in self.misfits(before, merged).items():
            if format_path((name,)) not in undecided:
                key = self._cells.encoding.key(name)
                cells = [self._cells.entry(side, key) for side in sides]
                conflicts.append(conflict_at((name,), why, cells, self._cells))
                ours = None if cells[1] is None else self._cells.loosen(cells[1])
                merged = self._cells.edit_state(merged, {key: ours})
        return merged

    # Landing

    def land(
        self, details: Mapping[str, Any], fences: Mapping[str, int], *, if_moved: IfMoved = "merge"
    ) -> Commit:
        """Commit the staged state on top of the current head. Call `settle_doubts` first.

        Raises:
            StaleRef: others have committed since, and `if_moved` is "refuse".
            MergeConflict: others have changed the same paths; the conflicts are staged.
        """
        refuses = if_moved == "refuse"  # the turn of what was read is that of its reader
        with FREE_TURN if refuses else turn_at(self._backend.store, self._ref) as turn:
            for _ in range(_ATTEMPTS):
                commit = self._written(details, fences, refuses=refuses)
                if commit is not None:
                    return commit
                turn.wait()
                self._catch_up(keep_root=if_moved == "replace")
        raise self._starved()

    def _written(
        self, details: Mapping[str, Any], fences: Mapping[str, int], *, refuses: bool
    ) -> Commit | None:
        """Return the staged state as a commit that has landed; None if others were faster."""
        try:
            return self._write(self._parents(), details, fences)
        except StaleRef as stale:
            if stale.name != self._ref:
                self._backend.refs.check_none_erased(details.get("reads", ()))
                raise
            landed = self._landed_late()
            if landed is None and refuses:
                self._refuse(stale.expected, stale.actual)
            return landed

    @property
    def in_doubt(self) -> Commit | None:
        """The last commit that was written without a reply, and may have landed."""
        return self._in_doubt[-1] if self._in_doubt else None

    def is_doubted(self, commit: Commit, root: bytes) -> bool:
        """Tell whether a commit is in doubt, and a staged state is its state."""
        return commit in self._in_doubt and self._cells.same(root, commit.cell)

    def check_head(self, expected: Commit | None, *, stored: bool) -> None:
        """Refuse if this handle, or the branch as it is `stored`, does not stand on a commit.

        Raises:
            StaleRef: it stands on another.
            RefNotFound: the branch was deleted.
        """
        before = None if expected is None else expected.hash
        actual = None if self.head is None else self.head.hash
        if actual == before and stored:
            actual = self._backend.store.ref(self._ref)
        if actual != before:
            self._refuse(before, actual)

    def _refuse(self, expected: bytes | None, actual: bytes | None) -> NoReturn:
        """Raise the error for a branch that stands on another commit than expected."""
        self._moved_head()  # deleted is another error than moved
        raise StaleRef(self._ref, expected=expected, actual=actual, hint=_STILL_STAGED) from None

    def move_up(self, root: bytes) -> None:
        """Stage a state that was staged before, on what others have committed since.

        Raises:
            MergeConflict: others have changed the same paths; the conflicts are staged.
        """
        if self.parent is None and self._cells.same(root, self.head_cell):
            self.stand_on(self._moved_head())
        else:
            with self._whole():
                self._stage.reset(root)
            self._catch_up(keep_root=False)

    def land_instead(self, goal: Commit, details: Mapping[str, Any]) -> Commit:
        """Commit the state of another commit on top of the current head, in place of all edits.

        If it fails, the edits are still staged.
        """
        with self._whole():
            self.stash.settle()
            head = self._backend.refs.head(self._ref)
            self.stand_on(self.head if head is None else head)
            self._stage.reset(goal.cell)
            return self.land(details, {}, if_moved="replace")

    def start_again(self, before: Hash | None, details: Mapping[str, Any], note: str) -> Commit:
        """Move the ref to a commit of an empty state without parents."""
        cell = self._cells.root(self._cells.state(EMPTY_MAP))
        objects = self._cells.objects.reachable(next(cell_links(cell)))
        commit, data = make_commit(cell, (), objects=objects, **details)
        objects.append(Object(commit.hash, data))
        swap = Swap(self._ref, before, commit.hash)
        fences = self.all_fences()
        batch = Batch(objects, [swap], fences, time=commit.time, note=note)
        self._backend.refs.write(self._backend.store, batch)
        self._cells.objects.settle(objects)
        return commit

    def settle_doubts(self) -> bool:
        """Find out whether a commit in doubt has landed, and stand on it if it has (rule 3).

        Its edits are still staged. Merged with their own landed copy they would count twice.
        """
        before = self.head
        with self._hint_at_doubt():
            self.stash.settle()
            if self._in_doubt:
                self._stand_on_landed(self._backend.refs.head(self._ref))
        return self.head is not before

    def _stand_on_landed(self, head: Commit | None) -> None:
        """Stand on the first commit in doubt that is in the history of the head, if one is."""
        is_ancestor = self._backend.graph.is_ancestor
        landed = (each for each in self._in_doubt if head is not None and is_ancestor(each, head))
        commit = next(landed, None)
        if commit is not None:
            with self._whole():
                self.head, self.parent = commit, None
                self._edited_from, self._in_doubt = [], []
                self._drop_carried()
                self.stash.landed()

    def _landed_late(self) -> Commit | None:
        """Return the commit in doubt that moved the ref after it was looked for, if one did.

        Edits that were staged since then stay staged, on top of it.
        """
        if not self._in_doubt:
            return None
        before = self.head
        self._stand_on_landed(self._moved_head())
        has_landed = self.head is not before and self._cells.same(
            self._stage.root(), self.head_cell
        )
        return self.head if has_landed else None

    def _catch_up(self, *, keep_root: bool) -> None:
        """Move the staged edits onto what others have committed (rule 2)."""
        head = self._moved_head()
        self._stand_on_landed(head)
        merged, conflicts = self._stage.root(), list[PathConflict]()
        if not keep_root:
            theirs = head.cell if head is not None else EMPTY_MAP
            sides = self.head_cell, merged, theirs
            merged, conflicts = self._merger.merge(
                *sides, ours_first=False, theirs_later=lambda path: False
            )
            merged = self._without_misfits(merged, conflicts, sides, theirs)
        with self._whole():
            self._record(merged, conflicts)
            before = [self.head.hash] if self.head is not None else []
            self._edited_from = [*self._edited_from, *before]
            self.head = head
        self.check_resolved()

    def _moved_head(self) -> Commit | None:
        """Return the head of the ref as it is in the store now."""
        head = self._backend.refs.head(self._ref)
        if head is None and self.head is not None:
            raise self._deleted()
        return head

    def _deleted(self) -> RefNotFound:
        """Return the error for a branch that another process deleted.

        Raises:
            Erased: the state was erased.
        """
        self._backend.refs.check_not_erased(self._ref)
        return RefNotFound(
            f"{self._ref} was deleted while this handle had it open",
            hint="open the branch again, or fork it from a commit; the edits are still staged",
        )

    def _starved(self) -> Contention:
        """Return the error for a commit that lost too many races."""
        return Contention(
            f"{self._ref} moved {_ATTEMPTS} times while this commit tried to land",
            hint="try again; nothing was written and the edits are still staged",
        )

    def _write(
        self, parents: tuple[Commit, ...], details: Mapping[str, Any], fences: Mapping[str, int]
    ) -> Commit:
        """Write the staged state as a commit and move the ref to it, in one batch."""
        before = parents[0] if parents else None
        reads = {**details.get("reads", {}), **self._reads_carried}
        commit, objects = self._make(parents, {**details, "reads": reads})
        written = {**self._drafted, **{each.hash: each for each in objects}}
        swaps = [Swap(self._ref, before.hash if before is not None else None, commit.hash)]
        swaps += [] if self.stash.staged is None else [self.stash.staged]
        batch = Batch(
            objects=[*written.values()],
            swaps=[*swaps, *self._backend.refs.checks(reads)] if reads else swaps,
            fences={**self.all_fences(), **self._fences_carried, **fences},
            # What the new objects may link to, and the swap of the ref does not vouch for.
            needs=[
                *(parent.hash for parent in parents[1:]),
                *self._edited_from,
                *(hash for hash in reads.values() if hash not in written),
                *([] if len(objects) > 1 else cell_links(commit.cell)),
            ],
            time=commit.time,
        )
        self._send(batch, commit)
        self._cells.objects.settle(batch.objects)
        self.stash.landed()
        return commit

    def _make(
        self, parents: tuple[Commit, ...], details: Mapping[str, Any]
    ) -> tuple[Commit, list[Object]]:
        """Return a commit of the staged state, and the objects to write: it comes last."""
        resembles = next(cell_links(parents[0].cell)) if parents else None
        cell = self._cells.root(self._stage.root(), base=resembles)
        objects = self._cells.objects.reachable(next(cell_links(cell)))
        commit, data = make_commit(cell, parents, objects=objects, **details)
        return commit, [*objects, Object(commit.hash, data)]

    def _send(self, batch: Batch, commit: Commit) -> None:
        """Write; if the reply is lost, look for the commit in the branch's history (rule 3)."""
        before = self._in_doubt
        # Until the handle stands on it: whatever is raised until then, it may have landed.
        self._in_doubt = [*before, commit]
        with self._hint_at_doubt():
            # There is nothing to check for a ref that is there, of a repo that was written before.
            refs, store = self._backend.refs, self._backend.store
            is_known = refs.is_checked and batch.swaps[0].old is not None
            try:
                if is_known:
                    store.write(batch)
                else:
                    refs.write(store, batch)
            except REFUSALS:
                self._in_doubt = before
                raise
            except Unavailable:
                if not self._has_landed(commit):
                    raise

    @contextmanager
    def _hint_at_doubt(self) -> Iterator[None]:
        """Let an error of the store say that a commit may have landed, and what to do then."""
        try:
            yield
        except Unavailable as error:
            if self._in_doubt:
                error.hint = "; ".join(filter(None, [error.hint, _MAY_HAVE_LANDED]))
            raise

    def _has_landed(self, commit: Commit) -> bool:
        head = self._backend.store.ref(self._ref)
        graph = self._backend.graph
        return head is not None and graph.is_ancestor(commit, graph.commit(head))
