"""Run the benchmarks and print one table.

python3 dev.py bench core                    all of it, some five minutes
python3 dev.py bench core commits gc diff    only rows whose kind or name starts with these
python3 dev.py bench core --quick            tiny sizes: whether it runs, not how fast
python3 dev.py bench core --write            put the tables into README.md and the docs
python3 dev.py bench profile commit-10k      where the time of one kind of work goes
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

import apsw

import otolith
from bench import appends, collecting, commits, pages, reading, start, table, threads
from bench.ground import Ground, ground, tell
from bench.peers import DISTRIBUTIONS
from bench.profiling import SCENES, profile
from bench.table import Row
from bench.words import compressibility

KINDS: dict[str, Callable[[Ground], Iterable[Row]]] = {
    "commits": commits.rows,
    "appends": appends.rows,
    "reading": reading.rows,
    "gc": collecting.rows,
    "threads": threads.rows,
    "start": start.rows,
}
# Which kind makes a row, by the first part of its name: so that `diff` need not measure commits.
MADE_BY = {"commit": "commits", "append": "appends", "open": "reading", "past": "reading"}
MADE_BY |= {"diff": "reading", "gc": "gc", "threads": "threads", "import": "start"}


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    with ground(quick=options.quick) as here:
        if options.suite == "profile":
            return _profile(here, options.names)
        rows = list(_measured(here, options.names))
    about = _about()
    print("\n".join(f"{key}: {value}" for key, value in about.items()))
    print(table.markdown(rows) if options.markdown else table.text(rows))
    missed = [row.name for row in rows if row.verdict == "MISSED"]
    print(f"\nmissed: {', '.join(missed)}" if missed else "\nno budget missed")
    if unsure := [row.name for row in rows if row.verdict == "UNSURE"]:
        print(f"unsure, for the machine was too busy to tell: {', '.join(unsure)}")
    if options.json:
        Path(options.json).write_text(table.as_json(rows, about))
    if options.write:
        pages.write(rows, about)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dev.py bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("suite", nargs="?", default="core", choices=("core", "profile"))
    parser.add_argument("names", nargs="*", help="kinds or rows; for profile, what to profile")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--json", metavar="FILE", help="also write everything there")
    parser.add_argument("--write", action="store_true", help="put the tables into the pages")
    parser.add_argument("--markdown", action="store_true", help="print the table for a document")
    return parser


def _measured(here: Ground, names: list[str]) -> Iterator[Row]:
    kinds = {name if name in KINDS else MADE_BY.get(name.partition("-")[0], "") for name in names}
    unknown = [
        name for name in names if name not in KINDS and name.partition("-")[0] not in MADE_BY
    ]
    if unknown:
        raise SystemExit(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(KINDS)}")
    for kind, rows in KINDS.items():
        if names and kind not in kinds:
            continue
        began = perf_counter()
        for row in rows(here):
            if not names or kind in names or any(row.name.startswith(name) for name in names):
                yield row
        tell(f"{kind}: done in {perf_counter() - began:.0f} s")


def _profile(here: Ground, names: list[str]) -> int:
    unknown = [name for name in names if name not in SCENES]
    if unknown or not names:
        print(f"profile what? {', '.join(SCENES)}", file=sys.stderr)
        return 2
    for name in names:
        print(f"--- {name}")
        profile(here, name)
    return 0


def _about() -> dict[str, Any]:
    """Say what was measured on what, without naming the machine."""
    return {
        "otolith": otolith.__version__,
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "cores": os.cpu_count(),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "beside": ", ".join(filter(None, map(_installed, DISTRIBUTIONS))),
        "messages": compressibility(),
    }


def _installed(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} (not installed)"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
