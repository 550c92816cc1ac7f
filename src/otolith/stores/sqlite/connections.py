"""The connections of one store: one that writes, a few that read, and what a fork does to them.

SQLite keeps its locks per process, in tables that a fork copies but whose locks it does not. A
child that merely ignored the inherited connections would believe it holds locks it does not have,
and the parent's last close would then delete the WAL under it: acknowledged writes would be lost.
So a fork waits until no connection is in use, and the child closes what it inherited, quietly
(no checkpoint), before it opens its own.

Moving what was committed from the WAL into the file, beside the commits and not inside of them.

A commit is safe once it is in the WAL. SQLite would let the commit that makes the WAL long move all
of it; here a thread does, on a connection of its own, and ends. Only if the WAL grows faster than
that does a commit wait.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from threading import Lock, Thread
from time import monotonic, sleep
from types import TracebackType
from weakref import WeakSet

import apsw

from otolith.errors import Closed, Error, Unavailable, Unsupported
from otolith.stores.sqlite.schema import Place, connect_reader, connect_writer
from otolith.stores.sqlite.sql import ask, explained, give_up, roll_back

_LONG_PAGES = 2000
_TOO_LONG_PAGES = 32768


class Checkpoints:
    """Starts a thread when the WAL is long and none is at work."""

    def __init__(self, lend: Callable[[], AbstractContextManager[apsw.Connection]]) -> None:
        self._lend = lend
        self._thread: Thread | None = None

    def follow(self, connection: apsw.Connection) -> None:
        """Look after the WAL that a connection writes, in the place of SQLite itself."""
        connection.set_wal_hook(self._grown)

    def wait(self) -> None:
        """Wait for the thread, if there is one."""
        if self._thread is not None:
            self._thread.join()

    def forget(self) -> None:
        """Forget the thread: after a fork it is the parent's."""
        self._thread = None

    def _grown(self, connection: apsw.Connection, schema: str, pages: int) -> int:
        if pages < _LONG_PAGES:
            return apsw.SQLITE_OK
        is_at_work = self._thread is not None and self._thread.is_alive()
        if not is_at_work:
            self._start()
        elif pages > _TOO_LONG_PAGES:
            _move(connection)
        return apsw.SQLITE_OK

    def _start(self) -> None:
        thread = Thread(target=self._work, name="otolith-checkpoint")
        with suppress(RuntimeError):  # no thread can be had: the next commit tries again
            thread.start()
            self._thread = thread

    def _work(self) -> None:
        with suppress(Error), self._lend() as connection:
            _move(connection)


def _move(connection: apsw.Connection) -> None:
    with suppress(apsw.Error):  # the WAL has it all the same, and is tried again when it has grown
        ask(connection, "pragma wal_checkpoint(passive)")


def truncate_wal(connection: apsw.Connection) -> bool:
    """Move all of the WAL into the file and cut it to nothing; tell whether that could be done."""
    try:
        ((busy, _, _),) = ask(connection, "pragma wal_checkpoint(truncate)")
    except (apsw.BusyError, apsw.LockedError):
        return False
    return not busy


_FORK_PATIENCE_SECONDS = 2.0


