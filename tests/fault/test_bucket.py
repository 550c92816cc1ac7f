"""A bucket that fails, stalls and loses replies, and writers that are killed: nothing is lost."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest

import otolith
from otolith.errors import Denied, Error, StaleRef, Unavailable
from otolith.stores import Batch, BucketStore, Object, Swap
from otolith.types import Hash
from tests.patience import HANG_SECONDS, seconds
from tests.reference.objects import blob, links, node, put
from tests.servers.bucket import (
    SECRET_KEY,
    BucketProxy,
    running_server,
)
from tests.servers.process import wait_until

WRITER = Path(__file__).parent / "writer.py"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def server(request):
    return request.getfixturevalue("bucket_server")


@pytest.fixture
def proxy(server):
    with BucketProxy(server.port) as found:
        yield found


@pytest.fixture
def url(server, proxy):
    """A store behind the proxy, which exists already."""
    prefix = server.url().partition("?")[0].rpartition("/")[2]
    BucketStore(server.url(prefix)).close()
    return server.url(prefix, port=proxy.port, timeout=1)


def direct(server, url):
    """Return the URL of the same store without the proxy."""
    return server.url(url.partition("?")[0].rpartition("/")[2])


def once(fate, applies):
    """Return a rule for the first request that a test applies to."""
    left = [fate]
    return lambda request: left.pop() if left and applies(request) else None


def count_to(store, number, start=0):
    """Count in steps of one, each step a write of its own."""
    for step in range(start, number):
        put(store, "main", blob(str(step)), time=step)


def chain(store):
    """Return the steps that the history of `main` tells, oldest first."""
    moves = store.moves("main")[::-1]
    found = store.read([move.new for move in moves])
    assert [move.old for move in moves[1:]] == [move.new for move in moves[:-1]]
    return [int(found[move.new]) for move in moves]


def test_answers_of_503_now_and_then_lose_and_double_nothing(proxy, url, rounds):
    chance = random.Random(1)
    proxy.rule = lambda _: 503 if chance.random() < 0.3 else None
    store = BucketStore(url)

    count_to(store, rounds(20, 200))

    assert chain(store) == list(range(rounds(20, 200)))
    store.close()


def test_a_bucket_that_only_answers_503_is_unavailable_and_recovers(proxy, url):
    store = BucketStore(url)
    count_to(store, 3)
    proxy.rule = lambda _: 503
    began = monotonic()

    with pytest.raises(Unavailable):
        count_to(store, 4, start=3)

    assert monotonic() - began < seconds(20)
    proxy.rule = lambda _: None
    assert chain(store) == [0, 1, 2]
    count_to(store, 4, start=3)
    assert chain(store) == [0, 1, 2, 3]
    store.close()


def test_a_bucket_that_stalls_is_unavailable_within_the_time_out(proxy, url):
    store = BucketStore(url)
    proxy.rule = lambda _: "stall"
    began = monotonic()

    with pytest.raises(Unavailable):
        store.ref("main")

    assert monotonic() - began < seconds(20)
    proxy.rule = lambda _: None
    assert store.ref("main") is None
    store.close()


def test_a_slow_bucket_only_takes_longer(proxy, url):
    proxy.delay_seconds = 0.2
    store = BucketStore(url)

    count_to(store, 3)

    assert chain(store) == [0, 1, 2]
    store.close()


def test_a_write_whose_reply_was_lost_has_landed_once(proxy, url):
    store = BucketStore(url)
    count_to(store, 2)
    proxy.rule = lambda request: "lose" if request.is_swap else None

    count_to(store, 4, start=2)

    assert chain(store) == [0, 1, 2, 3]
    store.close()


class LostReply:
    """A rule: one reply is lost, and a rival writes before the writer looks."""

    def __init__(self, rival, writes):
        self.rival = rival
        self.writes = writes
        self.lost = False

    def __call__(self, request):
        if request.is_swap and not self.lost:
            self.lost = True
            return "lose"
        if self.lost and request.method == "GET" and self.rival.ref("other") is None:
            for number in range(self.writes):
                put(self.rival, "other", blob(f"rival {number}"))
        return None


def test_a_lost_reply_is_told_from_a_conflict_also_when_others_built_on_it(server, proxy, url):
    store, rival = BucketStore(url), BucketStore(direct(server, url))
    count_to(store, 2)
    proxy.rule = LostReply(rival, writes=5)

    count_to(store, 3, start=2)

    assert chain(store) == [0, 1, 2]
    assert store.ref("other") == blob("rival 4").hash
    store.close()
    rival.close()


def test_a_lost_reply_behind_many_writes_of_others_is_not_guessed(server, proxy, url):
    store, rival = BucketStore(url), BucketStore(direct(server, url))
    count_to(store, 2)
    proxy.rule = LostReply(rival, writes=40)

    with pytest.raises(Unavailable):
        count_to(store, 3, start=2)

    assert chain(store) == [0, 1, 2]
    store.close()
    rival.close()


def test_a_writer_that_was_idle_while_others_wrote_much_just_writes(server):
    url = server.url()
    store, rival = BucketStore(url), BucketStore(url)
    count_to(rival, 40)

    store.write(Batch([blob("a")], [Swap("other", None, blob("a").hash)]))

    assert rival.ref("other") == blob("a").hash
    store.close()
    rival.close()


@pytest.mark.parametrize("status", [409, 429, 500, 503])
def test_a_put_that_was_turned_away_is_made_again(proxy, url, status):
    store = BucketStore(url)
    count_to(store, 2)
    proxy.rule = once(status, lambda request: request.is_swap)

    count_to(store, 3, start=2)

    assert chain(store) == [0, 1, 2]
    store.close()


def test_a_writer_killed_between_its_pack_and_the_root_leaves_only_garbage(server, proxy, url):
    program = (
        "import sys; from otolith.stores import *; from tests.reference.objects import *\n"
        "put(BucketStore(sys.argv[1]), 'main', blob(b'x' * 100_000))"
    )
    proxy.rule = lambda request: "stall" if request.is_swap else None
    with subprocess.Popen([sys.executable, "-c", program, url], cwd=ROOT) as process:
        wait_until(lambda: any(each.is_swap for each in proxy.requests), "the writer")
        process.send_signal(signal.SIGKILL)
    proxy.rule = lambda _: 503
    plain = direct(server, url)

    careful, prompt = BucketStore(plain), BucketStore(plain, grace_seconds=0)

    assert (careful.refs(), careful.usage().objects) == ({}, 0)
    careful.collect(links)
    assert _packs(careful) == 1  # it may belong to a writer that is still at work
    prompt.collect(links)
    assert _packs(prompt) == 0
    put(careful, "main", blob(b"x" * 100_000))
    assert careful.read([blob(b"x" * 100_000).hash])
    careful.close()
    prompt.close()


def _packs(store):
    return sum(each.key.startswith("pack-") for each in store._client.list_keys())


@pytest.mark.parametrize("writers", [2, 4])
def test_every_commit_of_several_processes_is_in_the_chain_once(server, writers, rounds):
    url, each = server.url(), rounds(8, 100)
    otolith.open(url).close()
    crowd = [_writer(url, f"w{number}", each) for number in range(writers)]

    said = [process.communicate(timeout=HANG_SECONDS)[0] for process in crowd]

    assert [process.returncode for process in crowd] == [0] * writers
    assert all(text.split() == [str(step + 1) for step in range(each)] for text in said)
    with otolith.open(url) as repo:
        state = repo.session("job")
        assert state["total"] == writers * each
        _check_events(state, {f"w{number}": each for number in range(writers)})


def test_writers_killed_anywhere_lose_and_double_nothing(server, rounds):
    url = server.url()
    otolith.open(url).close()
    chance = random.Random(2)
    acknowledged = 0
    for _ in range(rounds(4, 40)):
        with _writer(url, "w", 1000) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(chance.randint(1, 6))]
            process.kill()
            lines += process.stdout.readlines()
        acknowledged = max([acknowledged, *(int(line) for line in lines if line.endswith("\n"))])

    with otolith.open(url) as repo:
        state = repo.session("job")
        done = state["done/w"]
        assert acknowledged <= done <= acknowledged + 1
        assert state["total"] == done
        _check_events(state, {"w": done})


def _writer(url, name, limit):
    command = [sys.executable, str(WRITER), url, name, "full", str(limit)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _check_events(state, counts):
    events = [(event["who"], event["number"]) for event in state.list("events")]
    wanted = [(who, number + 1) for who, count in counts.items() for number in range(count)]
    assert sorted(events) == sorted(wanted)


def test_a_collection_beside_writers_of_another_process_drops_nothing_they_use(server, rounds):
    url = server.url()
    program = (
        "import sys; from otolith.stores import *; from tests.reference.objects import *\n"
        "store = BucketStore(sys.argv[1])\n"
        "for number in range(int(sys.argv[2])):\n"
        "    leaf = blob(f'leaf {number % 7}' * 20)\n"
        "    put(store, f'ref {number}', node(leaf, label=str(number)), leaf, blob(f'{number}'))\n"
        "    if number % 5 == 4:\n"
        "        for old in range(number - 4, number):\n"
        "            name = f'ref {old}'\n"
        "            store.write(Batch(swaps=[Swap(name, store.ref(name), None)]))\n"
    )
    store, count = BucketStore(url), rounds(30, 500)
    with subprocess.Popen([sys.executable, "-c", program, url, str(count)], cwd=ROOT) as process:
        while process.poll() is None:
            store.collect(links, forget_moves_before=1)

    assert process.returncode == 0
    tops = store.refs()
    assert len(tops) == count // 5
    for name in tops:
        number = int(name.split()[1])
        leaf = blob(f"leaf {number % 7}" * 20)
        top = node(leaf, label=str(number))
        assert store.read([top.hash, leaf.hash]).keys() == {top.hash, leaf.hash}
    store.close()


def append(store, name, count, chance):
    """Append to the chain of `main`; return what was acknowledged, and what may have landed."""
    acknowledged: list[Hash] = []
    unknown: list[Hash] = []
    while len(acknowledged) + len(unknown) < count:
        leaf = blob(chance.randbytes(chance.choice([10, 400, 2500, 4000])))
        with suppress(StaleRef):
            head = store.ref("main")
            assert head is not None
            new = node(Object(head, b""), leaf, label=name)
            try:
                swap = Swap("main", head, new.hash)
                store.write(Batch([leaf, new], [swap], needs=[head], time=1))
                acknowledged.append(new.hash)
            except Unavailable:
                unknown.append(new.hash)
    return acknowledged, unknown


def reached(store):
    """Return every object below `main`; all of them must be there."""
    todo, seen = [store.ref("main")], set()
    while todo:
        name = todo.pop()
        seen.add(name)
        todo += [link for link in links(store.read([name])[name]) if link not in seen]
    return seen


@pytest.mark.usefixtures("little_room")
def test_faults_writers_and_collections_together_lose_and_double_nothing(server, proxy, rounds):
    for seed in range(rounds(1, 40)):
        proxy.rule = lambda _: None
        prefix = f"together-{seed}"
        url = server.url(prefix, port=proxy.port, timeout=5)
        stores = [BucketStore(url, grace_seconds=0) for _ in range(4)]
        put(stores[0], "main", node(label="first"))

        acknowledged, unknown = _append_together(stores, proxy, seed)

        fresh = BucketStore(server.url(prefix), grace_seconds=0)
        moves = fresh.moves("main")[::-1]
        landed = [move.new for move in moves]
        assert [move.old for move in moves[1:]] == landed[:-1]
        assert len(set(landed)) == len(landed)
        assert acknowledged <= set(landed) <= acknowledged | unknown | {landed[0]}
        there = reached(fresh)
        fresh.collect(links)
        assert fresh.usage().objects == len(reached(fresh)) == len(there)
        _check_every_pack_is_named(fresh)
        for store in (*stores, fresh):
            store.close()


def _append_together(stores, proxy, seed):
    """Append in threads and collect beside them, while some requests and replies are lost."""
    chance = random.Random(seed)
    proxy.rule = lambda _: chance.choices([None, 503, "lose"], [94, 3, 3])[0]
    with ThreadPoolExecutor() as pool:
        work = [
            pool.submit(append, store, f"w{number}", 12, random.Random(f"{seed} {number}"))
            for number, store in enumerate(stores[1:])
        ]
        while not all(each.done() for each in work):
            with suppress(Unavailable):
                stores[0].collect(links)
    proxy.rule = lambda _: None
    done = [each.result() for each in work]
    return {name for some, _ in done for name in some}, {name for _, some in done for name in some}


def _check_every_pack_is_named(store):
    named = sum(run.stored_bytes for run in store._register.refresh().root.runs)
    stored = [each for each in store._client.list_keys() if each.key.startswith("pack-")]
    assert named == sum(each.size for each in stored)


def test_a_reader_with_an_old_root_starts_again_from_the_new_one(server):
    url = server.url()
    store, reader = BucketStore(url), BucketStore(url)
    objects = [blob(random.Random(number).randbytes(40_000)) for number in range(9)]
    put(store, "main", node(*objects), *objects[:1])
    reader.ref("main")
    for number in range(1, 9):  # eight packs are merged, and the old ones are removed
        store.write(Batch([objects[number]]))

    assert reader.read([objects[0].hash]) == {objects[0].hash: objects[0].data}
    store.close()
    reader.close()


def test_wrong_credentials_are_denied_and_not_shown(tmp_path, server):
    with (
        running_server(tmp_path, INITIAL_NO_AUTH_ACTION_COUNT="1") as strict,
        pytest.raises(Denied) as caught,
    ):
        BucketStore(strict.url())

    assert not _shows(caught.value, SECRET_KEY)


def test_no_error_of_a_failing_bucket_shows_a_secret(proxy, url):
    store = BucketStore(url)
    shown = []
    for fate in (403, 404, 500, 507):
        proxy.rule = lambda _, fate=fate: fate
        for call in (
            lambda: store.ref("main"),
            lambda: store.write(Batch(swaps=[Swap("main", None, blob("a").hash)])),
        ):
            with pytest.raises(Error) as caught:
                call()
            shown.append(caught.value)

    assert not any(_shows(error, SECRET_KEY) for error in shown)
    store.close()


def _shows(error, secret):
    seen = []
    while error is not None:
        seen.append(f"{error} {error!r} {vars(error)}")
        error = error.__cause__ or error.__context__
    return secret in " ".join(seen)
