"""The suites: which kinds of rows each has, beside whom, and which of them the README shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module

from bench import appends, collecting, commits, reading, start, threads
from bench.ground import Ground
from bench.peers import DISTRIBUTIONS
from bench.table import Row
from bench.words import compressibility

Kinds = Mapping[str, Callable[[Ground], Iterable[Row]]]


@dataclass(frozen=True, slots=True)
class Suite:
    """What `python3 dev.py bench NAME` measures."""

    name: str
    kinds: Kinds
    made_by: Mapping[str, str]  # which kind makes a row, by the first part of its name
    beside: tuple[str, ...]
    short: tuple[str, ...]  # the rows of the README's table: every kind of work once
    data: Callable[[], str]  # what was measured on

    def kind_of(self, name: str) -> str | None:
        """Return the kind that a name is, or that makes the rows it starts."""
        return name if name in self.kinds else self.made_by.get(name.partition("-")[0])


def suite(name: str) -> Suite:
    """Return a suite; all but the first are loaded late, for they need numpy and pandas."""
    if name == "core":
        return CORE
    room = import_module(f"bench.{name}")
    found: Suite = Suite(name, room.KINDS, room.MADE_BY, *_LATE[name])
    return found


CORE = Suite(
    "core",
    {
        "commits": commits.rows,
        "appends": appends.rows,
        "reading": reading.rows,
        "gc": collecting.rows,
        "threads": threads.rows,
        "start": start.rows,
    },
    {
        "commit": "commits",
        "append": "appends",
        "open": "reading",
        "past": "reading",
        "diff": "reading",
        "gc": "gc",
        "threads": "threads",
        "import": "start",
    },
    DISTRIBUTIONS,
    (
        "commit-100-full-random",
        "commit-10k-full-random",
        "commit-1m-full-random",
        "commit-growth-full-random",
        "commit-10k-fast-kvgit",
        "commit-10k-fast-stratadb",
        "commit-disk-10k-kvgit",
        "commit-disk-10k-langgraph",
        "append-1k-kvgit-disk",
        "append-1k-langgraph-disk",
        "append-10k-disk",
        "append-10k-latency",
        "open",
        "past-warm",
        "diff-cold",
        "gc-kvgit",
        "gc-wait-kvgit",
        "threads-kvgit",
        "import",
    ),
    compressibility,
)

Late = tuple[tuple[str, ...], tuple[str, ...], Callable[[], str]]

_STATE: Late = (
    ("kvgit", "agex", "diskcache", "joblib", "numpy", "pandas"),
    (
        "frame-assign-disk",
        "frame-assign-disk-kvgit-scientific",
        "frame-assign-kvgit-scientific",
        "frame-place-disk",
        "frame-place-disk-kvgit-scientific",
        "frame-place-kvgit",
        "frame-reopen-disk",
        "frame-reopen-kvgit-scientific",
        "read",
        "read-agex",
        "values-one-disk",
        "values-one",
        "values-all",
        "values-all-agex",
        "values-number-disk-kvgit",
        "list",
        "list-disk-kvgit",
        "list-length",
        "column-bytes",
        "column",
        "column-kvgit-scientific",
        "small-kvgit",
        "small-agex",
    ),
    lambda: "Sizes in MB are of a million bytes, in KB and B as the disk counts them",
)

_WORKSPACE: Late = (
    ("dill", "cloudpickle", "kishu", "pyarrow", "numpy", "pandas"),
    (
        "frame-disk",
        "frame-disk-cloudpickle",
        "frame-disk-parquet",
        "frame",
        "frame-cloudpickle",
        "frame-dill",
        "frame-parquet",
        "frame-Kishu",
        "frame-cold-disk",
        "frame-cold",
        "restore",
        "restore-cloudpickle",
        "restore-parquet",
        "cold",
        "cold-python",
        "cold-cloudpickle",
        "cold-warm",
        "programs-disk",
        "programs",
        "programs-slower",
        "loop",
        "loop-kishu",
    ),
    lambda: "Sizes in MB are of a million bytes",
)

_LIFECYCLE: Late = (
    ("transitions", "python-statemachine", "sismic", "xstate-statemachine"),
    (
        "events-flat-transitions",
        "events-flat-xstate-statemachine",
        "events-nested",
        "events-nested-xstate-statemachine",
        "events-parallel",
        "events-parallel-xstate-statemachine",
        "counted-flat-transitions",
        "counted-nested-xstate-statemachine",
        "counted-parallel-xstate-statemachine",
        "commit-agent-full",
        "commit-agent-fast",
        "commit-count",
        "stored-agent",
        "snapshot",
        "snapshot-sismic",
        "snapshot-xstate-statemachine",
        "explore",
    ),
    lambda: "Rates are per second of CPU time, commits in seconds that passed",
)

_AGENT: Late = (
    ("langgraph-checkpoint-sqlite", "burr", "openai-agents"),
    (
        "say-text",
        "stored-text",
        "stored-tools",
        "stored-turns-langgraph",
        "stored-turns-burr",
        "stored-turns-openai_agents",
        "context-openai",
        "context-anthropic",
        "context-read",
        "last",
        "search",
        "step",
    ),
    compressibility,
)

_LATE: dict[str, Late] = {
    "state": _STATE,
    "workspace": _WORKSPACE,
    "lifecycle": _LIFECYCLE,
    "agent": _AGENT,
}
