"""Postgres killed, failed over, stalled or cut off: no commit is lost, doubled or torn."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

import otolith
from otolith.care import prune, verify
from otolith.errors import Fenced, ReadOnly, Unavailable
from otolith.stores import Batch, PostgresStore, Swap
from otolith.testing import blob
from tests.fault.server_writer import patiently
from tests.patience import HANG_SECONDS
from tests.servers.postgres import PostgresServer, fresh, postgres_server, standby_of
from tests.servers.process import wait_until
from tests.servers.proxy import Proxy

WRITER = Path(__file__).with_name("server_writer.py")
NAMES = ("a", "b", "c")


class Crowd:
    """Writers in processes of their own, that commit to one session."""

    def __init__(self, url: str, folder: Path) -> None:
        self.folder = folder
        self._stop = folder / "stop"
        self._processes = [
            subprocess.Popen(
                [sys.executable, WRITER, url, name, folder / name, self._stop],
                stderr=subprocess.PIPE,
                text=True,
            )
            for name in NAMES
        ]

    def acknowledged(self) -> dict[str, int]:
        """Return how many commits of each writer have returned."""
        files = {name: self.folder / name for name in NAMES}
        return {
            name: len(file.read_text().split()) if file.exists() else 0
            for name, file in files.items()
        }

    def wait_for_commits(self, count: int = 3) -> None:
        """Wait until each writer has committed again."""
        goals = {name: number + count for name, number in self.acknowledged().items()}
        wait_until(lambda: self._has_reached(goals), "commits of all writers")

    def _has_reached(self, goals: dict[str, int]) -> bool:
        for process in self._processes:
            if process.poll():
                assert process.stderr is not None
                raise AssertionError(process.stderr.read())
        return all(number >= goals[name] for name, number in self.acknowledged().items())

    def end(self) -> dict[str, int]:
        """Let all writers end; return how many commits of each have returned."""
        self._stop.touch()
        for process in self._processes:
            _, errors = process.communicate(timeout=HANG_SECONDS)
            assert process.returncode == 0, errors
        return self.acknowledged()

    def kill(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


@contextmanager
def crowd(url: str, folder: Path) -> Iterator[Crowd]:
    otolith.open(url).close()
    writers = Crowd(url, folder)
    try:
        yield writers
    finally:
        writers.kill()


def check(url: str, done: dict[str, int]) -> None:
    """Check that every acknowledged commit is there once, and whole."""
    with otolith.open(url) as repo:
        state = repo.session("job")
        assert {name: state[f"done/{name}"] for name in done} == done
        assert state["total"] == sum(done.values())
        events = state["events"]
        for name, number in done.items():
            assert [e["number"] for e in events if e["who"] == name] == list(range(1, number + 1))
        assert len(events) == sum(done.values())
        report = verify(repo, level="full")
        assert report.ok, report.problems


def test_a_server_killed_during_commits_loses_and_doubles_nothing(tmp_path, rounds):
    chance = random.Random(18)
    with postgres_server() as server, crowd(url := fresh(server.url), tmp_path) as writers:
        for _ in range(rounds(3, 20)):
            writers.wait_for_commits()
            sleep(chance.random() / 50)  # so that the kill falls anywhere inside a commit
            server.kill()
            sleep(chance.random() / 10)
            server.start()
        writers.wait_for_commits()
        check(url, writers.end())


def test_a_failover_to_a_synchronous_standby_loses_and_doubles_nothing(tmp_path):
    with postgres_server() as primary, standby_of(primary, hot_standby="on") as standby:
        primary.ask("alter system set synchronous_standby_names = 'standby'")
        primary.ask("alter system set synchronous_commit = 'remote_apply'")
        primary.ask("select pg_reload_conf()")
        wait_until(lambda: _is_synchronous(primary), "a synchronous standby")
        both = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        url = fresh(f"postgresql://postgres@{both}/postgres", timeout=5)
        with crowd(url, tmp_path) as writers:
            writers.wait_for_commits(10)
            primary.kill()
            standby.promote()
            writers.wait_for_commits(10)
            check(url, writers.end())


def _is_synchronous(primary: PostgresServer) -> bool:
    states = primary.ask("select sync_state from pg_stat_replication")
    return [*states] == [("sync",)]


@pytest.mark.parametrize("waits", ["local", "remote_write", "on", "remote_apply"])
def test_a_synchronous_standby_that_commits_do_not_wait_for_is_a_risk(waits):
    settings = {"synchronous_standby_names": "standby", "synchronous_commit": waits}
    with postgres_server() as primary:
        url = fresh(primary.url)
        PostgresStore(url).close()
        with standby_of(primary, hot_standby="on"):
            for name, value in settings.items():
                primary.ask(f"alter system set {name} = '{value}'")
            primary.ask("select pg_reload_conf()")
            wait_until(lambda: _is_synchronous(primary), "a synchronous standby")
            with closing(PostgresStore(url)) as store:
                problems = [risk.problem for risk in store.server_facts().risks]
    is_weak = waits in ("local", "remote_write")
    assert [f"synchronous_commit is {waits}" in each for each in problems] == [True] * is_weak


def test_a_server_is_reached_by_its_socket():
    with postgres_server(unix_socket_directories=".") as server:
        place = f"?host={server.folder}/data&port={server.port}&user=postgres"
        with otolith.open(fresh(f"postgresql:///postgres{place}")) as repo:
            state = repo.session("trip")
            state["n"] = 1
            state.commit()


def test_a_standby_is_read_and_not_written():
    with postgres_server() as primary:
        url = fresh(primary.url)
        a = blob("a")
        with otolith.open(url) as repo:
            repo.store.write(Batch(objects=[a], swaps=[Swap("x", None, a.hash)]))
            position = primary.ask("select pg_current_wal_lsn()::text")[0][0]
        with standby_of(primary, hot_standby="on") as standby:
            replayed = f"select pg_last_wal_replay_lsn() >= '{position}'"
            wait_until(lambda: standby.ask(replayed) == [(True,)], "the standby")
            store = PostgresStore(url.replace(str(primary.port), str(standby.port)))
            assert store.read([a.hash]) == {a.hash: a.data}
            with pytest.raises(ReadOnly):
                store.write(Batch(swaps=[Swap("x", a.hash, None)]))
            with pytest.raises(ReadOnly):
                store.lease("job", "ann", ttl_seconds=1)
            with pytest.raises(ReadOnly):
                store.subscribe()
            with pytest.raises(ReadOnly):
                PostgresStore(fresh(standby.url))
            store.close()


@pytest.fixture(scope="module")
def server():
    with postgres_server() as server:
        yield server


@pytest.fixture
def proxy(server):
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def url(server, proxy):
    there = server.url.replace(str(server.port), str(proxy.port))
    return fresh(there, timeout=1, connect_timeout=2)


def test_a_lost_reply_doubles_no_counter_and_loses_no_append(proxy, url, rounds):
    chance = random.Random(7)
    with otolith.open(url) as repo:
        state = repo.session("job")
        for number in range(rounds(30, 300)):
            state.counter("n").add(1)
            state.list("log").append(number)
            proxy.fault = chance.choice(["pass", "lose replies"])
            try:
                state.commit()
            except Unavailable:
                proxy.fault = "pass"
                patiently(state.commit)
            proxy.fault = "pass"
        assert state["n"] == number + 1
        assert list(state["log"]) == list(range(number + 1))
        again = repo.session("job")
        assert again["n"] == number + 1
        assert len(list(again.log())) == number + 1


def test_a_network_that_stalls_is_reported_in_time_and_what_arrives_late_lands_once(
    proxy, url, rounds
):
    with otolith.open(url) as repo:
        state = repo.session("job")
        state.counter("n").add(1)
        state.commit()
        stalls = rounds(1, 20)
        for _ in range(stalls):
            state.counter("n").add(1)
            proxy.fault = "stall"
            began = monotonic()
            with pytest.raises(Unavailable):
                state.commit()
            assert monotonic() - began < HANG_SECONDS / 10
            proxy.fault = "pass"  # what was kept back arrives now
            patiently(state.commit)
        assert repo.session("job")["n"] == stalls + 1


def test_a_cut_connection_is_replaced_without_opening_the_store_again(proxy, url):
    a = blob("a")
    store = PostgresStore(url)
    store.write(Batch(objects=[a], swaps=[Swap("x", None, a.hash)]))
    proxy.cut()
    assert store.read([a.hash]) == {a.hash: a.data}
    proxy.cut()
    store.write(Batch(swaps=[Swap("x", a.hash, None)]))
    assert store.ref("x") is None
    proxy.fault = "refuse"
    proxy.cut()
    with pytest.raises(Unavailable):
        store.ref("x")
    proxy.fault = "pass"
    assert store.ref("x") is None
    store.close()


def test_moves_during_a_lost_connection_are_reported_after_it(server, proxy, url):
    a, b = blob("a"), blob("b")
    store = PostgresStore(url)
    store.write(Batch(objects=[a], swaps=[Swap("x", None, a.hash), Swap("gone", None, a.hash)]))
    news = store.subscribe()
    proxy.fault = "refuse"
    proxy.cut()
    other = PostgresStore(url.replace(str(proxy.port), str(server.port)))
    other.write(Batch(objects=[b], swaps=[Swap("x", a.hash, b.hash), Swap("gone", a.hash, None)]))
    proxy.fault = "pass"
    names: set[str] = set()
    while not {"x", "gone"} <= names:
        names |= news.wait(HANG_SECONDS)
    other.close()
    store.close()


FROZEN = """
import sys
from otolith.stores import Batch, PostgresStore, Swap
from otolith.testing import blob
store = PostgresStore(sys.argv[1])
lease = store.lease("job", "frozen", ttl_seconds=0.5)
print("ready", flush=True)
sys.stdin.readline()
a = blob("late")
try:
    store.write(Batch([a], [Swap("x", None, a.hash)], fences={"job": lease.token}))
    print("written")
