"""Samples of time, taken in small alternating blocks so that a noisy machine disturbs all alike."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter

Step = Callable[[], object]
Clock = Callable[[], float]


@dataclass(slots=True)
class Samples:
    """Seconds per step, by block."""

    blocks: list[list[float]] = field(default_factory=list)

    @property
    def all(self) -> list[float]:
        return sorted(second for block in self.blocks for second in block)

    def at(self, share: float) -> float:
        """Return a percentile, nearest rank."""
        seconds = self.all
        return seconds[min(len(seconds) - 1, int(share * len(seconds)))]

    @property
    def p50(self) -> float:
        return statistics.median(self.all)

    def run(self, step: Step, times: int, clock: Clock = perf_counter) -> None:
        """Take one more block."""
        block = []
        for _ in range(times):
            began = clock()
            step()
            block.append(clock() - began)
        self.blocks.append(block)


def alternate(
    steps: Mapping[str, Step],
    *,
    blocks: int,
    times: int | Mapping[str, int],
    clock: Clock = perf_counter,
) -> dict[str, Samples]:
    """Run all steps in turn, a block of each, again and again."""
    samples = {name: Samples() for name in steps}
    gc.collect()
    for _ in range(blocks):
        for name, step in steps.items():
            samples[name].run(step, times if isinstance(times, int) else times[name], clock)
    return samples


def ratio(ours: Samples, theirs: Samples) -> float:
    """Return how much longer ours takes: the median over pairs of neighbouring blocks."""
    pairs = zip(ours.blocks, theirs.blocks, strict=True)
    return statistics.median(statistics.median(a) / statistics.median(b) for a, b in pairs)


def quiet_ratio(ours: Samples, theirs: Samples) -> float:
    """Return the same for the quickest tenth: what is left when nothing else disturbs.

    Medians lie when a disk is busy with others: a sync of 4 ms hides whatever else takes time.
    """
    return ours.at(0.1) / theirs.at(0.1)


def once(step: Step) -> float:
    """Return how many seconds a step takes."""
    began = perf_counter()
    step()
    return perf_counter() - began
