"""Transitions that are committed: what they add to the commit of a state, in time and on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

import otolith
from bench.commits import committing
from bench.disk import resting_bytes
from bench.ground import SESSION, Changes, Ground, items, tell
from bench.lifecycle.charts import NESTED
from bench.lifecycle.engines.ours import chart_of
from bench.table import Budget, Figure, Row, against, compared
from bench.timing import Samples, Step, alternate
from otolith.statecharts import AGENT, Chart

LIMIT = Budget(1.5, "x", of="ratio")
ROUND = ("new_task", "plan_ready"), ("observe", "replan", "plan_ready")
"""What leads into the built-in chart of an agent, and what leads round in it."""

BARE = "one key, committed"
NOTE = (
    "Beside a commit of one small change to the same state of keys, without a machine. A transition"
    " keeps the new snapshot and a line of the machine's log; a chart that counts, its data too."
)


class Kept:
    """A state of some keys, alone or with a machine in it."""

    def __init__(self, stack: ExitStack, place: Path, keys: int, durability: str) -> None:
        self.place = place
        repo = stack.enter_context(otolith.open(place, durability=durability))
        self.state = repo.session(SESSION)
        self.state.update(items(keys))
        self.state.commit("filled")

    def sending(self, chart: Chart, first: tuple[str, ...], around: tuple[str, ...]) -> Step:
        """Return a step that sends one event and commits."""
        machine, state = self.state.lifecycle(chart), self.state
        for event in first:
            machine.send(event)
        state.commit("begun")
        events = cycle(around)

        def step() -> None:
            machine.send(next(events))
            state.commit()

        return step

    def commits(self) -> int:
        return sum(1 for _ in self.state.log())


def rows(ground: Ground) -> Iterator[Row]:
    for durability in ("full", "fast"):
        yield from _timed(ground, durability)
    yield from _stored(ground)


def _timed(ground: Ground, durability: str) -> Iterator[Row]:
    sizes = ground.sizes
    tell(f"committed transitions, durability {durability}")
    with ExitStack() as stack:
        steps = {name: step for name, (_, step) in _ways(ground, stack, durability).items()}
        for step in steps.values():
            Samples().run(step, sizes.warm_up)
        blocks = sizes.chart_commit_blocks
        took = alternate(steps, blocks=blocks, times=sizes.block_steps)
    for name, work, budget in (
        ("agent", "a transition, committed", LIMIT),
        ("counting", "a transition that counts, committed", None),
    ):
        row, said = f"commit-{name}-{durability}", f"{work}, {durability}"
        yield compared(row, said, took[name], BARE, took["bare"], budget=budget, note=NOTE)


def _ways(ground: Ground, stack: ExitStack, durability: str) -> dict[str, tuple[Kept, Step]]:
    keys = ground.sizes.few_keys
    bare, agent, counting = (
        Kept(stack, ground.place(name), keys, durability) for name in ("bare", "agent", "counting")
    )
    counted = NESTED.counting()
    return {
        "bare": (bare, committing(bare.state, Changes(keys))),
        "agent": (agent, agent.sending(AGENT, *ROUND)),
        "counting": (counting, counting.sending(chart_of(counted), (), counted.round)),
    }


def _stored(ground: Ground) -> Iterator[Row]:
    """Count the commits and bytes of many transitions."""
    times = ground.sizes.counted_commits
    tell(f"disk taken by {times} committed transitions")
    grown: dict[str, Figure] = {}
    with ExitStack() as stack:
        for name, (kept, step) in _ways(ground, stack, "fast").items():
            commits, size = kept.commits(), resting_bytes(kept.place)
            for _ in range(times):
                step()
            made = kept.commits() - commits
            grown[name] = Figure((resting_bytes(kept.place) - size) / times, "B")
            if made < times:
                raise RuntimeError(f"{times:,} transitions made only {made:,} commits")
            if name == "agent":
                work = f"{times:,} transitions, each sent and committed: commits made"
                exactly = Budget(times, "")
                yield Row("commit-count", work, Figure(made, ""), budget=exactly)
    for name, work in (
        ("agent", f"disk per committed transition, of {times:,}"),
        ("counting", f"disk per committed transition that counts, of {times:,}"),
    ):
        yield against(f"stored-{name}", work, grown[name], BARE, grown["bare"])
