"""Stores in buckets: what a root holds, how packs are made, found and merged, and bad places."""

from __future__ import annotations

import random
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from threading import Barrier, Thread

import msgspec
import pytest

import otolith
from otolith.errors import (
    Corrupt,
    Denied,
    FormatTooNew,
    Invalid,
    NotAStore,
    NotFound,
    QuotaExceeded,
    ReadOnly,
    StoreNotFound,
    Unavailable,
    Unsupported,
)
from otolith.stores import Batch, BucketStore, CollectionReport, Inventory, Swap, open_store
from otolith.stores.bucket import packs, upkeep
from otolith.stores.bucket.client import BucketClient
from otolith.stores.bucket.packs import PackBuilder, PackReader, pack_key
from otolith.stores.bucket.root import BucketRoot, encode_root
from otolith.types import Hash
from tests.patience import HANG_SECONDS
from tests.reference.objects import blob, links, node, put
from tests.servers.bucket import BUCKET, BucketProxy, Request


@pytest.fixture
def server(request):
    return request.getfixturevalue("bucket_server")


@pytest.fixture
def proxy(server):
    with BucketProxy(server.port) as found:
        yield found


@pytest.fixture
def store(server):
    with_everything = BucketStore(server.url())
    yield with_everything
    with_everything.close()


def noise(size, seed=0):
    return blob(random.Random(seed).randbytes(size))


@pytest.fixture
def behind(server):
    """The keys of a store, behind its back."""
    clients = []

    def open_client(url):
        clients.append(BucketClient(url))
        return clients[-1]

    yield open_client
    for client in clients:
        client.close()


def keys(store, start=""):
    return sorted(each.key for each in store._client.list_keys() if each.key.startswith(start))


def runs(store):
    return store._register.refresh().root.runs


# -------------------- how many requests


def test_a_small_commit_is_one_request(server, proxy):
    url = server.url(port=proxy.port)
    with otolith.open(url) as repo:
        state = repo.session("job")
        state["a"] = 0
        state.commit()
        proxy.reset()

        for number in range(1, 6):
            state["a"] = number
            state.commit()

    assert [(each.method, each.key) for each in proxy.requests] == [("PUT", "root")] * 5


def test_a_large_commit_is_packs_in_parallel_and_then_the_root(server, proxy):
    store = BucketStore(server.url(port=proxy.port))
    proxy.reset()
    proxy.delay_seconds = 0.05

    store.write(Batch([noise(30_000), noise(300_000, 1), noise(400_000, 2)]))

    assert [each.key[:5] for each in proxy.requests] == ["pack-", "pack-", "pack-", "root"]
    assert proxy.levels == 2
    store.close()


