"""Attempts: what was begun under a key, and how it ended; beside the branches of a session.

    .attempts/<scope>/<id>    a commit without parents; its state is a dict: key -> attempt

A branch can be forked, merged, undone and rolled back. What was done to the world cannot: a mark on
the branch that a mail was begun is not on the fork, and is gone after an undo. So the mark is in a
shared map (`shared_map.py`), which no verb of a branch moves.

Rules
1. Before something happens that must not happen twice, its key is claimed: `swap` puts an attempt
   where there was none, by a conditional write of the store. Of two processes, or two branches, one
   gets it. The other finds the attempt, and how it ended.
2. An attempt that was begun and has not ended names its owner. If the owner died, the outcome is
   *unknown*: it is asked for, or reported, and never guessed.
3. They have no history: each write replaces the commit, so only the moves of the ref remember it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from otolith.core.backend import Backend
from otolith.core.history.commits import Commit
from otolith.core.shared_map import MapEdit, SharedMap, attempts_ref
from otolith.errors import Corrupt, Unavailable
from otolith.shapes import Shape, fields

AttemptStatus: TypeAlias = Literal["begun", "done", "failed", "unknown"]
_DID_NOT_HAPPEN = "it did not happen"
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

    def settled(self, *, happened: bool, result: Any = None) -> Attempt:
        """Return the attempt as somebody says that it ended, who has found out."""
        how: AttemptStatus = "done" if happened else "failed"
        return Attempt(how, "", self.time, result, "" if happened else _DID_NOT_HAPPEN)

    @property
    def may_be_made_again(self) -> bool:
        """Whether somebody has found out that it did not happen."""
        return (self.status, self.by, self.error) == ("failed", "", _DID_NOT_HAPPEN)

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
        self._map = SharedMap(backend, attempts_ref(branch_ref), kind="attempts")

    def __repr__(self) -> str:
        return f"<Attempts {self._map.ref}>"

    def find(self, key: str) -> Attempt | None:
        """Return the attempt of a key; None if there was none."""
        return _at(self._map.read(), key)

    def swap(self, key: str, old: Attempt | None, new: Attempt | None) -> bool:
        """Replace the attempt of a key, if it is still the old one; return whether it was.

        Raises:
            BadValue: the result cannot be stored.
            Unavailable: the disk failed, and the new attempt is not there.
        """

        def replace(draft: MapEdit) -> bool:
            is_old = _is_same(old, _at(draft, key))
            if is_old:
                draft.put(key, None if new is None else new._asdict())
            return is_old

        try:
            return self._map.change(replace)
        except Unavailable:  # another may have done the same, or this one has landed by now
            if not _is_same(new, self.find(key)):
                raise
            return True

    def absorb(self, other: Commit) -> None:
        """Add the attempts of another store, whose objects were copied to this one.

        Where both have an attempt of one key, one that has ended wins over one that has not.
        """
        theirs = self._map.at(other)

        def add(draft: MapEdit) -> None:
            for key in theirs.items():
                ours, new = _at(draft, key), _at(theirs, key)
                if new and (ours is None or (ours.status == "begun" and new.status != "begun")):
                    draft.put(key, new._asdict())

        self._map.change(add, needs=(other.hash,))


def _at(edit: MapEdit, key: str) -> Attempt | None:
    data = edit.get(key)
    return None if data is None else Attempt.from_data(data, key)


def _is_same(attempt: Attempt | None, found: Attempt | None) -> bool:
    return found is None if attempt is None else attempt.is_same(found)
