"""Idle connections to servers: a look at whether something has arrived on one."""

from __future__ import annotations

import select


def has_news(descriptor: int) -> bool:
    """Tell whether there is something to read: on an idle connection, mostly its end."""
    if not hasattr(select, "poll"):
        return bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
