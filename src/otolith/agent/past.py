"""A session as it was at one commit, with the user and the application as it saw them then."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from otolith.agent import conversation, lifecycle, memory
from otolith.agent.event import EventLog
from otolith.agent.frames import HasFrames
from otolith.agent.kept import KeptEvents
from otolith.core import Archive, Commit, Snapshot, split_ref
from otolith.errors import RefNotFound
from otolith.types import Hash

if TYPE_CHECKING:
    from otolith.agent.conversation import Conversation
    from otolith.agent.lifecycle import Chart, Machine
    from otolith.agent.memory import Memory


class Then(HasFrames, Snapshot):
    """What `at()` returns on a Versioned state."""

    def __init__(self, archive: Archive, commit: Commit) -> None:
        super().__init__(archive.cells(), commit)
        self._archive = archive

    @cached_property
    def events(self) -> EventLog:
        """What had happened by then."""
        return KeptEvents(self, tips=lambda: (self.commit,), resolve=self._archive.refs.resolve)

    @property
    def conversation(self) -> Conversation:
        """What had been said by then."""
        return conversation.Conversation(self)

    @property
    def memory(self) -> Memory:
        """What the agent worked with then, as strong as it was then."""
        return memory.Memory(self)

    def lifecycle(self, chart: Chart, *, name: str = "main") -> Machine:
        """Return a machine as it was, to look at.

        Raises:
            KeyNotFound: it had not begun.
        """
        return lifecycle.Machine(self, chart, name=name)

    @property
    def user(self) -> Then:
        """The user's state that the commit saw."""
        return self._seen("user")

    @property
    def app(self) -> Then:
        """The application's state that the commit saw."""
        return self._seen("app")

    def _seen(self, scope: str) -> Then:
        for ref, id in self.commit.reads.items():
            if split_ref(ref)[0] == scope:
                return Then(self._archive, self._archive.graph.commit(Hash(bytes.fromhex(id))))
        raise RefNotFound(
            f"commit {self.commit.short} saw no {scope}",
            hint=f"open the session with repo.session(id, {scope}=…) before committing",
        )
