"""A computer with processes that share one store, and with everything that can happen to them.

The store under test is the real one, on a real file; only time, locks and the choice of who runs
next are simulated. A *process* has a store and a repo of its own, as it has after `otolith.open`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any, Self
from unittest.mock import patch

import apsw

from otolith.codecs import Codecs
from otolith.core import BareRepo
from otolith.errors import (
    Busy,
    Closed,
    Conflict,
    Denied,
    Fenced,
    Full,
    Invalid,
    NotFound,
    ReadOnly,
    StaleRef,
    Unavailable,
)
from otolith.stores import Batch, CachedStore, KVStore, Store
from otolith.stores.keyvalue import KeyValueStore
from otolith.stores.sqlite import SqliteStore
from otolith.stores.sqlite.tickets import TicketPlace
from otolith.types import Hash
from tests.simulation.linearizability import Call, LookCall, SwapCall
from tests.simulation.scheduler import Killed, Lock, RLock, Scheduler

_LOCKS = (
    "stores.sqlite.connections",
    "stores.sqlite.objects",
    "stores.layers.tiers",
    "stores.layers.memory_cache",
)
_PATIENCE = 20  # how often others get their turn before a wait for the write lock is over
_REFUSALS = (Busy, Closed, Conflict, Denied, Full, Invalid, NotFound, ReadOnly)


class Machine:
    """Processes, their store, and a record of what they called."""

    def __init__(self, seed: object, folder: Path, *, over: str = "sqlite") -> None:
        self.random = Random(f"{seed} machine")
        self.scheduler = Scheduler(Random(f"{seed} schedule"))
        self.path = folder / "store.db"
        self.over = over
        self.values: dict[str, bytes] = {}  # of the key-value store
        self.calls: dict[str, list[Call]] = {}
        self.fault_chance = 0.0
        self._calm = 0
        self.processes: list[Process] = []
        self.is_held = False  # by a program that will not let go of the write lock
        self.attempts = 0  # to get the write lock
        self._writing: apsw.Connection | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        replace = self._stack.enter_context
        for room in _LOCKS:
            replace(patch(f"otolith.{room}.Lock", Lock))
        replace(patch("otolith.stores.keyvalue.kv.RLock", RLock))
        clocks = ("gc.monotonic", "ref_lines.monotonic", "tickets.monotonic")
        for name in (*clocks, "write_queue.perf_counter", "erasure.perf_counter"):
            replace(patch(f"otolith.stores.sqlite.{name}", lambda: self.scheduler.ticks * 1e-6))
        give_way = self.scheduler.give_way
        for name in ("write_queue", "ref_lines", "tickets"):
            replace(patch(f"otolith.stores.sqlite.{name}.sleep", lambda seconds: give_way()))
        replace(patch("otolith.stores.keyvalue.store.sleep", lambda seconds: None))
        replace(patch.object(Lock, "scheduler", self.scheduler))
        apsw.connection_hooks.append(self._watch)
        return self

    def __exit__(self, *_: object) -> None:
        self.scheduler.close()
        for process in self.processes:
            process.end()
        apsw.connection_hooks.remove(self._watch)
        self._stack.close()

    def start(self) -> Process:
        """Start a process."""
        process = Process(self, f"p{len(self.processes)}")
        self.processes.append(process)
        return process

    def connect(self) -> Store:
        """Return a store of its own for a process."""
        if self.over == "keyvalue":
            return KeyValueStore(Values(self))
        store = SqliteStore(self.path, durability="fast", busy_timeout_seconds=0)
        return CachedStore(store) if self.over == "cached" else store

    def reopened(self) -> BareRepo:
        """Return a repo that nobody has used yet, for a look after all is over."""
        return make_repo(self.connect(), clock=lambda: 1 << 50, author="auditor")

    # What can happen

    def meet_fault(self) -> None:
        """Fail a call that has not happened yet, if it is to."""
        self.scheduler.give_way()
        if self._strikes():
            raise Unavailable("the call did not get through", hint="try again")

    def lose_reply(self) -> None:
        """Fail a call that has happened, if it is to."""
        if self._strikes():
            raise Unavailable("the reply was lost", hint="look, then try again")
        self.scheduler.give_way()

    def _strikes(self) -> bool:
        is_spared = self._calm or self.scheduler.current is None
        return not is_spared and self.random.random() < self.fault_chance

    @contextmanager
    def calm(self) -> Iterator[None]:
        """Let no call fail for a while."""
        self._calm += 1
        try:
            yield
        finally:
            self._calm -= 1

    # What was called

    def call(self, place: str, what: Any) -> Call:
        task = self.scheduler.current
        call = Call(task.name if task else "auditor", what, self.scheduler.tick())
        self.calls.setdefault(place, []).append(call)
        return call

    def answer(self, call: Call, answer: Any) -> None:
        call.answered, call.answer = self.scheduler.tick(), answer

    def take_back(self, place: str, call: Call) -> None:
        """Note that a call has had no effect, and tells nothing."""
        self.calls[place].remove(call)

    # SQLite

    def _watch(self, connection: apsw.Connection) -> None:
        connection.exec_trace = lambda cursor, sql, bindings: self._before(connection, sql)
        connection.pragma("synchronous", "off")

    def _before(self, connection: apsw.Connection, sql: str) -> bool:
        task = self.scheduler.current
        if sql == "rollback":
            return True
        if task is not None and task.is_dying:
            raise Killed
        if sql == "begin immediate":
            self.attempts += 1
            if self.is_held:
                for _ in range(_PATIENCE):
                    self.scheduler.give_way()
                raise apsw.BusyError("somebody holds the lock for good")
            self.scheduler.wait_until(self._is_free)
            self._writing = connection
        elif sql == "vacuum":
            self.scheduler.wait_until(self._is_free)
        else:
            self.scheduler.give_way()
        return True

    def _is_free(self) -> bool:
        """Tell whether no connection has the write lock."""
        try:
            return self._writing is None or not self._writing.in_transaction
        except apsw.ConnectionClosedError:
            return True


def make_repo(
    store: Store, *, clock: Callable[[], int], author: str, cache_bytes: int = 64 << 20
) -> BareRepo:
    return BareRepo(
        store,
        codec=Codecs(pickle="never"),
        clock=clock,
        author=author,
        entropy=lambda size: b"\x07" * size,
        cache_bytes=cache_bytes,
    )


class Process:
    """One process: a store and a repo of its own, and a clock that may be wrong."""

    def __init__(self, machine: Machine, name: str, repo: BareRepo | None = None) -> None:
        self.machine = machine
        self.name = name
        self.is_alive = True
        self.skew = machine.random.choice([0, 0, 3_600_000_000, 86_400_000_000])
        self.repo = repo
        self._is_opening = False
        self._tasks = 0

    def open(self) -> BareRepo:
        """Return the repo; it is opened by whoever needs it first."""
        self.machine.scheduler.wait_until(lambda: not self._is_opening)
        if self.repo is None:
            self._is_opening = True
            try:
                self.repo = self._make()
            finally:
                self._is_opening = False
        return self.repo

    def _make(self) -> BareRepo:
        with self.machine.calm():
            store = RecordedStore(self.machine, self.machine.connect())
            cache = self.machine.random.choice([0, 4000, 64 << 20])
            return make_repo(store, clock=self.clock, author=self.name, cache_bytes=cache)

    @property
    def store(self) -> RecordedStore:
        """The store of the repo."""
        store = self.open().store
        assert isinstance(store, RecordedStore)
        return store

    def clock(self) -> int:
        return 1_000_000_000 + self.skew + self.machine.scheduler.tick() * 1000

    def __deepcopy__(self, memo: dict[int, Any]) -> Process:
        return self

    def run(self, act: Callable[[Process, str], object]) -> None:
        """Start a thread of this process."""
        self._tasks += 1
        name = f"{self.name}t{self._tasks}"
        self.machine.scheduler.start(name, lambda: act(self, name), self)

    def fork(self) -> Process:
        """Return a child with a copy of all that this process remembers, as fork makes it."""
        repo = self.open()
        connections = self.store.inner._connections
        self.machine.scheduler.wait_until(
            lambda: not connections.lock.locked() and not connections._lent
        )
        inherited = [*connections._idle, connections._writer]
        memo: dict[int, Any] = {id(each): Inherited() for each in inherited if each is not None}
        memo[id(self.machine)] = self.machine
        lines = vars(self.store.inner).get("_lines")
        for place in [connections.queue.place, *(lines._places if lines is not None else ())]:
            memo[id(place)] = TicketPlace(place._store, place._line)  # which has no file
        child = Process(self.machine, f"{self.name}c{len(self.machine.processes)}")
        child.repo = deepcopy(repo, memo)
        child.repo.backend.clock = child.clock
        child.store.inner._connections.after_fork_in_child()
        self.machine.processes.append(child)
        return child

    def kill(self) -> None:
        """End it at once, as kill -9 does."""
        self.machine.scheduler.kill(self)
        self.end()

    def end(self) -> None:
        """Let go of the file, and move nothing into it."""
        if not self.is_alive or self.repo is None:
            return
        self.is_alive = False
        store = self.store.inner
        connections = getattr(getattr(store, "_inner", store), "_connections", None)
        if connections is None:
            return
        connections.closed = True
        for connection in [*connections._idle, connections._writer]:
            if connection is not None:
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                connection.close()


class Inherited:
    """A connection of the parent, as the child finds it: it may only be closed."""

    def config(self, *_: object) -> None:
        """Change a setting of the copy."""

    def close(self) -> None:
        """Close the copy."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Inherited:
        return self


