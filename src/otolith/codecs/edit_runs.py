"""Runs of edits: the stored form of a text that several edit, and its checks.

A document is stored as the edits that made it, in runs (`types.RunKey`); equal edits have equal
bytes. A run is

    [others, changes]   others: the other writers that are referred to, 8 bytes each
    change              [lamport, deps, edits, text]: edits without a merge between them
    lamport             one more than the time of the last edit that the change was made on
    deps                [writer, number, ...]: those edits, without those that these were made on
    edits               position, n                       the next n characters of `text` go in here
                        position, 0, n, writer, number    n characters are taken out; `number` is
                                                          the first, and `position` where it is
                        position, 0, -n, writer, number   the same, from the last to the first;
                                                          `position` is where the last one is

A writer is a number here: 0 is that of the run, 1 the first of the others. Edits are numbered by
their place: n characters are n edits. Positions count code points.

Nothing in a run is a count that memory is taken for: what is read is as long as what is stored. The
binary form of the library has such counts, and is not used (decision 0046).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias, cast

from otolith.codecs.base import VERIFY
from otolith.errors import Corrupt
from otolith.types import RunKey

StoredRun: TypeAlias = list[Any]
"""A run as plain data."""

_Change: TypeAlias = tuple[int, list[int], list[int], str]
RunShape: TypeAlias = tuple[bytes, list[_Change]]
"""A run whose parts have the types that they should have."""

_INT = frozenset({int})


def check_runs(stored: object) -> dict[RunKey, StoredRun]:
    """Return the runs of a document by their keys.

    Raises:
        Corrupt: they are something else, or edits are missing between them.
    """
    if type(stored) is not dict:
        raise bad_document(f"it is stored as a {type(stored).__name__}")
    found: dict[RunKey, StoredRun] = {}
    for key, run in stored.items():
        name = RunKey.load(key)
        if name is None:
            raise bad_document(f"{key!r:.40} is not the key of a run of edits")
        shaped_run(name, run)
        found[name] = run
    check_order(found)
    return found


def shaped_run(key: RunKey, run: Any) -> RunShape:
    """Return a run whose parts have the types they should have.

    Raises:
        Corrupt: they have others.
    """
    if type(run) is list and list(map(type, run)) == [bytes, list] and all(map(_is_change, run[1])):
        return cast("RunShape", run)
    raise bad_run(key, "they are stored in another form")


def _is_change(change: Any) -> bool:
    if type(change) is not list or list(map(type, change)) != [int, list, list, str]:
        return False
    deps = change[1]
    return _INT.issuperset(map(type, deps + change[2])) and min(deps, default=0) >= 0


def check_order(keys: Iterable[RunKey]) -> dict[int, int]:
    """Return how many edits each writer has made.

    Raises:
        Corrupt: some of the edits of a writer are missing, or there twice.
    """
    counts: dict[int, int] = {}
    for writer, start, stop in sorted(keys):
        if counts.get(writer, 0) != start:
            raise bad_document(
                f"the edits of {writer:016x} before number {start} are not there once"
            )
        counts[writer] = stop
    return counts


def bad_run(key: RunKey, why: object) -> Corrupt:
    """Return the error for a run that is something else."""
    return bad_document(f"the edits {key.start} to {key.stop} of {key.writer:016x} are not: {why}")


def bad_document(problem: str) -> Corrupt:
    """Return the error for what is stored as a document and is none."""
    return Corrupt(f"a document cannot be read: {problem}", hint=VERIFY)
