"""Machines whose clocks differ by hours: nothing is lost, and leases and sessions last."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from time import sleep, time
from typing import Any

import pytest

import otolith
from otolith.care import verify
from tests.patience import HANG_SECONDS
from tests.servers import postgres, redis
from tests.servers.process import program, wait_until

MACHINE = Path(__file__).with_name("other_machine.py")
HOUR = 3600
LEASE_SECONDS = 600
SHIFTS = {"early": -HOUR, "exact": 0, "late": HOUR}


class OtherMachine:
    """A process with a clock of its own."""

    def __init__(self, url: str, shift_seconds: int) -> None:
        words = [sys.executable, str(MACHINE), url]
        if shift_seconds:
            shift = ["--exclude-monotonic", "-f", f"{shift_seconds:+d}s"]
            words = [program("faketime"), *shift, *words]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def begin(self, *words: object) -> None:
        """Let it do something."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """Return what the last thing has come to."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the machine has failed: see its standard error"
        return json.loads(line)

    def __call__(self, *words: object) -> Any:
        self.begin(*words)
        return self.answer()

    def end(self) -> None:
        self._process.communicate(timeout=HANG_SECONDS)  # which closes both pipes


@contextmanager
def machines(url: str) -> Iterator[dict[str, OtherMachine]]:
    """Start three machines, of which only one has the right time."""
    with ExitStack() as stack:
        found = {}
        for name, shift in SHIFTS.items():
            found[name] = OtherMachine(url, shift)
            stack.callback(found[name].end)
        yield found


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "postgres":
            return postgres.fresh(request.getfixturevalue("postgres_url"))
        case "redis":
            return redis.fresh(request.getfixturevalue("redis_url"))
        case "bucket":
            found: str = request.getfixturevalue("bucket_place").url()
            return found
        case "etcd":
            cluster = request.getfixturevalue("etcd_cluster")
            place: str = cluster.url(tmp_path / "objects.db")
            return place
    return str(tmp_path / "plain.db")


EVERY_STORE = pytest.mark.parametrize(
    "url", ["sqlite", "postgres", "redis", "bucket", "etcd"], indirect=True
)
WITH_LEASES = pytest.mark.parametrize("url", ["postgres", "redis", "etcd"], indirect=True)


@EVERY_STORE
def test_machines_that_write_and_collect_lose_nothing(url, rounds):
    count = rounds(6, 60)
    otolith.open(url).close()
    with machines(url) as others:
        for name, shift in SHIFTS.items():
            assert abs(others[name]("clock") - time() - shift) < HOUR / 2, "its clock is shifted"
        for name, other in others.items():
            other.begin("write", name, count)
        assert [other.answer() for other in others.values()] == [count] * len(others)
        assert all(other("verify") for other in others.values())
    with otolith.open(url) as repo:
        state = repo.session("job")
        assert state["total"] == len(state["log"]) == count * len(SHIFTS)
        for name in SHIFTS:
            assert state[f"own/{name}"] == count - 1
            assert [n for who, n in state["log"] if who == name] == list(range(count))
        commits = list(state.log())
        assert len({each.id for each in commits}) == len(commits)
        assert all(before.time > after.time for before, after in pairwise(commits))
        times = {each.id: each.time for each in commits}
        assert all(times[parent] < each.time for each in commits for parent in each.parents), (
            "no commit is older than what it is based on"
        )
        assert verify(repo, level="full").ok


@EVERY_STORE
def test_a_merge_is_the_same_on_every_machine(url):
    with otolith.open(url) as repo, machines(url) as others:
        state = repo.session("trip")
        state.policy("seat", "last-writer")
        state["seat"] = "none"
        state.commit("begun")
        for name in others:
            state.fork(name)
        for name, other in others.items():
            other("set", "trip", name, "seat", name)
            other("set", "trip", name, f"by/{name}", True)
        merged = []
        for order in (list(others), list(others)[::-1]):
            here = state.fork("-".join(order))
            for name in order:
                assert here.merge(name).ok
            merged.append(here.to_dict())
        assert merged[0] == merged[1]
        assert merged[0]["by"] == dict.fromkeys(others, True)
        assert merged[0]["seat"] == "late", "whose clock says that it was last"


@EVERY_STORE
def test_a_team_works_and_decides_on_machines_with_other_clocks(url, rounds):
    count = rounds(3, 30)
    with otolith.open(url) as repo:
        team = repo.team("research", member="exact")
        team.transact(lambda state: state.update(log=[]))
        for name in SHIFTS:
            team.add(name)
    with machines(url) as others:
        for name, other in others.items():
            other.begin("work", name, count)
        tokens = [token for other in others.values() for token in other.answer()]
        assert len({*tokens}) == count * len(SHIFTS), "no grant was given twice"
        for by in SHIFTS:
            proposed = others[by]("propose", by, by, "30m")
            statuses = [other("approve", name, proposed) for name, other in others.items()]
            assert statuses == ["open", "open", "landed"], "nobody is too late"
        assert others["early"]("verify")
    with otolith.open(url) as repo:
        state = repo.team("research").state
        assert sorted(state["log"]) == [[who, n] for who in sorted(SHIFTS) for n in range(count)]
        assert [state[name] for name in SHIFTS] == [1] * len(SHIFTS)


@WITH_LEASES
@pytest.mark.parametrize(("holder", "rival"), [("early", "late"), ("late", "early")])
def test_a_lease_is_honoured_by_a_machine_with_another_clock(url, holder, rival):
    otolith.open(url).close()
    with machines(url) as others:
        assert others[holder]("lease", "job", holder, LEASE_SECONDS)
        assert not others[rival]("lease", "job", rival, LEASE_SECONDS)
        assert not others["exact"]("lease", "job", "exact", LEASE_SECONDS)
        assert others[holder]("use", "job")
        others[holder]("release", "job")
        assert others[rival]("lease", "job", rival, LEASE_SECONDS)
        others[rival]("release", "job")
        assert others[holder]("lease", "job", holder, 2)
        wait_until(lambda: others[rival]("lease", "job", rival, LEASE_SECONDS), "the lease")
        assert others[rival]("use", "job")
        assert not others[holder]("use", "job"), "it ran out"


@pytest.mark.parametrize("url", ["redis"], indirect=True)
def test_a_session_expires_by_the_clock_of_the_server(url):
    with machines(url) as others:
        for name, other in others.items():
            other("set", name, "main", "a", 1)
            other("expire", name, LEASE_SECONDS)
        for other in others.values():
            other("prune")
            assert sorted(other("sessions")) == sorted(SHIFTS)
            assert [other("get", name, "a") for name in SHIFTS] == [1, 1, 1]
        for name, other in others.items():
            other("expire", name, 0.5)
        sleep(0.6)
        assert [other("sessions") for other in others.values()] == [[], [], []]
