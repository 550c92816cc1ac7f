"""Undo and redo: where a branch was before its last move, read from the history of its ref."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otolith.core.graph import Commit
from otolith.errors import NotFound
from otolith.stores import Move
from otolith.types import Hash

if TYPE_CHECKING:
    from otolith.core.repo import Repo

UNDO, REDO = "undo: ", "redo: "


class Undo:
    """The moves of one ref, as what was done and what was undone."""

    def __init__(self, repo: Repo, ref: str) -> None:
        self._repo = repo
        self._done: list[Move] = []
        self._undone: list[Move] = []
        for move in reversed(repo.store.moves(ref)):
            self._replay(move)

    def _replay(self, move: Move) -> None:
        if move.note.startswith(UNDO) and self._done:
            self._undone.append(self._done.pop())
        elif move.note.startswith(REDO) and self._undone:
            self._done.append(self._undone.pop())
        else:
            self._done.append(move)
            self._undone.clear()

    def back(self) -> tuple[Commit, str]:
        """Return where undo leads, and what to note."""
        move = self._done[-1] if self._done else None
        if move is None or move.old is None:
            raise NotFound("there is nothing to undo", hint="this is where the branch began")
        return self._commit(move.old), UNDO + move.note

    def forward(self) -> tuple[Commit, str]:
        """Return where redo leads, and what to note."""
        move = self._undone[-1] if self._undone else None
        if move is None or move.new is None:
            raise NotFound("there is nothing to redo", hint="redo follows undo, before new commits")
        return self._commit(move.new), REDO + move.note

    def _commit(self, hash: Hash) -> Commit:
        return self._repo.graph.commit(hash)
