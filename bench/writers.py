"""Several processes that write one file: how long each waits for its turn, and how much they write.

Every process commits as fast as it can, to a session of its own. The peer is bare SQLite with the
same settings, and SQLite's own way to wait for the lock (`busy_timeout`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import apsw

import otolith
from bench.ground import ROOT, Ground, tell
from bench.peers.bare import Bare
from bench.table import Budget, Figure, Row, against

WAIT_MS = 60_000


class Crowd(NamedTuple):
    """What the commits of all processes took, in seconds, sorted."""

    waits: list[float]
    seconds: float

    def share(self, part: float) -> Figure:
        """Return the wait that a part of the commits did not exceed."""
        return Figure(self.waits[min(int(len(self.waits) * part), len(self.waits) - 1)], "s")

    @property
    def rate(self) -> Figure:
        return Figure(len(self.waits) / self.seconds, "/s")


def rows(ground: Ground) -> Iterator[Row]:
    sizes = ground.sizes
    work = f"{sizes.writers} processes x {sizes.commits_per_writer} commits to one file"
    tell(work)
    theirs = run("bare", ground.place("bare"), sizes.writers, sizes.commits_per_writer)
    ours = run("ours", ground.place("ours"), sizes.writers, sizes.commits_per_writer)
    for name, part in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
        budget = Budget(1, "s") if name == "p99" else None
        mine, yours = ours.share(part), theirs.share(part)
        row = against(f"writers-{name}", f"{work}: {name}", mine, "SQLite", yours)
        yield Row(row.name, row.work, row.ours, row.peer, row.theirs, row.ratio, budget)
    yield against("writers-rate", f"{work}: per second", ours.rate, "SQLite", theirs.rate)


def run(who: str, place: Path, writers: int, commits: int) -> Crowd:
    """Let processes write at once."""
    _open(who, place).close()
    command = [sys.executable, "-m", "bench.writers", who, str(place), str(commits)]
    crowd = [
        subprocess.Popen(
            [*command, str(number)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(writers)
    ]
    for process in crowd:
        assert process.stdout is not None
        process.stdout.readline()  # it is ready
    began = perf_counter()
    for process in crowd:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    ends = [process.communicate()[0] for process in crowd]
    waits = sorted(took for end in ends for took in json.loads(end))
    return Crowd(waits, perf_counter() - began)


class _Bare(Bare):
    """Bare SQLite that other processes may write too."""

    def __init__(self, place: Path) -> None:
        if not place.exists():
            super().__init__(place)
            return
        self.place = place
        self._connection = connection_to(place)


def connection_to(place: Path) -> apsw.Connection:
    """Return a connection to a file that exists, with the settings of one process."""
    connection = apsw.Connection(str(place))
    connection.set_busy_timeout(WAIT_MS)
    for line in ("pragma synchronous=full", "pragma wal_autocheckpoint=2000"):
        connection.execute(line).fetchall()
    return connection


def _open(who: str, place: Path):
    return _Bare(place) if who == "bare" else otolith.open(place)


def main(who: str, place: str, commits: str, number: str) -> None:
    """Be one of the processes."""
    opened = _open(who, Path(place))
    if who == "ours":
        state = opened.session(f"writer {number}")

        def commit(turn: int) -> None:
            state["text"] = f"{number} {turn} " * 50
            state.commit()
    else:

        def commit(turn: int) -> None:
            opened.insert(f"{number} {turn} ".encode() * 50)

    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    waits = []
    for turn in range(int(commits)):
        began = perf_counter()
        commit(turn)
        waits.append(perf_counter() - began)
    opened.close()
    json.dump(waits, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
