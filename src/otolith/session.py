"""Versioned: a dict that remembers, in which every step is a commit and every change is found.

A session as it was at one commit, with the user and the application as it saw them then.

Repo: everything in one store; sessions, users and applications, each a state of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path as Folder
from tempfile import mkdtemp
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from otolith import conversation, core, memory, statecharts, workspace
from otolith.core import (
    Backend,
    Branch,
    Commit,
    Path,
    Snapshot,
    Target,
    format_path,
    scope_ref,
    split_ref,
)
from otolith.errors import BadValue, Invalid, RefNotFound, Unstorable, Unsupported
from otolith.local_repo import LocalRepo, Parts
from otolith.state.base import synchronized
from otolith.state.event_log import EventLog
from otolith.state.frames import HasFrames
from otolith.state.schema.schema import SchemaGuard
from otolith.state.stored_events import StoredEventLog
from otolith.state.tracking.held import Hold
from otolith.stores import KVStore, Store, as_store
from otolith.types import Hash

if TYPE_CHECKING:
    from otolith.conversation import Conversation
    from otolith.memory import Memory
    from otolith.statecharts import Chart, Machine
    from otolith.workspace import Runner, Workspace


class SessionSnapshot(HasFrames, Snapshot):
    """What `at()` returns on a Versioned state."""

    def __init__(self, archive: Backend, commit: Commit) -> None:
        super().__init__(archive.cells(), commit)
        self._archive = archive

    @cached_property
    def events(self) -> EventLog:
        """What had happened by then."""
        return StoredEventLog(self, tips=lambda: (self.commit,), resolve=self._archive.refs.resolve)

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
        return statecharts.Machine(self, chart, name=name)

    @property
    def user(self) -> SessionSnapshot:
        """The user's state that the commit saw."""
        return self._seen("user")

    @property
    def app(self) -> SessionSnapshot:
        """The application's state that the commit saw."""
        return self._seen("app")

    def _seen(self, scope: str) -> SessionSnapshot:
        for ref, id in self.commit.reads.items():
            if split_ref(ref)[0] == scope:
                return SessionSnapshot(
                    self._archive, self._archive.graph.commit(Hash(bytes.fromhex(id)))
                )
        raise RefNotFound(
            f"commit {self.commit.short} saw no {scope}",
            hint=f"open the session with repo.session(id, {scope}=…) before committing",
        )


MAIN = "main"


