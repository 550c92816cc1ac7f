"""Transfers beside damage, other pushers, collections, lost replies and kills."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import otolith
from otolith.core import links
from otolith.errors import Corrupt, Diverged, Unavailable
from otolith.stores import Layer, MemoryStore, open_store
from otolith.testing import Fault, FaultyStore
from otolith.types import Hash
from tests.servers import postgres, redis

PUSHER = Path(__file__).with_name("pusher.py")


@pytest.fixture
def repo():
    with otolith.open("memory:", author="ann") as made:
        yield made


def grown(repo, session="trip", commits=3, keys=200):
    """Return a session with a state of several nodes, and some commits."""
    state = repo.session(session)
    for number in range(keys):
        state[f"key {number:04}"] = f"value {number}" * 5
    state.commit("filled")
    for number in range(commits):
        state["step"] = number
        state.commit(f"step {number}")
    return state


def check_copy(repo, target):
    """Check that a store has all branches of a repo, with all that they need."""
    names = [name for name in repo.store.refs() if name.startswith("session/")]
    assert {name: target.ref(name) for name in names} == {
        name: repo.store.ref(name) for name in names
    }
    assert otolith.care.verify(otolith.Repo(target), level="deep").ok


def copy_of(repo):
    """Return a copy of a repo."""
    store = MemoryStore()
    repo.clone(store)
    return otolith.Repo(store)


class Meanwhile(Layer):
    """A store in which something happens before certain batches, once for each."""

    def __init__(self, inner, note, happens, *, times=1):
        super().__init__(inner)
        self.note = note
        self.happens = happens
        self.left = times
        self.batches = []

    def write(self, batch):
        if self.left and batch.note == self.note:
            self.left -= 1
            self.happens()
        super().write(batch)
        self.batches.append(batch)


# -------------------- damage


@pytest.mark.parametrize("verb", ["pull", "fetch"])
def test_a_flipped_bit_in_the_source_does_not_arrive(repo, verb):
    grown(repo)
    whole = FaultyStore(repo.store)
    getattr(otolith.Repo(MemoryStore()), verb)(whole)
    reads = whole.calls["read"]
    assert reads > 3
    for number in range(1, reads + 1):
        store = MemoryStore()
        here = otolith.Repo(store)
        faulty = FaultyStore(repo.store, [Fault("read", at=number, kind="flip")])
        with suppress(Corrupt):  # if it was not read once more
            getattr(here, verb)(faulty)
        assert otolith.care.verify(otolith.Repo(store), level="deep").ok


def test_a_source_whose_every_answer_is_damaged_is_corrupt_and_moves_nothing(repo):
    grown(repo)
    target = MemoryStore()
    repo.push(target)
    here = otolith.Repo(target)
    grown(repo, "other", keys=5)
    refs, objects = target.refs(), target.usage().objects
    with pytest.raises(Corrupt, match="of the source has the wrong bytes"):
        here.fetch(FaultyStore(repo.store, [Fault("read", kind="flip")]))
    assert (target.refs(), target.usage().objects) == (refs, objects)


# -------------------- collections of the target


def test_every_batch_names_what_it_needs(repo):
    grown(repo, commits=600)
    target = Meanwhile(MemoryStore(), "", list, times=0)
    repo.push(target)
    sent: set[Hash] = set()
    for batch in target.batches:
        here = {item.hash for item in batch.objects}
        needed = {child for item in batch.objects for child in links(item.data)} - here
        assert needed == set(batch.needs) or batch.swaps
        assert needed <= sent
        assert {swap.new for swap in batch.swaps} - here <= set(batch.needs) | here
        sent |= here


@pytest.mark.parametrize("verb", ["push", "mirror", "clone"])
@pytest.mark.parametrize("at", range(1, 6))
def test_a_collection_of_the_target_drops_nothing_that_is_on_its_way(repo, verb, at):
    grown(repo, commits=600, keys=300)
    target = MemoryStore()
    calls = []

    def collect():
        calls.append(1)
        if len(calls) == at:
            target.collect(links)

    for note in ("", verb):
        calls.clear()
        getattr(repo, verb)(Meanwhile(target, note, collect, times=100))
        check_copy(repo, target)


@pytest.mark.parametrize("verb", ["push", "mirror", "clone"])
def test_a_collection_just_before_refs_move_makes_it_copy_again(repo, verb):
    grown(repo)
    target = MemoryStore()
    getattr(repo, verb)(Meanwhile(target, verb, lambda: target.collect(links)))
    check_copy(repo, target)


def test_a_collection_just_before_fetched_refs_move_makes_it_copy_again(repo):
    grown(repo)
    store = MemoryStore()
    here = otolith.Repo(Meanwhile(store, "fetch", lambda: store.collect(links)))
    otolith.care.fetch(here, repo.store, name="there")
    assert store.ref("remote/there/session/trip/main") == repo.store.ref("session/trip/main")
    assert otolith.care.verify(here, level="deep").ok


# -------------------- two at once


@pytest.mark.parametrize("verb", ["push", "mirror"])
def test_two_that_push_one_history_at_once_both_land(repo, verb):
    state = grown(repo)
    target = MemoryStore()
    repo.push(target)
    state["more"] = 1
    state.commit("more")
    bob = copy_of(repo)
    state["more"] = 2
    state.commit("and more")

    other = Meanwhile(target, verb, lambda: bob.push(target))
    getattr(repo, verb)(other)

    assert not other.left
    check_copy(repo, target)
    heads = [move.new for move in target.moves("session/trip/main")]
    assert heads[:2] == [repo.store.ref("session/trip/main"), bob.store.ref("session/trip/main")]


def test_a_push_that_another_one_has_overtaken_with_commits_of_its_own_is_refused(repo):
    state = grown(repo)
    target = MemoryStore()
    repo.push(target)
    bob = copy_of(repo)
    grown(bob, commits=1, keys=1)
    state["more"] = 1
    state.commit("more")

    with pytest.raises(Diverged):
        repo.push(Meanwhile(target, "push", lambda: bob.push(target)))
    assert target.ref("session/trip/main") == bob.store.ref("session/trip/main")


def test_two_that_fetch_at_once_both_land(repo):
    state = grown(repo)
    store = MemoryStore()
    first = otolith.Repo(store)
    otolith.care.fetch(first, repo.store, name="there")
    state["more"] = 1
    state.commit("more")
    old = otolith.Repo(MemoryStore())
    old.pull(repo.store)
    state["more"] = 2
    state.commit("and more")

    racing = Meanwhile(store, "fetch", lambda: otolith.care.fetch(first, old.store, name="there"))
    otolith.care.fetch(otolith.Repo(racing), repo.store, name="there")
    assert not racing.left
    assert store.ref("remote/there/session/trip/main") == repo.store.ref("session/trip/main")


# -------------------- lost replies


class LosesReply(Layer):
    """A store whose reply to one batch is lost; the batch lands, or does not."""

    def __init__(self, inner, note, *, lands):
        super().__init__(inner)
        self.note, self.lands = note, lands

    def write(self, batch):
        is_lost = self.note == batch.note
        if is_lost:
            self.note = None
        if not is_lost or self.lands:
            super().write(batch)
        if is_lost:
            raise Unavailable("the connection broke")


@pytest.mark.parametrize("verb", ["push", "mirror", "clone"])
def test_a_lost_reply_at_the_swap_is_found_out(repo, verb):
    grown(repo)
    target = MemoryStore()
    report = getattr(repo, verb)(LosesReply(target, verb, lands=True))
    assert [each.kind for each in report.refs if each.name.startswith("session/")] == ["new"]
    check_copy(repo, target)
    assert len(target.moves("session/trip/main")) == 1


@pytest.mark.parametrize("verb", ["push", "mirror", "clone"])
def test_a_swap_that_did_not_land_is_reported_and_can_be_repeated(repo, verb):
    grown(repo)
    target = MemoryStore()
    with pytest.raises(Unavailable):
        getattr(repo, verb)(LosesReply(target, verb, lands=False))
    assert target.ref("session/trip/main") is None
    assert getattr(repo, verb)(target).copied.objects == 0
    check_copy(repo, target)


# -------------------- kills


@pytest.fixture(params=["sqlite", "servers"])
def places(request, tmp_path):
    """The URLs of a source and a target."""
    if request.param == "sqlite":
        return str(tmp_path / "source.db"), str(tmp_path / "target.db")
    source = postgres.fresh(request.getfixturevalue("postgres_url"))
    return source, redis.fresh(request.getfixturevalue("redis_url"))


def test_a_push_whose_process_is_killed_continues_where_it_was(places):
    source, target = places
    with otolith.open(source, author="ann", durability="fast") as repo:
        grown(repo, commits=600, keys=300)
        command = [sys.executable, str(PUSHER), source, target]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            line = next(each for each in process.stdout if each.startswith("copy "))
            process.kill()
        assert process.returncode == -signal.SIGKILL
        assert line.split()[1] != line.split()[2]

        store = open_store(target)
        assert [name for name in store.refs() if name.startswith("session/")] == []
        arrived = store.usage().objects
        assert arrived > 300
        report = repo.push(target)
        assert report.copied.objects > 0
        assert report.copied.objects + arrived <= repo.store.usage().objects + 1
        check_copy(repo, store)
        store.close()
