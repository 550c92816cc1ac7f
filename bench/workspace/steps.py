"""Small steps: what a new process for each costs, in every sandbox that works here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import perf_counter

from bench.ground import Ground, tell
from bench.table import Budget, Figure, Row, compared, time_of
from bench.timing import Samples, once
from bench.workspace import ours
from bench.workspace.forked import Forked
from otolith import Unsupported

LIMIT = Budget(0.025, "s")
SANDBOXES = ("bubblewrap", "landlock", "limits")
NAMES = "\n".join(f"v{n} = [{n}, 'a small value', {{'n': {n}}}]" for n in range(9)) + "\nx = 0"
STEP = "x += 1"

Timed = Callable[[], float]


def rows(ground: Ground) -> Iterator[Row]:
    tell("small steps, a process each")
    with ExitStack() as stack:
        ways, starts, chosen = _ways(ground, stack)
        samples = {name: Samples() for name in ways}
        for _ in range(ground.sizes.small_steps):
            for name, step in ways.items():
                samples[name].blocks.append([step()])
    work = "10 small variables, 1 changed: step without its code"
    note = ours.SYNCED
    best = samples[chosen]
    yield Row("cold", f"{work}, a process each, {chosen}", time_of(best), budget=LIMIT, note=note)
    for name in SANDBOXES:
        if name in samples and name != chosen:
            said, mine = f"{work}, a process each, {name}", samples[name]
            yield Row(f"cold-{name}", said, time_of(mine), budget=LIMIT, note=note)
    for peer in ("python -c pass", "cloudpickle"):
        said, row = f"{work}, a process each, {chosen}", f"cold-{peer.partition(' ')[0]}"
        yield compared(row, said, best, peer, samples[peer], note=_beside(peer))
    yield Row("cold-warm", f"{work}, one process, {chosen}", time_of(samples["warm"]), note=note)
    first = Figure(starts[chosen], "s")
    yield Row("cold-start", f"the first step of a workspace, {chosen}", first)


def _beside(peer: str) -> str:
    if peer == "cloudpickle":
        return "A forked process loads all variables, runs the step and dumps them, not synced."
    return "A new Python that does nothing, and keeps nothing."


def _ways(ground: Ground, stack: ExitStack) -> tuple[dict[str, Timed], dict[str, float], str]:
    """Return ways to take a step, how long the first one took, and what `auto` chooses."""
    ways: dict[str, Timed] = {}
    starts: dict[str, float] = {}
    for name in SANDBOXES:
        place = ground.place(name)
        try:
            here = stack.enter_context(ours.opened(place, sandbox=name))
            starts[name] = once(partial(ours.run, here, NAMES))
        except Unsupported as why:
            tell(f"no {name} here: {why}")
            continue
        ways[name] = _stepping(here)
    warm = stack.enter_context(ours.opened(ground.place("auto"), mode="warm"))
    step, _ = ours.run(warm, NAMES)
    ways["warm"] = _stepping(warm)
    ways["python -c pass"] = _bare
    ways["cloudpickle"] = _forking(stack.enter_context(Forked(_made(ground.place("forked")))))
    return ways, starts, step.sandbox


def _stepping(here: ours.Workspace) -> Timed:
    ours.run(here, STEP)
    return partial(ours.overhead, here, STEP)


def _forking(forked: Forked) -> Timed:
    forked.run(NAMES)

    def step() -> float:
        began = perf_counter()
        told = forked.run(STEP)
        return perf_counter() - began - told.run_seconds

    return step


def _bare() -> float:
    command = [sys.executable, "-c", "pass"]
    return once(lambda: subprocess.run(command, check=True, capture_output=True))


def _made(place: Path) -> Path:
    place.mkdir()
    return place
