"""The connections of one store: one that writes, a few that read, and what a fork does to them.

Forks. SQLite has its locks per process, in tables that a fork copies but whose locks it does not. A
child that merely ignored the inherited connections would believe it holds locks it does not have,
and the parent's last close would then delete the WAL under it: acknowledged writes would be lost.
So a fork waits until no connection is in use, and the child closes what it inherited, without a
checkpoint, before it opens its own.

Checkpoints. A commit is safe once it is in the WAL. SQLite would let the commit that makes the WAL
long copy all of it into the file; here a thread does, on another connection, and ends. Only if the
WAL grows faster than that does a commit wait.
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
from otolith.stores.sqlite.schema import StoreFile, connect_reader, connect_writer
from otolith.stores.sqlite.sql import ask, close_after_error, roll_back, translated
from otolith.stores.sqlite.write_queue import WriteQueue

_LONG_WAL_PAGES = 2000
_TOO_LONG_WAL_PAGES = 32768
_FORK_TIMEOUT_SECONDS = 2.0


class Checkpoints:
    """Starts a thread when the WAL is long and none is running."""

    def __init__(self, lend: Callable[[], AbstractContextManager[apsw.Connection]]) -> None:
        self._lend = lend
        self._thread: Thread | None = None

    def watch(self, connection: apsw.Connection) -> None:
        """Checkpoint the WAL that a connection writes, in place of SQLite itself."""
        connection.set_wal_hook(self._on_commit)

    def wait(self) -> None:
        """Wait for the thread, if there is one."""
        if self._thread is not None:
            self._thread.join()

    def forget_thread(self) -> None:
        """Forget the thread: after a fork it is the parent's."""
        self._thread = None

    def _on_commit(self, connection: apsw.Connection, schema: str, pages: int) -> int:
        if pages < _LONG_WAL_PAGES:
            return apsw.SQLITE_OK
        if self._thread is None or not self._thread.is_alive():
            thread = Thread(target=self._run, name="otolith-checkpoint")
            with suppress(RuntimeError):  # no thread can be started: the next commit tries again
                thread.start()
                self._thread = thread
        elif pages > _TOO_LONG_WAL_PAGES:
            _checkpoint(connection)
        return apsw.SQLITE_OK

    def _run(self) -> None:
        with suppress(Error), self._lend() as connection:
            _checkpoint(connection)


def _checkpoint(connection: apsw.Connection) -> None:
    with suppress(apsw.Error):  # the WAL still has everything, and the next long one is tried again
        ask(connection, "pragma wal_checkpoint(passive)")


def truncate_wal(connection: apsw.Connection) -> bool:
    """Copy the WAL into the file and cut it to nothing; return whether that succeeded."""
    try:
        ((busy, _, _),) = ask(connection, "pragma wal_checkpoint(truncate)")
    except (apsw.BusyError, apsw.LockedError):
        return False
    return not busy