except Exception as error:
    print(type(error).__name__)
"""


def test_a_frozen_writer_whose_lease_ran_out_is_refused(server):
    url = fresh(server.url)
    store = PostgresStore(url)
    frozen = subprocess.Popen(
        [sys.executable, "-c", FROZEN, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert frozen.stdout is not None
    assert frozen.stdout.readline() == "ready\n"
    frozen.send_signal(signal.SIGSTOP)
    while (lease := store.lease("job", "successor", ttl_seconds=60)) is None:
        sleep(0.05)
    frozen.send_signal(signal.SIGCONT)
    said, _ = frozen.communicate("go on\n", timeout=HANG_SECONDS)
    assert said == "Fenced\n"
    assert store.ref("x") is None
    store.write(Batch(fences={"job": lease.token}))
    with pytest.raises(Fenced):
        store.write(Batch(fences={"job": lease.token - 1}))
    store.close()


def test_processes_lose_nothing_to_collections_of_another_process(server, tmp_path, rounds):
    url = fresh(server.url)
    with crowd(url, tmp_path) as writers, otolith.open(url) as repo:
        for number in range(rounds(5, 50)):
            writers.wait_for_commits(2)
            repo.store.write(Batch(objects=[blob(f"garbage {number}")]))
            assert prune(repo, expire_seconds=0).dropped_objects >= 1
        check(url, writers.end())
