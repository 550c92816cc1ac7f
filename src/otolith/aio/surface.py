"""The awaitable classes: which plain class each mirrors, and what is not made by rule.

`surface.pyi` has their types.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import wraps
from types import TracebackType
from typing import Any, Self

from otolith import (
    conversation,
    core,
    flows,
    memory,
    opening,
    profiles,
    session,
    session_snapshot,
    state,
    statecharts,
    workspace,
)
from otolith.aio.lanes import Lane, Threads, opener
from otolith.aio.mirror import Mirror
from otolith.core import parse_path


class Event(Mirror, plain=state.Event, known=("kind", "time", "agent", "index", "when")):
    """One thing that happened. What it was recorded with is read when it is asked for."""

    def __repr__(self) -> str:
        by = f" by {self.agent}" if self.agent else ""
        return f"<aio.Event {self.index} {self.kind}{by}>"


class Change(Mirror, plain=core.Change, known=("path", "keys", "kind")):
    """One path that differs. Its values are read when they are asked for."""

    def __repr__(self) -> str:
        return f"<aio.Change {self.kind} {self.path}>"


class EventLog(Mirror, plain=state.EventLog):
    """The events of a state, the oldest first: `await state.events[-1]`."""


class ListHandle(Mirror, plain=core.ListHandle):
    """A list. `await log[-1]` and `await log[2:5]` read; `async for` goes through all of it."""


class MapHandle(Mirror, plain=core.MapHandle):
    """A dict with keys of any plain type, in the order in which they were put in."""


class SetHandle(Mirror, plain=core.SetHandle):
    """A set. Two branches that add or discard different elements merge by themselves."""


class CounterHandle(Mirror, plain=core.CounterHandle):
    """A number to which several branches add at the same time; a merge adds up what each added."""


class BlobHandle(Mirror, plain=core.BlobHandle):
    """A bytes value of any length, of which any part can be read or replaced by itself."""


class TextHandle(Mirror, plain=state.TextHandle):
    """A text that several edit inside a line at once: `await report.append("The end.")`."""


class FrameHandle(Mirror, plain=state.Frame):
    """A frame or table, read a column at a time: `await prices["price"]`."""


class Conversation(Mirror, plain=conversation.Conversation, known=("thread_name",)):
    """The messages of a thread: `await state.conversation.user("Hello")`."""

    async def turns(self) -> list[Any]:
        """Return the turns of the thread."""
        return await self._run(lambda plain: [*plain.turns])


class Memory(Mirror, plain=memory.Memory, known=("half_life_seconds",)):
    """Goal, plan, notes and tool calls: `await state.memory.set_goal("fly to NYC")`."""

    async def notes(self) -> dict[str, Any]:
        """Return the notes that are not forgotten, by key."""
        return await self._run(lambda plain: dict(plain.notes))

    async def tool_calls(self) -> list[Any]:
        """Return the tool calls, the oldest first."""
        return await self._run(lambda plain: [*plain.tool_calls])


class Preference(
    Mirror,
    plain=profiles.Preference,
    known=("key", "value", "confidence", "basis", "since", "runner_up", "context"),
):
    """What is believed about one key. The commits with its evidence are looked up: `evidence()`."""

    def __repr__(self) -> str:
        return f"<aio.Preference {self.key} {self.value!r} {self.basis}>"


class Settings(Mirror, plain=profiles.Settings):
    """The declared settings of a profile: `await settings.set("answers", "short")`."""


class Profile(Mirror, plain=profiles.Profile, known=("min_confidence",)):
    """What is known about a user: `await ann.profile.prefer("seat")`."""


class Machine(Mirror, plain=statecharts.Machine, known=("name", "chart")):
    """A chart that runs in a state: `await (await state.lifecycle(chart)).send("paid")`.

    Handlers of effects run in the thread of the state, so they must not await the state; an async
    one runs in an event loop of its own.
    """


class FlowRun(Mirror, plain=flows.FlowRun, known=("key", "flow"), apart=("work",)):
    """A run of a flow: `await (await state.flow(flow, dest="NYC")).work()`.

    It is worked on in a thread of its own: meanwhile the run can be looked at, and cancelled.
    """


class Workspace(Mirror, plain=workspace.Workspace, known=("path", "runner")):
    """Variables and files, and a way to run code: `await state.workspace()`.

    A step is a call of the state: other calls of the state wait for it. Cancel it, and its process
    is killed: nothing of it is committed.
    """

    def __init__(self, reach: Callable[[], Any], lane: Lane, label: str = "") -> None:
        super().__init__(reach, lane, label)
        self._thread: Executor | None = ThreadPoolExecutor(1, thread_name_prefix="otolith steps")

    @wraps(workspace.Workspace.run)
    async def run(self, code: str, **options: Any) -> Any:  # type: ignore[override]
        """Run code as the next step."""
        return await self._step(lambda plain: plain.run(code, **options))

    @wraps(workspace.Workspace.put)
    async def put(self, **values: object) -> Any:
        """Set variables."""
        return await self._step(lambda plain: plain.put(**values))

    async def _step(self, step: Callable[[Any], Any]) -> Any:
        """Run a step in the thread of the workspace."""
        if self._thread is None:
            return await self._run(step)  # it says that the workspace is closed
        return await self._lane.run_in(self._thread, lambda: step(self.plain), self.plain.kill)

    async def interrupt(self) -> bool:
        """Interrupt the running step, without waiting for its turn."""
        return bool(self.plain.interrupt())

    async def kill(self) -> bool:
        """End the process of the running step, without waiting for its turn."""
        return bool(self.plain.kill())

    @wraps(workspace.Workspace.fork)
    async def fork(self, name: str, *, at: core.Target = "@") -> Workspace:
        """Return a workspace of a new branch, which runs beside this one."""
        plain = await self._run(lambda plain: plain.fork(name, at=at))
        return Workspace(lambda: plain, Lane(self._lane.threads))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all processes; a step after this raises Closed."""
        await self._run(lambda plain: plain.close())
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown(wait=False)


