"""Lines at refs: who has lost a race goes next, in the order of coming."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import TypeAlias

import pytest

from otolith.core import Branch
from otolith.greenlets import GreenletPool
from otolith.session import Repo
from otolith.stores import Layer, MemoryStore, PostgresStore, SqliteStore, turn_at
from otolith.stores.postgres import ref_lines as advisory
from otolith.stores.sqlite import ref_lines as tickets
from otolith.stores.sqlite.tickets import COUNTER, HAS_LOCKS
from otolith.testing import blob, put
from tests.patience import HANG_SECONDS
from tests.servers import postgres
from tests.servers.process import wait_until

needs_locks = pytest.mark.skipif(not HAS_LOCKS, reason="this system has no such locks")


AnyStore: TypeAlias = SqliteStore | PostgresStore


class Place:
    """A place that several processes have open, and how many have lined up at a ref."""

    def __init__(self, open_store: Callable[[], AnyStore], come: Callable[[], int]) -> None:
        self._open_store = open_store
        self._come = come
        self._stack = ExitStack()

    def open(self) -> AnyStore:
        """Open a store, as another process does."""
        store = self._open_store()
        self._stack.callback(store.close)
        return store

    def wait_for(self, count: int) -> None:
        """Wait until so many have lined up."""
        wait_until(lambda: self._come() >= count, f"{count} in line")

    def close(self) -> None:
        self._stack.close()


def tickets_drawn(path: Path) -> int:
    """Return how many have lined up at `main`."""
    file = Path(f"{path}-queue")
    start = 16 * tickets._line_of("main")
    stored = file.read_bytes()[start : start + 8] if file.exists() else b""
    return COUNTER.unpack(stored)[0] if stored else 0


@pytest.fixture(params=[pytest.param("sqlite", marks=needs_locks), "postgres"])
def place(request, tmp_path):
    if request.param == "sqlite":
        path = tmp_path / "a.db"
        found = Place(lambda: SqliteStore(path), lambda: tickets_drawn(path))
    else:
        url = postgres.fresh(request.getfixturevalue("postgres_url"))
        watcher = PostgresStore(url)
        query = b"""select count(*) from pg_locks l, pg_class c where locktype = 'advisory'
            and objsubid = 1 and c.relname = 'meta' and c.oid = classid
            and relnamespace = %s::regnamespace"""

        def come() -> int:
            ((count,),) = watcher._connections.ask(query, [watcher._schema.name])
            return int.from_bytes(count, "big") if isinstance(count, bytes) else count

        found = Place(lambda: PostgresStore(url), come)
        found._stack.callback(watcher.close)
    yield found
    found.close()


class Writer:
    """A writer that lines up in a thread, notes that it is first, and leaves when it is told to."""

    def __init__(self, store, note: Callable[[], object] = lambda: None) -> None:
        self.is_first, self.may_leave = Event(), Event()
        self._store = store
        self._note = note
        self._thread = Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self._store.turn("main") as turn:
            turn.wait()
            self._note()
            self.is_first.set()
            assert self.may_leave.wait(HANG_SECONDS)

    def leave(self) -> None:
        self.may_leave.set()
        self._thread.join()


def test_writers_take_turns_in_the_order_in_which_they_came(place):
    order: list[int] = []
    first = Writer(place.open())
    assert first.is_first.wait(HANG_SECONDS)
    others = []
    for number in range(3):
        others.append(Writer(place.open(), partial(order.append, number)))
        place.wait_for(number + 2)
    for other in others:
        other.may_leave.set()
    assert order == []

    first.leave()
    for other in others:
        other.leave()

    assert order == [0, 1, 2]


def test_threads_of_one_process_line_up_too(place):
    store, order = place.open(), list[int]()
    first = Writer(store)
    assert first.is_first.wait(HANG_SECONDS)
    second = Writer(store, lambda: order.append(2))
    place.wait_for(2)
    order.append(1)
    first.leave()
    second.leave()

    assert order == [1, 2]


def test_who_meets_nobody_does_not_wait(place):
    alone = place.open()
    with alone.turn("main"):
        pass
    with alone.turn("main") as turn:
        turn.wait()
        turn.wait()
    with alone.turn("main"):  # it lines up once more, for it has lost a race
        pass


def test_a_turn_keeps_nobody_from_writing(place):
    holder, other = place.open(), place.open()
    with holder.turn("main") as turn:
        turn.wait()
        put(other, "main", blob("a"))

    assert holder.ref("main") == blob("a").hash


def test_a_turn_inside_of_a_turn_does_not_wait(place):
    one, other = place.open(), place.open()
    with one.turn("main") as turn:
        turn.wait()
        with other.turn("main") as inner:
            inner.wait()


def test_refs_have_lines_of_their_own(place):
    first = Writer(place.open())
    assert first.is_first.wait(HANG_SECONDS)
    with place.open().turn("other") as turn:
        turn.wait()
    first.leave()


@needs_locks
def test_nobody_overtakes_who_waits(tmp_path):
    """A writer that has not lost a race looks for tickets before it reads."""
    with open_pair(tmp_path) as (one, other):
        first = Writer(one)
        assert first.is_first.wait(HANG_SECONDS)
        done = Event()

        def come() -> None:
            with other.turn("main"):
                done.set()

        thread = Thread(target=come)
        thread.start()
        wait_until(lambda: tickets_drawn(tmp_path / "a.db") == 2, "the other's ticket")
        assert not done.is_set()
        first.leave()
        thread.join()
        assert done.is_set()


@needs_locks
def test_the_file_of_tickets_is_there_only_after_a_race(tmp_path):
    file = tmp_path / "a.db-queue"
    store = SqliteStore(tmp_path / "a.db")
    with store.turn("main"):
        pass
    assert not file.exists()
    with store.turn("main") as turn:
        turn.wait()
    assert file.exists()
    store.close()
    assert not file.exists()


@needs_locks
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nobody_waits_for_a_writer_that_was_killed(tmp_path, how):
    path = tmp_path / "a.db"
    SqliteStore(path).close()
    holder = start_holder(path)
    other = SqliteStore(path)
    waiting = Writer(other)
    wait_until(lambda: tickets_drawn(path) == 2, "the second ticket")
    holder.send_signal(how)
    holder.communicate()

    assert waiting.is_first.wait(HANG_SECONDS)
    waiting.leave()
    other.close()


@needs_locks
def test_nobody_waits_long_for_a_writer_that_was_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(tickets, "_STUCK_SECONDS", 0.05)
    path = tmp_path / "a.db"
    SqliteStore(path).close()
    holder = start_holder(path)
    holder.send_signal(signal.SIGSTOP)
    with open_pair(tmp_path) as (one, other):
        for store in (one, other):
            with store.turn("main") as turn:
                turn.wait()
        monkeypatch.setattr(tickets, "_STUCK_SECONDS", 2 * HANG_SECONDS)
        began = monotonic()
        with one.turn("main"):  # it is waited for once
            second = Writer(other)
            wait_until(lambda: tickets_drawn(path) == 5, "the ticket behind")
            assert not second.is_first.is_set()  # and those who are not stopped still line up
        assert second.is_first.wait(HANG_SECONDS)
        second.leave()
        assert monotonic() - began < HANG_SECONDS
    holder.kill()
    holder.communicate()


@needs_locks
def test_a_line_whose_numbers_begin_again_is_a_line(tmp_path):
    with open_pair(tmp_path) as (one, other):
        one._lines._passed[tickets._line_of("main")] = 1000  # before the file was removed
        first = Writer(other)
        assert first.is_first.wait(HANG_SECONDS)
        second = Writer(one)
        wait_until(lambda: tickets_drawn(tmp_path / "a.db") == 2, "the second ticket")
        assert not second.is_first.is_set()
        first.leave()
        assert second.is_first.wait(HANG_SECONDS)
        second.leave()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@needs_locks
def test_a_child_leaves_the_turn_to_its_parent(tmp_path):
    with open_pair(tmp_path) as (one, other):
        with one._lines.turn("main") as turn:
            turn.wait()
            child = os.fork()
            if child == 0:
                turn.__exit__()  # what the end of the block does
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            waiting = Writer(other)
            wait_until(lambda: tickets_drawn(tmp_path / "a.db") == 2, "the second ticket")
            assert not waiting.is_first.is_set()
        assert waiting.is_first.wait(HANG_SECONDS)
        waiting.leave()


@needs_locks
def test_without_permission_for_the_file_nobody_waits(tmp_path):
    with open_pair(tmp_path) as (one, other):
        Path(f"{one.path}-queue").mkdir()  # cannot be opened to write
        with one.turn("main") as turn:
            turn.wait()
            with other.turn("main") as another:
                another.wait()


def test_the_server_ends_a_turn_that_does_not_end(postgres_url, monkeypatch):
    monkeypatch.setattr(advisory, "_STUCK_SECONDS", 0.05)
    url = postgres.fresh(postgres_url)
    one, other = PostgresStore(url), PostgresStore(url)
    first = Writer(one)
    assert first.is_first.wait(HANG_SECONDS)
    with other.turn("main") as turn:
        turn.wait()
    assert other._lines._rests_until > monotonic()
    first.leave()
    one.close()
    other.close()


@pytest.mark.parametrize("pool", [1, 2, 3])
def test_a_small_pool_is_enough_for_many_writers(postgres_url, pool):
    store = PostgresStore(postgres.fresh(postgres_url, pool=pool))
    repo = Repo(store)
    count_in_threads([repo] * 4, each=5)
    assert repo.session("s")["count"] == 20
    store.close()


def test_greenlets_that_line_up_let_the_others_continue(postgres_url):
    store, order = PostgresStore(postgres.fresh(postgres_url, pool=2)), list[str]()
    pool = GreenletPool()

    def write(name: str) -> None:
        with store.turn("main") as turn:
            turn.wait()
            order.append(name)
            assert store.ref("main") is None

    jobs = [pool.submit(write, str(number)) for number in range(3)]
    for job in jobs:
        job.result(HANG_SECONDS)
    pool.shutdown()
    store.close()

    assert sorted(order) == ["0", "1", "2"]


def test_a_layer_lends_the_turns_of_its_store(place):
    order: list[int] = []
    first = Writer(Layer(place.open()))
    assert first.is_first.wait(HANG_SECONDS)
    second = Writer(Layer(place.open()), lambda: order.append(2))
    place.wait_for(2)
    order.append(1)
    first.leave()
    second.leave()

    assert order == [1, 2]


def test_a_store_without_lines_lends_turns_that_wait_for_nobody():
    for store in (MemoryStore(), Layer(MemoryStore())):
        with turn_at(store, "main") as turn:
            turn.wait()
            with turn_at(store, "main") as inner:
                inner.wait()


# -------------------- what they are for


def test_a_crowd_of_transactions_loses_nothing_and_works_in_vain_only_at_the_start(place):
    repos = [Repo(place.open()) for _ in range(4)]
    calls = count_in_threads(repos, each=25)

    assert repos[0].session("s")["count"] == 100
    assert calls < 150  # without lines: about 250


def count_in_threads(repos: Sequence[Repo], *, each: int) -> int:
    """Count in threads with a repo each; return how often the function was called."""
    calls: list[None] = []
    first = repos[0].session("s")
    first["count"] = 0
    first.commit()

    def add(state: Branch) -> None:
        calls.append(None)
        state["count"] += 1

    def work(repo: Repo) -> None:
        state = repo.session("s")
        for _ in range(each):
            state.transact(add)

    with ThreadPoolExecutor(len(repos)) as threads:
        list(threads.map(work, repos))
    return len(calls)


HOLDER = """
    import sys
    from otolith.stores import SqliteStore
    with SqliteStore(sys.argv[1]).turn("main") as turn:
        turn.wait()
        print("first", flush=True)
        sys.stdin.read()
"""


def start_holder(path: Path) -> subprocess.Popen[str]:
    """Start a process that is first in line at `main`."""
    command = [sys.executable, "-c", textwrap.dedent(HOLDER), str(path)]
    holder = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "first\n"
    return holder


@contextmanager
def open_pair(folder: Path) -> Iterator[tuple[SqliteStore, SqliteStore]]:
    """Open one file twice, as two processes do."""
    with closing(SqliteStore(folder / "a.db")) as one, closing(SqliteStore(one.path)) as other:
        yield one, other