def test_threads_share_requests(server, proxy):
    store = BucketStore(server.url(port=proxy.port))
    proxy.reset()
    proxy.delay_seconds = 0.05
    barrier = Barrier(8)

    def write(number):
        barrier.wait()
        put(store, f"ref {number}", blob(str(number)))

    threads = [Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(each.is_swap for each in proxy.requests) < 8
    assert len(store.refs()) == 8
    store.close()


def test_an_unchanged_root_is_not_sent_again(server, proxy):
    store = BucketStore(server.url(port=proxy.port))
    put(store, "main", blob(b"x" * 10_000))
    proxy.reset()

    assert store.ref("main") == blob(b"x" * 10_000).hash
    assert (len(proxy.requests), proxy.received_bytes) == (1, 0)
    store.close()


def test_a_cold_read_is_the_root_then_the_index_then_the_frame(server, proxy):
    prefix = "cold"
    store = BucketStore(server.url(prefix))
    objects = [noise(1000, number) for number in range(2000)]
    store.write(Batch(objects))
    store.close()
    proxy.delay_seconds = 0.05
    cold = BucketStore(server.url(prefix, port=proxy.port), create=False)

    assert cold.read([objects[7].hash]) == {objects[7].hash: objects[7].data}
    assert proxy.levels == 3
    proxy.reset()
    assert cold.read([objects[8].hash, objects[7].hash])  # its neighbour came with it
    assert proxy.levels == 0
    assert cold.read([objects[1900].hash, objects[900].hash])
    assert proxy.levels == 1
    cold.close()


# -------------------- packs


class _Places:
    """Packs in memory, in place of a bucket; counts what is asked for."""

    name = "here"

    def __init__(self, values):
        self.values = {pack_key(name): value for name, value in values.items()}
        self.asked = 0

    def get_ranges(self, ranges):
        self.asked += sum(each.end - each.start for each in ranges)
        return {each: self.values[each.key][each.start : each.end] for each in ranges}


def _run(names):
    builder = PackBuilder()
    for name in names:
        builder.add(name, b"")
    run = builder.finish()
    return run, _Places(builder.packs)


def test_a_lookup_reads_a_small_part_of_a_large_index():
    names = [blob(str(number)).hash for number in range(60_000)]
    run, places = _run(names)

    for name in names[:50]:
        reader = PackReader(places)
        places.asked = 0
        assert reader.locate([run], [name], whole_bytes=0)[name].hash == name
        assert places.asked < run.pack_bytes / 20
    assert PackReader(places).locate([run], [blob("absent").hash], whole_bytes=0) == {}


def test_hashes_that_are_not_evenly_spread_are_found_all_the_same():
    names = [Hash(b"\x07" * 28 + number.to_bytes(4, "big")) for number in range(5000)]
    run, places = _run(names)
    wanted = [names[0], names[2500], names[-1]]

    found = PackReader(places).locate([run], [*wanted, blob("absent").hash], whole_bytes=0)

    assert sorted(found) == wanted
    assert PackReader(places).find([run], b"\x07\x07", 3) == names[:3]


def test_every_hash_is_found_by_itself_and_by_how_it_starts():
    names = sorted(blob(str(number)).hash for number in range(3000))
    run, places = _run(names)
    reader = PackReader(places)

    assert sorted(reader.locate([run], names, whole_bytes=0)) == names
    for name in names[::100]:
        wanted = [other for other in names if other.startswith(name[:2])][:16]
        assert PackReader(places).find([run], name[:2], 16) == wanted


def test_a_large_object_has_a_pack_of_its_own(store):
    large = noise(300_000)

    store.write(Batch([large, noise(30_000, 1)]))

    assert store.read([large.hash]) == {large.hash: large.data}
    assert len(keys(store, "pack-")) == 2


def test_versions_of_one_value_take_little_more_than_one(store):
    text = noise(3000).data
    store.write(Batch([blob(text + b"%d" % number) for number in range(20)]))

    assert store.usage().stored_bytes < 10_000


def test_many_packs_are_merged_and_the_old_ones_removed(store):
    objects = [noise(20_000, number) for number in range(70)]
    for item in objects:
        store.write(Batch([item]))

    assert len(runs(store)) < 16
    assert len(keys(store, "pack-")) == len(runs(store))
    found = store.read([item.hash for item in objects])
    assert found == {item.hash: item.data for item in objects}
    assert store.usage().objects == 70


def test_frames_beyond_the_size_of_a_pack_stay_where_they_are(store, monkeypatch):
    monkeypatch.setattr(upkeep, "PACK_BYTES", 50_000)
    objects = [noise(20_000, number) for number in range(64)]
    for item in objects:
        store.write(Batch([item]))

    sizes = {each.key: each.size for each in store._client.list_keys()}
    assert max(size for key, size in sizes.items() if key != "root") < 60_000
    assert store.read([item.hash for item in objects]).keys() == {item.hash for item in objects}
    named = sum(run.stored_bytes for run in runs(store))
    assert named == sum(size for key, size in sizes.items() if key.startswith("pack-"))


def test_what_the_root_holds_moves_into_a_pack_and_pages(store):
    for number in range(30):
        put(store, f"ref {number % 3}", noise(8000, number), time=number)

    root = store._register.refresh().root
    assert sum(map(len, root.recent_objects.values())) <= upkeep.RECENT_BYTES
    assert root.runs
    assert root.pages
    assert [move.time for move in store.moves("ref 0")] == list(range(27, -1, -3))
    assert store.usage().objects == 30


def test_it_tells_what_it_holds_without_reading_it(store):
    packed, recent = noise(30_000), blob("recent")
    store.write(Batch([packed]))
    store.write(Batch([recent]))

    assert isinstance(store, Inventory)
    assert store.holds([packed.hash, recent.hash, blob("absent").hash]) == {
        packed.hash,
        recent.hash,
    }


# -------------------- collection beside others


def test_garbage_that_a_new_commit_uses_is_rescued(server):
    url = server.url()
    store, rival = BucketStore(url), BucketStore(url)
    lost, junk = blob("lost"), blob("junk")
    put(store, "main", blob("a"), lost, junk)
    top = node(lost, label="new")

    def interrupt(phase, done, total):
        if phase == "sweep" and rival.ref("new") is None:
            rival.write(Batch([top], [Swap("new", None, top.hash)], needs=[lost.hash]))

    done = store.collect(links, progress=interrupt)

    assert done.dropped_objects == 1
    assert rival.read([top.hash, lost.hash, junk.hash]).keys() == {top.hash, lost.hash}
    assert store.usage().objects == 3
    store.close()
    rival.close()


def test_a_writer_that_relied_on_garbage_is_refused_or_writes_it_again(server):
    url = server.url()
    store, rival = BucketStore(url), BucketStore(url)
    lost = noise(20_000)
    put(store, "main", blob("a"), lost)
    rival.ref("main")
    store.collect(links)

    with pytest.raises(NotFound):
        rival.write(Batch([blob("b")], [Swap("b", None, blob("b").hash)], needs=[lost.hash]))
    put(rival, "c", node(lost), lost)

    assert store.read([lost.hash]) == {lost.hash: lost.data}
    store.close()
    rival.close()


def test_a_pack_that_a_collection_removed_before_it_was_named_is_uploaded_again(server, proxy):
    prefix = "slow-writer"
    url = server.url(prefix)
    collector = BucketStore(url, grace_seconds=0)
    writer = BucketStore(server.url(prefix, port=proxy.port))
    item = noise(30_000)
    collections: list[CollectionReport] = []

    def rule(request):
        if request.is_swap and not collections:
            collections.append(collector.collect(links))
            assert keys(collector, "pack-") == []

    proxy.rule = rule
    put(writer, "main", item)

    assert collections
    assert collector.read([item.hash]) == {item.hash: item.data}
    collector.close()
    writer.close()


def test_a_collection_that_others_were_faster_than_tries_again_with_two_requests(server, proxy):
    prefix = "busy-writers"
    collector = BucketStore(server.url(prefix, port=proxy.port), grace_seconds=0)
    writer = BucketStore(server.url(prefix))
    for number in range(9):
        put(writer, f"ref {number % 3}", blob(f"{number}"), time=number)
    swaps: list[int] = []  # how many requests had come before each

    def rule(request):
        if request.is_swap:
            swaps.append(len(proxy.requests))
            if 1 < len(swaps) < 6:  # the first moves recent refs into pages
                put(writer, "rival", node(blob(f"{len(swaps)}")), blob(f"{len(swaps)}"), time=9)

    proxy.rule = rule
    done = collector.collect(links, forget_moves_before=6)

    assert done.dropped_moves == 6
    # The root is read and swapped; before, "2" is copied, which is garbage until a rival uses it.
    assert [after - before for before, after in pairwise(swaps[1:])] == [3, 2, 2, 2]
    assert len(writer.moves("rival")) == 4
    assert len(writer.read([blob(str(number)).hash for number in (2, 3, 4, 5)])) == 4
    collector.close()
    writer.close()


def test_a_pack_without_garbage_stays_where_it_is(store):
    first, second = noise(30_000), noise(30_000, 1)
    put(store, "a", first)
    put(store, "b", second)
    before = set(keys(store, "pack-"))
    store.write(Batch(swaps=[Swap("b", second.hash, None)], time=1))

    store.collect(links, forget_moves_before=2)

    after = set(keys(store, "pack-"))
    assert len(before) == 2
    assert len(after & before) == 1
    assert store.read([first.hash, second.hash]).keys() == {first.hash}


# -------------------- damage is an error


@pytest.mark.parametrize("place", [0, 30_010])
def test_a_damaged_pack_is_corrupt(server, behind, place):
    url = server.url()
    store, item = BucketStore(url), noise(30_000)
    store.write(Batch([item]))
    (key,) = keys(store, "pack-")
    value = bytearray(behind(url).get(key)[0])
    value[place + 5] ^= 1
    behind(url).put_many({key: bytes(value)})
    again = BucketStore(url)

    with pytest.raises(Corrupt):
        again.read([item.hash])
    store.close()
    again.close()


def test_a_missing_pack_is_corrupt_not_an_absent_object(server, behind):
    url = server.url()
    store, item = BucketStore(url), noise(30_000)
    put(store, "main", item)
    behind(url).delete_many(keys(store, "pack-"))
    again = BucketStore(url)

    with pytest.raises(Corrupt):
        again.read([item.hash])
    with pytest.raises(Corrupt):
        put(again, "other", blob("a"))
    store.close()
    again.close()


def test_a_root_that_is_gone_is_not_an_empty_store(server, behind):
    url = server.url()
    store = BucketStore(url)
    put(store, "main", noise(30_000))
    behind(url).delete_many(["root"])

    with pytest.raises(StoreNotFound):
        store.ref("main")
    with pytest.raises(Corrupt):
        BucketStore(url)
    store.close()


def test_a_damaged_root_is_corrupt(server, behind):
    url = server.url()
    BucketStore(url).close()
    behind(url).put_many({"root": behind(url).get("root")[0][:-1] + b"?"})

    with pytest.raises(Corrupt):
        BucketStore(url)


# -------------------- bad places and bad URLs


def test_a_root_of_a_newer_version_is_too_new(server, behind):
    url = server.url()
    value = bytearray(encode_root(BucketRoot()))
    value[len(b"otolith-bucket")] = 2
    behind(url).put_many({"root": bytes(value)})

    with pytest.raises(FormatTooNew):
        BucketStore(url)


def test_something_else_is_not_a_store(server, behind):
    url = server.url()
    behind(url).put_many({"root": b"<html>"})

    with pytest.raises(NotAStore):
        BucketStore(url)
    assert behind(url).get("root")[0] == b"<html>"


def test_nothing_is_made_where_nothing_should_be(server, behind):
    url = server.url()
    with pytest.raises(StoreNotFound):
        BucketStore(url, create=False)
    with pytest.raises(StoreNotFound):
        BucketStore(url, read_only=True)
    assert behind(url).list_keys() == []


def test_a_missing_bucket_is_said_to_be_missing(server):
    with pytest.raises(StoreNotFound, match="no such bucket"):
        BucketStore(server.url().replace(BUCKET, "not-there"))


def test_an_unreachable_endpoint_is_unavailable(server):
    with pytest.raises(Unavailable):
        BucketStore(server.url(port=1, timeout=1))


def test_without_credentials_it_is_denied(server, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    with pytest.raises(Denied, match="no credentials"):
        BucketStore(server.url(timeout=1))


@pytest.mark.parametrize(
    ("url", "setting", "value"),
    [
        ("gs://bucket/a", "GOOGLE_APPLICATION_CREDENTIALS", "/missing.json"),
        ("gs://bucket/a", "GOOGLE_APPLICATION_CREDENTIALS", __file__),
        ("gs://bucket/a", "GOOGLE_SERVICE_ACCOUNT", "/missing.json"),
        ("az://bucket/a?account=x", "AZURE_STORAGE_ACCOUNT_KEY", "%%%"),
    ],
)
def test_broken_credentials_are_denied_with_the_setting_of_their_cloud(
    monkeypatch, url, setting, value
):
    monkeypatch.setenv(setting, value)
    with pytest.raises(Denied) as caught:
        open_store(url)
    assert ("GOOGLE_" if url.startswith("gs") else "AZURE_") in caught.value.hint


@pytest.mark.parametrize("header", ["if-match", "if-none-match"])
def test_a_bucket_that_ignores_conditions_is_refused(server, behind, proxy, header):
    proxy.dropped_headers = {header}

    with pytest.raises(Unsupported, match="overwrite each other"):
        BucketStore(server.url("unconditional", port=proxy.port))
    assert behind(server.url("unconditional")).list_keys() == []


@pytest.mark.parametrize("header", ["if-match", "if-none-match"])
def test_a_store_whose_bucket_ignores_conditions_by_now_is_not_written(server, proxy, header):
    url = server.url(f"once-conditional-{header}")
    with closing(BucketStore(url)) as made:
        root = made._register.newest().root
    proxy.dropped_headers = {header}

    with closing(BucketStore(url.replace(str(server.port), str(proxy.port)))) as store:
        assert store.refs() == {}
        with pytest.raises(Unsupported, match="overwrite each other"):
            put(store, "main", blob("a"))
        with pytest.raises(Unsupported, match="overwrite each other"):
            store.collect(links)
    with closing(BucketStore(url)) as store:
        assert store._register.refresh().root == root
        assert keys(store) == ["root"]


def test_conditions_are_tried_once_in_a_process_before_the_first_write(server, proxy):
    BucketStore(server.url("tried")).close()
    for text in "abc":
        with closing(BucketStore(server.url("tried", port=proxy.port))) as store:
            assert store.refs() == {} or text != "a"
            proxy.requests += [Request("-", "-", {}, b"")]
            put(store, "main", blob(text))
    kinds = ["probe" if each.key.startswith("probe-") else each.key for each in proxy.requests]
    assert kinds.count("probe") == 5
    assert "probe" not in kinds[: kinds.index("-")]


def test_doctor_tries_the_conditions_of_a_bucket(server, proxy):
    name = "doctored"
    BucketStore(server.url(name)).close()
    with closing(BucketStore(server.url(name, port=proxy.port))) as store:
        assert len(store.server_facts().risks) == 1
        proxy.dropped_headers = {"if-none-match"}
        assert "overwrite each other" in store.server_facts().risks[0].problem


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3:///prefix",
        "s3://bucket/prefix?colour=red",
        "s3://bucket/prefix?timeout=soon",
        "s3://bucket/prefix?timeout=0",
        "s3://bucket/a//b",
        "s3://bucket/a?region=x&region=y",
        "s3://key:secret@bucket/prefix",
        "gs://bucket?region=x",
        "az://container/prefix?region=x",
        "az://container/prefix",
    ],
)
def test_a_bad_url_is_invalid(server, url):
    with pytest.raises(Invalid) as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("bad", [{"durability": "never"}, {"grace_seconds": -1}, {"colour": 1}])
