"""Attempts: what was begun under a key, and how it ended; beside the branches of a session.

    .attempts/<scope>/<id>    a commit without parents; its state is a dict: key -> attempt

A branch can be forked, merged, undone and rolled back. What was done to the world cannot: a mark on
the branch that a mail was begun is not on the fork, and is gone after an undo. So the mark is here,
under a ref that no verb of a branch moves.

Rules
1. Before something happens that must not happen twice, its key is claimed: `swap` puts an attempt
   where there was none, by a conditional write of the store. Of two processes, or two branches, one
   gets it. The other finds the attempt, and how it ended.
2. An attempt that was begun and has not ended names its owner. If the owner died, the outcome is
   *unknown*: it is asked for, or reported, and never guessed.
3. Attempts last as long as a branch of the session, a stash, or a remembered move of one can refer
   to them; `orphans` returns those that nothing can, for a collection to remove.
4. They have no history: each write replaces the commit, so only the moves of the ref remember it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from otolith.core.backend import Backend
from otolith.core.history.commits import Commit, make_commit
from otolith.core.stage import Stage
from otolith.core.trees.cells import EMPTY_MAP, Cells
from otolith.core.trees.layout import cell_links
from otolith.errors import Corrupt, StaleRef, Unavailable
from otolith.shapes import Shape, fields
from otolith.stores import Batch, Object, Store, Swap
from otolith.types import Hash

AttemptStatus: TypeAlias = Literal["begun", "done", "failed", "unknown"]
_PREFIX = ".attempts/"
_SHAPE: Shape = {"status": str, "by": str, "time": int, "result": object, "error": str}


class Attempt(NamedTuple):
    """One thing that must not happen twice: who began it, and how it ended."""

    status: AttemptStatus
    by: str = ""
    """The owner that began it."""
    time: int = 0
    result: Any = None
    error: str = ""

    def is_same(self, other: Attempt | None) -> bool:
        """Tell whether this is the same stage of the same attempt; results are not compared."""
        return other is not None and self[:3] == other[:3]

    def ended(self, status: AttemptStatus, *, result: Any = None, error: str = "") -> Attempt:
        """Return the attempt with its end."""
        return self._replace(status=status, result=result, error=error)

    @classmethod
    def from_data(cls, data: object, key: str) -> Attempt:
        """Return the attempt that is stored as this.

        Raises:
            Corrupt: this is not an attempt.
        """
        what = f"the attempt {key}"
        found = fields(data, what, _SHAPE) if isinstance(data, Mapping) else {}
        if found.get("status") not in get_args(AttemptStatus):
            raise Corrupt(f"{what} cannot be read", hint="run otolith fsck")
        return cls(**found)


class Attempts:
    """The attempts of one session, user or application. Threads and processes may share them."""

    def __init__(self, backend: Backend, branch_ref: str) -> None:
        self._backend = backend
        self._ref = attempts_ref(branch_ref)

    def __repr__(self) -> str:
        return f"<Attempts {self._ref}>"

    def find(self, key: str) -> Attempt | None:
        """Return the attempt of a key; None if there was none."""
        cells = self._backend.cells()
        return self._at(self._stage(cells, self._head()), key, cells)

    def swap(self, key: str, old: Attempt | None, new: Attempt | None) -> bool:
        """Replace the attempt of a key, if it is still the old one; return whether it was.

        Raises:
            BadValue: the result cannot be stored.
            Unavailable: the disk failed, and the new attempt is not there.
        """
        while True:  # each lost race means that another attempt was written
            head, cells = self._head(), self._backend.cells()
            stage = self._stage(cells, head)
            found = self._at(stage, key, cells)
            if not (found is None if old is None else old.is_same(found)):
                return False
            if new is not None:
                stage.put((key,), cells.put(new._asdict()))
            elif found is not None:
                stage.remove((key,))
            else:
                return True
            try:
                self._write(head, stage, cells)
            except StaleRef:
                continue
            except Unavailable:  # it may have been written, and only the reply was lost
                found = self.find(key)
                if not (found is None if new is None else new.is_same(found)):
                    raise
            return True

    def absorb(self, other: Commit) -> None:
        """Add the attempts of another store, whose objects were copied to this one.

        Where both have an attempt of one key, one that has ended wins over one that has not.
        """
        while True:
            head, cells = self._head(), self._backend.cells()
            stage, theirs = self._stage(cells, head), self._stage(cells, other)
            before = stage.root()
            for key, cell in cells.entries(theirs.root()):
                name = str(cells.encoding.unkey(key))
                ours, new = self._at(stage, name, cells), self._at(theirs, name, cells)
                if ours is None or (ours.status == "begun" and new and new.status != "begun"):
                    stage.put((name,), cells.loosen(cell))
            if stage.root() == before:
                return
            try:
                self._write(head, stage, cells, needs=(other.hash,))
            except StaleRef:
                continue
            return

    def _head(self) -> Commit | None:
        return self._backend.refs.head(self._ref)

    def _stage(self, cells: Cells, head: Commit | None) -> Stage:
        stage = Stage(cells, EMPTY_MAP)
        stage.reset(EMPTY_MAP if head is None else head.cell)
        return stage

    def _at(self, stage: Stage, key: str, cells: Cells) -> Attempt | None:
        cell = stage.get((key,))
        return None if cell is None else Attempt.from_data(cells.load(cell), key)

    def _write(
        self, head: Commit | None, stage: Stage, cells: Cells, *, needs: tuple[Hash, ...] = ()
    ) -> None:
        """Write the staged attempts; the swap of the ref vouches for what they share with it."""
        now, author = self._backend.clock(), self._backend.author
        cell = cells.root(stage.root())
        new = cells.objects.reachable(next(cell_links(cell)))
        commit, data = make_commit(cell, (), now=now, author=author, message="", kind="attempts")
        swap = Swap(self._ref, None if head is None else head.hash, commit.hash)
        objects = [*new, Object(commit.hash, data)]
        needs = needs if new else (*needs, *cell_links(cell))
        self._backend.store.write(
            Batch(objects=objects, swaps=[swap], needs=needs, time=now, note="attempt")
        )


def attempts_ref(ref: str) -> str:
    """Return the ref of the attempts of the session that a branch, or its stash, belongs to."""
    scope, id, _ = ref.split("/", 2)
    scope = "session" if scope == "stage" else scope.removeprefix("stage.")
    return f"{_PREFIX}{scope}/{id}"


def orphans(store: Store, before: int) -> list[Swap]:
    """Return the removals of attempts that no branch, stash, or move since a time can refer to."""
    attempts = store.refs(_PREFIX)
    lost = attempts.keys() - _homes(store.refs()) if attempts else set()
    if lost:
        lost -= _homes(move.name for move in store.moves() if move.time >= before)
    return [Swap(name, attempts[name], None) for name in sorted(lost)]


def _homes(refs: Iterable[str]) -> set[str]:
    """Return the refs of the attempts that branches and stashes may refer to."""
    return {attempts_ref(ref) for ref in refs if not ref.startswith(".") and ref.count("/") > 1}
