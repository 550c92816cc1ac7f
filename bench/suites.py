"""The suites: which kinds of rows each has, and beside whom."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module

from bench import appends, collecting, commits, order, reading, start, threads, writers
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
    data: Callable[[], str]  # what was measured on

    def kind_of(self, name: str) -> str | None:
        """Return the kind that a name is, or that makes the rows it starts."""
        return name if name in self.kinds else self.made_by.get(name.partition("-")[0])


def suite(name: str) -> Suite:
    """Return a suite; all but the first are loaded late, for they need numpy and pandas."""
    if name == "core":
        return CORE
    room = import_module(f"bench.{_HOMES.get(name, name)}")
    found: Suite = Suite(name, room.KINDS, room.MADE_BY, *_LATE[name])
    return found


CORE = Suite(
    "core",
    {
        "commits": commits.rows,
        "appends": appends.rows,
        "reading": reading.rows,
        "order": order.rows,
        "gc": collecting.rows,
        "threads": threads.rows,
        "writers": writers.rows,
        "start": start.rows,
    },
    {
        "commit": "commits",
        "append": "appends",
        "open": "reading",
        "past": "reading",
        "diff": "reading",
        "order": "order",
        "gc": "gc",
        "threads": "threads",
        "writers": "writers",
        "import": "start",
    },
    DISTRIBUTIONS,
    compressibility,
)

Late = tuple[tuple[str, ...], Callable[[], str]]

_STATE: Late = (
    ("kvgit", "agex", "diskcache", "joblib", "numpy", "pandas"),
    lambda: "Sizes in MB are of a million bytes, in KB and B as the disk counts them",
)

_WORKSPACE: Late = (
    ("dill", "cloudpickle", "kishu", "pyarrow", "numpy", "pandas"),
    lambda: "Sizes in MB are of a million bytes",
)

_LIFECYCLE: Late = (
    ("transitions", "python-statemachine", "sismic", "xstate-statemachine"),
    lambda: "Rates are per second of CPU time, commits in seconds that passed",
)

_AGENT: Late = (
    ("langgraph-checkpoint-sqlite", "burr", "openai-agents"),
    compressibility,
)

_REMOTE: Late = (
    ("psycopg", "redis", "obstore", "moto", "langgraph-checkpoint-postgres", "dbos"),
    lambda: (
        "Servers run on this machine; where a row says so, a proxy delays each round trip by 1 ms"
    ),
)

_TEAMS: Late = (
    ("psycopg", "redis", "loro"),
    lambda: "Servers run on this machine, and so do all members of a team",
)

_FLOWS: Late = (
    ("networkx", "dbos", "distributed"),
    lambda: "Schedules are in virtual time: figures without a unit of time do not depend on it",
)

_PROFILES: Late = (
    ("scikit-learn", "model2vec"),
    lambda: "Public dialogues and preferences, which are not a part of this project",
)

_LATE: dict[str, Late] = {
    "state": _STATE,
    "workspace": _WORKSPACE,
    "lifecycle": _LIFECYCLE,
    "agent": _AGENT,
    "remote": _REMOTE,
    "teams": _TEAMS,
    "flows": _FLOWS,
    "profiles": _PROFILES,
}
_HOMES = {"flows": "taskflows"}  # bench.flows counts the files of everyday calls
