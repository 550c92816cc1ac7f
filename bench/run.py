"""Run the benchmarks and print one table.

python3 dev.py bench core                    all of it, some five minutes
python3 dev.py bench core commits gc diff    only rows whose kind or name starts with these
python3 dev.py bench core --quick            tiny sizes: whether it runs, not how fast
python3 dev.py bench core --write            put the table into docs/explanation/performance.md
python3 dev.py bench state                   frames, values and lists that change in place
python3 dev.py bench workspace               code in steps, with variables that outlive processes
python3 dev.py bench lifecycle               statecharts, in memory and committed
python3 dev.py bench agent                   conversations, and what a model is sent of them
python3 dev.py bench remote                  stores on servers, tiers, and copies between stores
python3 dev.py bench teams                   processes that share one state
python3 dev.py bench flows                   graphs of tasks: plans, schedules, durable steps
python3 dev.py bench profiles                what is known about a user, and found again
python3 dev.py bench profile commit-10k      where the time of one kind of work goes
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

import apsw

import otolith
from bench import pages, table
from bench.ground import Ground, ground, tell
from bench.profiling import profile, scenes
from bench.suites import Suite, suite
from bench.table import Row


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    with ground(quick=options.quick) as here:
        if options.suite == "profile":
            return _profile(here, options.names)
        chosen = suite(options.suite)
        rows = list(_measured(here, chosen, options.names))
    about = _about(chosen)
    print("\n".join(f"{key}: {value}" for key, value in about.items()))
    print(table.markdown(rows) if options.markdown else table.text(rows))
    missed = [row.name for row in rows if row.verdict == "MISSED"]
    print(f"\nmissed: {', '.join(missed)}" if missed else "\nno budget missed")
    if unsure := [row.name for row in rows if row.verdict == "UNSURE"]:
        print(f"unsure, for the machine was too busy to tell: {', '.join(unsure)}")
    if options.json:
        Path(options.json).write_text(table.as_json(rows, about))
    if options.write:
        pages.write(chosen, rows, about)
    return 0


SUITES = (
    *("core", "state", "workspace", "lifecycle", "agent"),
    *("remote", "teams", "flows", "profiles"),
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dev.py bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    choices = [
        *[
            "core",
            "state",
            "workspace",
            "lifecycle",
            "agent",
            "remote",
            "teams",
            "flows",
            "profiles",
            "profile",
        ]
    ]
    parser.add_argument("suite", nargs="?", default="core", choices=choices)
    parser.add_argument("names", nargs="*", help="kinds or rows; for profile, what to profile")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--json", metavar="FILE", help="also write everything there")
    parser.add_argument("--write", action="store_true", help="put the tables into the pages")
    parser.add_argument("--markdown", action="store_true", help="print the table for a document")
    return parser


def _measured(here: Ground, chosen: Suite, names: list[str]) -> Iterator[Row]:
    wanted = {name: chosen.kind_of(name) for name in names}
    if unknown := [name for name, kind in wanted.items() if kind is None]:
        there = ", ".join(chosen.kinds)
        raise SystemExit(f"no such benchmark: {', '.join(unknown)}; there are {there}")
    for kind, rows in chosen.kinds.items():
        if names and kind not in wanted.values():
            continue
        began = perf_counter()
        for row in rows(here):
            if not names or kind in names or any(row.name.startswith(name) for name in names):
                yield row
        tell(f"{kind}: done in {perf_counter() - began:.0f} s")


def _profile(here: Ground, names: list[str]) -> int:
    there = scenes()
    if not names or any(name not in there for name in names):
        print(f"profile what? {', '.join(there)}", file=sys.stderr)
        return 2
    for name in names:
        print(f"--- {name}")
        profile(here, there[name])
    return 0


def _about(chosen: Suite) -> dict[str, Any]:
    """Say what was measured on what, without naming the machine."""
    return {
        "otolith": otolith.__version__,
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "cores": os.cpu_count(),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "beside": ", ".join(filter(None, map(_installed, chosen.beside))),
        "data": chosen.data(),
    }


def _installed(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} (not installed)"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
