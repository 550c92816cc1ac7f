"""One column of a large frame, read at an old commit."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.ground import Ground, tell
from bench.peers import attempt
from bench.state.frames import assign, frame
from bench.state.holders import ROOMS, Holder, start
from bench.state.holders.ours import Ours
from bench.table import Absent, Budget, Figure, Row, against
from bench.timing import Samples, Step

COLUMN = "c3"
READS = 5
BYTES_LIMIT = Budget(1.2, "x")
SHARES = 2.0  # the time of a column may be this many times its share of the frame
IO = Path("/proc/self/io")


def rows(ground: Ground) -> Iterator[Row]:
    sizes = ground.sizes
    column, columns = sizes.wide_rows * 8, sizes.wide_columns
    work = f"1 column of {columns} of a {column * columns / 1e6:.4g} MB frame, at an old commit"
    holder = start("ours", ground.place("wide"))
    assert isinstance(holder, Ours)
    tell(f"{work}: otolith")
    old = _filled(holder, ground)
    assign(holder.get("df"), 3, 1)
    holder.commit()

    def read_column() -> None:
        holder.state.at(old).frame("df")[COLUMN].sum()

    one, counted = _measured(holder, read_column)
    whole, _ = _measured(holder, _reading_all(holder, old), times=2)
    _finish(holder)
    if counted is not None:
        read = Figure(counted / column, "x")
        yield Row("column-bytes", f"{work}: bytes read / its bytes", read, budget=BYTES_LIMIT)
    share = Budget(SHARES / columns, "x", of="ratio")
    ours, all_of_it = _figure(one), _figure(whole)
    ratio = ours.value / all_of_it.value
    yield Row("column", work, ours, "whole frame", all_of_it, ratio, share)
    note = "joblib maps its file into memory; all others read the whole frame."
    for name, room in ROOMS.items():
        tell(f"{work}: {name}")
        theirs = attempt(_peer, ground, room)
        yield against(f"column-{name.replace(' ', '-')}", work, ours, name, theirs, note=note)


def _filled(holder: Holder, ground: Ground) -> Any:
    holder.set("df", frame(ground.sizes.wide_rows, ground.sizes.wide_columns))
    return holder.commit()


def _peer(ground: Ground, room: str) -> Figure | Absent:
    holder = start(room, ground.place(room.replace(":", "-")))
    if isinstance(holder, Absent):
        return holder
    old = _filled(holder, ground)
    took, _ = _measured(holder, _reading_all(holder, old), times=2)
    _finish(holder)
    return _figure(took)


def _reading_all(holder: Holder, version: Any) -> Step:
    def read() -> None:
        holder.at(version, "df")[COLUMN].sum()

    return read


def _measured(holder: Holder, read: Step, times: int = READS) -> tuple[Samples, int | None]:
    """Read some times, the store opened anew each time; count the bytes of the first."""
    samples, counted = Samples(), None
    for _ in range(times):
        holder.reopen()
        before = _read_bytes()
        samples.run(read, 1)
        after = _read_bytes()
        if counted is None and before is not None and after is not None:
            counted = after - before
    return samples, counted


def _read_bytes() -> int | None:
    """Return how many bytes this process has read so far, from files or from their cache."""
    if not IO.exists():
        return None
    return int(IO.read_text().split()[1])


def _figure(samples: Samples) -> Figure:
    return Figure(samples.p50, "s", samples.at(0), samples.at(1))


def _finish(holder: Holder) -> None:
    holder.close()
    shutil.rmtree(holder.place, ignore_errors=True)
