"""Whole programs, every cell in a new process, beside a dump of all variables after every cell."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from bench.ground import Ground, tell
from bench.peers import attempt
from bench.state.contest import megabytes
from bench.table import Absent, Budget, Figure, Row
from bench.workspace import ours
from bench.workspace.forked import Forked
from tests.traces.alone import ENVIRONMENT
from tests.traces.corpus import Program, is_runnable, programs

BYTES_LIMIT = Budget(1 / 20, "x", of="ratio")
TIME_LIMIT = Budget(1.0, "x", of="ratio")
SLOWER = 1.1
PEER = "cloudpickle"


@dataclass(frozen=True)
class Ran:
    """What one program took, and which cells did not end as they do in one process."""

    seconds: float
    bytes: int
    unlike: frozenset[int]


@dataclass(frozen=True)
class Pair:
    """One program, run in both ways."""

    name: str
    cells: int
    mine: Ran
    theirs: Ran

    @property
    def slowness(self) -> float:
        return self.mine.seconds / self.theirs.seconds


def rows(ground: Ground) -> Iterator[Row]:
    chosen = [program for program in programs() if is_runnable(program)]
    if ground.sizes.programs is not None:
        chosen = [program for program in chosen if not program.needs][: ground.sizes.programs]
    ran, broken = _run_all(ground, chosen)
    pairs = [pair for pair in ran if not pair.mine.unlike | pair.theirs.unlike]
    cells = sum(pair.cells for pair in pairs)
    said = f"{len(pairs)} programs of {cells} cells, a process each"
    note = (
        f"Of {len(chosen)} programs, those in which all cells end as in one process.{_unlike(ran)}"
        f"{broken} The peer forks alike, learns the same imports and carries random numbers along;"
        " these are not counted, nor are files, which otolith keeps too."
    )
    if not pairs:
        none = Absent("no program ended alike")
        yield Row("programs", said, Figure(0, "s"), PEER, none, None, TIME_LIMIT, note=note)
        return
    mine = sum(pair.mine.bytes for pair in pairs)
    theirs = sum(pair.theirs.bytes for pair in pairs)
    figures = megabytes(mine), megabytes(theirs)
    yield Row(
        "programs-disk", f"{said}: stored", figures[0], PEER, figures[1], mine / theirs,
        BYTES_LIMIT, note=note,
    )  # fmt: skip
    middle = statistics.median(pair.mine.bytes / pair.theirs.bytes for pair in pairs)
    work = f"{said}: stored, of {PEER}'s"
    yield Row("programs-disk-median", f"{work}, the median program", Figure(middle, "x"))
    yield from _times(said, pairs, note)


def _times(said: str, pairs: Sequence[Pair], note: str) -> Iterator[Row]:
    mine = sum(pair.mine.seconds for pair in pairs)
    theirs = sum(pair.theirs.seconds for pair in pairs)
    figures = Figure(mine, "s"), Figure(theirs, "s")
    yield Row(
        "programs", f"{said}: restore, run and keep", figures[0], PEER, figures[1], mine / theirs,
        TIME_LIMIT, note=note,
    )  # fmt: skip
    ratios = sorted(pair.slowness for pair in pairs)
    middle = Figure(statistics.median(ratios), "x", ratios[0], ratios[-1])
    work = f"{said}: time, of {PEER}'s, the median program"
    yield Row("programs-median", work, middle)
    slower = sorted((pair.slowness, pair.name) for pair in pairs if pair.slowness > SLOWER)
    names = ", ".join(f"{name} {ratio:.2f}x" for ratio, name in reversed(slower))
    work = f"{said}: slower than {SLOWER} x {PEER}"
    yield Row("programs-slower", work, Figure(len(slower), ""), note=names and f"{names}.")


def _run_all(ground: Ground, chosen: Sequence[Program]) -> tuple[list[Pair], str]:
    pairs, broken = [], []
    for program in chosen:
        place = ground.place(program.name)
        place.mkdir()
        mine = attempt(_ours, program, place / "ours")
        theirs = attempt(_theirs, program, place / "theirs")
        shutil.rmtree(place)
        if isinstance(mine, Absent) or isinstance(theirs, Absent):
            who, why = ("otolith", mine) if isinstance(mine, Absent) else (PEER, theirs)
            broken.append(f"{program.name} by {who} ({why})")
            continue
        pair = Pair(program.name, len(program.cells), mine, theirs)
        pairs.append(pair)
        tell(
            f"{pair.name}: {mine.seconds:.2f} s, {mine.bytes / 1e6:.2f} MB; {PEER}:"
            f" {theirs.seconds:.2f} s, {theirs.bytes / 1e6:.2f} MB; unlike {sorted(mine.unlike)}"
            f" and {sorted(theirs.unlike)}"
        )
    return pairs, f" Not counted, for they broke off: {'; '.join(broken)}." if broken else ""


def _ours(program: Program, place: Path) -> Ran:
    took, failed = 0.0, set()
    with ours.opened(place, sandbox="limits", environment=ENVIRONMENT, wall_seconds=60) as here:
        here.run("pass")  # starts the nursery
        for number, cell in enumerate(program.cells, start=1):
            began = perf_counter()
            step = here.run(cell)
            took += perf_counter() - began
            if not step.ok:
                failed.add(number)
    return Ran(took, ours.stored_bytes(place), program.raises ^ failed)


def _theirs(program: Program, place: Path) -> Ran:
    took, stored, failed = 0.0, 0, set()
    with Forked(place, ENVIRONMENT) as forked:
        forked.run("pass")
        for number, cell in enumerate(program.cells, start=1):
            began = perf_counter()
            told = forked.run(cell)
            took += perf_counter() - began
            stored += told.stored_bytes
            if told.error is not None:
                failed.add(number)
            if told.is_over:
                break
    return Ran(took, stored, program.raises ^ failed)


def _unlike(pairs: Sequence[Pair]) -> str:
    """Say which cells fail that do not in one process, or the other way round."""
    mine = {pair.name: pair.mine.unlike for pair in pairs if pair.mine.unlike}
    theirs = {pair.name: pair.theirs.unlike for pair in pairs if pair.theirs.unlike}
    return "".join(
        _where(who, cells) for who, cells in (("otolith", mine), (PEER, theirs)) if cells
    )


def _where(who: str, unlike: dict[str, frozenset[int]]) -> str:
    places = (f"{name} (cell {', '.join(map(str, sorted(at)))})" for name, at in unlike.items())
    return f" Not with {who}: {', '.join(places)}."
