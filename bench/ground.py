"""The ground a run stands on: where files go, how much of everything, and the stores all share."""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from time import perf_counter

import otolith
from bench.words import Words

ROOT = Path(__file__).resolve().parents[1]
SESSION = "bench"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    few_keys: int = 100
    some_keys: int = 10_000
    many_keys: int = 1_000_000
    blocks: int = 40
    block_steps: int = 15
    warm_up: int = 400
    counted_commits: int = 1000
    some_messages: int = 1000
    many_messages: int = 10_000
    logs: int = 3
    deep_commits: int = 10_000
    reads: int = 300
    opens: int = 30
    changes: int = 300
    dropped_commits: int = 2000
    collections: int = 5
    threads: int = 8
    commits_per_thread: int = 25
    writers: int = 8
    commits_per_writer: int = 150
    races: int = 5
    starts: int = 30
    # The state that an agent holds
    frame_rows: int = 250_000
    frame_columns: int = 25
    frame_steps: int = 10
    read_steps: int = 30
    held_values: int = 100
    value_steps: int = 200
    listed_dicts: int = 10_000
    list_steps: int = 100
    wide_rows: int = 3_125_000
    wide_columns: int = 40
    # Code that runs in steps
    mixed_rows: int = 2_500_000
    restores: int = 20
    small_steps: int = 60
    programs: int | None = None  # all of them
    loop_turns: int = 500_000
    loop_blocks: int = 20
    # Charts that run
    chart_blocks: int = 20
    chart_seconds: float = 0.02  # of each block
    chart_commit_blocks: int = 30
    large_regions: int = 4  # of 50 states each
    chart_snapshots: int = 200
    wide_wings: int = 14  # of seven states each, in two regions
    explorations: int = 3
    # Members of a team
    members: int = 8
    transactions_per_member: int = 200
    moves: int = 200
    idle_seconds: float = 10.0
    # Stores on servers
    server_keys: int = 1_000_000
    server_commits: int = 300
    race_seconds: float = 5.0
    cached_objects: int = 100_000
    history_objects: int = 100_000
    turns_per_member: int = 60
    greedy_threads: int = 100
    new_commits: int = 100
    # A text that several edit
    text_edits: int = 10_000
    # Graphs of tasks
    graph_tasks: int = 100_000
    plans: int = 5
    crowd_tasks: int = 1000
    fork_megabytes: int = 50
    # What is known about a user
    simulated_users: int = 120
    explicit_settings: int = 10_000
    traces: int | None = None  # all of them


QUICK = Sizes(
    simulated_users=3,
    explicit_settings=200,
    few_keys=10,
    some_keys=100,
    many_keys=2000,
    blocks=2,
    block_steps=3,
    warm_up=2,
    counted_commits=20,
    some_messages=40,
    many_messages=80,
    logs=1,
    deep_commits=50,
    reads=10,
    opens=2,
    changes=20,
    dropped_commits=30,
    collections=1,
    threads=3,
    commits_per_thread=3,
    writers=2,
    commits_per_writer=5,
    races=1,
    starts=2,
    frame_rows=5000,
    frame_columns=5,
    frame_steps=3,
    read_steps=3,
    held_values=10,
    value_steps=20,
    listed_dicts=200,
    list_steps=20,
    wide_rows=20_000,
    wide_columns=8,
    mixed_rows=20_000,
    restores=2,
    small_steps=3,
    programs=2,
    loop_turns=10_000,
    loop_blocks=3,
    chart_blocks=2,
    chart_seconds=0.001,
    chart_commit_blocks=2,
    large_regions=1,
    chart_snapshots=4,
    wide_wings=2,
    explorations=1,
    members=3,
    transactions_per_member=10,
    moves=10,
    idle_seconds=0.3,
    turns_per_member=4,
    greedy_threads=5,
    server_keys=2000,
    server_commits=10,
    race_seconds=0.5,
    cached_objects=5000,
    history_objects=200,
    new_commits=10,
    text_edits=600,
    graph_tasks=2000,
    plans=1,
    crowd_tasks=60,
    fork_megabytes=1,
    traces=5,
)


@dataclass
class Ground:
    """A directory that is removed in the end, and what is built in it once."""

    directory: Path
    sizes: Sizes = field(default_factory=Sizes)
    _keyed: dict[int, Path] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def place(self, name: str) -> Path:
        """Return a path in which nothing is."""
        return self.directory / f"{name}-{next(self._numbers)}"

    def keyed(self, keys: int) -> Path:
        """Return a store with this many keys in its session; it is built once and shared."""
        if keys not in self._keyed:
            place = self.place(f"keys-{keys}")
            tell(f"building a store of {keys:,} keys")
            with otolith.open(place, durability="fast") as repo:
                state = repo.session(SESSION)
                state.update(items(keys))
                state.commit("filled")
            self._keyed[keys] = place
        return self._keyed[keys]


@contextmanager
def ground(*, quick: bool) -> Iterator[Ground]:
    """Lend a directory on the disk that the project is on: a memory disk would have no syncs."""
    parent = ROOT / ".cache" / "bench"
    parent.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
    try:
        yield Ground(directory, QUICK if quick else Sizes())
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def key(number: int) -> str:
    return f"key-{number:07d}"


def items(keys: int) -> dict[str, object]:
    """Return keys with values of some 45 bytes."""
    words = Words(2).text(40 * 997)
    return {key(n): f"{words[n % 997 * 40 :][:40]}{n % 100_000:05d}" for n in range(keys)}


_made = count()  # shared by all, so that no change repeats what is there already


class Changes:
    """An endless supply of small changes: to keys at random, or to the same few."""

    def __init__(self, keys: int, *, seed: int = 3, warm: bool = False) -> None:
        self._random = random.Random(seed)
        self._keys = keys
        self._few = [self._random.randrange(keys) for _ in range(4)] if warm else []
        self._text = Words(4).text(40 * 499)

    def next(self) -> tuple[str, str]:
        made = next(_made)
        number = self._random.choice(self._few) if self._few else self._random.randrange(self._keys)
        return key(number), f"{self._text[made % 499 * 40 :][:40]}{made % 100_000:05d}"


_began = perf_counter()


def tell(what: str) -> None:
    """Say what is being done, to whoever watches."""
    print(f"  {perf_counter() - _began:6.1f} s  {what}", file=sys.stderr, flush=True)
