"""A process that commits to a store on a server, whatever happens to the server, until it is told.

python server_writer.py URL NAME ACKNOWLEDGED STOP

It appends the number of each commit to the file ACKNOWLEDGED once it has returned, and ends when
the file STOP exists. A commit without a reply is repeated until there is one. Between commits it
pauses, so that slower writers of the same session get their turn.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import TypeVar

import otolith
from otolith.errors import Contention, Unavailable

_T = TypeVar("_T")


def patiently(work: Callable[[], _T]) -> _T:
    """Do something again until the server does it."""
    while True:
        try:
            return work()
        except (Unavailable, Contention):
            sleep(0.02)


def main(url: str, name: str, acknowledged: Path, stop: Path) -> None:
    """Commit steps: a number, a counter and an entry of a list, in one commit each."""
    repo = patiently(lambda: otolith.open(url, author=name))
    state = patiently(lambda: repo.session("job"))
    number = patiently(lambda: state.get(f"done/{name}", 0))
    assert isinstance(number, int)
    log = patiently(lambda: state.list("events"))
    total = patiently(lambda: state.counter("total"))
    chance = random.Random(name)
    with acknowledged.open("a") as file:
        while not stop.exists():
            number += 1
            patiently(lambda: state.__setitem__(f"done/{name}", number))  # noqa: B023
            patiently(lambda: total.add(1))
            patiently(lambda: log.append({"who": name, "number": number}))  # noqa: B023
            patiently(lambda: state.commit(f"{name} {number}"))  # noqa: B023
            file.write(f"{number}\n")
            file.flush()
            sleep(chance.random() / 20)
    patiently(repo.close)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
