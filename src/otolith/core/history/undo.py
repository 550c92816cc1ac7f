"""Undo and redo: where a branch was before its last move, read from the history of its ref."""

from __future__ import annotations

from otolith.errors import NotFound
from otolith.stores import Move
from otolith.types import Hash

UNDO, REDO = "undo: ", "redo: "


class Undo:
    """The moves of one ref, as what was done and what was undone."""

    def __init__(self, moves: list[Move]) -> None:
        self._done: list[Move] = []
        self._undone: list[Move] = []
        for move in reversed(moves):
            self._replay(move)

    def _replay(self, move: Move) -> None:
        if move.note.startswith(UNDO) and self._done and move.new == self._done[-1].old:
            self._undone.append(self._done.pop())
        elif move.note.startswith(REDO) and self._undone and move.new == self._undone[-1].new:
            self._done.append(self._undone.pop())
        else:
            self._done.append(move)
            self._undone.clear()

    def back(self) -> tuple[Hash, str]:
        """Return where undo leads, and what to note."""
        move = self._done[-1] if self._done else None
        if move is None or move.old is None:
            raise NotFound("there is nothing to undo", hint="this is where the branch began")
        return move.old, UNDO + move.note

    def forward(self) -> tuple[Hash, str]:
        """Return where redo leads, and what to note."""
        move = self._undone[-1] if self._undone else None
        if move is None or move.new is None:
            raise NotFound("there is nothing to redo", hint="redo follows undo, before new commits")
        return move.new, REDO + move.note
