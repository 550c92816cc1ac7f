"""A Redis server that is killed, frozen, cut off, failed over, read-only or emptied."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

import otolith
from otolith.care import verify
from otolith.errors import (
    Busy,
    Denied,
    Fenced,
    ReadOnly,
    RefNotFound,
    StoreNotFound,
    Unavailable,
)
from otolith.stores import Batch, RedisStore, Swap
from otolith.testing import blob, put
from tests.patience import HANG_SECONDS, seconds
from tests.servers.process import free_port, wait_until
from tests.servers.proxy import Proxy
from tests.servers.redis import redis_server


def _through(proxy, server, timeout=0.5):
    return f"{server.url}&timeout={timeout}".replace(f":{server.port}", f":{proxy.port}")


class Writer(threading.Thread):
    """Adds one to a counter again and again; an error that may pass makes it commit again."""

    def __init__(self, url, name):
        super().__init__(daemon=True)
        self.name = name
        self.acknowledged = self.failures = 0
        self.error = None
        self._repo = otolith.open(url, author=name)
        self._stops = threading.Event()

    def run(self):
        state = self._repo.session("job")
        while not self._stops.is_set():
            state.counter("total").add(1)
            state.list("log").append([self.name, self.acknowledged])
            if not self._commit(state):
                return
            self.acknowledged += 1

    def _commit(self, state):
        deadline = time.monotonic() + HANG_SECONDS
        while time.monotonic() < deadline:
            try:
                state.commit(self.name)
            except Unavailable:
                self.failures += 1
                time.sleep(0.01)  # the server needs a moment
            except BaseException as error:  # noqa: BLE001 - the test looks at it
                self.error = error
                return False
            else:
                return True
        return False

    def stop(self):
        self._stops.set()
        self.join(HANG_SECONDS)
        assert not self.is_alive()
        self._repo.close()
        if self.error is not None:
            raise self.error
        return self.acknowledged


def _passes(writers, name, count):
    """Return a function that tells whether writers have counted further."""
    return lambda: sum(getattr(writer, name) for writer in writers) > count


def _check_total(url, writers):
    """Stop writers; what they were told is what there is: no more and no less."""
    total = sum(writer.stop() for writer in writers)
    with otolith.open(url) as repo:
        state = repo.session("job")
        assert state["total"] == total
        log = [tuple(entry) for entry in state["log"]]
        assert len(log) == len(set(log)) == total
        assert verify(repo).ok
    return total


def test_a_server_that_is_killed_loses_and_doubles_nothing(tmp_path, rounds):
    chance = random.Random(7)
    with redis_server(tmp_path, appendonly="yes", appendfsync="always") as server:
        otolith.open(server.url).close()
        writers = [Writer(f"{server.url}&timeout=2", name) for name in "ab"]
        for writer in writers:
            writer.start()
        for _ in range(rounds(4, 20)):
            before = sum(writer.acknowledged for writer in writers)
            wait_until(_passes(writers, "acknowledged", before + 5), "progress")
            time.sleep(chance.random() * 0.01)  # so that it falls anywhere in a commit
            server.kill()
            server.run()
        assert _check_total(server.url, writers) > 20


@pytest.mark.parametrize("fault", ["lose replies", "stall"])
def test_a_network_that_fails_loses_and_doubles_nothing(tmp_path, rounds, fault):
    with redis_server(tmp_path) as server, Proxy(server.port) as proxy:
        otolith.open(server.url).close()
        url = _through(proxy, server, timeout=0.2)
        writers = [Writer(url, name) for name in "ab"]
        for writer in writers:
            writer.start()
        for _ in range(rounds(6, 60)):
            before = sum(writer.acknowledged for writer in writers)
            wait_until(_passes(writers, "acknowledged", before), "progress")
            failed = sum(writer.failures for writer in writers)
            proxy.fault = fault
            wait_until(_passes(writers, "failures", failed), "a failure")
            proxy.fault = "pass"
        _check_total(server.url, writers)


def test_a_lost_reply_is_reported_and_the_batch_may_have_landed(tmp_path):
    with redis_server(tmp_path) as server, Proxy(server.port) as proxy:
        store = RedisStore(_through(proxy, server))
        put(store, "main", blob("a"))
        proxy.fault = "lose replies"
        with pytest.raises(Unavailable) as caught:
            store.write(
                Batch(objects=[blob("b")], swaps=[Swap("main", blob("a").hash, blob("b").hash)])
            )
        assert type(caught.value) is Unavailable
        proxy.fault = "pass"
        assert len(store.moves("main")) == 2  # once, and not sent again by the client
        assert store.ref("main") == blob("b").hash


FROZEN = """
import sys, otolith
from otolith.errors import Fenced
repo = otolith.open(sys.argv[1])
state = repo.session("job")
lease = repo.store.lease("job", "frozen", ttl_seconds=0.3)
print("leased", flush=True)
sys.stdin.readline()
state["by"] = "frozen"
try:
    state.commit(fences={"job": lease.token})
except Fenced:
    print("fenced", flush=True)
