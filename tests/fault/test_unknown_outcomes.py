"""Transactions whose reply is lost, or whose server dies: what is repeated never counts twice."""

from __future__ import annotations

import random
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

import otolith
from otolith.errors import Unavailable
from tests.patience import HANG_SECONDS
from tests.servers.postgres import fresh, postgres_server
from tests.servers.process import wait_until
from tests.servers.proxy import Proxy
from tests.servers.redis import redis_server


@dataclass
class Place:
    """A server that a test may kill, and the URL of a store on it."""

    server: Any
    url: str

    def through(self, proxy):
        return self.url.replace(f":{self.server.port}", f":{proxy.port}")

    def restart(self):
        self.server.kill()
        getattr(self.server, "run", self.server.start)()


@pytest.fixture(params=["postgres", "redis"])
def place(request, tmp_path):
    @contextmanager
    def postgres():
        with postgres_server() as server:
            yield Place(server, f"{fresh(server.url)}&connect_timeout=2&timeout=1")

    @contextmanager
    def redis():
        with redis_server(tmp_path, appendonly="yes", appendfsync="always") as server:
            yield Place(server, f"{server.url}&timeout=0.5")

    with {"postgres": postgres, "redis": redis}[request.param]() as found:
        with otolith.open(found.url) as repo:
            state = repo.session("job")
            state["count"] = 0
            state.commit("opened")
        yield found


class Counter(threading.Thread):
    """Adds one by a transaction, again and again, and repeats what raised Unavailable."""

    def __init__(self, url, *, patience_seconds):
        super().__init__(daemon=True)
        self.acknowledged, self.repeated = 0, 0
        self.error: BaseException | None = None
        self._patience_seconds = patience_seconds
        self._repo = otolith.open(url)
        self._state = self._repo.session("job")
        self._stops = threading.Event()

    def run(self):
        try:
            while not self._stops.is_set():
                self._add_one()
                self.acknowledged += 1
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def _add_one(self):
        def add(state):
            state["count"] += 1

        deadline = time.monotonic() + HANG_SECONDS
        while time.monotonic() < deadline:
            try:
                self._state.transact(add, patience_seconds=self._patience_seconds)
            except Unavailable:
                self.repeated += 1
            else:
                return
        raise TimeoutError("the server did not come back")

    def stop(self):
        self._stops.set()
        self.join(HANG_SECONDS)
        self._repo.close()
        if self.error is not None:
            raise self.error


def _has_more(counters, name, than):
    return lambda: (
        any(each.error for each in counters) or sum(getattr(each, name) for each in counters) > than
    )


@contextmanager
def counting(url, *, patience_seconds):
    """Run two counters; at the end the count is what they were told, no more and no less."""
    counters = [Counter(url, patience_seconds=patience_seconds) for _ in range(2)]
    for each in counters:
        each.start()
    yield counters
    for each in counters:
        each.stop()


def _check(place, counters):
    with otolith.open(place.url) as repo:
        state = repo.session("job")
        assert state["count"] == sum(each.acknowledged for each in counters)
        assert len([*state.log()]) == state["count"] + 1


def _progress(counters, name, by=0):
    before = sum(getattr(each, name) for each in counters)
    wait_until(_has_more(counters, name, before + by), name)


@pytest.mark.parametrize("patience_seconds", [0, 30])
def test_a_server_that_is_killed_during_transactions_counts_each_once(
    place, rounds, patience_seconds
):
    chance = random.Random(7)
    with counting(place.url, patience_seconds=patience_seconds) as counters:
        for _ in range(rounds(4, 20)):
            _progress(counters, "acknowledged", by=5)
            time.sleep(chance.random() * 0.01)  # so that it falls anywhere in a transaction
            place.restart()
        _progress(counters, "acknowledged")
    _check(place, counters)


@pytest.mark.parametrize("fault", ["lose replies", "stall"])
def test_a_network_that_loses_replies_to_transactions_counts_each_once(place, rounds, fault):
    with Proxy(place.server.port) as proxy:
        with counting(place.through(proxy), patience_seconds=0) as counters:
            for _ in range(rounds(5, 50)):
                _progress(counters, "acknowledged")
                proxy.fault = fault
                _progress(counters, "repeated")
                proxy.fault = "pass"
        assert sum(each.repeated for each in counters) >= 5
        _check(place, counters)


def _loses_replies_at_the_write(repo, proxy):
    """Let the proxy lose replies from the next write on: the commit lands, and nobody is told."""
    write = repo.store.write

    def write_and_lose(batch):
        repo.store.write = write
        proxy.fault = "lose replies"
        write(batch)

    repo.store.write = write_and_lose


def _add(state):
    state["count"] += 1
    return state["count"]


def test_a_transaction_outlasts_a_server_that_is_away_for_a_while(place):
    with Proxy(place.server.port) as proxy, otolith.open(place.through(proxy)) as repo:
        state = repo.session("job")
        _loses_replies_at_the_write(repo, proxy)
        back = threading.Timer(1.0, setattr, (proxy, "fault", "pass"))
        back.start()
        assert state.transact(_add) == 1
        back.join()
    with otolith.open(place.url) as repo:
        assert repo.session("job")["count"] == 1


def test_a_transaction_of_a_server_that_stays_away_says_what_is_known(place):
    with Proxy(place.server.port) as proxy, otolith.open(place.through(proxy)) as repo:
        state = repo.session("job")
        _loses_replies_at_the_write(repo, proxy)
        with pytest.raises(Unavailable, match="nobody knows whether it has landed") as caught:
            state.transact(_add, patience_seconds=0.5)
        with otolith.open(place.url) as other:
            landed = other.session("job").head
            assert other.session("job")["count"] == 1, "the reply was lost, not the commit"
        assert landed is not None
        assert landed.short in str(caught.value)
        assert "with the same function" in caught.value.hint
        proxy.fault = "pass"
        assert state.transact(_add) == 1
        assert state.head == landed
        assert state.transact(_add) == 2


def test_a_commit_of_a_server_that_stays_away_is_settled_by_the_next_one(place):
    with Proxy(place.server.port) as proxy, otolith.open(place.through(proxy)) as repo:
        state = repo.session("job")
        state.list("log").append("one")
        _loses_replies_at_the_write(repo, proxy)
        for _ in range(2):
            with pytest.raises(Unavailable, match=r"commit\(\) again finds out"):
                state.commit("one")
        proxy.fault = "pass"
        state.commit("one")
        assert state["log"] == ["one"]
        assert [commit.message for commit in state.log()] == ["one", "opened"]
