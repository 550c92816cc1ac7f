"""The contest of the frame: all keep the same steps in turn, each time in another order."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import perf_counter

from bench.ground import Ground, tell
from bench.peers import attempt
from bench.state.contest import Taken
from bench.table import Absent
from bench.workspace import ours
from bench.workspace.dumps import PEERS, Namespace, Saver, start
from bench.workspace.mixed import CHANGES, SUM

WARM, COLD = "one process", "a process each"

Found = dict[str, Taken | Absent]
Keep = Callable[[str], float]
"""Keeps what a step has made of the frame, and returns how many seconds that took."""


class Keepers:
    """Everybody who takes part, ours and the peers, and what each of them took."""

    def __init__(self, ground: Ground, stack: ExitStack, namespace: Namespace) -> None:
        self._namespace = namespace
        self._stack = stack
        self.taken: Found = {WARM: Taken(), COLD: Taken()}
        self._keeps: dict[str, Keep | Absent] = {}
        for name in PEERS:
            self._admit(name, start(name, ground.place(name.lower())))

    def _admit(self, name: str, saver: Saver | Absent) -> None:
        if isinstance(saver, Absent):
            self.taken[name] = self._keeps[name] = saver
        else:
            self._stack.callback(saver.close)
            self.taken[name] = taken = Taken()
            self._keeps[name] = partial(_saved, saver, taken, self._namespace)

    def open(self, name: str, place: Path, mode: str) -> None:
        """Let a workspace of ours take part."""
        here = self._stack.enter_context(ours.opened(place, mode=mode))
        ours.run(here, "pass")  # waits until the nursery has imported what the session uses
        self._keeps[name] = partial(ours.overhead, here)

    def keep(self, code: str, number: int) -> None:
        """Let all keep one step, in an order that depends on its number."""
        names = [*self._keeps]
        at = number % len(names)
        for name in names[at:] + names[:at]:
            self.taken[name] = self._kept(name, code)

    def _kept(self, name: str, code: str) -> Taken | Absent:
        """Keep a step; a peer that fails is told so in the table, while we may not."""
        keep, taken = self._keeps[name], self.taken[name]
        if isinstance(keep, Absent) or isinstance(taken, Absent):
            return taken
        os.sync()  # what others left to be written would be waited for by those who sync
        took = attempt(keep, code) if name in PEERS else keep(code)
        if isinstance(took, Absent):
            return took
        taken.commit.blocks.append([took])
        return taken


def contest(ground: Ground, frame: str, namespace: Namespace) -> Found:
    """Let all keep the frame, and ten changes of it; the first block is that of the frame."""
    warm, cold = ground.place("warm"), ground.place("cold")
    with ExitStack() as stack:
        keepers = Keepers(ground, stack, namespace)
        tell(f"a large frame: otolith beside {', '.join(PEERS)}")
        filled = _filled(cold, frame, keepers)
        keepers.open(WARM, warm, "warm")
        keepers.keep(frame, 0)
        keepers.open(COLD, cold, "cold")
        for number, (kind, code) in enumerate(CHANGES.items(), start=1):
            tell(f"a large frame, {kind}")
            exec(code, namespace)
            keepers.keep(code, number)
    for name, place in ((WARM, warm), (COLD, cold)):
        taken = keepers.taken[name]
        assert isinstance(taken, Taken)
        taken.filled_bytes = filled
        taken.stored_bytes = _checked_bytes(place, eval(SUM, namespace))
        shutil.rmtree(place)
    return keepers.taken


def _filled(place: Path, frame: str, keepers: Keepers) -> int:
    """Fill the workspace whose processes do not stay; return its size when it is closed."""
    taken = keepers.taken[COLD]
    assert isinstance(taken, Taken)
    with ours.opened(place) as here:
        ours.run(here, "pass")  # starts the nursery
        taken.commit.blocks.append([ours.overhead(here, frame)])
    return ours.stored_bytes(place)


def _saved(saver: Saver, taken: Taken, namespace: Namespace, code: str) -> float:
    began = perf_counter()
    saver.save(namespace, code)
    took = perf_counter() - began
    taken.stored_bytes = saver.stored_bytes()
    taken.filled_bytes = taken.filled_bytes or taken.stored_bytes
    return took


def _checked_bytes(place: Path, sums: int) -> int:
    """Return the size of a workspace, and see that the frame in it is what it should be."""
    size = ours.stored_bytes(place)
    with ours.opened(place) as here:
        step, _ = ours.run(here, SUM)
    if step.value != sums:
        raise ours.Failed("the frame is not what it should be")
    return size
