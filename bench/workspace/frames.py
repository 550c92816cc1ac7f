"""A large frame of which one column changes at every step, in one of ten ways."""

from __future__ import annotations

from collections.abc import Iterator

from bench.ground import Ground
from bench.state.contest import OURS, Taken, megabytes, sized, timed
from bench.table import Absent, Budget, Figure, Row, against, seconds, time_of
from bench.workspace import ours
from bench.workspace.dumps import PEERS, WHOLE, Namespace
from bench.workspace.keeping import COLD, WARM, Found, contest
from bench.workspace.mixed import CHANGES, FRAME

DISK_LIMIT = Budget(50, "MB")
TIME_LIMIT = Budget(0.060, "s")


def rows(ground: Ground) -> Iterator[Row]:
    frame = FRAME.format(rows=ground.sizes.mixed_rows)
    namespace: Namespace = {}
    exec(frame, namespace)
    whole = namespace["df"].memory_usage(index=False).sum() / 1e6
    taken = contest(ground, frame, namespace)
    peers = {name: taken[name] for name in PEERS}
    said = f"{whole:.3g} MB frame of mixed columns"
    work = f"{said}, 1 of 10 changed x {len(CHANGES)}"
    for name, how, beside in (("frame", WARM, peers), ("frame-cold", COLD, {})):
        yield from _rows(name, f"{work}, {how}", {OURS: taken[how]} | beside)
    for name, found in peers.items():
        row = f"frame-first-{name.lower()}"
        yield against(row, f"{said}, first commit", _first(taken[WARM]), name, _first_of(found))


def _rows(name: str, said: str, taken: Found) -> Iterator[Row]:
    changes: Found = {who: _changes(found) for who, found in taken.items()}
    mine = changes[OURS]
    assert isinstance(mine, Taken)
    disk, commit = f"{said}: stored", f"{said}: commit"
    note = "What the changes added to the first commit."
    stored = megabytes(mine.grown_bytes)
    yield Row(f"{name}-disk", disk, stored, budget=DISK_LIMIT, note=note)
    note = f"{note} {WHOLE}"
    yield from sized(
        f"{name}-disk", disk, changes, lambda each: megabytes(each.grown_bytes), note=note
    )
    note = f"The whole step without the run of its code; {_by_kind(mine)}."
    yield Row(name, commit, time_of(mine.commit), budget=TIME_LIMIT, note=note)
    yield from timed(name, commit, changes, note=f"{WHOLE} {ours.SYNCED}")


def _by_kind(mine: Taken) -> str:
    """Say what each change took: the spread is one of kinds more than of noise."""
    took = [block[0] for block in mine.commit.blocks]
    each = (f"{kind} {seconds(of)}" for kind, of in zip(CHANGES, took, strict=True))
    return f"{seconds(sum(took) / len(took))} on average: {', '.join(each)}"


def _changes(taken: Taken | Absent) -> Taken | Absent:
    """Return what was taken without the first commit."""
    if isinstance(taken, Absent):
        return taken
    left = Taken(filled_bytes=taken.filled_bytes, stored_bytes=taken.stored_bytes)
    left.commit.blocks = taken.commit.blocks[1:]
    return left


def _first_of(taken: Taken | Absent) -> Figure | Absent:
    return taken if isinstance(taken, Absent) else Figure(taken.commit.blocks[0][0], "s")


def _first(taken: Taken | Absent) -> Figure:
    found = _first_of(taken)
    assert isinstance(found, Figure)
    return found
