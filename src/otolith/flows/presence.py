"""WorkerPresence: shows other workers of a session that this one lives, and tells which have died.

    .shared / <scope> / <id> / workers    beside the branches: worker -> when it showed itself last

A worker is named `<owner>@<branch>`: an owner as in `owners.py`, and the branch it works on. It has
died if its process is known to have ended, or if it did not show itself for its time
(`signs_of_life.py`). On another branch it does not count: a fork has the tasks that were running,
but not the workers that run them.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack, suppress
from time import monotonic
from types import TracebackType
from typing import Any, Self

from otolith.core import Backend, MapEdit, SharedMap, shared_ref, split_ref
from otolith.errors import Error
from otolith.owners import is_owner_dead, is_owner_here, register_owner
from otolith.shapes import Shape, fields
from otolith.signs_of_life import STAMP, Renewal, SignsOfLife

TTL_SECONDS = 30.0
_LOOK_SECONDS = 1.0
_SHAPE: Shape = {"slots": int, "since": int, **STAMP}


class WorkerPresence:
    """Shows that a worker lives, as long as the `with` lasts."""

    def __init__(
        self,
        backend: Backend,
        ref: str,
        *,
        slots: int = 1,
        ttl_seconds: float = TTL_SECONDS,
        signs: SignsOfLife | None = None,
    ) -> None:
        self._backend = backend
        self._branch = split_ref(ref)[2]
        self._map = SharedMap(backend, shared_ref(ref, "workers"), kind="workers")
        self._slots = slots
        self._ttl_seconds = ttl_seconds
        self._signs = SignsOfLife() if signs is None else signs
        self._stack = ExitStack()
        self._renewal: Renewal | None = None
        self._looked = 0.0
        self._dead: set[str] = set()
        self.owner = ""

    @property
    def worker(self) -> str:
        """The name of this worker in the records of tasks."""
        return f"{self.owner}@{self._branch}"

    def __enter__(self) -> Self:
        self.owner = self._stack.enter_context(register_owner())
        self._show()
        self._renewal = Renewal(
            self._backend, f"worker {self.worker}", self._show, self._ttl_seconds
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        has_to_go = self._renewal is not None and self._renewal.close()
        self._stack.close()
        if has_to_go:
            with suppress(Error):  # others find out that it has died
                self._map.change(lambda draft: draft.put(self.worker, None))

    def _show(self) -> bool:
        """Stamp the entry of this worker, and remove those that nobody renews."""

        def stamp(draft: MapEdit) -> None:
            before = _entry(draft.get(self.worker), self.worker)
            since = self._backend.clock() if before is None else before["since"]
            stamped = self._signs.stamp(self._ttl_seconds, before)
            draft.put(self.worker, {**stamped, "slots": self._slots, "since": since})
            for name, data in draft.items().items():
                if name != self.worker and self._has_died(name, data):
                    draft.put(name, None)

        self._map.change(stamp)
        return True

    def dead(self, workers: Collection[str]) -> set[str]:
        """Return those of some workers that have died, or that work on another branch."""
        found = {each for each in workers if not each.endswith(f"@{self._branch}")}
        found |= {each for each in workers if is_owner_dead(_owner(each))}
        left = [each for each in workers if each not in found]
        unknown = [each for each in left if not is_owner_here(_owner(each))]
        if unknown and monotonic() > self._looked + _LOOK_SECONDS:
            self._looked = monotonic()
            entries = self._map.read().items()
            gone = {each for each in unknown if self._has_died(each, entries.get(each))}
            self._dead = gone
        return found | (self._dead & {*unknown})

    def others(self) -> dict[str, dict[str, Any]]:
        """Return the workers of the session that show that they live: their slots and times."""
        entries = self._map.read().items()
        found = {name: _entry(data, name) for name, data in entries.items()}
        alive = {name: each for name, each in found.items() if not self._has_died(name, each)}
        return {name: each for name, each in alive.items() if each is not None}

    def _has_died(self, worker: str, data: object) -> bool:
        entry = _entry(data, worker)
        if entry is None:  # it has gone, or was found dead by another
            return True
        return is_owner_dead(_owner(worker)) or not self._signs.is_alive(worker, entry)


def _owner(worker: str) -> str:
    return worker.rpartition("@")[0]


def _entry(data: object, worker: str) -> dict[str, Any] | None:
    return None if data is None else fields(data, f"the worker {worker}", _SHAPE)
