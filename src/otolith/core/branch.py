"""A branch at hand: a dict with staged edits, and the verbs that make history of them.

Staged edits put away in the store, so that another process can go on with them.

A stash is a commit under `stage/`: its root is the staged state, its parents are the head the
edits were made on and, during a merge, the commit that is being merged. Committing takes it down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Self

from otolith.core.backend import Backend
from otolith.core.committer import Committer, IfMoved, Merge
from otolith.core.history.blame import Blame
from otolith.core.history.commits import Commit, make_commit
from otolith.core.history.refs import Undo, sibling_ref, split_ref, stage_ref
from otolith.core.merge.diff import Change, differences
from otolith.core.merge.policies import check_pattern, check_policy, exactly
from otolith.core.merge.three_way import Conflict
from otolith.core.paths import POLICY, Path, format_path, parse_own_path, parse_path
from otolith.core.stage import Stage
from otolith.core.state import Snapshot, StateReader
from otolith.core.trees.cells import EMPTY_MAP, Cells
from otolith.core.trees.layout import cell_links
from otolith.core.trees.objects import Buffer
from otolith.errors import BadValue, CommitNotFound, Error, RefExists, StaleRef, Uncommitted
from otolith.stores import Batch, Object, Swap
from otolith.types import Hash


class Stash:
    """Where the staged edits of one branch are put away."""

    def __init__(self, archive: Backend, branch_ref: str) -> None:
        self._archive = archive
        self.ref = stage_ref(branch_ref)

    def load(self) -> Commit | None:
        """Return what was put away."""
        return self._archive.refs.head(self.ref)

    def make(
        self,
        cell: bytes,
        parents: tuple[Commit, ...],
        objects: Buffer,
        *,
        seen: Swap | None,
        branch: Swap,
        edited_from: Sequence[Hash] = (),
    ) -> tuple[Batch, Swap]:
        """Return what puts a staged state away in place of what was seen, and takes it down again.

        `branch` is the check that the branch is still there; `edited_from` are other commits whose
        objects the state may share.
        """
        now, author = self._archive.clock(), self._archive.author
        commit, data = make_commit(cell, parents, now=now, author=author, message="", kind="stage")
        new = [*objects.reachable(next(cell_links(cell))), Object(commit.hash, data)]
        swap = Swap(self.ref, seen.old if seen is not None else None, commit.hash)
        needs = [*(parent.hash for parent in parents), *edited_from]
        batch = Batch(objects=new, swaps=[swap, branch], needs=needs, time=now, note="stage: ")
        return batch, Swap(self.ref, commit.hash, None)

    def clear(self, seen: Swap | None) -> None:
        """Take down what was seen on the stash."""
        if seen is None:
            return
        batch = Batch(swaps=[seen], time=self._archive.clock(), note="stage: drop")
        try:
            self._archive.store.write(batch)
        except StaleRef as stale:
            if stale.actual is not None:
                raise  # otherwise it was taken down before, and only the reply was lost


Target = Commit | str
"""A commit, or an expression that names one."""


class Branch(StateReader, MutableMapping[str, Any]):
    """One branch of a session, with edits of its own. Use one handle per thread."""

    _if_moved: IfMoved = "merge"

    def __init__(self, archive: Backend, ref: str) -> None:
        self._archive = archive
        self._tree = archive.cells()
        self.ref = ref
        self.scope, self.session, self.name = split_ref(ref)
        self._stage = Stage(self._tree, EMPTY_MAP)
        self._joining = Committer(archive, self._tree, self._stage, ref)
        self._joining.head = archive.refs.head(ref)
        self._stage.reset(self._head_cell())

    # The state

    @property
    def cells(self) -> Cells:
        return self._tree

    def _root(self) -> bytes:
        return self._stage.root()

    def cell_at(self, path: Path) -> bytes | None:
        return self._stage.get(path)

    def __setitem__(self, path: str | Path, value: object) -> None:
        keys = parse_own_path(path)
        try:
            cell = self._tree.put(value)
        except BadValue as error:
            message = f"{format_path(keys)}: {error.message}"
            raise BadValue(message, hint=error.hint) from None
        self.write_cell(keys, cell)

    def __delitem__(self, path: str | Path) -> None:
        keys = parse_own_path(path)
        self._stage.remove(keys)
        self._joining.settled(keys)

    def write_cell(self, path: Path, cell: bytes | None) -> None:
        parse_own_path(path[:1])
        self.write_reserved(path, cell)

    def write_reserved(self, path: Path, cell: bytes | None) -> None:
        if cell is None:
            self._stage.remove(path)
        else:
            self._stage.put(path, cell)
        self._joining.settled(path)

    def extend_cell(self, path: Path, cells: list[bytes]) -> None:
        parse_own_path(path[:1])
        if self._stage.extend(path, cells):
            try:
                self.adopt_policy(path, "append")
            except BaseException:
                self._stage.remove(path)  # else doing it again would append twice
                raise
        self._joining.settled(path)

    def extend_reserved(self, path: Path, cells: list[bytes]) -> int:
        self._stage.extend(path, cells)
        return self._stage.length(path)

    def adopt_policy(self, path: Path, policy: str) -> None:
        if self._joining.policies().find(path) is None:
            self._stage.put((POLICY, exactly(path)), self._tree.put(policy))

    def policy(self, pattern: str, name: str) -> None:
        """Choose how a path, or all paths that fit a pattern, merge. Staged like any edit."""
        check_policy(name, self._archive.resolvers)
        self._stage.put((POLICY, check_pattern(pattern)), self._tree.put(name))
        self._joining.settled((POLICY, pattern))

    def policies(self) -> dict[str, str]:
        """Return the merge policies by pattern."""
        return self._joining.rules()

    # Looking

    @property
    def head(self) -> Commit | None:
        """The last commit this handle knows of."""
        return self._joining.head

    @property
    def merging(self) -> Commit | None:
        """The commit whose merge waits for decisions, or to be committed."""
        return self._joining.parent

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing to commit."""
        if self._joining.parent is not None:
            return False
        return self._tree.same(self._root(), self._head_cell())

    def status(self) -> list[Change]:
        """Return the staged edits."""
        after = self._root()
        return _without_reserved(differences(self._tree.frozen(), self._head_cell(), after))

    def at(self, target: Target) -> Snapshot:
        """Return the state as it was."""
        return Snapshot(self._archive.cells(), self.resolve(target))

    def resolve(self, target: Target) -> Commit:
        """Return the commit that an expression like `main~2`, `@`, a tag or a prefix names."""
        return (
            target
            if isinstance(target, Commit)
            else self._archive.refs.resolve(target, at=self.ref)
        )

    def diff(self, old: Target | None = None, new: Target | None = None) -> list[Change]:
        """Return what changed from one commit to another.

        `new` is the staged state by default, `old` the head.
        """
        before = self.resolve(old).cell if old is not None else self._head_cell()
        after = self.resolve(new).cell if new is not None else self._root()
        return _without_reserved(differences(self._tree.frozen(), before, after))

    def log(
        self,
        target: Target | None = None,
        *,
        limit: int | None = None,
        path: str | Path | None = None,
    ) -> Iterator[Commit]:
        """Yield commits, the latest first; with `path`, those that changed it."""
        if target is None and self.head is None:
            return
        tip = self.resolve(target if target is not None else "@")
        history = self._archive.past(self._tree)
        commits = (
            self._archive.graph.log(tip) if path is None else history.changes(tip, parse_path(path))
        )
        for count, commit in enumerate(commits):
            if limit is not None and count >= limit:
                return
            yield commit

    def blame(self, path: str | Path = (), *, at: Target = "@") -> list[Blame]:
        """Return which commit set the value at a path, or each entry of the map there."""
        keys = parse_path(path) if path else ()
        blames = self._archive.past(self._tree).blame(self.resolve(at), keys)
        return [blame for blame in blames if not blame.path.startswith(".")]

    # History

    def commit(
        self,
        message: str = "",
        *,
        author: str | None = None,
        kind: str = "step",
        meta: Mapping[str, Any] | None = None,
        fences: Mapping[str, int] | None = None,
        reads: Mapping[str, Commit] | None = None,
        allow_empty: bool = False,
    ) -> Commit:
        """Make the staged edits part of history, all at once.

        If the branch has moved on, the edits are merged into what is there now. Without edits
        nothing is committed, and the head is returned. `reads` are commits of other refs that
        this one rests on; they are kept as long as it is.

        Raises:
            MergeConflict: somebody else changed the same paths, or a merge is not resolved yet.
                The edits stay staged; `conflicts` shows what to decide.
        """
        self._joining.check_resolved()
        self._joining.settle_doubts()
        if self.is_clean and self.head is not None and not allow_empty:
            return self.head
        if self._joining.parent is not None and kind == "step":
            kind = "merge"
        details = _details(self._archive, message, author, kind, meta) | {"reads": _hashes(reads)}
        try:
            commit = self._joining.land(details, fences or {}, if_moved=self._if_moved)
        except Error:
            self._on_state_replaced()  # what others committed may have been merged in already
            raise
        self._set_head(commit)
        return commit

    def fork(self, name: str, *, at: Target = "@") -> Self:
        """Start another branch at a commit, and return it. Staged edits stay here."""
        ref = sibling_ref(self.ref, name)
        start = self.resolve(at)
        if self._archive.store.ref(ref) is not None:
            raise RefExists(
                f"branch {name} is already there", hint=f"open it with session(…, branch={name!r})"
            )
        self._archive.move(ref, None, start, note=f"fork: from {self.name}")
        return self._open(ref)

    def merge(
        self, other: Branch | Target, *, message: str = "", author: str | None = None
    ) -> Merge:
        """Merge another branch or commit into this one.

        Without conflicts this is a commit. With conflicts nothing is committed: the merged
        state is staged with our side where the two disagree, `conflicts` lists the paths, and
        `commit` goes through once each is settled by `resolve_conflict` or by writing to it.
        """
        self._require_clean("merge")
        self.refresh()
        theirs = other.head if isinstance(other, Branch) else self.resolve(other)
        if theirs is None:
            raise CommitNotFound("the other branch has no commit yet", hint="commit there first")
        name = other.name if isinstance(other, Branch) else str(getattr(other, "short", other))
        details = _details(self._archive, message or f"merge {name}", author, "merge", None)
        try:
            result = self._joining.merge(theirs, details)
        except BaseException:
            self._on_state_replaced()  # the branch may stand on what others committed by now
            raise
        if result.commit is not None:
            self._set_head(result.commit)
        else:
            self._on_state_replaced()
        return result

    @property
    def conflicts(self) -> list[Conflict]:
        """What the merge in progress leaves to decide."""
        return self._joining.conflicts()

    def resolve_conflict(
        self, path: str | Path, *, take: str | None = None, value: object = None
    ) -> None:
        """Settle a conflict by a side (`take="ours"`, `"theirs"` or `"base"`) or by a value."""
        if take is None:
            self[path] = value
        else:
            self._root()  # whatever is to be staged is staged before the side is
            self._joining.take(parse_path(path), take)
            self._on_state_replaced()

    def rollback(self, target: Target | None = None, *, steps: int | None = None) -> Commit:
        """Go back to an earlier state by a new commit; staged edits are dropped, history stays."""
        goal = self.resolve(target if target is not None else f"@~{1 if steps is None else steps}")
        message = f"rollback to {goal.short} {goal.message}".rstrip()
        details = _details(self._archive, message, None, "rollback", {"to": goal.id})
        try:
            commit = self._joining.land_instead(goal, details)
        except BaseException:
            self._on_state_replaced()
            raise
        self._set_head(commit)
        return commit

    def undo(self) -> Commit:
        """Move the branch back to where it was before its last commit, merge or rollback.

        Undo twice goes two back; `redo` goes forward again.
        """
        self._require_clean("undo")
        return self._move_to(Undo.back)

    def redo(self) -> Commit:
        """Take back the last undo."""
        self._require_clean("redo")
        return self._move_to(Undo.forward)

    def discard(self) -> None:
        """Drop all staged edits, and the merge in progress."""
        self._joining.leave_stash()  # first: landing something else must not take it down
        self._stage.reset(self._head_cell())
        self._joining.forget()
        self._tree.objects.clear()
        self._on_state_replaced()

    def stash(self) -> None:
        """Put the staged edits away in the store, for another process to go on with.

        Raises:
            StaleRef: another process has put edits away that this handle has not seen. Nothing was
                written: `unstash` a fresh handle to see them.
            RefNotFound: the branch was deleted, and a new one of that name would find them.
        """
        stash = Stash(self._archive, self.ref)
        self._joining.settle_stash()
        seen = self._joining.stash_seen
        if self.is_clean:
            stash.clear(seen)
            self._joining.stash = self._joining.stash_seen = None
            return
        parents = tuple(commit for commit in (self.head, self._joining.parent) if commit)
        cell = self._tree.root(self._root())
        older = self._joining.edited_from
        while True:
            branch = self._joining.unmoved()
            batch, takedown = stash.make(
                cell, parents, self._tree.objects, seen=seen, branch=branch, edited_from=older
            )
            try:
                self._joining.put_on_stash(batch, takedown)
            except StaleRef as stale:
                if stale.name != self.ref:
                    raise
            else:
                return

    def unstash(self) -> None:
        """Go on with the edits that were put away, if there are any; committing takes them down."""
        self._require_clean("unstash")
        stash = Stash(self._archive, self.ref)
        held = stash.load()
        if held is None:
            return
        self._joining.take_up(held, Swap(stash.ref, held.hash, None))
        self._on_state_replaced()

    def refresh(self) -> Commit | None:
        """Look at what others committed; staged edits are merged when they are committed."""
        head = self._archive.refs.head(self.ref)
        if head is not None and (self.head is None or head.id != self.head.id) and self.is_clean:
            self._set_head(head)
        return self.head

    def _move_to(self, choose: Callable[[Undo], tuple[Hash, str]]) -> Commit:
        moves = self._archive.store.moves(self.ref)
        hash, note = choose(Undo(moves))
        goal = self._archive.graph.commit(hash)
        # From where the history that was read ends: what lands meanwhile is not undone with it.
        self._archive.move(self.ref, moves[0].new, goal, note=note)
        self._set_head(goal)
        return goal

    def _set_head(self, commit: Commit) -> None:
        self._joining.stand_on(commit)
        self._on_state_replaced()

    def _on_state_replaced(self) -> None:
        """Called when the staged state has become another one."""

    def _open(self, ref: str) -> Self:
        """Return a handle like this one on another branch."""
        return type(self)(self._archive, ref)

    def _head_cell(self) -> bytes:
        return self.head.cell if self.head else EMPTY_MAP

    def _require_clean(self, verb: str) -> None:
        if not self.is_clean:
            raise Uncommitted(
                f"{verb}: there are staged edits on {self.name}",
                hint="commit() or discard() them first",
            )

    def __repr__(self) -> str:
        where = self.head.short if self.head else "no commit yet"
        return f"<Branch {self.session}/{self.name} {where}>"


def _without_reserved(changes: Iterator[Change]) -> list[Change]:
    """Leave out what belongs to otolith."""
    return [change for change in changes if not change.path.startswith(".")]


def _hashes(reads: Mapping[str, Commit] | None) -> dict[str, Hash]:
    return {ref: commit.hash for ref, commit in (reads or {}).items()}


def _details(
    archive: Backend, message: str, author: str | None, kind: str, meta: Mapping[str, Any] | None
) -> dict[str, Any]:
    return {
        "now": archive.clock(),
        "author": archive.author if author is None else author,
        "message": message,
        "kind": kind,
        "meta": meta or {},
    }