def test_a_bad_option_is_invalid(server, bad):
    with pytest.raises(Invalid):
        open_store(server.url(), **bad)


def test_a_read_only_store_is_read_but_not_written(server):
    url = server.url()
    store = BucketStore(url)
    put(store, "main", blob("a"))
    reader = BucketStore(url, read_only=True)

    assert reader.ref("main") == blob("a").hash
    with pytest.raises(ReadOnly):
        reader.write(Batch([blob("b")]))
    with pytest.raises(ReadOnly):
        reader.collect(links)
    store.close()
    reader.close()


def test_a_full_store_refuses_more(server):
    store = BucketStore(server.url(), limit_bytes=50_000)
    put(store, "main", noise(30_000))

    with pytest.raises(QuotaExceeded):
        put(store, "main", noise(30_000, 1))
    assert store.usage().objects == 1
    store.close()


def test_a_fork_of_a_process_with_a_bucket_is_refused_not_hung(server):
    program = (
        "import os, sys; from otolith.stores import BucketStore; from otolith.errors import *\n"
        "store = BucketStore(sys.argv[1])\n"
        "if os.fork() == 0:\n"
        "    try: store.ref('main')\n"
        "    except Unsupported as error: print('refused', flush=True)\n"
        "    os._exit(0)\n"
        "os.wait(); store.ref('main')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, server.url()],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=True,
    )
    assert done.stdout == "refused\n"


def test_no_client_is_imported_before_its_url_is_opened():
    program = "import sys, otolith; sys.exit('obstore' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_root_reads_back_as_it_was_written():
    root = msgspec.structs.replace(BucketRoot().stamped(), recent_objects={blob("a").hash: b"a"})
    assert root.number == 1
    assert len(encode_root(root)) < 200
    assert packs.FRAME_BYTES < packs.LARGE_BYTES
