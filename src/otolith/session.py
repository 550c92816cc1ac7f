"""`Versioned`, a dict in which every step is a commit, and `Repo`, all of them in one store.

`Versioned` is a tracked branch (state/tracked_branch.py) with what an agent needs beside values:
events, conversation, memory, statecharts and a workspace, each a view on the same state.
`session_snapshot.py` has the same state at one commit, read-only. `Repo` opens sessions, users and
applications; its arguments default to what this machine offers: clock, user name, memory and
signing key.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from os import PathLike
from pathlib import Path as Folder
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, Unpack
from weakref import WeakValueDictionary

from blake3 import blake3

from otolith import (
    care,
    changes,
    conversation,
    core,
    environment,
    flows,
    memory,
    profiles,
    statecharts,
    teams,
    workspace,
)
from otolith.codecs import Codecs, derive_key
from otolith.core import (
    BareRepo,
    Change,
    Commit,
    Expected,
    Path,
    Target,
    differences,
    format_path,
    is_branch_ref,
    parse_own_path,
    parse_path,
    scope_ref,
    split_ref,
    synchronized,
)
from otolith.durations import Duration
from otolith.errors import BadValue, Erased, Error, Invalid, RefNotFound, Unstorable, Unsupported
from otolith.session_snapshot import SessionSnapshot, workspace_variables
from otolith.shapes import NOTHING, check_argument
from otolith.state.event_log import EventLog
from otolith.state.frames import Frame, merge_frames
from otolith.state.schema.schema import SchemaGuard
from otolith.state.stored_events import StoredEventLog
from otolith.state.texts import TextHandle
from otolith.state.tracked_branch import TrackedBranch
from otolith.state.tracker.held import HeldValue
from otolith.stores import KVStore, Progress, Store, as_store, place_of
from otolith.types import Clock, Tag

if TYPE_CHECKING:
    from otolith.conversation import Conversation
    from otolith.flows import Flow, FlowRun
    from otolith.memory import Memory
    from otolith.profiles import Profile
    from otolith.statecharts import Chart, Machine
    from otolith.workspace import Runner, Workspace

MAIN = "main"
_SIGNATURE_DOMAIN = b"otolith workspace 1"


class RepoOptions(TypedDict, total=False):
    """The arguments of a `Repo` that have defaults."""

    author: str | None
    codecs: Codecs | None
    clock: Clock | None
    pickle: Literal["never", "signed"] | None
    secret: Callable[[], bytes]
    cache_bytes: int
    load_limit_bytes: int | None


class Versioned(TrackedBranch):
    """What an agent knows, stored in a repo: a dict in which every step is a commit.

        state = Versioned(Disk("agent.db"))
        state["plan"] = ["search"]
        state["plan"].append("book")        # in place; commit() detects it
        state.commit("planned")

    `repo.session(id)` returns one as well. Opening starts at the last commit; values are read when
    they are used. Threads may share it.
    """

    def __init__(
        self,
        store: Store | KVStore | core.BareRepo | str | None = None,
        *,
        session: str = MAIN,
        branch: str = MAIN,
        scope: str = "session",
        user: str | None = None,
        app: str | None = None,
        schema: Any = None,
        **options: Unpack[RepoOptions],
    ) -> None:
        """Open a state, or make one.

        `store` is `Memory()` if left out; a path or URL will do, and so will a repo that is open.
        `user` and `app` name the states to link as `.user` and `.app`. `schema` is a model
        class whose fields the state must have. `options` are those of a repo: author, codecs,
        clock, pickle ("signed" or "never"), secret, cache_bytes, load_limit_bytes.

        Raises:
            SchemaMismatch: what is there was stored with another schema.
        """
        if isinstance(store, BareRepo):
            if options:
                raise Invalid(f"{', '.join(options)}: the repo has its own", hint="leave it out")
            self.repo = store
        else:
            self.repo = Repo(as_store("memory:" if store is None else store), **options)
        super().__init__(self.repo.backend, scope_ref(scope, session, branch))
        self._event_log: StoredEventLog | None = None
        self._skipped: dict[Path, HeldValue] = {}
        self._scopes = self._linked(user=user, app=app)
        self._guard: SchemaGuard | None = None
        if schema is not None:
            guard = SchemaGuard(schema, self)
            guard.migrate()
            self._guard = guard
            self._committer.misfits = guard.misfits
        self._is_watched = isinstance(self.repo, Repo)
        if isinstance(self.repo, Repo):
            self.repo._states[id(self)] = self  # noqa: SLF001 - it warns of what is staged here

    def __getitem__(self, path: str | Path) -> Any:
        value = super().__getitem__(path)
        if self._guard is not None:
            self._guard.check_read(path, value)
        return value

    @synchronized
    def __setitem__(self, path: str | Path, value: object) -> None:
        if self._guard is not None:
            self._guard.check_write(path, value)
        super().__setitem__(path, value)

    def frame(self, path: str | Path) -> Frame:
        """Return a handle on a frame or table that reads only the columns it is asked for."""
        return Frame(self, parse_path(path))

    def text(self, path: str | Path) -> TextHandle:
        """Return a handle on a text that several edit inside a line at once.

        state.text("report").append("The end.")

        Raises:
            BadPath: something else is at the path.
            MissingExtra: the library of documents is not installed.
        """
        return TextHandle(self, self._documents, parse_own_path(path))

    @property
    def events(self) -> EventLog:
        """What happened, in order; recorded with `events.append`, committed with the rest."""
        if self._event_log is None:
            self._event_log = StoredEventLog(
                self,
                tips=lambda: (self.head, self.merging),
                resolve=self.resolve,
                clock=self.repo.clock,
            )
        return self._event_log

    def _linked(self, **ids: str | None) -> dict[str, Versioned]:
        """Open the states that this one is linked to: by argument, or by its last commit."""
        refs = [scope_ref(scope, id, MAIN) for scope, id in ids.items() if id is not None]
        found = {ref.partition("/")[0]: Versioned(self.repo, **_address(ref)) for ref in refs}
        for ref in filter(is_branch_ref, self.head.reads if self.head is not None else ()):
            if ref.partition("/")[0] not in found:
                with suppress(Erased):  # `.user` raises it
                    found[ref.partition("/")[0]] = Versioned(self.repo, **_address(ref))
        return found

    @property
    def user(self) -> Versioned:
        """The state of the user of this session; it has its own commits."""
        return self._scope("user")

    @property
    def app(self) -> Versioned:
        """The state of the application of this session; it has its own commits."""
        return self._scope("app")

    def _scope(self, scope: str) -> Versioned:
        """Return the state of the linked user or app."""
        if scope not in self._scopes:
            for ref in self.head.reads if self.head is not None else ():
                self.repo.backend.refs.check_not_erased(ref)
            raise RefNotFound(
                f"{self.scope} {self.session} is not linked to any {scope}",
                hint=f"open it with repo.session({self.session!r}, {scope}=…)",
            )
        return self._scopes[scope]

    def _open(self, ref: str) -> Self:
        return type(self)(self.repo, schema=self._guard and self._guard.schema, **_address(ref))

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
        expect: Expected = ...,
        user: bool = False,
    ) -> Commit:
        """Make everything that changed part of history, all at once.

        Changes in place are detected. Without any change nothing is committed, and the head is
        returned. If the branch has moved since, the changes are merged into what is there now.
        `fences` are numbers that must not have been raised by another process; `reads` are commits
        of other refs that this one is based on. `expect` is the commit that must be the head, None
        for a branch without commits: nothing is merged then. `transact` is the way to read, decide
        and write as one. With `user`, the staged edits of the user and the application are
        committed first; else a warning names them. They have histories of their own: if the process
        dies in between, theirs are committed and these are not.

        Raises:
            StaleRef: the head is not the one to `expect`. The edits stay staged.
            Unstorable: some values cannot be stored; it names each and what to do. Nothing was
                committed and nothing is lost. With `skip_unstorable` the rest is committed, and a
                `Lost` with the reason takes the place of each of them.
            SchemaMismatch: a value does not fit the schema, or one is missing.
            MergeConflict: another process changed the same paths. The edits stay staged;
                `conflicts` shows what to decide.
        """
        if reads is not None:
            check_argument(reads, "reads", Mapping, "a mapping of refs to commits")
        with self.lock:
            failures = self._check_storable(skips=skip_unstorable)
            self._commit_linked(message, author, is_wanted=user)
            self._skip(failures)
            if self._event_log is not None and self._is_edited(self._stage.root()):
                self._event_log.settle()
            linked = {
                each.ref: each.head for each in self._scopes.values() if each.head is not None
            }
            return self._commit_staged(
                message,
                author=author,
                kind=kind,
                meta=meta,
                fences=fences,
                reads={**linked, **(reads or {})},
                allow_empty=allow_empty,
                expect=expect,
            )

    def _check_storable(self, *, skips: bool = False) -> dict[Path, BadValue]:
        """Stage what changed in place; return what cannot be stored, or refuse it."""
        failures = self._flush()
        if failures and not skips:
            raise _unstorable(failures, self._held.values())
        if self._guard is not None:
            self._guard.check_staged(self._changes_to(self._stage.root()))
        return failures

    def _commit_linked(self, message: str, author: str | None, *, is_wanted: bool) -> None:
        """Commit what is staged in the states of the user and the application, or warn of it."""
        self._check_not_in_transaction("commit")
        for scope, linked in self._scopes.items():
            if is_wanted:
                linked.commit(message, author=author)
            elif not linked.is_clean:
                names = ", ".join(change.path for change in linked.status()[:5])
                warnings.warn(
                    f"the {scope} of this session, {linked.session}, has staged edits that are not"
                    f" part of this commit: {names}; commit(user=True) takes them along, and"
                    f" state.{scope}.commit() commits them alone",
                    UserWarning,
                    stacklevel=3,
                )

    def _flush(self) -> dict[Path, BadValue]:
        """Stage what changed in place; return what cannot be stored and was not skipped before."""
        failures = self._tracker.flush()
        known = {path for path in failures if self._held.at(path) is self._skipped.get(path)}
        return {path: error for path, error in failures.items() if path not in known}

    def _skip(self, failures: dict[Path, BadValue]) -> None:
        """Record an event for each value that the next commit leaves out; report it only once."""
        for path, error in failures.items():
            hold = self._skipped[path] = self._held.at(path)
            kind = f"{type(hold.value).__module__}.{type(hold.value).__qualname__}"
            self.events.append("skipped", path=format_path(path), type=kind, why=error.message)

    @synchronized
    def stash(self) -> None:
        """Store the staged edits without a commit, for another process to `unstash`.

        Raises:
            Unstorable: some values cannot be stored; nothing was written.
            StaleRef: since `unstash`, another process has stashed edits. Nothing was written.
        """
        failures = self._flush()
        if failures:
            raise _unstorable(failures, self._held.values())
        super().stash()

    @synchronized
    def status(self) -> list[Change]:
        """Return the staged edits; those of messages, notes, variables, ... too."""
        return self.diff()

    @synchronized
    def diff(self, old: Target | None = None, new: Target | None = None) -> list[Change]:
        """Return what changed from one commit to another.

        `new` is the staged state by default, `old` the head. Messages, notes, variables, files, ...
        come after the values: see `otolith.changes`.
        """
        before = self.head if old is None else self.resolve(old)
        after = None if new is None else self.resolve(new)
        return [*super().diff(before, after), *changes.room_changes(self, before, after)]

    def at(self, target: Target) -> SessionSnapshot:
        """Return the state at a commit, read-only, with its user and application at that time."""
        return SessionSnapshot(self.repo.backend, self.resolve(target))

    def checkout(self, target: Target) -> SessionSnapshot:
        """Return the state at a commit, read-only: another name for `at`."""
        return self.at(target)

    @property
    def conversation(self) -> Conversation:
        """The conversation: its main thread of messages, and the way to the others.

        New messages are staged like any edit, and committed with the rest.
        """
        return conversation.Conversation(self, variables=lambda: workspace_variables(self))

    @property
    def memory(self) -> Memory:
        """The working memory: goal, plan, notes, and the tools that were called."""
        return memory.Memory(self)

    @property
    def profile(self) -> Profile:
        """What is known about the user, and why: `repo.user("ann").profile`."""
        return profiles.open_profile(self, erase=partial(care.erase, self.repo, self.session))

    def lifecycle(
        self, chart: Chart, *, name: str = "main", data: Mapping[str, Any] | None = None
    ) -> Machine:
        """Return the machine that runs a chart in this state; it is started if there is none.

        Its steps are staged like any edit, and committed with the rest. `data` is the initial data
        of the chart; a state may have several machines, by name.

        Raises:
            ChartMismatch: the machine of this name runs another chart, without a migration.
        """
        machine = statecharts.Machine(self, chart, name=name, data=data, clock=self.repo.clock)
        statecharts.MachineMerger.among(self.repo.backend.resolvers).know(chart)
        return machine

    def flow(
        self, flow: Flow | None = None, /, *, key: str | None = None, **inputs: Any
    ) -> FlowRun:
        """Return a run of a flow in this state; it is begun if there is none of this key.

        The key is the name of the flow by default. Without a flow, the run can be looked at and
        steered. What is done on it is committed at once; what is staged here stays staged.
        """
        return flows.open_run(
            self, flow, key, inputs, backend=self.repo.backend, open_state=self._open
        )

    def flows(self) -> list[FlowRun]:
        """Return the runs of flows in this state, without their flows."""
        return flows.open_runs(self, backend=self.repo.backend, open_state=self._open)

    def expire(self, after: Duration | None) -> None:
        """Let this state disappear when nothing was committed to it for so long; None: never.

        `after` is a time such as "90s", "1h" or "7d", seconds, or a timedelta. Every commit on any
        of its branches, and every stash, starts the time anew; reading does not. Then all branches
        are gone with their history, for everybody, and what only they held is removed later. The
        time is that of the store's server, which remembers the rule.

        Raises:
            Unsupported: the store does not expire states.
        """
        care.expire(self.repo, scope_ref(self.scope, self.session, "x").removesuffix("x"), after)

    def workspace(
        self, *, runner: Runner | None = None, folder: str | PathLike[str] | None = None
    ) -> Workspace:
        """Return the variables and files of this state, and a way to run code on them.

        `folder` is where the files are: by default a folder beside the store, named by the session.

        Raises:
            Unsupported: the repo has no key to sign with.
        """
        if not isinstance(self.repo, Repo):
            raise Unsupported(
                "a workspace needs a repo with a signing key", hint="open it with otolith.open"
            )
        check_argument(folder, "folder", (str, PathLike, NOTHING), "a path")
        place = self._work_folder() if folder is None else Folder(folder)
        return workspace.Workspace(self, place, signatures=self.repo.signatures, runner=runner)

    def _work_folder(self) -> Folder:
        store = getattr(self.repo.store, "path", None)
        is_file = isinstance(store, str)
        base = Folder(f"{store}.work" if is_file else environment.temporary_folder(self))
        return workspace.branch_folder(base, *split_ref(self.ref))

    def _warn_of_staged(self, how: str) -> None:
        """Warn with a ResourceWarning that names the staged edits, which are lost now."""
        is_watched, self._is_watched = self._is_watched, False
        # A thread that uses the state is not waited for, nor may closing fail for a warning.
        if is_watched and not self._is_stashed and self._mutex.acquire(blocking=False):
            try:
                found = differences(self.cells, self._committer.head_cell, self._flushed_root())
                names = list(dict.fromkeys(change.path.removeprefix(".") for change in found))
            except Error:
                names = []
            finally:
                self._mutex.release()
            self._warn_of_lost(names, how)

    def _warn_of_lost(self, names: list[str], how: str) -> None:
        if names:
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            warnings.warn(
                f"{self.scope} {self.session}, branch {self.name}, was {how} with staged edits,"
                f" which are lost: {', '.join(sorted(names)[:5])}{more}; commit() or discard() them"
                " first",
                ResourceWarning,
                stacklevel=5,
            )

    @property
    def _is_stashed(self) -> bool:
        return self._committer.stash.staged is not None

    def close(self) -> None:
        """Close the store. Staged edits are lost, with a ResourceWarning that names them."""
        self.repo.close()

    def __del__(self) -> None:
        # It may run in any thread and inside any call of a store: it only looks at what waits in
        # memory. If opening failed there is nothing to see; a closed state has warned before.
        if getattr(self, "_is_watched", False) and not environment.hides_resource_warnings():
            names = [] if self._is_stashed else self._stage.waiting_names()
            self._warn_of_lost([name.removeprefix(".") for name in names], "dropped")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        head = self.head.short if self.head is not None else "no commit yet"
        count = 0
        if self._mutex.acquire(blocking=False):  # a debugger must not wait for another thread
            try:
                count = len(self._changes_to(self._root()))
                count += len(changes.room_changes(self, self.head, None))
            except Error:
                pass  # nor fail because the store is closed
            finally:
                self._mutex.release()
        staged = f", {count} staged" if count else ""
        return f"<{type(self).__name__} {self.session}/{self.name} {head}{staged}>"


class _Address(TypedDict):
    """A ref as arguments."""

    scope: str
    session: str
    branch: str


def _address(ref: str) -> _Address:
    scope, session, branch = split_ref(ref)
    return {"scope": scope, "session": session, "branch": branch}


def _unstorable(failures: dict[Path, BadValue], held: dict[Path, object]) -> Unstorable:
    """Return one error that names every value that cannot be stored, and why."""
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
        f"{len(values)} value(s) cannot be stored: {listed}",
        values=values,
        hint="; ".join([*hints, "or commit(skip_unstorable=True) to store the rest"]),
    )


class Repo(BareRepo):
    """Everything in one store: sessions, users, applications, branches and tags.

    `otolith.open(url)` returns one. Threads may share it, and the states it returns. Each argument
    defaults to what this machine offers, and the machine is only asked for those left out.
    """

    def __init__(
        self,
        store: Store,
        *,
        author: str | None = None,
        codecs: Codecs | None = None,
        clock: Clock | None = None,
        pickle: Literal["never", "signed"] | None = None,
        secret: Callable[[], bytes | Sequence[bytes]] = environment.secrets,
        cache_bytes: int = 64 << 20,
        load_limit_bytes: int | None = None,
    ) -> None:
        """Open a repo in a store; `otolith.open` describes the arguments.

        `secret` returns the key of this user, of which the signing key of the repo is derived; if
        it returns several, the first signs, and what any of them signed is read.
        """
        if codecs is not None and pickle is not None:
            raise Invalid("codecs= and pickle= are both given", hint="give pickle= to Codecs")
        if clock is not None and not callable(clock):
            raise Invalid(f"clock must be a function, got {type(clock).__name__}")
        if not isinstance(cache_bytes, int):
            raise Invalid(f"cache_bytes must be a number of bytes, got {cache_bytes!r}")
        self._secret = secret
        super().__init__(
            store,
            codec=Codecs(pickle=pickle or "signed", key=self._keys) if codecs is None else codecs,
            clock=environment.wall_clock if clock is None else clock,
            author=environment.user_name() if author is None else author,
            entropy=environment.entropy,
            cache_bytes=cache_bytes,
            load_limit_bytes=load_limit_bytes or environment.memory_bytes(),
            pauses=environment.pauses,
        )
        self.backend.resolvers |= {  # these rooms, but for memory, are loaded to merge
            **{f"tag {int(tag)}": merge_frames for tag in (Tag.FRAME, Tag.POLARS)},
            **memory.RESOLVERS,
            "team-proposal": lambda *sides: teams.merge_proposals(*sides),  # noqa: PLW0108 - lazy
            "flow-task": lambda *sides: flows.merge_tasks(*sides),  # noqa: PLW0108 - lazy
            "profile-purpose": lambda *sides: profiles.merge_purposes(*sides),  # noqa: PLW0108
            "flow-plan": lambda _, merged, __: flows.plan_fault(merged),
        }
        self._states: WeakValueDictionary[int, Versioned] = WeakValueDictionary()
        environment.call_at_exit(self._warn_of_staged)

    def _warn_of_staged(self, how: str = "left open") -> None:
        """Warn of the staged edits of all states that are open; not where nobody would see it."""
        if not environment.hides_resource_warnings():
            for state in list(self._states.values()):
                state._warn_of_staged(how)  # noqa: SLF001 - of this module

    def close(self) -> None:
        """Close the store. Staged edits are lost, with a ResourceWarning that names them."""
        try:
            self._warn_of_staged("closed")
        finally:
            super().close()

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
        `.app`, and each of its commits records which commits of theirs it is based on. `schema` is
        a model class whose fields the state must have.
        """
        return Versioned(self, session=id, branch=branch, user=user, app=app, schema=schema)

    def at(self, target: Commit | str) -> SessionSnapshot:
        """Return the state at a commit, read-only, with its user and application at that time."""
        return SessionSnapshot(
            self.backend, target if isinstance(target, Commit) else self.resolve(target)
        )

    def user(self, id: str, *, branch: str = MAIN, schema: Any = None) -> Versioned:
        """Return the state of a user, across sessions."""
        return Versioned(self, session=id, branch=branch, scope="user", schema=schema)

    def app(self, name: str, *, branch: str = MAIN, schema: Any = None) -> Versioned:
        """Return the state of an application, across users."""
        return Versioned(self, session=name, branch=branch, scope="app", schema=schema)

    def team(self, id: str, *, member: str | None = None) -> teams.Team[Versioned]:
        """Return what a team shares, as one of its members; without a member, only to look."""
        return teams.Team(id, backend=self.backend, open=partial(Versioned, self), member=member)

    @property
    def remotes(self) -> care.Remotes:
        """The other stores of this repo, by name."""
        return care.Remotes(self.backend)

    def push(
        self,
        target: Store | str,
        *,
        only: Sequence[str] = (),
        force: bool = False,
        progress: Progress | None = None,
    ) -> care.TransferReport:
        """Copy branches and tags to another store of this repo; see `care.push`."""
        return care.push(self, target, only=only, force=force, progress=progress)

    def pull(
        self, source: Store | str, *, only: Sequence[str] = (), progress: Progress | None = None
    ) -> care.TransferReport:
        """Fetch from another store of this repo and merge what came; see `care.pull`."""
        return care.pull(self, source, only=only, progress=progress)

    def fetch(
        self, source: Store | str, *, only: Sequence[str] = (), progress: Progress | None = None
    ) -> care.TransferReport:
        """Copy the branches of another store to refs under `remote/`; see `care.fetch`."""
        return care.fetch(self, source, only=only, progress=progress)

    def clone(
        self, target: Store | str, *, progress: Progress | None = None
    ) -> care.TransferReport:
        """Copy the whole repo into an empty store; see `care.clone`."""
        return care.clone(self, target, progress=progress)

    def mirror(
        self, target: Store | str, *, force: bool = False, progress: Progress | None = None
    ) -> care.TransferReport:
        """Make another store an exact copy of this repo; see `care.mirror`."""
        return care.mirror(self, target, force=force, progress=progress)

    def expire(self, after: Duration | None, *, scope: str = "session") -> None:
        """Let each session disappear when nothing was committed to it for so long; None: never.

        It holds for all sessions, or all states of another scope, that have no time of their own
        (`Versioned.expire`), also for those made later and by other processes.

        Raises:
            Unsupported: the store does not expire states.
        """
        care.expire(self, scope_ref(scope, "x", "x").removesuffix("x/x"), after)

    def __repr__(self) -> str:
        return f"<Repo {place_of(self.store)}>"

    def signatures(self, place: str, content: bytes) -> list[bytes]:
        """Return the signatures, by each key, that prove that this repo put a content into a place.

        The first is that of the key that signs.
        """
        name = place.encode("utf-8", "surrogatepass")
        head = _SIGNATURE_DOMAIN + len(name).to_bytes(8, "big") + name
        return [blake3(head + content, key=key).digest() for key in self._keys()]

    def _keys(self) -> list[bytes]:
        """Return the keys of this repo: derived from the user's secrets and the salt."""
        found = self._secret()
        salt = self.salt.to_bytes(8, "big")
        return [derive_key(each, salt) for each in ([found] if isinstance(found, bytes) else found)]