class Connections:
    """Lends connections. `lock` guards the writer; readers need none."""

    def __init__(self, place: Place, *, create: bool) -> None:
        self.place = place
        self.lock = Lock()
        self.closed = False
        self.distrusted = False  # set once the disk has failed: it is not asked to sync again
        self.unfinished = False  # set while the WAL may hold what was to be erased
        self.after_fork: list[Callable[[], None]] = []
        self._held = False
        self._orphaned = False
        self._idle: list[apsw.Connection] = []
        # Weakly: one that Control-C took on its way does not count as lent for ever.
        self._lent: WeakSet[Reading] = WeakSet()
        self._count = Lock()
        self._checkpoints = Checkpoints(self.collecting)
        self.after_fork.append(self._checkpoints.forget)
        self._writer: apsw.Connection | None = None
        self._files: list[tuple[int, int] | None] = [None] * 3
        if place.read_only:
            self._idle.append(connect_reader(place))
        else:
            self._writer = self._connect_writer(create=create)
        _living.add(self)

    def writer(self) -> apsw.Connection:
        """Return the connection that writes. The caller holds `lock`."""
        if self._writer is None:
            self.check_open()
            self._writer = self._connect_writer(create=False)
        return self._writer

    def check_in_place(self) -> None:
        """Refuse to write into a file that is not the one under its name any more.

        Raises:
            Unavailable: it was moved, removed or replaced; what is written would be gone with it.
        """
        files = [_identity(self.place.path + suffix) for suffix in ("", "-wal", "-shm")]
        # The others are there from the first write on, and SQLite leaves them where they are.
        known = zip(self._files, files, strict=True)
        if any(before is not None and before != now for before, now in known):
            raise Unavailable(
                f"{self.place.path} was moved or replaced while it was open",
                hint="open the store again, where it is now",
            )
        self._files = files

    def _connect_writer(self, *, create: bool) -> apsw.Connection:
        connection = connect_writer(self.place, create=create)
        self._files = [_identity(self.place.path), None, None]
        self._checkpoints.follow(connection)
        return connection

    def reading(self) -> Reading:
        """Return a context that lends a connection inside one read transaction."""
        return Reading(self)

    def check_open(self) -> None:
        if self.closed:
            raise Closed(f"{self.place.path} was closed", hint="open it again")
        if self._orphaned:
            raise Unsupported(
                f"{self.place.path} was in use by another thread when this process was forked",
                hint="start processes with the 'spawn' method, or fork before using the store",
            )

    def borrow(self, reading: Reading) -> apsw.Connection:
        self.check_open()
        with self._count:
            self._lent.add(reading)
            if self._idle:
                return self._idle.pop()
        return connect_reader(self.place)

    def forget(self, reading: Reading) -> None:
        """Note that somebody who wanted a connection got none."""
        with self._count:
            self._lent.discard(reading)

    def give_back(self, reading: Reading, connection: apsw.Connection) -> None:
        """Take a connection back; one whose transaction could not be ended is of no use."""
        with self._count:
            self._lent.discard(reading)
            if not self.closed and not connection.in_transaction:
                self._idle.append(connection)
                return
        give_up(connection)

    @contextmanager
    def collecting(self) -> Iterator[apsw.Connection]:
        """Lend a second connection that writes, for work beside the writers."""
        token = Reading(self)
        try:
            with self._count:
                self._lent.add(token)
            self.check_open()
            connection = connect_writer(replace(self.place, limit_bytes=None), create=False)
            try:
                yield connection
            finally:
                give_up(connection)  # which rolls back, too
        except apsw.Error as error:
            raise explained(error, self.place.path) from error
        finally:
            self.forget(token)

    def close(self) -> None:
        self._checkpoints.wait()
        with self.lock:
            self.closed = True
            try:
                self._close_all()
            except apsw.Error as error:
                raise explained(error, self.place.path) from error
            # Only now: if this is interrupted, closing again closes what is left.
            self._idle, self._writer = [], None

    def _close_all(self) -> None:
        """Close every connection, whichever fails."""
        with ExitStack() as closing:
            if self._writer is not None:
                closing.callback(self._close_writer, self._writer)
            for connection in self._idle:
                closing.callback(connection.close)

    def drop_writer(self) -> None:
        """Close the connection that writes, which ends its transaction; the next gets another."""
        writer, self._writer = self._writer, None
        if writer is not None:
            _close_quietly(writer)

    def _close_writer(self, connection: apsw.Connection) -> None:
        if self.distrusted:
            _close_quietly(connection)
            return
        with suppress(apsw.Error):  # a courtesy to the next who opens the file, and will do it else
            if self.unfinished:
                connection.set_busy_handler(None)  # whoever still reads is not waited for
                truncate_wal(connection)
            else:
                ask(connection, "pragma wal_checkpoint(passive)")
        connection.close()

    def hold(self) -> None:
        """Wait, for a while, until nothing is in use."""
        deadline = monotonic() + _FORK_PATIENCE_SECONDS
        self._held = self.lock.acquire(timeout=_FORK_PATIENCE_SECONDS)
        while self._lent and monotonic() < deadline:
            sleep(0.0005)
        self._count.acquire()
        self._orphaned = not self._held or len(self._lent) > 0

    def let_go(self) -> None:
        """Go on in the parent."""
        self._orphaned = False
        self._count.release()
        if self._held:
            self.lock.release()

    def start_anew(self) -> None:
        """Go on in the child."""
        self.lock, self._count = Lock(), Lock()
        inherited = [*self._idle, *([self._writer] if self._writer is not None else [])]
        self._idle, self._writer, self._lent = [], None, WeakSet()
        for forget in self.after_fork:
            forget()
        if self._orphaned:
            _leaked.append(inherited)
            return
        for connection in inherited:
            _close_quietly(connection)


class Reading:
    """A snapshot to read from."""

    __slots__ = ("__weakref__", "_connection", "_connections")

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._connection: apsw.Connection | None = None

    def __enter__(self) -> apsw.Connection:
        try:
            self._connection = connection = self._connections.borrow(self)
            connection.execute("begin")
        except BaseException as error:
            self._end()
            if isinstance(error, apsw.Error):
                raise explained(error, self._connections.place.path) from error
            raise
        return connection

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()
        if isinstance(error, apsw.Error):
            raise explained(error, self._connections.place.path) from error

    def _end(self) -> None:
        if self._connection is None:
            self._connections.forget(self)
            return
        try:
            with suppress(apsw.Error):  # what was read is right; this connection is not used again
                roll_back(self._connection)
        finally:
            self._connections.give_back(self, self._connection)


def _identity(path: str) -> tuple[int, int] | None:
    """Return what tells a file from any other; None if there is none, as in a VFS of its own."""
    try:
        found = os.stat(path)  # noqa: PTH116 - once for every commit
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _close_quietly(connection: apsw.Connection) -> None:
    """Close without touching the file."""
    with suppress(apsw.ConnectionClosedError):
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close()


_living: WeakSet[Connections] = WeakSet()
_leaked: list[object] = []
_forking = Lock()
_held: list[Connections] = []


def _before_fork() -> None:
    _forking.acquire()
    for connections in list(_living):
        if not connections.closed:
            connections.hold()
            _held.append(connections)


def _after_fork_in_parent() -> None:
    while _held:
        _held.pop().let_go()
    _forking.release()


def _after_fork_in_child() -> None:
    while _held:
        _held.pop().start_anew()
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
