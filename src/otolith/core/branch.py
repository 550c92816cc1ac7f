"""Branch: a dict of staged edits, and the verbs that turn them into history.

Edits are staged in memory (`Stage`); `commit`, `merge`, `rollback` and `stash` go through the
`Committer`, which owns the head. A branch may return live Python values (`WorkingValues`): every
verb that reads the staged state flushes them first, and every verb that replaces it reloads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from itertools import islice
from types import EllipsisType
from typing import Any, Literal, Protocol, Self, TypeAlias, TypeVar

from otolith.core.attempts import Attempts
from otolith.core.backend import Backend
from otolith.core.committer import Committer, IfMoved
from otolith.core.handles import Snapshot, StateReader, synchronized
from otolith.core.history.blame import Blame
from otolith.core.history.commits import Commit
from otolith.core.history.refs import FORK, Undo, is_branch_ref, sibling_ref, split_ref
from otolith.core.merge.diff import Change, differences, without_reserved
from otolith.core.merge.policies import check_pattern, check_policy, exactly
from otolith.core.merge.three_way import Merge, PathConflict
from otolith.core.paths import POLICY, Path, format_path, parse_own_path, parse_path
from otolith.core.stage import Stage
from otolith.core.transactions import PATIENCE_SECONDS, Transaction, Transactions, check_transaction
from otolith.core.trees.cells import EMPTY_MAP, Cells
from otolith.errors import (
    BadValue,
    CommitNotFound,
    Error,
    Invalid,
    RefExists,
    StaleRef,
    Uncommitted,
)
from otolith.shapes import NOTHING, check_argument
from otolith.types import Hash

R = TypeVar("R")

Target = Commit | str
"""A commit, or an expression that names one."""

Expected: TypeAlias = Target | EllipsisType | None
"""The commit that must be the head; None is a branch without commits, `...` any head."""


class WorkingValues(Protocol):
    """The Python values that a branch has returned, which callers may change in place."""

    def flush(self) -> object:
        """Stage what changed in place."""

    def reload(self) -> None:
        """Bring the values up to date with the staged state, which was replaced."""


class Branch(StateReader, MutableMapping[str, Any]):
    """A branch of a session and the edits staged on it.

    Without a `lock`, use one handle per thread. A branch that returns live values sets `_values`.

        state = repo.session("trip-42")
        state["plan/city"] = "Rome"
        state.commit("chose a city")
    """

    _if_moved: IfMoved = "merge"

    def __init__(
        self, backend: Backend, ref: str, *, lock: AbstractContextManager[object] | None = None
    ) -> None:
        self.lock = nullcontext() if lock is None else lock
        self._values: WorkingValues | None = None
        self._held_until = ""
        self._backend = backend
        self._tree = backend.cells()
        self.ref = ref
        self.scope, self.session, self.name = split_ref(ref)
        self._stage = Stage(self._tree, EMPTY_MAP)
        self._committer = Committer(backend, self._tree, self._stage, ref)
        self._stage.follow(self._committer)
        self._committer.head = backend.refs.head(ref)
        self._stage.reset(self._committer.head_cell)

    # The state

    @property
    def cells(self) -> Cells:
        """How values are read and written here."""
        return self._tree

    def _root(self) -> bytes:
        return self._stage.root()

    def _flushed_root(self) -> bytes:
        """Return the cell of the staged state, with what changed in place."""
        if self._values is not None:
            self._values.flush()
        return self._stage.root()

    def _reload(self) -> None:
        if self._values is not None:
            self._values.reload()

    def cell_at(self, path: Path) -> bytes | None:
        """Return the staged cell at a path."""
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
        if not self._is_removed_twice(keys):
            self._stage.remove(keys)
        self._committer.settled(keys)

    def _is_removed_twice(self, keys: Path) -> bool:
        """Tell whether a path is in conflict because both sides removed what was there."""
        conflicts = self._committer.conflicts()
        twice = {each.path for each in conflicts if each.kind == "delete/delete"}
        return bool(twice) and format_path(keys) in twice and self._stage.get(keys) is None

    def write_cell(self, path: Path, cell: bytes | None) -> None:
        """Set or remove the cell at a path; reserved names are refused."""
        parse_own_path(path[:1])
        self.write_reserved(path, cell)

    def write_reserved(self, path: Path, cell: bytes | None) -> None:
        """Set or remove a cell, also under a reserved name."""
        if cell is None:
            self._stage.remove(path)
        else:
            self._stage.put(path, cell)
        self._committer.settled(path)

    def extend_cell(self, path: Path, cells: list[bytes]) -> None:
        """Append to the list at a path; a new list gets the policy append."""
        parse_own_path(path[:1])
        if self._stage.extend(path, cells):
            try:
                self.adopt_policy(path, "append")
            except BaseException:
                self._stage.remove(path)  # else doing it again would append twice
                raise
        self._committer.settled(path)

    def extend_reserved(self, path: Path, cells: list[bytes]) -> int:
        """Append to a list under a reserved name; return its new length."""
        self._stage.extend(path, cells)
        return self._stage.length(path)

    def adopt_policy(self, path: Path, policy: str) -> None:
        """Give a path a merge policy, unless it has one."""
        if self._committer.policies().find(path) is None:
            self._stage.put((POLICY, exactly(path)), self._tree.put(policy))

    @synchronized
    def policy(self, pattern: str, name: str) -> None:
        """Choose how a path, or all paths that fit a pattern, merge. Staged like any edit."""
        check_policy(name, self._backend.resolvers)
        self._stage.put((POLICY, check_pattern(pattern)), self._tree.put(name))
        self._committer.settled((POLICY, pattern))

    @synchronized
    def policies(self) -> dict[str, str]:
        """Return the merge policies by pattern."""
        return self._committer.rules()

    # Reading

    @property
    def head(self) -> Commit | None:
        """The last commit this handle knows of."""
        return self._committer.head

    @property
    def merging(self) -> Commit | None:
        """The commit whose merge waits for decisions, or to be committed."""
        return self._committer.parent

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing to commit."""
        with self.lock:
            return not self._is_edited(self._flushed_root())

    def _is_edited(self, root: bytes) -> bool:
        """Tell whether a staged state differs from the head, or is that of a merge."""
        is_merge = self._committer.parent is not None
        return is_merge or not self._tree.same(root, self._committer.head_cell)

    @synchronized
    def status(self) -> list[Change]:
        """Return the staged edits."""
        return self._changes_to(self._flushed_root())

    def _changes_to(self, root: bytes) -> list[Change]:
        return without_reserved(differences(self._tree.frozen(), self._committer.head_cell, root))

    def at(self, target: Target) -> Snapshot:
        """Return the state at a commit, read-only."""
        return Snapshot(self._backend.cells(), self.resolve(target))

    def resolve(self, target: Target) -> Commit:
        """Return the commit that an expression like `main~2`, `@`, a tag or a prefix names."""
        if isinstance(target, Commit):
            return target
        return self._backend.refs.resolve(target, at=self.ref)

    @synchronized
    def diff(self, old: Target | None = None, new: Target | None = None) -> list[Change]:
        """Return what changed from `old`, or the head, to `new`, or the staged state."""
        before = self.resolve(old).cell if old is not None else self._committer.head_cell
        after = self.resolve(new).cell if new is not None else self._flushed_root()
        return without_reserved(differences(self._tree.frozen(), before, after))

    def log(
        self,
        target: Target | None = None,
        *,
        limit: int | None = None,
        path: str | Path | None = None,
    ) -> Iterator[Commit]:
        """Yield commits, the latest first; with `path`, those that changed it."""
        check_argument(limit, "limit", (int, NOTHING), "a whole number, or None for all")
        if target is None and self.head is None:
            return
        tip = self.resolve(target if target is not None else "@")
        commits = self._backend.graph.log(tip)
        if path is not None:
            commits = self._backend.path_history(self._tree).changes(tip, parse_path(path))
        yield from islice(commits, None if limit is None else max(limit, 0))

    def blame(self, path: str | Path = (), *, at: Target = "@") -> list[Blame]:
        """Return which commit set the value at a path, or each entry of the map or model there."""
        keys = parse_path(path) if path else ()
        blames = self._backend.path_history(self._tree).blame(self.resolve(at), keys)
        return [each for each in blames if keys or not each.path.startswith(".")]

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
        expect: Expected = ...,
    ) -> Commit:
        """Make the staged edits part of history, all at once.

        If others have committed since, the edits are merged into the current head. Without edits
        nothing is committed, and the head is returned. `reads` are commits of other refs that
        this one depends on; they are not collected before it is. `fences` are numbers that must
        not be lower than those the store has seen under the same names. `expect` is the commit that
        must be the head, None for a branch without commits: nothing is merged then.

        Raises:
            StaleRef: the head is not the one to `expect`. The edits stay staged.
            MergeConflict: others changed the same paths, or a merge is not resolved yet. The
                edits stay staged; `conflicts` lists what to decide.
            Fenced: a newer owner has committed with a higher fence.
        """
        if reads is not None:
            check_argument(reads, "reads", Mapping, "a mapping of refs to commits")
        with self.lock:
            self._flushed_root()
            return self._commit_staged(
                message,
                author=author,
                kind=kind,
                meta=meta,
                fences=fences,
                reads=reads,
                allow_empty=allow_empty,
                expect=expect,
            )

    def _commit_staged(
        self,
        message: str,
        *,
        author: str | None,
        kind: str,
        meta: Mapping[str, Any] | None,
        fences: Mapping[str, int] | None,
        reads: Mapping[str, Commit] | None,
        allow_empty: bool,
        expect: Expected,
    ) -> Commit:
        """Commit the staged state; the lock is held, and the values were flushed."""
        self._check_not_in_transaction("commit")
        self._committer.check_resolved()
        has_landed = self._committer.settle_doubts()  # an earlier call, whose reply was lost
        is_edited = self._is_edited(self._stage.root())
        if self.head is not None and has_landed and not is_edited:
            return self.head
        writes = self.head is None or is_edited or allow_empty
        if not isinstance(expect, EllipsisType):
            expected = None if expect is None else self.resolve(expect)
            # A write finds out by itself where the branch is in the store.
            self._committer.check_head(self.head if has_landed else expected, stored=not writes)
        if self.head is not None and not writes:
            return self.head
        if self._committer.parent is not None and kind == "step":
            kind = "merge"
        details = self._committer.details(message, author, kind, meta)
        details["reads"] = {ref: commit.hash for ref, commit in (reads or {}).items()}
        try:
            if_moved = self._if_moved if isinstance(expect, EllipsisType) else "refuse"
            commit = self._committer.land(details, fences or {}, if_moved=if_moved)
        except Error:
            self._reload()  # what others committed may have been merged in already
            raise
        self._set_head(commit)
        return commit

    @synchronized
    def transact(
        self,
        edit: Callable[[Self], R],
        message: str = "",
        *,
        author: str | None = None,
        meta: Mapping[str, Any] | None = None,
        reads: Mapping[str, Commit] | None = None,
        attempts: int = 1000,
        patience_seconds: float = PATIENCE_SECONDS,
        if_moved: Literal["rerun", "merge"] = "rerun",
        look_first: bool = True,
    ) -> R:
        """Call `edit(state)` on the current head and commit what it did; return its result.

            def sell(state):
                if state["stock"] == 0:
                    return False
                state["stock"] -= 1
                return True

            is_sold = state.transact(sell, "sold one")

        What `edit` reads is what its edits are committed on: if another writer is faster, its edits
        are discarded and it is called again on the new head, so let it do nothing else. It must
        not commit. If it raises, its edits are discarded. Other threads wait.
        `if_moved="merge"` is for edits that do not depend on what was read, such as adding to
        counters and lists: they are merged into what the other writer did, and `edit` is called
        again only if that conflicts.
        With `look_first=False` it is called on the head that this handle has, which saves a call to
        the store; where that is outdated it is called again, also if it has raised.

        If a commit gets no reply, the store is asked for up to `patience_seconds`, and it is sent
        again if it has not landed.

        Raises:
            Uncommitted: there are staged edits, which are not part of the transaction.
            Contention: others were faster as many times as there are `attempts`.
            Unavailable: the store gave no reply. Call it again with the same function: it finds out
                first, and what has landed is not run again. `discard()` gives it up.
            AlreadyCommitted: the transaction before this one was such a one, and has landed; this
                one was not run, because it has the same code and may be the same.
        """
        check_transaction(edit, attempts, patience_seconds, if_moved)
        self._check_not_in_transaction("transact")
        commit = partial(self.commit, message, author=author, meta=meta, reads=reads)
        repeated = self._transactions.settle(self, edit, commit, patience_seconds)
        if repeated is not None:
            return repeated.result
        self._require_clean("transact")
        run = partial(self._run, edit, if_moved)
        return self._transactions.until_landed(
            self, run, commit, attempts, patience_seconds, look_first=look_first
        )

    @synchronized
    def commit_change(
        self, change: Callable[[], bool], message: str = "", *, kind: str = "step"
    ) -> bool:
        """Commit what is staged together with a change, which is made again if others were faster.

        Like `transact`, for a caller that has staged edits: those are merged into what others have
        committed, and `change` is made anew. False: it had nothing to do, and nothing is committed.

        Raises:
            MergeConflict: others changed the paths of edits that were staged before.
        """
        self.refresh()
        while True:
            before, head = self._flushed_root(), self.head
            try:
                is_wanted = self._edit_in_transaction(lambda state: change())
            except BaseException:
                self._stage.reset(before)
                self._reload()
                raise
            if not is_wanted:
                return False
            try:
                self.commit(message, kind=kind, expect=head)
            except StaleRef as stale:
                if stale.name != self.ref:
                    raise
                self._committer.move_up(before)
                self._reload()
            else:
                return True

    @cached_property
    def _transactions(self) -> Transactions:
        return Transactions(self._backend, self._committer, self._stage, self.ref)

    def _run(self, edit: Callable[[Self], R], if_moved: str, head: Commit | None) -> Transaction[R]:
        read = head if if_moved == "rerun" else ...
        return Transaction(edit, self._edit_in_transaction(edit), read)

    def _edit_in_transaction(self, edit: Callable[[Self], R]) -> R:
        """Call a function that may edit and must not commit or move the branch."""
        held, self._held_until = self._held_until, "transact() commits when the function returns"
        try:
            return edit(self)
        finally:
            self._held_until = held

    def hold_commits(self, hint: str) -> None:
        """Refuse to commit what is a part of something, with a hint on when it is; "" ends it."""
        self._held_until = hint

    def _check_not_in_transaction(self, verb: str) -> None:
        """Refuse a verb that would commit half of a transaction."""
        if self._held_until:
            raise Invalid(f"{verb}: not inside a transaction", hint=self._held_until)

    def attempts(self, ref: str = "") -> Attempts:
        """Return the attempts of this session, or of the session of another branch."""
        return Attempts(self._backend, ref if is_branch_ref(ref) else self.ref)

    @synchronized
    def fork(self, name: str, *, at: Target = "@") -> Self:
        """Start another branch at a commit, and return it. Staged edits stay here."""
        ref = sibling_ref(self.ref, name)
        start = self.resolve(at)
        if self._backend.store.ref(ref) is not None:
            raise RefExists(
                f"branch {name} already exists",
                hint=f"open it with repo.session({self.session!r}, branch={name!r})",
            )
        self._committer.move(ref, None, start, note=f"{FORK}from {self.name}")
        return self._sibling(ref)

    @synchronized
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
        details = self._committer.details(message or f"merge {name}", author, "merge")
        try:
            result = self._committer.merge(theirs, details)
        except BaseException:
            self._reload()  # the branch may stand on what others have committed
            raise
        if result.commit is not None:
            self._set_head(result.commit)
        else:
            self._reload()
        return result

    @property
    def conflicts(self) -> list[PathConflict]:
        """What the merge in progress leaves to decide."""
        with self.lock:
            return self._committer.conflicts()

    @synchronized
    def resolve_conflict(
        self, path: str | Path, *, take: str | None = None, value: object = ...
    ) -> None:
        """Settle a conflict by a side (`take="ours"`, `"theirs"` or `"base"`) or by a value.

        Raises:
            KeyNotFound: there is no conflict at this path.
            Invalid: neither `take` nor `value` is given, or both are, or the side is unknown.
        """
        if (take is None) == (value is ...):
            raise Invalid(
                "resolve_conflict takes either take or value",
                hint="give take='ours', 'theirs' or 'base', or value=…",
            )
        self._committer.check_conflict(parse_path(path))
        if take is None:
            self[path] = value
        else:
            self._flushed_root()  # changes in place are staged before the side is
            self._committer.take_side(parse_path(path), take)
            self._reload()

    @synchronized
    def draft(self, edit: Callable[[Self], object], message: str = "") -> Commit:
        """Return what is staged, and what `edit(state)` does, as a commit that no branch has.

        The next commit here writes it, and has to merge it, or to `carry` it, for it to be kept.
        """
        before = self._flushed_root()
        self._edit_in_transaction(edit)
        self._check_storable()
        draft = self._committer.make_draft(self._committer.details(message, None, "draft"), before)
        self._reload()
        return draft

    def _check_storable(self) -> object:
        return self._flushed_root()

    @synchronized
    def stage_merge(self, commit: Commit) -> list[PathConflict]:
        """Stage what another commit changed, for the next commit; also inside a transaction.

        Where the two disagree our side is staged; the conflicts are returned, and not recorded.
        """
        self._flushed_root()
        try:
            return self._committer.stage_merge(commit)
        finally:
            self._reload()

    @synchronized
    def rollback(
        self, target: Target | None = None, *, steps: int | None = None, discard: bool = False
    ) -> Commit:
        """Go back to an earlier state by a new commit; history stays.

        Without a target it goes back by `steps` (1 by default), counted over what is in effect: a
        step that was rolled back is not one to go back by again.

        Raises:
            Uncommitted: there are staged edits; `discard=True` drops them.
            CommitNotFound: there are not so many steps.
        """
        if not discard:
            self._require_clean("rollback", hint="commit() them, or rollback(…, discard=True)")
        self._check_not_in_transaction("rollback")
        if target is not None and steps is not None:
            raise Invalid("rollback: target and steps are both given", hint="give one of them")
        self._flushed_root()  # changes in place are dropped too, or stay staged if this fails
        count = 1 if steps is None else steps
        goal = self.earlier(count) if target is None else self.resolve(target)
        message = f"rollback to {goal.short} {goal.message}".rstrip()
        details = self._committer.details(message, None, "rollback", {"to": goal.id})
        try:
            commit = self._committer.land_instead(goal, details)
        except BaseException:
            self._reload()
            raise
        self._set_head(commit)
        return commit

    def earlier(self, steps: int = 1) -> Commit:
        """Return the commit that `rollback(steps=…)` goes back to, or raise CommitNotFound."""
        if type(steps) is not int or steps < 1:
            raise Invalid(f"steps must be an int, at least 1, got {steps!r}")
        return self._backend.graph.earlier(self.resolve("@"), steps, branch=self.name)

    @synchronized
    def undo(self) -> Commit:
        """Move the branch back to before its last commit, merge or rollback; `redo` goes forward.

        Before the first commit is an empty state, with a commit of its own.
        """
        self._require_clean("undo")
        return self._move_to(Undo.back)

    @synchronized
    def redo(self) -> Commit:
        """Take back the last undo."""
        self._require_clean("redo")
        return self._move_to(Undo.forward)

    @synchronized
    def discard(self) -> None:
        """Drop all staged edits, and the merge in progress."""
        self._committer.stash.leave()  # first: landing other edits must not remove it
        self._stage.reset(self._committer.head_cell)
        self._committer.drop_merge()
        self._tree.objects.clear()
        self._reload()

    @synchronized
    def stash(self) -> None:
        """Write the staged edits to the store, for another process to resume with `unstash`.

        Without edits, the stash that this handle has seen is removed.

        Raises:
            StaleRef: another process has stashed edits that this handle has not seen. Nothing was
                written: `unstash` a fresh handle to see them.
            RefNotFound: the branch was deleted, and a new one of that name would find them.
        """
        self._check_not_in_transaction("stash")
        self._committer.settle_doubts()  # what has landed must not be staged again elsewhere
        root = self._flushed_root()
        if self._is_edited(root):
            self._committer.stash_edits(root)
        else:
            self._committer.stash.clear()

    @synchronized
    def unstash(self) -> None:
        """Stage the stashed edits, if there are any; committing them removes the stash.

        Raises:
            Uncommitted: other edits are staged here.
        """
        self._require_clean("unstash")
        if self._committer.take_up_stash():
            self._reload()

    @synchronized
    def refresh(self) -> Commit | None:
        """Move to the current head, unless edits are staged: those are merged when committed."""
        head = self._backend.refs.head(self.ref)
        if head is not None and (self.head is None or head.id != self.head.id) and self.is_clean:
            self._set_head(head)
        return self.head

    def _move_to(self, choose: Callable[[Undo], tuple[Hash | None, str]]) -> Commit:
        """Move the ref to where the history of its moves says, and follow it."""
        moves = self._backend.store.moves(self.ref)
        hash, note = choose(Undo(moves))
        # From where the history that was read ends: what lands after that is not undone with it.
        if hash is None:
            details = self._committer.details("before the first commit", None, "undo")
            goal = self._committer.start_again(moves[0].new, details, note)
        else:
            goal = self._backend.graph.commit(hash)
            self._committer.move(self.ref, moves[0].new, goal, note=note)
        self._set_head(goal)
        return goal

    def _set_head(self, commit: Commit) -> None:
        self._committer.stand_on(commit)
        self._reload()

    def commit_as(self, author: str, *, fences: Mapping[str, int] | None = None) -> None:
        """Let all commits of this handle, and of its forks, have this author and these fences."""
        check_argument(author, "author", str, "a name")
        self._committer.author, self._committer.fences = author, dict(fences or {})

    def look_only(self, refusal: Callable[[], Error]) -> None:
        """Refuse all that this handle would write, with an error."""
        self._committer.refusal = refusal

    def carry(self, fences: Mapping[str, int] = {}, *, reads: Mapping[str, Hash] = {}) -> None:
        """Let the commit of what is staged have more fences and reads; `discard` drops them too."""
        self._committer.carry(fences, reads)

    def _sibling(self, ref: str) -> Self:
        """Return a handle on another branch that commits as this one does."""
        other = self._open(ref)
        if self._committer.author is not None:
            other.commit_as(self._committer.author, fences=self._committer.fences)
        return other

    def _open(self, ref: str) -> Self:
        return type(self)(self._backend, ref)

    def _require_clean(self, verb: str, *, hint: str = "commit() or discard() them first") -> None:
        """Refuse a verb that would drop staged edits, or commit a part of a transaction."""
        self._check_not_in_transaction(verb)
        if not self.is_clean:
            if self._committer.in_doubt is not None:
                hint = "their commit got no reply and may have landed: commit() finds out"
            raise Uncommitted(f"{verb}: there are staged edits on {self.name}", hint=hint)

    def __repr__(self) -> str:
        where = self.head.short if self.head else "no commit yet"
        return f"<Branch {self.session}/{self.name} {where}>"
