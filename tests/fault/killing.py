"""Programs that are killed anywhere in their work, and then left to end it.

A program says `ready` when it begins, a line after each step, and `done`. The moment of a kill is
counted in steps, with a little time on top, so that it does not depend on how fast the machine is.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

_MOST_STEPS, _MOST_SECONDS = 2, 0.012


def killed_and_ended(program: Path, *arguments: object, kills: int, chance: random.Random) -> int:
    """Kill a program again and again in its work, then let it end.

    Returns how often it was killed before its end.
    """
    killed = 0
    for _ in range(kills):
        with _started(program, *arguments) as process:
            assert process.stdout is not None
            for _ in range(chance.randint(0, _MOST_STEPS)):
                process.stdout.readline()
            time.sleep(chance.random() * _MOST_SECONDS)  # so that it falls anywhere in a step
            process.kill()
            killed += process.wait() == -signal.SIGKILL
    with _started(program, *arguments) as process:
        said, _ = process.communicate()
    assert process.returncode == 0
    assert said.endswith("done\n")
    return killed


def frozen_and_ended(
    program: Path, *arguments: object, times: int, seconds: float, chance: random.Random
) -> int:
    """Freeze a program again and again in its work, and let it end.

    Returns how often it was frozen before its end.
    """
    frozen = 0
    with _started(program, *arguments) as process:
        assert process.stdout is not None
        for _ in range(times):
            for _ in range(chance.randint(0, _MOST_STEPS)):
                process.stdout.readline()
            time.sleep(chance.random() * _MOST_SECONDS)
            if process.poll() is not None:
                break
            process.send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            process.send_signal(signal.SIGCONT)
            frozen += 1
        said, _ = process.communicate()
    assert process.returncode == 0
    assert said.endswith("done\n")
    return frozen


def kill_together(
    program: Path, crowd: Sequence[tuple[object, ...]], *, chance: random.Random
) -> None:
    """Start a program several times at once, and kill each somewhere in its work."""
    processes = [_started(program, *arguments) for arguments in crowd]
    for process in processes:
        time.sleep(chance.random() * _MOST_SECONDS)
        process.kill()
    for process in processes:
        process.communicate()


def end_together(program: Path, crowd: Sequence[tuple[object, ...]]) -> None:
    """Start a program several times at once, and let each end its work."""
    processes = [_started(program, *arguments) for arguments in crowd]
    for process in processes:
        said, _ = process.communicate()
        assert process.returncode == 0
        assert said.endswith("done\n")


def _started(program: Path, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(program), *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process
