"""A process that learns about a user, a commit for each message, and says how far it is.

python profile_learner.py URL MESSAGES
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import otolith
from otolith.errors import Erased


def main(url: str, messages: int) -> None:
    """Observe each message once; a learner that was killed begins again from the first."""
    with otolith.open(url, author="learner") as repo:
        try:
            ann = repo.user("ann").profile
            print("ready", flush=True)
            for number in range(messages):
                source = SimpleNamespace(id=f"m{number}", time=1_700_000_000_000_000 + number)
                ann.observe("seat", "aisle" if number % 3 else "window", source=source)
                ann.commit(f"message {number}")
                print(number, flush=True)
        except Erased:
            print("erased", flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
