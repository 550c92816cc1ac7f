"""A large frame met by a new process, which uses one column of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench.ground import Ground, tell
from bench.peers import attempt
from bench.table import Absent, Budget, Figure, Row, against, compared, time_of
from bench.timing import Samples, once
from bench.workspace import ours
from bench.workspace.dumps import FILES, Files, files
from bench.workspace.mixed import FRAME

LIMIT = Budget(0.010, "s")
COLUMN = "f1"
USE = f'df["{COLUMN}"].iloc[0]'


def rows(ground: Ground) -> Iterator[Row]:
    frame = FRAME.format(rows=ground.sizes.mixed_rows)
    namespace: dict[str, Any] = {}
    exec(frame, namespace)
    df = namespace["df"]
    whole = df.memory_usage(index=False).sum() / 1e6
    loads = {name: attempt(_loading, name, ground.place(name), df) for name in FILES}
    value = float(df[COLUMN].iloc[0])
    place = ground.place("restore")
    tell(f"a {whole:.3g} MB frame in a new process")
    with ours.opened(place) as here:
        ours.run(here, frame)
        mine, theirs = _again(here, loads, value, ground.sizes.restores)
    newly = _newly(place, value, max(1, ground.sizes.restores // 4))
    shutil.rmtree(place)
    said = f"{whole:.3g} MB frame in a new process, 1 column used"
    note = "The whole step, less an empty one that was run beside it."
    yield Row("restore", said, time_of(mine), budget=LIMIT, note=note)
    note = f"{note} The others load the whole frame, parquet one column; they start no process."
    for name, found in theirs.items():
        row = f"restore-{name}"
        if isinstance(found, Absent):
            yield against(row, said, time_of(mine), name, found, note=note)
        else:
            yield compared(row, said, mine, name, found, note=note)
    note = "The state was opened anew: no other process of it has used the frame before."
    yield Row("restore-new", f"{said}, the host new too", _spread(newly), note=note)


def _again(
    here: ours.Workspace, loads: dict[str, Callable[[], float] | Absent], value: float, times: int
) -> tuple[Samples, dict[str, Samples | Absent]]:
    """Measure ours and the others in turn."""
    mine = Samples()
    theirs: dict[str, Samples | Absent] = {
        name: load if isinstance(load, Absent) else Samples() for name, load in loads.items()
    }
    ours.run(here, "pass")  # waits until the nursery has imported what the session uses
    _difference(here, value)
    for _ in range(times):
        mine.blocks.append([_difference(here, value)])
        for name, load in loads.items():
            found = theirs[name]
            if not isinstance(load, Absent) and isinstance(found, Samples):
                found.blocks.append([load()])
    return mine, theirs


def _newly(place: Path, value: float, times: int) -> Samples:
    """Measure ours where nothing of the frame is in memory yet."""
    found = Samples()
    for _ in range(times):
        with ours.opened(place) as here:
            ours.run(here, "pass")
            found.blocks.append([_difference(here, value)])
    return found


def _difference(here: ours.Workspace, value: float) -> float:
    _, empty = ours.run(here, "pass")
    step, took = ours.run(here, USE)
    if step.value != value:
        raise ours.Failed(f"the column begins with {step.value}, not {value}")
    return max(took - empty, 0.0)


def _loading(name: str, place: Path, df: Any) -> Callable[[], float]:
    peer = files(name, place)
    peer.save({"df": df}, "")
    return partial(once, partial(_load, peer, float(df[COLUMN].iloc[0])))


def _load(peer: Files, value: float) -> None:
    if peer.read_column(peer.last, COLUMN).iloc[0] != value:
        raise ours.Failed("the column begins with something else")


def _spread(samples: Samples) -> Figure:
    return Figure(samples.p50, "s", samples.at(0), samples.at(1))