"""


@pytest.mark.parametrize("is_taken", [True, False])
def test_a_frozen_writer_whose_lease_ran_out_is_refused(tmp_path, is_taken):
    with redis_server(tmp_path) as server:
        repo, store = otolith.open(server.url), RedisStore(server.url)
        process = subprocess.Popen(
            [sys.executable, "-c", FROZEN, server.url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "leased\n"
        process.send_signal(signal.SIGSTOP)
        if is_taken:
            wait_until(lambda: store.lease("job", "other", ttl_seconds=60) is not None, "the lease")
            state = repo.session("job")
            state["by"] = "other"
            state.commit()
        else:
            time.sleep(0.5)  # the lease has to run out
        process.send_signal(signal.SIGCONT)
        said, _ = process.communicate("go\n", timeout=HANG_SECONDS)
        assert said == "fenced\n"
        assert repo.session("job").get("by") == ("other" if is_taken else None)
        repo.close()


def test_a_server_that_does_not_answer_is_unavailable_within_the_timeout(tmp_path):
    with redis_server(tmp_path) as server:
        store = RedisStore(f"{server.url}&timeout=0.3")
        server.freeze()
        for call in (
            lambda: store.ref("main"),
            lambda: put(store, "main", blob("a")),
            lambda: RedisStore(f"{server.url}&timeout=0.3"),
        ):
            began = time.monotonic()
            with pytest.raises(Unavailable):
                call()
            assert time.monotonic() - began < seconds(3)
        server.thaw()
        put(store, "main", blob("a"))


def test_a_server_that_is_not_there_is_unavailable():
    with pytest.raises(Unavailable, match="redis://127"):
        RedisStore(f"redis://127.0.0.1:{free_port()}/0")


def test_a_server_that_was_restarted_is_used_again_without_an_error(tmp_path):
    with redis_server(tmp_path, appendonly="yes", appendfsync="always") as server:
        store = RedisStore(server.url)
        put(store, "main", blob("a"))
        server.kill()
        server.run()
        put(store, "main", blob("b"))
        assert len(store.moves("main")) == 2


def test_a_wrong_password_is_denied(tmp_path):
    with redis_server(tmp_path, requirepass="right") as server:
        with pytest.raises(Denied):
            RedisStore(server.url)
        with pytest.raises(Denied):
            RedisStore(server.url.replace("//", "//:wrong@"))
        with closing(RedisStore(server.url.replace("//", "//:right@"))) as store:
            put(store, "main", blob("a"))
        server.tell("AUTH right")


def test_a_user_who_may_not_write_is_denied(tmp_path):
    with redis_server(tmp_path) as server:
        put(RedisStore(server.url), "main", blob("a"))
        server.tell("ACL SETUSER reader on >word ~* &* +@all -@write +evalsha +eval")
        store = RedisStore(server.url.replace("//", "//reader:word@"))
        assert store.ref("main") == blob("a").hash
        with pytest.raises(Denied):
            put(store, "main", blob("b"))
        assert store.ref("main") == blob("a").hash


def test_a_replica_reads_and_refuses_to_write(tmp_path):
    with (
        redis_server(tmp_path / "primary", repl_diskless_sync_delay=0) as primary,
        redis_server(tmp_path / "replica", replicaof=f"127.0.0.1 {primary.port}") as replica,
    ):
        put(RedisStore(primary.url), "main", blob("a"))
        wait_until(lambda: _ref(replica.url) == blob("a").hash, "the replica")
        store = RedisStore(replica.url)
        assert store.read([blob("a").hash]) == {blob("a").hash: b"a"}
        with pytest.raises(ReadOnly, match="replica"):
            put(store, "main", blob("b"))
        assert store.ref("main") == blob("a").hash


def _ref(url):
    """Return the ref of a replica that may not have loaded anything yet."""
    try:
        with closing(RedisStore(url)) as store:
            return store.ref("main")
    except (ReadOnly, StoreNotFound, Busy, Unavailable):  # it would have to make the store
        return None


def test_a_failover_loses_acknowledged_commits_as_documented(tmp_path):
    with (
        redis_server(tmp_path / "primary", repl_diskless_sync_delay=0) as primary,
        Proxy(primary.port) as link,
        redis_server(tmp_path / "replica", replicaof=f"127.0.0.1 {link.port}") as replica,
    ):
        repo = otolith.open(primary.url)
        state = repo.session("job")
        state["n"] = 0
        head = state.commit().hash
        wait_until(lambda: _head(replica.url) == head, "the replica")
        link.fault = "stall"  # the replica is behind, and nobody notices
        for number in range(1, 6):
            state["n"] = number
            state.commit()
        primary.kill()
        link.fault = "refuse"
        link.cut()
        replica.tell("REPLICAOF", "NO", "ONE")
        with otolith.open(replica.url) as promoted:
            assert promoted.session("job")["n"] == 0  # five acknowledged commits are gone
            assert verify(promoted).ok  # but what is there is whole
        repo.close()


def _head(url):
    try:
        with closing(RedisStore(url)) as store:
            return store.ref("session/job/main")
    except (ReadOnly, StoreNotFound, Busy, Unavailable):
        return None


def test_a_server_that_lost_everything_is_reported_and_not_half_filled(tmp_path):
    with redis_server(tmp_path) as server:
        repo = otolith.open(server.url)
        state = repo.session("job")
        state["n"] = 1
        state.commit()
        server.kill()
        server.run()
        state["n"] = 2
        with pytest.raises((StoreNotFound, RefNotFound)):
            state.commit()
        with pytest.raises(StoreNotFound):
            repo.store.write(Batch(objects=[blob("a")]))
        with otolith.open(server.url) as again:  # a new store; the old one had no copy
            assert again.sessions() == []
        repo.close()


def test_a_lower_token_is_refused_after_a_restart(tmp_path):
    with redis_server(tmp_path, appendonly="yes", appendfsync="always") as server:
        store = RedisStore(server.url)
        lease = store.lease("job", "a", ttl_seconds=0.01)
        server.kill()
        server.run()
        second = store.lease("job", "b", ttl_seconds=60)
        assert lease is not None
        assert second is not None
        assert second.token > lease.token
        with pytest.raises(Fenced):
            store.write(Batch(fences={"job": lease.token}))
