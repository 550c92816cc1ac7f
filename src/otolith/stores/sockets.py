"""Sockets of connections: which of them have something to read."""

from __future__ import annotations

import select
from collections.abc import Sequence


def readable(descriptors: Sequence[int], seconds: float) -> list[int]:
    """Wait until there is something to read, or the time is over; return where."""
    if not hasattr(select, "poll"):
        found, _, _ = select.select(descriptors, [], [], max(0.0, seconds))
        return found
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(max(0.0, seconds) * 1000)]


def has_news(descriptor: int) -> bool:
    """Tell whether there is something to read: on an idle connection, mostly its end."""
    return bool(readable([descriptor], 0))
