"""Processes that write one file take turns, and nobody waits for the dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import apsw
import pytest

import otolith
from otolith.errors import Busy
from otolith.session import Repo
from otolith.stores import SqliteStore
from otolith.stores.sqlite.schema import StoreFile
from otolith.stores.sqlite.tickets import COUNTER, HAS_LOCKS
from otolith.stores.sqlite.write_queue import WriteQueue
from tests.patience import HANG_SECONDS

pytestmark = pytest.mark.skipif(not HAS_LOCKS, reason="this system has no such locks")


class Writer:
    """A connection and its place in the queue, as a process has them."""

    def __init__(self, path: Path, *, timeout: float = HANG_SECONDS) -> None:
        self.queue = WriteQueue(StoreFile(str(path), busy_timeout_seconds=timeout))
        self.queue.turns_left = 1000  # it has met others before
        self.connection = apsw.Connection(str(path))
        self.queue.watch(self.connection)

    def begin(self) -> None:
        self.queue.begin(self.connection)

    def commit(self) -> None:
        self.connection.execute("commit")
        self.queue.end()

    def close(self) -> None:
        self.connection.close()
        self.queue.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    SqliteStore(tmp_path / "a.db").close()
    return tmp_path / "a.db"


@pytest.fixture
def writers(path: Path):
    made = [Writer(path) for _ in range(4)]
    yield made
    for each in made:
        each.close()


def tickets(path: Path) -> int:
    return int(COUNTER.unpack(Path(f"{path}-queue").read_bytes()[:8])[0])


def wait_for_tickets(path: Path, count: int) -> None:
    ended = threading.Event()
    for _ in range(int(HANG_SECONDS * 1000)):
        if tickets(path) >= count:
            return
        ended.wait(0.001)
    raise AssertionError(f"{count} have not come")


def test_writers_write_in_the_order_in_which_they_came(path, writers):
    first, *others = writers
    order: list[int] = []
    first.begin()
    threads = []
    for number, writer in enumerate(others):

        def write(number: int = number, writer: Writer = writer) -> None:
            writer.begin()
            order.append(number)
            writer.commit()

        threads.append(threading.Thread(target=write))
        threads[-1].start()
        wait_for_tickets(path, number + 2)
    first.commit()
    for thread in threads:
        thread.join()

    assert order == [0, 1, 2]


def test_who_has_just_written_does_not_overtake_who_waits(path, writers):
    restless, patient = writers[:2]
    restless.begin()
    has_begun = threading.Event()

    def write() -> None:
        patient.begin()
        has_begun.set()
        patient.commit()

    thread = threading.Thread(target=write)
    thread.start()
    wait_for_tickets(path, 2)
    restless.commit()
    restless.begin()  # comes back at once

    assert has_begun.is_set()
    restless.commit()
    thread.join()


def test_one_writer_leaves_no_file(tmp_path):
    with otolith.open(tmp_path / "a.db") as repo:
        state = repo.session("s")
        state["x"] = 1
        state.commit()
        assert not (tmp_path / "a.db-queue").exists()


def test_the_file_is_removed_by_the_last_and_made_again(path):
    one, other = Writer(path), Writer(path)
    for writer in (one, other):
        writer.begin()
        writer.commit()
    one.close()
    assert not Path(f"{path}-queue").exists()
    other.begin()
    assert tickets(path) == 1
    other.commit()
    other.close()


def test_the_file_stays_while_somebody_is_in_the_queue(path):
    one, other = Writer(path), Writer(path)
    other.begin()
    one.queue.place.open()
    one.close()
    assert Path(f"{path}-queue").exists()
    other.commit()
    other.close()


@pytest.mark.parametrize("content", [b"", b"x", b"\xff" * 8, b"\xff" * 100])
def test_a_counter_that_is_damaged_begins_again(path, content):
    Path(f"{path}-queue").write_bytes(content)
    writer = Writer(path)
    writer.begin()
    assert COUNTER.unpack(Path(f"{path}-queue").read_bytes()[:8]) == (1,)
    writer.commit()
    writer.close()


def test_without_permission_for_the_file_writers_wait_as_sqlite_does(path):
    Path(f"{path}-queue").mkdir()  # cannot be opened to write
    writer = Writer(path)
    writer.begin()
    writer.commit()
    assert not writer.queue._is_possible
    writer.close()


def test_a_link_in_place_of_the_file_is_not_followed(path, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("dear me")
    Path(f"{path}-queue").symlink_to(precious)
    writer = Writer(path)
    writer.begin()
    writer.commit()
    writer.close()
    assert precious.read_text() == "dear me"


def test_a_writer_waits_no_longer_than_its_time_allows(path, writers):
    writers[0].begin()
    late = Writer(path, timeout=0.2)
    with pytest.raises(apsw.BusyError):
        late.begin()
    late.queue.end()
    late.close()
    writers[0].commit()
    writers[1].begin()
    writers[1].commit()


def test_a_ticket_that_does_not_move_holds_nobody_up_for_long(path, writers):
    stuck, other = writers[:2]
    stuck.queue.place.draw(HANG_SECONDS)  # and is stopped here, by a debugger
    other.begin()
    other.commit()
    stuck.queue.end()


HOLDER = """
    import sys, time
    from pathlib import Path
    from tests.unit.stores.test_write_queue import Writer
    writer = Writer(Path(sys.argv[1]))
    writer.begin()
    print("holds", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nobody_waits_for_the_dead(path, writers, how):
    command = [sys.executable, "-c", textwrap.dedent(HOLDER), str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path.cwd())
    assert process.stdout is not None
    assert process.stdout.readline() == "holds\n"
    done = threading.Event()

    def write() -> None:
        writers[0].begin()
        writers[0].commit()
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    wait_for_tickets(path, 2)
    process.send_signal(how)
    process.communicate()

    assert done.wait(HANG_SECONDS)
    thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_child_takes_a_place_of_its_own(tmp_path):
    with otolith.open(tmp_path / "a.db") as repo:
        assert isinstance(repo.store, SqliteStore)
        pool = repo.store._connections
        pool.queue.turns_left = 1000
        state = repo.session("s")
        state["x"] = 1
        state.commit()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                mine = repo.session("child")
                mine["x"] = pool.queue.place._file
                pool.queue.turns_left = 1000
                mine.commit()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert repo.session("child")["x"] == -1
        state["x"] = 2
        state.commit()


def test_a_crowd_of_writers_writes_everything_and_leaves_no_file(tmp_path):
    path = tmp_path / "a.db"
    command = [sys.executable, "-m", "bench.writers", "ours", str(path), "40"]
    otolith.open(path).close()
    crowd = [
        subprocess.Popen(
            [*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for number in range(4)
    ]
    for process in crowd:
        assert process.stdout is not None
        process.stdout.readline()
    for process in crowd:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in crowd:
        process.communicate()
        assert process.returncode == 0
    with otolith.open(path) as repo:
        generations = [repo.branches(each.id)["main"].generation for each in repo.sessions()]
        assert generations == [40] * 4
    assert not Path(f"{path}-queue").exists()


def test_a_store_that_is_held_for_good_is_busy(tmp_path):
    path = tmp_path / "a.db"
    store = SqliteStore(path, busy_timeout_seconds=0.05)
    state = Repo(store).session("s")
    state["x"] = 1
    holder = apsw.Connection(str(path))
    holder.execute("begin immediate")
    for _ in range(2):  # the second time in the queue
        with pytest.raises(Busy):
            state.commit()
    holder.execute("rollback")
    state.commit()
    store.close()
    holder.close()