class Versioned(SchemaGuard, HasFrames):
    """What an agent knows, kept in a store: `Versioned(Disk("agent.db"))`.

    It is what `repo.session(id)` returns as well. Opening finds the last commit; values are read
    when they are asked for, and what changes in them is found by `commit`.
    """

    def __init__(
        self,
        store: Store | KVStore | core.Repo | str | None = None,
        *,
        session: str = MAIN,
        branch: str = MAIN,
        scope: str = "session",
        user: str | None = None,
        app: str | None = None,
        schema: Any = None,
        **parts: Unpack[Parts],
    ) -> None:
        """Open a state, or make one.

        `store` is `Memory()` if left out; a path or URL will do, and so will a repo that is open.
        `user` and `app` name the states to look at as `.user` and `.app`. `schema` is a model
        class whose fields the state must have. `parts` are those of a repo: author, codecs,
        clock, pickle ("signed" or "never"), secret, cache_bytes, load_limit_bytes.

        Raises:
            SchemaMismatch: what is there was kept with another schema.
        """
        if isinstance(store, core.Repo):
            if parts:
                raise Invalid(f"{', '.join(parts)}: the repo has its own", hint="leave it out")
            self.repo = store
        else:
            self.repo = LocalRepo(as_store("memory:" if store is None else store), **parts)
        super().__init__(self.repo.archive, scope_ref(scope, session, branch))
        self._init_tracking()
        self._skipped: dict[Path, Hold] = {}
        self._scopes = self._linked(user=user, app=app)
        if schema is not None:
            self._require(schema)

    @property
    def events(self) -> EventLog:
        """What happened, in order; recorded with `events.append`, committed with the rest."""
        return self._events

    @cached_property
    def _events(self) -> StoredEventLog:
        return StoredEventLog(
            self,
            tips=lambda: (self.head, self.merging),
            resolve=self.resolve,
            clock=self.repo.clock,
        )

    def _linked(self, **ids: str | None) -> dict[str, Versioned]:
        """Open the states that this one looks at: those that are named, or that it saw last."""
        found = {scope: scope_ref(scope, id, MAIN) for scope, id in ids.items() if id is not None}
        for ref in self.head.reads if self.head is not None else ():
            found.setdefault(ref.partition("/")[0], ref)
        return {scope: Versioned(self.repo, **_address(ref)) for scope, ref in found.items()}

    @property
    def user(self) -> Versioned:
        """The state of the user whose session this is; it is committed by itself."""
        return self._scope("user")

    @property
    def app(self) -> Versioned:
        """The state of the application that this session is of; it is committed by itself."""
        return self._scope("app")

    def _scope(self, scope: str) -> Versioned:
        if scope not in self._scopes:
            raise RefNotFound(
                f"{self.scope} {self.session} is not linked to any {scope}",
                hint=f"open it with repo.session({self.session!r}, {scope}=…)",
            )
        return self._scopes[scope]

    def _seen(self) -> dict[str, Commit]:
        """Return the commits of other scopes that this state has seen."""
        states = self._scopes.values()
        return {state.ref: state.head for state in states if state.head is not None}

    def _open(self, ref: str) -> Self:
        return type(self)(self.repo, schema=self._schema, **_address(ref))

    @synchronized
    def commit(
        self,
        message: str = "",
        *,
        author: str | None = None,
        kind: str = "step",
        meta: Mapping[str, Any] | None = None,
        fences: Mapping[str, int] | None = None,
        reads: Mapping[str, Commit] | None = None,
        allow_empty: bool = False,
        skip_unstorable: bool = False,
    ) -> Commit:
        """Make everything that changed part of history, all at once.

        Values that were handed out and changed in place are found by themselves. Without any
        change nothing is committed, and the head is returned.

        Raises:
            Unstorable: some values cannot be kept; it names each and what to do. Nothing was
                committed and nothing is lost. With `skip_unstorable` the rest is committed, and a
                note of what it was stands for each of them.
            SchemaMismatch: a value does not fit the schema, or one is missing.
            MergeConflict: somebody else changed the same paths; as for any branch.
        """
        failures = self._unstorable()
        if failures and not skip_unstorable:
            raise _unstorable(failures, self._held.values())
        self._check_staged()
        self._skip(failures)
        with self._scan_suspended():
            if self._events.is_waiting and not self.is_clean:
                self._events.settle()
            return super().commit(
                message,
                author=author,
                kind=kind,
                meta=meta,
                fences=fences,
                reads=self._seen() | dict(reads or {}),
                allow_empty=allow_empty,
            )

    def _unstorable(self) -> dict[Path, BadValue]:
        """Look at everything; return what cannot be kept and was not skipped before."""
        failures = self._stage_changes()
        known = {path for path in failures if self._held.at(path) is self._skipped.get(path)}
        return {path: error for path, error in failures.items() if path not in known}

    def _skip(self, failures: dict[Path, BadValue]) -> None:
        """Record what is left out of the next commit; it is not asked about again."""
        for path, error in failures.items():
            hold = self._skipped[path] = self._held.at(path)
            kind = f"{type(hold.value).__module__}.{type(hold.value).__qualname__}"
            self.events.append("skipped", path=format_path(path), type=kind, why=error.message)

    @synchronized
    def stash(self) -> None:
        """Put the staged edits away in the store, for another process to go on with.

        Raises:
            Unstorable: some values cannot be kept; nothing was put away.
            StaleRef: since `unstash`, another process has put edits away. Nothing was written.
        """
        failures = self._unstorable()
        if failures:
            raise _unstorable(failures, self._held.values())
        super().stash()

    def at(self, target: Target) -> SessionSnapshot:
        """Return the state as it was, with what it saw of its user and application."""
        return SessionSnapshot(self.repo.archive, self.resolve(target))

    def checkout(self, target: Target) -> SessionSnapshot:
        """Return the state as it was at a commit, read-only: another word for `at`."""
        return self.at(target)

    @property
    def conversation(self) -> Conversation:
        """What was said: the main thread of messages, and the way to the others.

        What is added is staged like any edit, and committed with the rest.
        """
        return conversation.Conversation(self)

    @property
    def memory(self) -> Memory:
        """What the agent works with: its goal, its plan, its notes, and the tools it called."""
        return memory.Memory(self)

    def lifecycle(
        self, chart: Chart, *, name: str = "main", data: Mapping[str, Any] | None = None
    ) -> Machine:
        """Return the machine that runs a chart in this state; it is begun if there is none.

        Its steps are staged like any edit, and committed with the rest. `data` is what the chart
        begins with; a state may have several machines, by name.

        Raises:
            ChartMismatch: the machine of this name runs another chart, and no migration leads here.
        """
        statecharts.Merging.among(self.repo.archive.resolvers).know(chart)
        return statecharts.Machine(self, chart, name=name, data=data, clock=self.repo.clock)

    def workspace(
        self, *, runner: Runner | None = None, folder: str | PathLike[str] | None = None
    ) -> Workspace:
        """Return the variables and files of this state, and a way to run code on them.

        `folder` is where the files are: by default a folder beside the store, named by the session.

        Raises:
            Unsupported: the repo has no key to sign with.
        """
        if not isinstance(self.repo, LocalRepo):
            raise Unsupported("this repo signs nothing", hint="open it with otolith.open")
        place = self._work_folder() if folder is None else Folder(folder)
        return workspace.Workspace(self, place, sign=self.repo.sign, runner=runner)

    def _work_folder(self) -> Folder:
        store = getattr(self.repo.store, "path", None)
        base = Folder(f"{store}.work" if isinstance(store, str) else mkdtemp(prefix="otolith-"))
        return workspace.branch_folder(base, *split_ref(self.ref))

    def close(self) -> None:
        """Close the store."""
        self.repo.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    status = synchronized(Branch.status)
    diff = synchronized(Branch.diff)
    fork = synchronized(Branch.fork)
    merge = synchronized(Branch.merge)
    rollback = synchronized(Branch.rollback)
    undo = synchronized(Branch.undo)
    redo = synchronized(Branch.redo)
    unstash = synchronized(Branch.unstash)
    refresh = synchronized(Branch.refresh)
    resolve_conflict = synchronized(Branch.resolve_conflict)
    policy = synchronized(Branch.policy)


