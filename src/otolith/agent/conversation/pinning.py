"""When messages were pinned: what stayed in a context that was made before.

    pins    [how many messages there were, the index of the message, its id, whether it was pinned]

What stays today is in another table (record.py). A prompt that was cached is the context of then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otolith.agent.conversation.record import PINS, Record


def note(record: Record, at: int, id: str, *, is_pinned: bool) -> None:
    """Stage that a message was pinned, or is no longer."""
    record.extend([[record.length(), at, id, is_pinned]], PINS)


def stayed(record: Record, stop: int) -> tuple[int, ...]:
    """Return the indices of what stayed when there were so many messages."""
    found = set(record.staying())
    for length, near, id, was_pinned in _latest(record):
        if length <= stop:
            break
        at = record.place_of(id, near)
        if at is not None:
            found = found - {at} if was_pinned else found | {at}
    return tuple(sorted(at for at in found if at < stop))


def _latest(record: Record) -> Iterator[Any]:
    """Yield what was noted, the latest first."""
    cell, cells = record.cell(PINS), record.state.cells
    for place in reversed(range(0 if cell is None else cells.length(cell))):
        yield cells.load(cells.element(cell or b"", place))