class ConnectionPool:
    """Lends connections. `lock` guards the writer; readers need none."""

    def __init__(self, file: StoreFile, *, create: bool) -> None:
        self.file = file
        self.lock = Lock()
        self.closed = False
        self.disk_failed = False  # then the disk is not asked to sync again
        self.erasure_pending = False  # the WAL may hold what was to be erased
        self.queue = WriteQueue(file)
        self._checkpoints = Checkpoints(self.second_writer)
        self.after_fork: list[Callable[[], None]] = [
            self._checkpoints.forget_thread, self.queue.forget,
        ]  # fmt: skip
        self._is_locked_for_fork = False
        self._orphaned = False
        self._idle: list[apsw.Connection] = []
        # Weak: one that Control-C interrupted before it was returned does not count for ever.
        self._lent: WeakSet[ReadTransaction] = WeakSet()
        self._lent_lock = Lock()
        self._writer: apsw.Connection | None = None
        self._watcher: apsw.Connection | None = None
        self._inodes: list[tuple[int, int] | None] = [None] * 3
        if file.read_only:
            self._idle.append(connect_reader(file))
        else:
            self._writer = self._connect_writer(create=create)
        _pools.add(self)

    def check_open(self) -> None:
        """Raise Closed after `close`, and Unsupported in a child whose parent was busy."""
        if self.closed:
            raise Closed(f"{self.file.path} was closed", hint="open it again")
        if self._orphaned:
            raise Unsupported(
                f"{self.file.path} was in use by another thread when this process was forked",
                hint="start processes with the 'spawn' method, or fork before using the store",
            )

    # The writer

    def writer(self) -> apsw.Connection:
        """Return the connection that writes. The caller holds `lock`."""
        if self._writer is None:
            self.check_open()
            self._writer = self._connect_writer(create=False)
        return self._writer

    def check_in_place(self) -> None:
        """Refuse to write into a file that was moved, removed or replaced.

        Raises:
            Unavailable: the path leads to another file; what is written would be lost.
        """
        inodes = [_inode(self.file.path + suffix) for suffix in ("", "-wal", "-shm")]
        # The -wal and -shm files exist from the first write on, and SQLite does not replace them.
        known = zip(self._inodes, inodes, strict=True)
        if any(before is not None and before != now for before, now in known):
            raise Unavailable(
                f"{self.file.path} was moved or replaced while it was open",
                hint="open the store again, where it is now",
            )
        self._inodes = inodes

    def drop_writer(self) -> None:
        """Close the connection that writes, which ends its transaction; the next call opens one."""
        writer, self._writer = self._writer, None
        if writer is not None:
            _close_without_checkpoint(writer)

    @contextmanager
    def second_writer(self) -> Iterator[apsw.Connection]:
        """Lend another connection that writes, for work in the background."""
        token = ReadTransaction(self)
        try:
            with self._lent_lock:
                self._lent.add(token)
            self.check_open()
            connection = connect_writer(replace(self.file, limit_bytes=None), create=False)
            try:
                yield connection
            finally:
                close_after_error(connection)  # which rolls back, too
        except apsw.Error as error:
            raise translated(error, self.file.path) from error
        finally:
            self.forget(token)

    @contextmanager
    def second_place(self) -> Iterator[WriteQueue]:
        """Lend another place in the queue for the write lock, for work in the background."""
        queue = WriteQueue(self.file)
        try:
            yield queue
        finally:
            queue.close()

    def _connect_writer(self, *, create: bool) -> apsw.Connection:
        connection = connect_writer(self.file, create=create)
        self._inodes = [_inode(self.file.path), None, None]
        self._checkpoints.watch(connection)
        self.queue.watch(connection)
        return connection

    # Readers

    def reading(self) -> ReadTransaction:
        """Return a context that lends a connection inside one read transaction."""
        return ReadTransaction(self)

    def borrow(self, reader: ReadTransaction) -> apsw.Connection:
        """Lend a connection that reads."""
        self.check_open()
        with self._lent_lock:
            self._lent.add(reader)
            if self._idle:
                return self._idle.pop()
        return connect_reader(self.file)

    def forget(self, reader: ReadTransaction) -> None:
        """Note that a reader got no connection."""
        with self._lent_lock:
            self._lent.discard(reader)

    def give_back(self, reader: ReadTransaction, connection: apsw.Connection) -> None:
        """Take a connection back; one whose transaction could not be ended is closed."""
        with self._lent_lock:
            self._lent.discard(reader)
            if not self.closed and not connection.in_transaction:
                self._idle.append(connection)
                return
        close_after_error(connection)

    @contextmanager
    def watching(self) -> Iterator[apsw.Connection]:
        """Lend the connection that notices what others commit; one thread uses it."""
        token = ReadTransaction(self)
        try:
            with self._lent_lock:
                self._lent.add(token)
            self.check_open()
            if self._watcher is None:
                self._watcher = connect_reader(self.file)
            yield self._watcher
        except apsw.Error as error:
            watcher, self._watcher = self._watcher, None
            if watcher is not None:
                close_after_error(watcher)
            raise translated(error, self.file.path) from error
        finally:
            self.forget(token)

    # The end

    def close(self) -> None:
        """Close every connection, also if closing one of them fails."""
        self._checkpoints.wait()
        with self.lock:
            self.closed = True
            try:
                self._close_all()
            except apsw.Error as error:
                raise translated(error, self.file.path) from error
            self.queue.close()
            # Only now: if this is interrupted, closing again closes what is left.
            self._idle, self._writer, self._watcher = [], None, None

    def _readers(self) -> list[apsw.Connection]:
        """Return the connections that nobody has at present, without the writer."""
        return [*self._idle, *([self._watcher] if self._watcher is not None else [])]

    def _close_all(self) -> None:
        with ExitStack() as closing:
            if self._writer is not None:
                closing.callback(self._close_writer, self._writer)
            for connection in self._readers():
                closing.callback(connection.close)

    def _close_writer(self, connection: apsw.Connection) -> None:
        if self.disk_failed:
            _close_without_checkpoint(connection)
            return
        with suppress(apsw.Error):  # the next process that opens the file would do it
            if self.erasure_pending:
                connection.set_busy_handler(None)  # do not wait for readers
                truncate_wal(connection)
            else:
                ask(connection, "pragma wal_checkpoint(passive)")
        connection.close()

    # Forks

    def before_fork(self) -> None:
        """Wait, for a while, until no connection is in use."""
        deadline = monotonic() + _FORK_TIMEOUT_SECONDS
        self._is_locked_for_fork = self.lock.acquire(timeout=_FORK_TIMEOUT_SECONDS)
        while self._lent and monotonic() < deadline:
            sleep(0.0005)
        self._lent_lock.acquire()
        self._orphaned = not self._is_locked_for_fork or len(self._lent) > 0

    def after_fork_in_parent(self) -> None:
        """Let the threads of the parent continue."""
        self._orphaned = False
        self._lent_lock.release()
        if self._is_locked_for_fork:
            self.lock.release()

    def after_fork_in_child(self) -> None:
        """Close what the child has inherited."""
        self.lock, self._lent_lock = Lock(), Lock()
        inherited = [*self._readers(), *([self._writer] if self._writer is not None else [])]
        self._idle, self._writer, self._watcher, self._lent = [], None, None, WeakSet()
        for callback in self.after_fork:
            callback()
        if self._orphaned:
            _leaked.append(inherited)  # closing them could block, or corrupt
            return
        for connection in inherited:
            _close_without_checkpoint(connection)