class _Address(TypedDict):
    """A ref as arguments."""

    scope: str
    session: str
    branch: str


def _address(ref: str) -> _Address:
    scope, session, branch = core.split_ref(ref)
    return {"scope": scope, "session": session, "branch": branch}


def _unstorable(failures: dict[Path, BadValue], held: dict[Path, object]) -> Unstorable:
    values: dict[str, str] = {}
    hints: list[str] = []
    for path, error in failures.items():
        kind = type(held[path])
        name = format_path(path)
        values[name] = f"{kind.__module__}.{kind.__qualname__}: {error.message}"
        if error.hint and error.hint not in hints:
            hints.append(error.hint)
    listed = "; ".join(f"{name} ({why})" for name, why in values.items())
    return Unstorable(
        f"{len(values)} value(s) cannot be kept: {listed}",
        values=values,
        hint="; ".join([*hints, "or commit(skip_unstorable=True) to store the rest"]),
    )


class Repo(LocalRepo):
    """What `otolith.open` returns. Threads may share it, and the states it gives."""

    def session(
        self,
        id: str,
        *,
        branch: str = MAIN,
        user: str | None = None,
        app: str | None = None,
        schema: Any = None,
    ) -> Versioned:
        """Return the state of a session; its first commit makes it.

        A session that is linked to a user and an application has their states as `.user` and
        `.app`, and each of its commits records which commits of theirs it saw. `schema` is a model
        class whose fields the state must have.
        """
        return Versioned(self, session=id, branch=branch, user=user, app=app, schema=schema)

    def at(self, target: Commit | str) -> SessionSnapshot:
        """Return the state at a commit, read-only, with what it saw of its user and application."""
        return SessionSnapshot(
            self.archive, target if isinstance(target, Commit) else self.resolve(target)
        )

    def user(self, id: str, *, branch: str = MAIN, schema: Any = None) -> Versioned:
        """Return what is kept about a user, across sessions."""
        return Versioned(self, session=id, branch=branch, scope="user", schema=schema)

    def app(self, name: str, *, branch: str = MAIN, schema: Any = None) -> Versioned:
        """Return what is kept for an application, across users."""
        return Versioned(self, session=name, branch=branch, scope="app", schema=schema)
