"""Staged edits put away in the store, so that another process can go on with them.

A shelf is a commit under `stage/`: its root is the staged state, its parents are the head the
edits were made on and, during a merge, the commit that is being merged. Committing takes it down.
"""

from __future__ import annotations

from collections.abc import Sequence

from otolith.core.archive import Archive
from otolith.core.history.graph import Commit, make_commit
from otolith.core.history.refs import stage_ref
from otolith.core.trees.layout import cell_links
from otolith.core.trees.objects import Buffer
from otolith.stores import Batch, Object, Swap
from otolith.types import Hash


class Shelf:
    """Where the staged edits of one branch are put away."""

    def __init__(self, archive: Archive, branch_ref: str) -> None:
        self._archive = archive
        self.ref = stage_ref(branch_ref)

    def load(self) -> Commit | None:
        """Return what was put away."""
        return self._archive.refs.head(self.ref)

    def takedown(self) -> Swap | None:
        """Return the swap that empties the shelf, if there is something on it."""
        held = self._archive.store.ref(self.ref)
        return Swap(self.ref, held, None) if held is not None else None

    def save(
        self,
        cell: bytes,
        parents: tuple[Commit, ...],
        objects: Buffer,
        *,
        seen: Swap | None,
        edited_from: Sequence[Hash] = (),
    ) -> Swap:
        """Put a staged state away in place of what was seen there; return what takes it down.

        `edited_from` are other commits whose objects the state may share.

        Raises:
            StaleRef: another process has put something else there meanwhile.
            NotFound: what was edited is gone, and was collected.
        """
        now, author = self._archive.clock(), self._archive.author
        commit, data = make_commit(cell, parents, now=now, author=author, message="", kind="stage")
        new = [*objects.reachable(next(cell_links(cell))), Object(commit.hash, data)]
        swap = Swap(self.ref, seen.old if seen is not None else None, commit.hash)
        needs = [*(parent.hash for parent in parents), *edited_from]
        batch = Batch(objects=new, swaps=[swap], needs=needs, time=now, note="stage: ")
        self._archive.store.write(batch)
        return Swap(self.ref, commit.hash, None)

    def clear(self, seen: Swap | None) -> None:
        """Take down what was seen on the shelf."""
        if seen is not None:
            self._archive.store.write(
                Batch(swaps=[seen], time=self._archive.clock(), note="stage: drop")
            )
