"""The same verbs, awaitable: for programs that run in an asyncio event loop.

Read `mirror.py`, then `mirror.py`, then `state.py`.

Every method of the plain classes is here under its own name, and is awaited. What is known without
looking is an attribute, as it is there. What reads there by an operator has a name here: `set` and
`delete`, `contains`, `length`; `await state[path]` is the one that stays.
"""

from otolith.aio.handles import (
    BlobHandle,
    CounterHandle,
    FrameHandle,
    ListHandle,
    MapHandle,
    SetHandle,
)
from otolith.aio.repo import Repo, open
from otolith.aio.state import Change, Event, EventLog, Snapshot, Versioned

__all__ = [
    "BlobHandle",
    "Change",
    "CounterHandle",
    "Event",
    "EventLog",
    "FrameHandle",
    "ListHandle",
    "MapHandle",
    "Repo",
    "SetHandle",
    "Snapshot",
    "Versioned",
    "open",
]
