"""Processes that start at the same moment, and what each prints when it is done."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from time import perf_counter
from typing import NamedTuple

from bench.ground import ROOT


class Race(NamedTuple):
    """What the processes printed, and how long it took until the last of them was done."""

    printed: list[str]
    seconds: float


_RUN = "import sys; from {} import take_part; take_part(*sys.argv[1:])"


def race(module: str, each: Sequence[Sequence[str]]) -> Race:
    """Run `take_part` of a module in a process for each list of arguments.

    It prints a line when it is ready, waits for one, and prints its result in the end.
    """
    crowd = [
        subprocess.Popen(
            [sys.executable, "-c", _RUN.format(module), *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for arguments in each
    ]
    for process in crowd:
        assert process.stdout is not None
        process.stdout.readline()
    began = perf_counter()
    for process in crowd:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    printed = [process.communicate()[0] for process in crowd]
    return Race(printed, perf_counter() - began)
