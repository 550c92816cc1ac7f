"""Where the time goes: one kind of work under a profiler."""

from __future__ import annotations

import cProfile
import importlib.util
import pstats
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module

import otolith
from bench.appends import appending
from bench.collecting import collect, littered
from bench.commits import committing
from bench.ground import SESSION, Changes, Ground, key
from bench.timing import Step

Scene = tuple[Step, int]
"""A step, and how often to take it."""

Scenery = Callable[[Ground, ExitStack], Scene]


def _commit(keys: int, durability: str, *, warm: bool = False):
    def scene(ground: Ground, stack: ExitStack) -> Scene:
        place = ground.keyed(keys)
        state = stack.enter_context(otolith.open(place, durability=durability)).session(SESSION)
        return committing(state, Changes(keys, warm=warm)), 2000

    return scene


def _append(ground: Ground, stack: ExitStack) -> Scene:
    repo = stack.enter_context(otolith.open(ground.place("log"), durability="fast"))
    return appending(repo.session(SESSION), 5000), 5000


def _open(ground: Ground, _: ExitStack) -> Scene:
    place = ground.keyed(10_000)

    def step() -> None:
        with otolith.open(place) as repo:
            repo.session(SESSION)[key(1)]

    return step, 100


def _diff(ground: Ground, stack: ExitStack) -> Scene:
    keys = 200_000
    place = ground.keyed(keys)
    changes = Changes(keys)
    with otolith.open(place, durability="fast") as repo:
        state = repo.session(SESSION)
        for name, value in (changes.next() for _ in range(300)):
            state[name] = value
        after = state.commit().id
    fresh = stack.enter_context(otolith.open(place)).session(SESSION)
    return (lambda: fresh.diff(f"{after}~1", after)), 1


def _past(ground: Ground, stack: ExitStack) -> Scene:
    place = ground.keyed(10_000)
    repo = stack.enter_context(otolith.open(place, durability="fast"))
    state = repo.session(SESSION)
    step = committing(state, Changes(10_000))
    for _ in range(2000):
        step()
    ids = [commit.id for commit in state.log()]
    return (lambda: repo.at(ids.pop())[key(1)]), 1000


def _gc(ground: Ground, stack: ExitStack) -> Scene:
    place = ground.place("litter")
    littered(place, 2000)
    repo = stack.enter_context(otolith.open(place))
    return (lambda: collect(repo)), 1


SCENES: dict[str, Scenery] = {
    "commit-100": _commit(100, "fast"),
    "commit-10k": _commit(10_000, "fast"),
    "commit-10k-full": _commit(10_000, "full"),
    "commit-10k-warm": _commit(10_000, "fast", warm=True),
    "commit-200k": _commit(200_000, "fast"),
    "commit-1m": _commit(1_000_000, "fast"),
    "append": _append,
    "open": _open,
    "diff": _diff,
    "past": _past,
    "gc": _gc,
}


def scenes() -> dict[str, Scenery]:
    """Return all kinds of work; those with frames only where pandas is."""
    if importlib.util.find_spec("pandas") is None:
        return SCENES
    framed: dict[str, Scenery] = import_module("bench.state.scenes").SCENES
    return SCENES | framed


def profile(ground: Ground, scene: Scenery, *, lines: int = 45) -> None:
    """Print where the time of one kind of work goes, by pyinstrument if it is installed."""
    with ExitStack() as stack:
        step, times = scene(ground, stack)
        times = min(times, 20) if ground.sizes.blocks < 10 else times
        try:
            from pyinstrument import Profiler  # type: ignore[import-not-found]
        except ImportError:
            _with_cprofile(step, times, lines)
            return
        with Profiler(interval=0.0005) as profiler:
            for _ in range(times):
                step()
        print(profiler.output_text(unicode=False, color=False, show_all=True))


def _with_cprofile(step: Step, times: int, lines: int) -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(times):
        step()
    profiler.disable()
    print(f"{times} steps; cProfile adds to each call, so read shares and counts, not seconds")
    pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(lines)