def _handle(name: str, kind: type[Mirror]) -> Any:
    """Return a method that makes a handle. It looks at nothing; the verbs of the handle do."""

    @wraps(getattr(session.Versioned, name))
    def make(self: State, path: str | core.Path) -> Mirror:
        label = core.format_path(parse_path(path))
        return kind(lambda: getattr(self.plain, name)(path), self._lane, label)

    return make


class State(Mirror):
    """A state that is read: `await state["budget"]`, `async for name in state`."""

    list = _handle("list", ListHandle)
    map = _handle("map", MapHandle)
    set = _handle("set", SetHandle)
    counter = _handle("counter", CounterHandle)
    blob = _handle("blob", BlobHandle)
    text = _handle("text", TextHandle)
    frame = _handle("frame", FrameHandle)

    @property
    def events(self) -> EventLog:
        """What happened, in order; recorded with `await state.events.append(kind, …)`."""
        return EventLog(lambda: self.plain.events, self._lane, repr(self)[1:-1])

    @property
    def conversation(self) -> Conversation:
        """The messages, which are staged like any edit: `await state.conversation.user(…)`."""
        return Conversation(lambda: self.plain.conversation, self._lane, repr(self)[1:-1])

    @property
    def memory(self) -> Memory:
        """Goal, plan, notes and tool calls."""
        return Memory(lambda: self.plain.memory, self._lane, repr(self)[1:-1])


class Snapshot(State, plain=session_snapshot.SessionSnapshot, has_lane=True, known=("commit",)):
    """A state at a commit, read-only: `await state.at(target)`."""

    def __repr__(self) -> str:
        return f"<aio.Snapshot {self.commit.short} {self.commit.message!r}>"


class Owner(Mirror):
    """A mirror of something with a store, which is closed when the calls in progress are done."""

    async def close(self) -> None:
        """Wait for the calls in progress, and close the store."""
        await self._lane.threads.close(self.plain.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


_UNSET: Any = object()


class Versioned(
    State,
    Owner,
    plain=session.Versioned,
    has_lane=True,
    known=("ref", "scope", "session", "name", "head", "merging"),
):
    """What an agent knows: `await repo.session(id)`, or `await Versioned.open("agent.db")`."""

    @staticmethod
    @wraps(session.Versioned)
    def open(*args: Any, **options: Any) -> Any:
        """Open a state without a repo: `await` this, or enter it with `async with`."""
        return opener(session.Versioned, _open_mirror(Versioned))(*args, **options)

    @property
    def user(self) -> Versioned:
        """The state of the user whose session this is; it is committed by itself."""
        return self._scope("user")

    @property
    def app(self) -> Versioned:
        """The state of the application that this session is of; it is committed by itself."""
        return self._scope("app")

    @property
    def profile(self) -> Profile:
        """What is known about the user whose state this is."""
        profile = self.plain.profile
        return Profile(lambda: profile, self._lane, repr(self)[1:-1])

    def _scope(self, name: str) -> Versioned:
        """Return the mirror of the linked user or app, made once."""
        plain = getattr(self.plain, name)
        scopes: dict[str, Versioned] = self.__dict__.setdefault("_scopes", {})
        if name not in scopes:
            # A commit of the session reads the linked state, or commits it too.
            threads = self._lane.threads
            lane = self._lane if threads.are_shared else Lane(threads)
            scopes[name] = Versioned(lambda: plain, lane)
        return scopes[name]

    def set(self, path: str | core.Path, value: Any = _UNSET) -> Any:
        """Set the value at a path: `await state.set(path, value)`.

        Without a value it is a handle on a set, as it is for a plain state.
        """
        if value is _UNSET:
            return super().set(path)
        return self.run(lambda plain: plain.__setitem__(path, value))

    def __repr__(self) -> str:
        head = self.head.short if self.head is not None else "no commit yet"
        return f"<aio.Versioned {self.session}/{self.name} {head}>"


_LONG = ("push", "pull", "fetch", "clone", "mirror")


class Repo(
    Owner, plain=session.Repo, has_lane=True, apart=("session", "user", "app", "team", *_LONG)
):
    """Everything in one store: `await aio.open(url)`. Tasks may share it, and its states."""

    def __repr__(self) -> str:
        return f"<aio.{repr(self.plain)[1:]}"


def _open_mirror(kind: type[Mirror]) -> Any:
    """Return a function that mirrors an open object on a new lane."""

    def mirror(plain: Any, threads: Threads) -> Mirror:
        return kind(lambda: plain, Lane(threads))

    return mirror


open = opener(opening.open, _open_mirror(Repo))