class ReadTransaction:
    """A snapshot to read from. Errors of SQLite's become ours when it ends."""

    __slots__ = ("__weakref__", "_connection", "_pool")

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._connection: apsw.Connection | None = None

    def __enter__(self) -> apsw.Connection:
        try:
            self._connection = connection = self._pool.borrow(self)
            connection.execute("begin")
        except BaseException as error:
            self._end()
            if isinstance(error, apsw.Error):
                raise translated(error, self._pool.file.path) from error
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
            raise translated(error, self._pool.file.path) from error

    def _end(self) -> None:
        if self._connection is None:
            self._pool.forget(self)
            return
        try:
            with suppress(apsw.Error):  # the answer is right; this connection is not used again
                roll_back(self._connection)
        finally:
            self._pool.give_back(self, self._connection)


def _inode(path: str) -> tuple[int, int] | None:
    """Return the identity of a file; None if there is none, as in a VFS that has no files."""
    try:
        found = os.stat(path)  # noqa: PTH116 - once for every commit
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _close_without_checkpoint(connection: apsw.Connection) -> None:
    """Close a connection without touching the file."""
    with suppress(apsw.ConnectionClosedError):
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close()


_pools: WeakSet[ConnectionPool] = WeakSet()
_leaked: list[object] = []
_fork_lock = Lock()
_held_pools: list[ConnectionPool] = []


def _before_fork() -> None:
    _fork_lock.acquire()
    for pool in list(_pools):
        if not pool.closed:
            pool.before_fork()
            _held_pools.append(pool)


def _after_fork(resume: Callable[[ConnectionPool], None]) -> None:
    while _held_pools:
        resume(_held_pools.pop())
    _fork_lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(ConnectionPool.after_fork_in_parent),
        after_in_child=lambda: _after_fork(ConnectionPool.after_fork_in_child),
    )
