"""Stash: the staged edits of a branch in the store, for another process to resume."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from otolith.core.backend import Backend
from otolith.core.history.commits import Commit, make_commit
from otolith.core.history.refs import stage_ref
from otolith.core.trees.layout import cell_links
from otolith.core.trees.objects import Buffer
from otolith.errors import (
    Busy,
    Closed,
    Conflict,
    Denied,
    Erased,
    Full,
    Invalid,
    NotFound,
    ReadOnly,
    StaleRef,
    Unavailable,
)
from otolith.stores import Batch, Object, Swap
from otolith.types import Hash

REFUSALS = (Busy, Closed, Conflict, Denied, Erased, Full, Invalid, NotFound, ReadOnly)
"""What a store raises only if nothing was written."""


class Stash:
    """Staged edits of a branch in the store, for another process to resume.

    A stash is a commit under `stage/`: its root is the staged state, its parents are the head the
    edits were made on and, during a merge, the commit that is being merged. A branch has at most
    one. A handle replaces only a stash that it has seen, and the commit of stashed edits removes
    the stash in the same write.
    """

    def __init__(
        self, backend: Backend, branch_ref: str, *, fences: Callable[[], Mapping[str, int]]
    ) -> None:
        self._backend = backend
        self._fences = fences  # what every write of the handle carries
        self.ref = stage_ref(branch_ref)
        self.staged: Swap | None = None  # removes the stash that the staged edits are in
        self.seen: Swap | None = None  # removes the stash that this handle last saw
        # Removes a stash that was written without a reply, and whether it is what is staged.
        self._in_doubt: tuple[Swap, bool] | None = None

    def load(self) -> Commit | None:
        """Return the stash as a commit."""
        return self._backend.refs.head(self.ref)

    def take_up(self, stashed: Commit) -> None:
        """Note that the stash is staged; the commit of it removes it."""
        self.staged = self.seen = Swap(self.ref, stashed.hash, None)

    def write(
        self,
        cell: bytes,
        parents: tuple[Commit, ...],
        objects: Buffer,
        *,
        branch: Swap,
        edited_from: Sequence[Hash] = (),
    ) -> None:
        """Replace the stash that was seen by a staged state.

        `branch` is the check that the branch has not moved; `edited_from` are other commits whose
        objects the state may share.

        Raises:
            StaleRef: the branch has moved, or another process has replaced the stash.
            NotFound: the commits that were edited were deleted and collected.
        """
        now, author = self._backend.clock(), self._backend.author
        commit, data = make_commit(cell, parents, now=now, author=author, message="", kind="stage")
        new = [*objects.reachable(next(cell_links(cell))), Object(commit.hash, data)]
        swap = Swap(self.ref, self.seen.old if self.seen is not None else None, commit.hash)
        needs = [*(parent.hash for parent in parents), *edited_from]
        removal = Swap(self.ref, commit.hash, None)
        self._in_doubt = (removal, True)
        try:
            self._backend.refs.write(
                self._backend.store,
                Batch(new, [swap, branch], self._fences(), needs, time=now, note="stage: "),
            )
        except REFUSALS:
            self._in_doubt = None
            raise
        except Unavailable:
            self.settle()
            if self.staged != removal:
                raise
        self.staged, self.seen, self._in_doubt = removal, removal, None

    def clear(self) -> None:
        """Remove the stash that was seen."""
        if self.seen is not None:
            now, swaps = self._backend.clock(), [self.seen]
            batch = Batch(swaps=swaps, fences=self._fences(), time=now, note="stage: drop")
            try:
                self._backend.refs.write(self._backend.store, batch)
            except StaleRef as stale:
                if stale.actual is not None:
                    raise  # otherwise it was removed before, and only the reply was lost
        self.staged = self.seen = None

    def leave(self) -> None:
        """Let the stash stay when the staged state lands."""
        doubt = self._in_doubt
        self.staged, self._in_doubt = None, (doubt[0], False) if doubt is not None else None

    def settle(self) -> None:
        """Find out whether a stash that was written without a reply is there."""
        if self._in_doubt is None:
            return
        removal, is_staged = self._in_doubt
        if self._backend.store.ref(removal.name) == removal.old:
            self.seen, self.staged = removal, removal if is_staged else self.staged
        self._in_doubt = None

    def landed(self) -> None:
        """Note that the staged state, and a stash of it, is part of history now."""
        if self.staged is not None:
            self.staged = self.seen = None
