"""The same verbs, awaitable: for programs that run in an asyncio event loop.

Read `lanes.py`, then `mirror.py`, then `states.py`.

Every method of the plain classes is here under its own name, and is awaited. What is known without
looking is an attribute, as it is there. What reads there by an operator has a name here: `set` and
`delete`, `contains`, `length`; `await state[path]` is the one that stays.
"""

from otolith.aio.events import Event, EventLog
from otolith.aio.handles import (
    BlobHandle,
    CounterHandle,
    FrameHandle,
    ListHandle,
    MapHandle,
    SetHandle,
)
from otolith.aio.reading import Snapshot
from otolith.aio.repo import Repo, open
from otolith.aio.states import Change, Versioned

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
