"""Programs that are killed anywhere in their work, and then left to end it."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path


def seconds_of(program: Path, *arguments: object) -> float:
    """Return how long a program works that nobody kills, from its word `ready` on."""
    with _started(program, *arguments) as process:
        began = time.monotonic()
        process.communicate()
        return time.monotonic() - began


def killed_and_ended(
    program: Path, *arguments: object, kills: int, chance: random.Random, seconds: float
) -> int:
    """Kill a program again and again within so many seconds of its work, then let it end.

    Returns how often it was killed before its end.
    """
    killed = 0
    for _ in range(kills):
        with _started(program, *arguments) as process:
            assert process.stdout is not None
            time.sleep(chance.random() * seconds)  # so that the kill falls anywhere in a step
            process.kill()
            killed += process.stdout.read() == ""
    with _started(program, *arguments) as process:
        said, _ = process.communicate()
    assert process.returncode == 0
    assert said.endswith("done\n")
    return killed


def _started(program: Path, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(program), *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process
