"""The same verbs, awaitable: for programs that run in an asyncio event loop.

    async with aio.open("agent.db") as repo:
        state = await repo.session("trip")
        await state.set("budget", 500)
        await state.commit("asked")

Every method of the plain classes is here under its own name, and is awaited. What is known without
looking is an attribute, as it is there. What the plain classes do by an operator has a name here:
`set` and `delete`, `contains`, `length`; `await state[path]` and `async for` stay. So are the
rooms of a state, `await state.conversation.user("Hello")`, `await state.lifecycle(chart)`, and what
a team needs, `async with team.lease("browser")`.

Read `lanes.py` (threads and order), then `mirror.py` (how a class is mirrored), then `surface.py`;
then `waits.py` (how tasks wait for others) and `teams.py`.
"""

from otolith.aio.surface import (
    BlobHandle,
    Change,
    Conversation,
    CounterHandle,
    Event,
    EventLog,
    FlowRun,
    FrameHandle,
    ListHandle,
    Machine,
    MapHandle,
    Memory,
    Preference,
    Profile,
    Repo,
    SetHandle,
    Settings,
    Snapshot,
    TextHandle,
    Versioned,
    Workspace,
    open,
)
from otolith.aio.teams import (
    FairQueue,
    InboxConflict,
    Proposal,
    Team,
    TeamLease,
    Watch,
    WatchedChange,
)

__all__ = [
    "BlobHandle",
    "Change",
    "Conversation",
    "CounterHandle",
    "Event",
    "EventLog",
    "FairQueue",
    "FlowRun",
    "FrameHandle",
    "InboxConflict",
    "ListHandle",
    "Machine",
    "MapHandle",
    "Memory",
    "Preference",
    "Profile",
    "Proposal",
    "Repo",
    "SetHandle",
    "Settings",
    "Snapshot",
    "Team",
    "TeamLease",
    "TextHandle",
    "Versioned",
    "Watch",
    "WatchedChange",
    "Workspace",
    "open",
]
