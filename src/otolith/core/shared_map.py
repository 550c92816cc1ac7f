"""SharedMap: a dict under a ref of its own, which processes change by compare-and-set.

    .attempts/<scope>/<id>          what was begun and must not happen twice (attempts.py)
    .shared/<scope>/<id>/<topic>    what the users of a state agree on now: leases, queues

A branch can be forked, merged, undone and rolled back. What processes agree on must not follow it:
who holds a lease is the same on every branch, and an undo does not take it back. So it is here,
under a ref that no verb of a branch moves.

Rules
1. A change is a function of what is there. A lost race means that another change landed, and the
   function is called again; so it does nothing but read and edit the map.
2. Each write is a commit without parents, with a random number in it: no two writes are the same,
   and one whose reply is lost is found in the history of the ref.
3. A map lasts as long as a branch of its state, a stash, or a remembered move of one can refer to
   it; `orphans` returns those that nothing can, for a collection to remove.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from otolith.core.backend import Backend
from otolith.core.history.commits import Commit, make_commit
from otolith.core.stage import Stage
from otolith.core.trees.cells import EMPTY_MAP, Cells
from otolith.core.trees.layout import cell_links
from otolith.errors import Fenced, StaleRef, Unavailable
from otolith.stores import Batch, Object, Store, Swap, has_landed, turn_at
from otolith.types import Hash

R = TypeVar("R")

ATTEMPTS, SHARED = ".attempts/", ".shared/"


class MapEdit:
    """A shared map with the edits that one change makes to it."""

    def __init__(self, cells: Cells, root: bytes) -> None:
        self.cells = cells
        self.stage = Stage(cells, EMPTY_MAP)
        self.stage.reset(root)

    def get(self, key: str) -> Any:
        """Return the value of a key; None if there is none."""
        cell = self.stage.get((key,))
        return None if cell is None else self.cells.load(cell)

    def put(self, key: str, value: object) -> None:
        """Set the value of a key; None removes it."""
        if value is not None:
            self.stage.put((key,), self.cells.put(value))
        elif self.stage.get((key,)) is not None:
            self.stage.remove((key,))

    def items(self) -> dict[str, Any]:
        """Return all keys and values."""
        pairs = self.cells.entries(self.stage.root())
        return {str(self.cells.encoding.unkey(key)): self.cells.load(c) for key, c in pairs}


class SharedMap:
    """A dict under a ref. Threads and processes may share it."""

    def __init__(self, backend: Backend, ref: str, *, kind: str) -> None:
        self._backend = backend
        self._kind = kind
        self.ref = ref

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.ref}>"

    def read(self) -> MapEdit:
        """Return what is there now, to read."""
        return self.at(self._head())

    def at(self, commit: Commit | None) -> MapEdit:
        """Return what is there at a commit of a map, to read or to change."""
        return MapEdit(self._backend.cells(), EMPTY_MAP if commit is None else commit.cell)

    def change(
        self,
        edit: Callable[[MapEdit], R],
        *,
        fences: Mapping[str, int] | Callable[[], Mapping[str, int]] = {},  # noqa: B006 - only read
        needs: tuple[Hash, ...] = (),
    ) -> R:
        """Call `edit` on what is there and write what it did; again, if another was faster.

        `fences` may be a function, called after the edit. Nothing is written if nothing changed.

        Raises:
            BadValue: a value cannot be stored.
            Fenced: the store has seen a higher number under the name of a fence.
            Unavailable: the store failed, and the change is not there, or nobody knows.
        """
        with turn_at(self._backend.store, self.ref) as turn:
            while (done := self._changed(edit, fences, needs)) is None:
                turn.wait()  # each lost race means that another change landed
        return done[0]

    def _changed(
        self,
        edit: Callable[[MapEdit], R],
        fences: Mapping[str, int] | Callable[[], Mapping[str, int]],
        needs: tuple[Hash, ...],
    ) -> tuple[R] | None:
        """Return what an edit has returned, once it is written; None if another was faster."""
        head = self._head()
        draft = self.at(head)
        before = draft.stage.root()
        result = edit(draft)
        if draft.cells.same(draft.stage.root(), before):
            return (result,)
        found = fences() if callable(fences) else fences
        batch = self._batch(head, draft, found, needs)
        try:
            self._backend.refs.write(self._backend.store, batch)
        except StaleRef:
            return None
        except Fenced:  # the fences of a change that lost the race are outdated
            if self._backend.store.ref(self.ref) == (None if head is None else head.hash):
                raise
            return None
        except Unavailable:  # it may have been written, and only the reply was lost
            if not has_landed(self._backend.store, batch):
                raise
        return (result,)

    def _head(self) -> Commit | None:
        return self._backend.refs.head(self.ref)

    def _batch(
        self,
        head: Commit | None,
        draft: MapEdit,
        fences: Mapping[str, int],
        needs: tuple[Hash, ...],
    ) -> Batch:
        """Return the write of a change; the swap of the ref vouches for what it shares with it."""
        backend, cells = self._backend, draft.cells
        cell = cells.root(draft.stage.root())
        new = cells.objects.reachable(next(cell_links(cell)))
        commit, data = make_commit(
            cell,
            (),
            now=backend.clock(),
            author=backend.author,
            message="",
            kind=self._kind,
            meta={"number": backend.entropy(8)},
        )
        return Batch(
            objects=[*new, Object(commit.hash, data)],
            swaps=[Swap(self.ref, None if head is None else head.hash, commit.hash)],
            fences=fences,
            needs=needs if new else (*needs, *cell_links(cell)),
            time=commit.time,
            note=self._kind,
        )


def shared_ref(branch_ref: str, topic: str) -> str:
    """Return the ref of what the users of the state of a branch agree on, by topic."""
    return f"{SHARED}{_family(branch_ref)}/{topic}"


def attempts_ref(branch_ref: str) -> str:
    """Return the ref of the attempts of the session that a branch, or its stash, belongs to."""
    return f"{ATTEMPTS}{_family(branch_ref)}"


def _family(ref: str) -> str:
    """Return `<scope>/<id>` of a branch, of its stash, or of a shared map."""
    for prefix in (ATTEMPTS, SHARED):
        ref = ref.removeprefix(prefix)
    scope, id, *_ = ref.split("/", 2)
    scope = "session" if scope == "stage" else scope.removeprefix("stage.")
    return f"{scope}/{id}"


def orphans(store: Store, before: int) -> list[Swap]:
    """Return the removals of shared maps that no branch, stash, or move since a time refers to."""
    maps = {ref: hash for prefix in (ATTEMPTS, SHARED) for ref, hash in store.refs(prefix).items()}
    lost = {ref for ref in maps if ref.count("/") > 1}
    if lost:
        homes = _homes(store.refs())
        lost = {ref for ref in lost if _family(ref) not in homes}
    if lost:
        homes = _homes(move.name for move in store.moves() if move.time >= before)
        lost = {ref for ref in lost if _family(ref) not in homes}
    return [Swap(name, maps[name], None) for name in sorted(lost)]


def _homes(refs: Iterable[str]) -> set[str]:
    """Return the states of branches and stashes."""
    return {_family(ref) for ref in refs if not ref.startswith(".") and ref.count("/") > 1}
