"""Starting up: what `import otolith` adds to a Python that does nothing."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator

from bench.ground import Ground, tell
from bench.table import Absent, Budget, Figure, Row, against
from bench.timing import Samples, alternate, quiet_ratio, ratio

PEERS = ("kvgit", "agex", "stratadb", "langgraph.checkpoint.sqlite")


def rows(ground: Ground) -> Iterator[Row]:
    tell("starting Python")
    there = [name for name in PEERS if importlib.util.find_spec(name.partition(".")[0]) is not None]
    programs = {"bare": "pass", "otolith": "import otolith", "open": "import otolith; otolith.open"}
    took = _started(programs, ground.sizes.starts)
    took |= _started({name: f"import {name}" for name in there}, max(1, ground.sizes.starts // 4))
    bare, ours = took["bare"], took["otolith"]
    yield Row(
        "import",
        "import otolith (no interpreter flags)",
        _figure(ours),
        "python -c pass",
        _figure(bare),
        ratio(ours, bare),
        Budget(3, "x", of="ratio"),
        quiet_ratio(ours, bare),
    )
    opening = _figure(took["open"])
    work = "import otolith, and all that open needs"
    beside = "python -c pass"
    yield Row("import-open", work, opening, beside, _figure(bare), ratio(took["open"], bare))
    for name in PEERS:
        theirs = _figure(took[name]) if name in took else Absent("not installed")
        yield against(f"import-{name.partition('.')[0]}", work, opening, f"import {name}", theirs)


def _started(programs: dict[str, str], times: int) -> dict[str, Samples]:
    steps = {name: _starting(program) for name, program in programs.items()}
    alternate(steps, blocks=1, times=1)  # so that all is compiled and in the page cache
    return alternate(steps, blocks=times, times=1)


def _starting(program: str):
    command = [sys.executable, "-c", program]
    return lambda: subprocess.run(command, check=True, capture_output=True)


def _figure(samples: Samples) -> Figure:
    """The median, from the quickest to the ninetieth percentile."""
    return Figure(samples.p50, "s", samples.at(0), samples.at(0.9))
