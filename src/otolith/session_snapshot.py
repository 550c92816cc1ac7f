"""SessionSnapshot: the state of a session at one commit, read-only, with all its rooms."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from otolith import conversation, flows, memory, statecharts, workspace
from otolith.core import (
    ALIASES,
    WORKSPACE,
    Backend,
    Commit,
    Path,
    Snapshot,
    Stage,
    StateReader,
    parse_path,
    split_ref,
)
from otolith.errors import KeyNotFound, RefNotFound
from otolith.state.event_log import EventLog
from otolith.state.frames import Frame
from otolith.state.open_documents import OpenDocuments
from otolith.state.stored_events import StoredEventLog
from otolith.state.texts import TextHandle
from otolith.state.tracker.aliases import ValueReader
from otolith.types import Hash, cut_line

if TYPE_CHECKING:
    from otolith.conversation import Conversation
    from otolith.flows import FlowRun
    from otolith.memory import Memory
    from otolith.statecharts import Chart, Machine


class SessionSnapshot(Snapshot):
    """The state of a session at one commit, read-only, with its user and application at that time.

    `state.at(commit)` and `repo.at(commit)` return it.
    """

    def __init__(self, backend: Backend, commit: Commit) -> None:
        super().__init__(backend.cells(), commit)
        self._backend = backend

    def __getitem__(self, path: str | Path) -> Any:
        """Return a copy of the value at a path, in which shared objects are shared."""
        keys = parse_path(path)
        if self._has_aliases:
            return self._reader().read(keys)
        try:
            return super().__getitem__(keys)
        except KeyNotFound:  # the path may lead into a value that contains itself
            return self._reader().read(keys)

    def to_dict(self) -> dict[str, Any]:
        """Return a copy of all values; objects that several of them share are shared."""
        if not self._has_aliases:
            return super().to_dict()
        reader = self._reader()
        return {name: reader.get(parse_path(name)) for name in self}

    @cached_property
    def _has_aliases(self) -> bool:
        return self.cell_at((ALIASES,)) is not None

    def _reader(self) -> ValueReader:
        return ValueReader(self.cells, Stage(self.cells, self.cells.state(self.commit.cell)))

    def frame(self, path: str | Path) -> Frame:
        """Return a handle on a frame or table that reads only the columns it is asked for."""
        return Frame(self, parse_path(path))

    def text(self, path: str | Path) -> TextHandle:
        """Return a handle on a text that several edit, which only reads it."""
        return TextHandle(self, self._documents, parse_path(path))

    @cached_property
    def _documents(self) -> OpenDocuments:
        return OpenDocuments(self.cells, read=self.cell_at)

    def __repr__(self) -> str:
        return f"<SessionSnapshot {self.commit.short} {cut_line(repr(self.commit.message))}>"

    @cached_property
    def events(self) -> EventLog:
        """The events up to this commit."""
        return StoredEventLog(self, tips=lambda: (self.commit,), resolve=self._backend.refs.resolve)

    @property
    def conversation(self) -> Conversation:
        """The conversation up to this commit."""
        return conversation.Conversation(self, variables=lambda: workspace_variables(self))

    @property
    def memory(self) -> Memory:
        """The working memory at this commit."""
        return memory.Memory(self)

    def lifecycle(self, chart: Chart, *, name: str = "main") -> Machine:
        """Return the machine of a chart at this commit, read-only.

        Raises:
            KeyNotFound: it had not started yet.
        """
        return statecharts.Machine(self, chart, name=name)

    def flow(self, *, key: str) -> FlowRun:
        """Return the run of a flow at this commit, read-only.

        Raises:
            KeyNotFound: there was none of this key.
        """
        return flows.open_run(self, None, key, {})

    @property
    def user(self) -> SessionSnapshot:
        """The state of the user that the commit is based on."""
        return self._seen("user")

    @property
    def app(self) -> SessionSnapshot:
        """The state of the application that the commit is based on."""
        return self._seen("app")

    def _seen(self, scope: str) -> SessionSnapshot:
        """Return the snapshot of a user or app that this commit was made beside."""
        for ref, id in self.commit.reads.items():
            if split_ref(ref)[0] == scope:
                return SessionSnapshot(
                    self._backend, self._backend.graph.commit(Hash(bytes.fromhex(id)))
                )
        raise RefNotFound(
            f"commit {self.commit.short} is not linked to any {scope}",
            hint=f"open the session with repo.session(id, {scope}=…) before committing",
        )


def workspace_variables(state: StateReader) -> dict[str, str]:
    """Return the names of the variables of a workspace, each with its type."""
    if state.cell_at((WORKSPACE,)) is None:
        return {}  # without loading the workspace
    return {each.name: each.type for each in workspace.variables_in(state)}