class RecordedStore:
    """A store whose calls are recorded, and can fail or lose their reply."""

    def __init__(self, machine: Machine, inner: Any) -> None:
        self.machine = machine
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        if name in ("inner", "machine"):  # not there yet while it is copied
            raise AttributeError(name)
        return getattr(self.inner, name)

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        self.machine.meet_fault()
        found: dict[Hash, bytes] = self.inner.read(hashes)
        return found

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        self.machine.meet_fault()
        found: dict[str, Hash] = self.inner.refs(prefix)
        return found

    def moves(self, name: str | None = None, *, limit: int | None = None) -> Any:
        self.machine.meet_fault()
        found = self.inner.moves(name, limit=limit)
        self.machine.scheduler.give_way()
        return found

    def ref(self, name: str) -> Hash | None:
        self.machine.meet_fault()
        call = self.machine.call(name, LookCall())
        try:
            found: Hash | None = self.inner.ref(name)
        except BaseException:
            self.machine.take_back(name, call)
            raise
        self.machine.answer(call, found)
        self.machine.scheduler.give_way()
        return found

    def write(self, batch: Batch) -> None:
        self.machine.meet_fault()
        calls = {
            swap.name: self.machine.call(swap.name, SwapCall(swap.old, swap.new, batch.note))
            for swap in batch.swaps
            if swap.old != swap.new
        }
        fences = {
            f"fence {name}": self.machine.call(f"fence {name}", token)
            for name, token in batch.fences.items()
        }
        try:
            self.inner.write(batch)
        except StaleRef as stale:
            refused = {name: call for name, call in calls.items() if name == stale.name}
            self._answered(refused, is_done=False)
            self._taken_back({**{n: c for n, c in calls.items() if n not in refused}, **fences})
            raise
        except Fenced as fenced:
            lower = {name: call for name, call in fences.items() if name[6:] in str(fenced)}
            self._answered(lower, is_done=False)
            self._taken_back({**calls, **{n: c for n, c in fences.items() if n not in lower}})
            raise
        except _REFUSALS:
            self._taken_back({**calls, **fences})
            raise
        self._answered({**calls, **fences}, is_done=True)
        self.machine.lose_reply()

    def _answered(self, calls: dict[str, Call], *, is_done: bool) -> None:
        for call in calls.values():
            self.machine.answer(call, is_done)

    def _taken_back(self, calls: dict[str, Call]) -> None:
        for name, call in calls.items():
            self.machine.take_back(name, call)


class Values(KVStore):
    """A client of a key-value server whose calls fail, or lose their reply."""

    durable = True

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def __deepcopy__(self, memo: dict[int, Any]) -> Values:
        return self

    def get(self, key: str) -> bytes | None:
        self._fail()
        found = self._machine.values.get(key)
        self._lose()
        return found

    def set(self, key: str, value: bytes) -> None:
        self._fail()
        self._machine.values[key] = value
        self._lose()

    def delete(self, key: str) -> None:
        self._fail()
        self._machine.values.pop(key, None)
        self._lose()

    def swap(self, key: str, old: bytes | None, new: bytes) -> bool:
        self._fail()
        is_there = self._machine.values.get(key) == old
        if is_there:
            self._machine.values[key] = new
        self._lose()
        return is_there

    def _fail(self) -> None:
        with _as_os_error():
            self._machine.meet_fault()

    def _lose(self) -> None:
        with _as_os_error():
            self._machine.lose_reply()


@contextmanager
def _as_os_error() -> Iterator[None]:
    try:
        yield
    except Unavailable as error:
        raise OSError(str(error)) from error
