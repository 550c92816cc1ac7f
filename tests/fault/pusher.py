"""A process that pushes one store to another, and says how far it is.

python pusher.py SOURCE TARGET
"""

from __future__ import annotations

import sys
import warnings

import otolith


def say(phase: str, done: int, total: int) -> None:
    """Print one line, at once."""
    sys.stdout.write(f"{phase} {done} {total}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with otolith.open(sys.argv[1], read_only=True) as repo:
        repo.push(sys.argv[2], progress=say)
    say("done", 1, 1)
