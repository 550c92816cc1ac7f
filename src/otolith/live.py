"""`Live`: what an agent knows in this process, by reference; nothing of it is stored.

Values and events are plain objects (state/live.py). Conversation, memory, machines and workspace
are made to be stored: they are in `rooms`, a state in memory that ends with the process too.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from otolith.session import Versioned
from otolith.state import LiveValues
from otolith.types import Clock

if TYPE_CHECKING:
    from otolith.conversation import Conversation
    from otolith.memory import Memory
    from otolith.statecharts import Chart, Machine
    from otolith.workspace import Runner, Workspace


class Live(LiveValues):
    """What an agent knows, in memory: any object, by reference, for as long as the process lives.

        state = Live({"budget": 500})
        state["cursor"] = open_connection()     # anything: nothing is stored
        state["plan/steps"] = ["search"]
        state.conversation.user("Find me a flight")

    A path leads through dicts and lists. Threads may share it: each call holds the lock.
    """

    def __init__(
        self, values: Mapping[str, Any] | None = None, *, clock: Clock | None = None
    ) -> None:
        self._rooms: Versioned | None = None
        super().__init__(values, clock=clock)

    @property
    def rooms(self) -> Versioned:
        """The state in memory that has the conversation, the memory and the variables."""
        with self.lock:
            if self._rooms is None:
                self._rooms = _unwatched(Versioned(clock=self._clock))
            return self._rooms

    @property
    def has_rooms(self) -> bool:
        """Whether anything was said, noted or run here."""
        return self._rooms is not None

    @property
    def conversation(self) -> Conversation:
        """The conversation: its main thread of messages, and the way to the others."""
        return self.rooms.conversation

    @property
    def memory(self) -> Memory:
        """The working memory: goal, plan, notes, and the tools that were called."""
        return self.rooms.memory

    def lifecycle(
        self, chart: Chart, *, name: str = "main", data: Mapping[str, Any] | None = None
    ) -> Machine:
        """Return the machine that runs a chart here; it is started if there is none.

        Raises:
            ChartMismatch: the machine of this name runs another chart, without a migration.
        """
        return self.rooms.lifecycle(chart, name=name, data=data)

    def workspace(
        self, *, runner: Runner | None = None, folder: str | PathLike[str] | None = None
    ) -> Workspace:
        """Return the variables and files of this state, and a way to run code on them.

        Code runs in another process: what it assigns must be storable, and is not by reference.
        """
        return self.rooms.workspace(runner=runner, folder=folder)

    def _copy_from(self, other: Self) -> None:
        super()._copy_from(other)
        if other._rooms is not None:
            other._rooms.commit("copied")
            self._rooms = _unwatched(other._rooms.fork(uuid4().hex))


def _unwatched(state: Versioned) -> Versioned:
    """Return a state that warns of no staged edits: nobody expects them to be stored."""
    state._is_watched = False  # noqa: SLF001 - of the same kind of handle
    return state
