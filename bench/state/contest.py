"""One kind of work, done by every holder in turn: what a commit took, and what is on the disk."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeAlias

from bench.ground import Ground, tell
from bench.peers import attempt
from bench.state.holders import ROOMS, Holder, Plain, start, stored_bytes
from bench.table import Absent, Budget, Figure, Row, against, compared, time_of
from bench.timing import Samples

OURS = "otolith"

Work: TypeAlias = Callable[[Holder, int], dict[str, Any]]
"""What a program does before a commit, and which values it changed in place, by key."""

Same: TypeAlias = Callable[[Any, Any], bool]


@dataclass
class Taken:
    """What one holder took: the time of commits and of whole steps, and bytes at rest."""

    commit: Samples = field(default_factory=Samples)
    whole: Samples = field(default_factory=Samples)
    filled_bytes: int = 0
    stored_bytes: int = 0

    @property
    def grown_bytes(self) -> int:
        return self.stored_bytes - self.filled_bytes


@dataclass
class Contest:
    """The work, and who does it."""

    name: str
    fill: Callable[[], dict[str, Any]]  # new objects every time: a holder shares none with another
    work: Work
    blocks: int
    times: int = 1
    peers: Iterable[str] = tuple(ROOMS)
    same: Same = lambda mine, theirs: mine == theirs

    def run(self, ground: Ground) -> dict[str, Taken | Absent]:
        """Let all do the work in alternating blocks; then see that nothing was lost."""
        tell(f"{self.name}: {self.blocks * self.times} steps beside {', '.join(self.peers)}")
        expected = self._expected()
        found: dict[str, Holder | Absent] = {}
        taken: dict[str, Taken | Absent] = {}
        for name in (OURS, *self.peers):
            found[name] = _started(name, ground)
            taken[name] = self._tried(name, self._filled, found[name])
        gc.collect()
        gc.freeze()  # or each holder pays for walking the values of all others
        for block in range(self.blocks):
            for name, sofar in taken.items():
                if isinstance(sofar, Taken):
                    taken[name] = self._block(name, found[name], sofar, block)
        gc.unfreeze()
        return {
            name: self._finished(name, found[name], sofar, expected)
            for name, sofar in taken.items()
        }

    def _expected(self) -> dict[str, Any]:
        plain, values = Plain(), self.fill()
        for key, value in values.items():
            plain.set(key, value)
        for step in range(self.blocks * self.times):
            self.work(plain, step)
        return {key: plain.get(key) for key in values}

    def _filled(self, holder: Holder) -> Taken:
        for key, value in self.fill().items():
            holder.set(key, value)
        holder.commit()
        holder.close()
        taken = Taken(filled_bytes=stored_bytes(holder.place))
        holder.reopen()
        return taken

    def _block(self, name: str, holder: Any, taken: Taken, block: int) -> Taken | Absent:
        # What others left to be written would be waited for by those who sync.
        os.sync()
        steps = range(block * self.times, (block + 1) * self.times)
        return self._tried(name, self._stepped, holder, taken, steps)

    def _tried(
        self, name: str, measure: Callable[..., Taken], holder: Any, *arguments: Any
    ) -> Taken | Absent:
        """Measure; a peer that fails is told so in the table, while we may not."""
        if isinstance(holder, Absent):
            return holder
        if name == OURS:
            return measure(holder, *arguments)
        return attempt(measure, holder, *arguments)

    def _stepped(self, holder: Holder, taken: Taken, steps: range) -> Taken:
        commits, wholes = [], []
        for step in steps:
            began = perf_counter()
            changed = self.work(holder, step)
            ready = perf_counter()
            if not holder.notices:
                for key, value in changed.items():
                    holder.set(key, value)
            holder.commit()
            done = perf_counter()
            commits.append(done - ready)
            wholes.append(done - began)
        taken.commit.blocks.append(commits)
        taken.whole.blocks.append(wholes)
        return taken

    def _finished(
        self, name: str, holder: Any, taken: Taken | Absent, expected: dict[str, Any]
    ) -> Taken | Absent:
        if isinstance(taken, Taken):
            taken = self._tried(name, self._checked, holder, taken, expected)
        if not isinstance(holder, Absent):
            holder.close()
            shutil.rmtree(holder.place, ignore_errors=True)
        return taken

    def _checked(self, holder: Holder, taken: Taken, expected: dict[str, Any]) -> Taken:
        """Weigh what is stored, then open it again and see that every value is there."""
        holder.close()
        taken.stored_bytes = stored_bytes(holder.place)
        holder.reopen()
        lost = [key for key, value in expected.items() if not self.same(holder.get(key), value)]
        if lost:
            raise Lost(f"{self.name}: {', '.join(lost)}")
        return taken


class Lost(Exception):
    """A value did not come back as it was."""


def _started(name: str, ground: Ground) -> Holder | Absent:
    room = "ours" if name == OURS else ROOMS[name]
    return start(room, ground.place(room.replace(":", "-")))


def ours(taken: dict[str, Taken | Absent]) -> Taken:
    """Return what we took."""
    found = taken[OURS]
    assert isinstance(found, Taken)
    return found


def megabytes(count: float) -> Figure:
    """Return a number of bytes as the million bytes that a megabyte is here."""
    return Figure(count / 1e6, "MB")


def timed(
    name: str,
    work: str,
    taken: dict[str, Taken | Absent],
    *,
    budgets: dict[str, Budget] | None = None,
    whole: bool = False,
    note: str = "",
) -> Iterator[Row]:
    """Return a row for each peer: time of our commits beside its own, or of whole steps."""
    mine = ours(taken).whole if whole else ours(taken).commit
    for peer, theirs in taken.items():
        row, budget = f"{name}-{peer.replace(' ', '-')}", (budgets or {}).get(peer)
        if peer == OURS:
            continue
        if isinstance(theirs, Absent):
            yield Row(row, work, time_of(mine), peer, theirs, None, budget, note=note)
        else:
            other = theirs.whole if whole else theirs.commit
            yield compared(row, work, mine, peer, other, budget=budget, note=note)


def sized(
    name: str,
    work: str,
    taken: dict[str, Taken | Absent],
    size: Callable[[Taken], Figure],
    *,
    note: str = "",
) -> Iterator[Row]:
    """Return a row for each peer: our bytes beside its own."""
    for peer, theirs in taken.items():
        if peer != OURS:
            row = f"{name}-{peer.replace(' ', '-')}"
            other = theirs if isinstance(theirs, Absent) else size(theirs)
            yield against(row, work, size(ours(taken)), peer, other, note=note)
