"""A frame of which one column changes at every step, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from bench.ground import Ground, Sizes
from bench.state.contest import Contest, Taken, megabytes, ours, sized, timed
from bench.state.holders import ASSIGNED_AGAIN, SYNCED, Holder
from bench.table import Budget, Row, time_of

KVGIT = ("kvgit", "kvgit scientific")
DISK_LIMIT = 75 / 70  # of the bytes of information
TIME_LIMIT = Budget(0.25, "x", of="ratio")
READ_LIMIT = Budget(0.005, "s")

Change = Callable[[Any, int, int], None]
"""Changes one column of a frame in place, by its position and the number of the step."""


def frame(rows: int, columns: int) -> Any:
    """Return a frame of random numbers, which no compressor makes much smaller."""
    chance = np.random.default_rng(21)
    return pd.DataFrame({f"c{at}": chance.standard_normal(rows) for at in range(columns)})


def assign(df: Any, at: int, step: int) -> None:
    df[f"c{at}"] = np.random.default_rng(step).standard_normal(len(df))


def in_place(df: Any, at: int, _: int) -> None:
    df.iloc[:, at] *= 1.1


def through_numpy(df: Any, at: int, _: int) -> None:
    column = df[f"c{at}"].to_numpy()
    column.flags.writeable = True  # pandas hands out its own memory, but not to be written to
    column *= 1.1


def changing(change: Change, columns: int, *, reopens: bool = False):
    """Return work that changes one column a step."""

    def work(holder: Holder, step: int) -> dict[str, Any]:
        if reopens:
            holder.reopen()
        df = holder.get("df")
        change(df, step % columns, step)
        return {"df": df}

    return work


def reading(holder: Holder, step: int) -> dict[str, Any]:
    """Read the frame and change something else."""
    holder.get("df")["c1"].sum()
    holder.set("note", f"step {step}")
    return {}


def rows(ground: Ground) -> Iterator[Row]:
    sizes = ground.sizes
    columns = sizes.frame_columns
    ways = {
        "assign": ("df[c] = ...", changing(assign, columns), None),
        "place": ("df.iloc[:, i] *= 1.1", changing(in_place, columns), None),
        "numpy": ("in place by numpy", changing(through_numpy, columns), KVGIT),
        "reopen": ("reopened, df[c] = ...", changing(assign, columns, reopens=True), None),
    }
    for way, (said, work, peers) in ways.items():
        contest = Contest(f"frame, {said}", lambda: _fill(sizes), work, sizes.frame_steps)
        contest.same = _same
        contest.peers = peers or contest.peers
        yield from _against_budgets(f"frame-{way}", said, sizes, contest.run(ground))
    yield from _only_read(ground)


def _against_budgets(name: str, said: str, sizes: Sizes, taken: dict[str, Any]) -> Iterator[Row]:
    column, steps = sizes.frame_rows * 8, sizes.frame_steps
    whole = column * sizes.frame_columns
    told = whole + column * steps
    work = f"{whole / 1e6:.3g} MB frame, 1 of {sizes.frame_columns} columns x {steps}, {said}"
    note = f"Stored in the end, closed, for {told / 1e6:.3g} MB of information."
    stored = megabytes(ours(taken).stored_bytes)
    limit = Budget(told * DISK_LIMIT / 1e6, "MB")
    yield Row(f"{name}-disk", f"{work}: stored", stored, budget=limit, note=note)
    yield from sized(f"{name}-disk", f"{work}: stored", taken, _stored, note=note)
    budgets = dict.fromkeys(KVGIT, TIME_LIMIT)
    note = f"{ASSIGNED_AGAIN} {SYNCED}"
    yield from timed(name, f"{work}: commit", taken, budgets=budgets, note=note)
    if "reopen" in name:
        yield from timed(f"{name}-whole", f"{work}: open, read, change, commit", taken, whole=True)


def _only_read(ground: Ground) -> Iterator[Row]:
    sizes = ground.sizes
    contest = Contest("frame, only read", lambda: _fill(sizes), reading, sizes.read_steps)
    contest.same = _same
    taken = contest.run(ground)
    whole = sizes.frame_rows * sizes.frame_columns * 8 / 1e6
    work = f"{whole:.3g} MB frame only read, another key set: commit"
    yield Row("read", work, time_of(ours(taken).commit), budget=READ_LIMIT)
    note = (
        "Of these, otolith and agex look whether the frame has changed; kvgit and diskcache"
        " do not, and pickle and joblib write it again."
    )
    yield from timed("read", work, taken, note=note)


def _fill(sizes: Sizes) -> dict[str, Any]:
    return {"df": frame(sizes.frame_rows, sizes.frame_columns), "note": ""}


def _same(mine: Any, theirs: Any) -> bool:
    return bool(mine.equals(theirs)) if isinstance(theirs, pd.DataFrame) else bool(mine == theirs)


def _stored(taken: Taken):
    return megabytes(taken.stored_bytes)
