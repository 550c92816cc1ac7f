"""Staged edits put away in the store, so that another process can go on with them.

A shelf is a commit under `stage/`: its root is the staged state, its parents are the head the
edits were made on and, during a merge, the commit that is being merged. Committing takes it down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otolith.core.graph import Commit, make_commit
from otolith.core.objects import Buffer, cell_links
from otolith.core.refs import stage_ref
from otolith.stores import Batch, Object, Swap

if TYPE_CHECKING:
    from otolith.core.repo import Repo


class Shelf:
    """Where the staged edits of one branch are put away."""

    def __init__(self, repo: Repo, session: str, branch: str) -> None:
        self._repo = repo
        self.ref = stage_ref(session, branch)

    def load(self) -> Commit | None:
        """Return what was put away."""
        return self._repo.refs.head(self.ref)

    def takedown(self) -> Swap | None:
        """Return the swap that empties the shelf, if there is something on it."""
        held = self._repo.store.ref(self.ref)
        return Swap(self.ref, held, None) if held is not None else None

    def save(self, cell: bytes, parents: tuple[Commit, ...], objects: Buffer) -> None:
        """Put a staged state away, in place of what is there."""
        now, author = self._repo.clock(), self._repo.author
        commit, data = make_commit(cell, parents, now=now, author=author, message="", kind="stage")
        new = [*objects.reachable(next(cell_links(cell))), Object(commit.hash, data)]
        held = self._repo.store.ref(self.ref)
        self._repo.store.write(
            Batch(objects=new, swaps=[Swap(self.ref, held, commit.hash)], time=now, note="stage: ")
        )

    def clear(self) -> None:
        """Empty the shelf."""
        swap = self.takedown()
        if swap is not None:
            self._repo.store.write(Batch(swaps=[swap], time=self._repo.clock(), note="stage: drop"))
