"""The Redis store: addresses, formats, leases, news, collections of several processes, a cache."""

from __future__ import annotations

import subprocess
import sys
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count

import pytest

import otolith
from otolith.care import prune, verify
from otolith.errors import (
    Busy,
    Closed,
    Corrupt,
    Denied,
    Fenced,
    FormatTooNew,
    Full,
    Invalid,
    NotAStore,
    NotFound,
    QuotaExceeded,
    ReadOnly,
    StoreNotFound,
    Unavailable,
    Unsupported,
)
from otolith.stores import Batch, FailoverWarning, Move, RedisCache, RedisStore, Swap, open_store
from otolith.stores.redis import gc, scripts
from otolith.stores.redis.client import Client, RedisAddress
from otolith.testing import blob, links, node, put
from tests.patience import HANG_SECONDS
from tests.servers.process import free_port, program
from tests.servers.proxy import Proxy
from tests.servers.redis import fresh, redis_server


@pytest.fixture
def url(redis_url):
    return fresh(redis_url)


@pytest.fixture
def store(url):
    store = RedisStore(url)
    yield store
    store.close()


@pytest.fixture
def client(store):
    """A client of the same keys, to look at them and to change them behind the store's back."""
    client = Client(RedisAddress.of(store.url))
    yield client
    client.close()


# ---------------------------------------------------------------- addresses


def test_a_url_is_opened_by_its_scheme(url):
    with closing(open_store(url)) as store:
        assert isinstance(store, RedisStore)


@pytest.mark.parametrize(
    "wrong",
    [
        "redis://localhost/0?colour=red",
        "redis://localhost/main",
        "redis://localhost:port/0",
        "redis://localhost/0?prefix=",
        "redis://localhost/0?prefix={a}",
        "redis://localhost/0?timeout=soon",
        "redis://localhost/0?timeout=0",
        "redis://localhost/0?failover=refused",
        "redis://localhost/0?prefix=a&prefix=b",
    ],
)
def test_a_url_with_a_meaningless_part_is_refused(wrong):
    with pytest.raises(Invalid):
        RedisStore(wrong)


def test_an_address_has_all_parts_of_a_url():
    found = RedisAddress.of("rediss://me:s%40crt@db.example:7000/3?prefix=agents&timeout=2.5")
    assert found.arguments["host"] == "db.example"
    assert (found.arguments["port"], found.arguments["db"]) == (7000, 3)
    assert (found.arguments["username"], found.arguments["password"]) == ("me", "s@crt")
    assert (found.prefix, found.timeout_seconds, found.is_tls) == ("agents", 2.5, True)
    assert "s@crt" not in found.shown
    assert "s%40crt" not in found.shown


def test_a_unix_socket_is_a_server_too(tmp_path):
    path = tmp_path / "redis.sock"
    with redis_server(tmp_path / "data", unixsocket=path) as server:
        with closing(RedisStore(f"redis:///0?socket={path}&failover=accepted")) as store:
            put(store, "main", blob("a"))
        with closing(RedisStore(server.url)) as store:
            assert store.ref("main") == blob("a").hash


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A key and a certificate of localhost that signs itself."""
    folder = tmp_path_factory.mktemp("tls")
    key, made = folder / "key.pem", folder / "cert.pem"
    words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    extra = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", made]
    subprocess.run([program("openssl"), *words.split(), *extra], check=True, capture_output=True)
    return key, made


def test_a_server_with_tls_proves_who_it_is(tmp_path, certificate):
    key, made = certificate
    port = free_port()
    options = {"tls_cert_file": made, "tls_key_file": key, "tls_auth_clients": "no"}
    with redis_server(tmp_path, tls_port=port, **options):
        url = f"rediss://localhost:{port}/0?failover=accepted"
        with closing(RedisStore(f"{url}&ssl_ca_certs={made}")) as store:
            put(store, "main", blob("a"))
            assert store.ref("main") == blob("a").hash
        with pytest.raises(Denied, match="certificate"):
            RedisStore(url)


def test_two_prefixes_and_two_databases_are_separate_stores(redis_url):
    one, other = RedisStore(fresh(redis_url)), RedisStore(fresh(redis_url))
    third = RedisStore(one.url.replace("/0?", "/1?"))
    put(one, "main", blob("a"))
    assert other.refs() == third.refs() == {}
    assert other.usage().objects == third.usage().objects == 0


# ---------------------------------------------------------------- opening


def test_opening_warns_of_what_a_failover_can_lose(url):
    warned = url.replace("failover=accepted&", "")
    with pytest.warns(FailoverWarning, match="failover can lose commits"):
        RedisStore(warned).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RedisStore(url).close()


def test_a_store_that_must_exist_is_not_made(url):
    with pytest.raises(StoreNotFound):
        RedisStore(url, create=False)
    with pytest.raises(StoreNotFound):
        RedisStore(url, read_only=True)
    RedisStore(url).close()
    RedisStore(url, create=False).close()


def test_a_read_only_handle_reads_and_refuses_to_write(store):
    put(store, "main", blob("a"))
    reader = RedisStore(store.url, read_only=True)
    assert reader.ref("main") == blob("a").hash
    for write in (
        lambda: reader.write(Batch(objects=[blob("b")])),
        lambda: reader.collect(links),
        lambda: reader.lease("job", "me", ttl_seconds=1),
        lambda: reader.expire("session/", 1, links=links),
    ):
        with pytest.raises(ReadOnly):
            write()


def test_a_newer_format_is_refused(store, client):
    client.call("HSET", client.key("meta"), "otolith", scripts.FORMAT + 1)
    with pytest.raises(FormatTooNew):
        RedisStore(store.url)


@pytest.mark.parametrize(
    "command",
    [("SET", "meta", "x"), ("HSET", "meta", "a", "b"), ("SET", "refs", "x"), ("LPUSH", "index", 1)],
)
def test_keys_of_somebody_else_are_refused_and_left_alone(url, command):
    client = Client(RedisAddress.of(url))
    client.call(command[0], client.key(command[1]), *command[2:])
    with pytest.raises(NotAStore):
        RedisStore(url)
    assert client.call("EXISTS", client.key("meta"), client.key(command[1])) in (1, 2)
    assert client.call("HEXISTS", client.key("names"), "x") == 0


@pytest.mark.parametrize("prefix", ["app", "a*[b]?c"])
def test_a_prefix_that_somebody_else_uses_is_refused_though_no_key_clashes(redis_url, prefix):
    url = f"{fresh(redis_url)}{prefix}"
    client = Client(RedisAddress.of(url))
    client.call("SET", client.key("users"), "1")
    with pytest.raises(NotAStore, match="other keys"):
        RedisStore(url)
    assert client.call("EXISTS", client.key("meta")) == 0
    client.call("DEL", client.key("users"))
    RedisStore(url).close()


def test_a_cache_of_the_same_prefix_is_not_somebody_else(url):
    cache = RedisCache(url)
    cache.put_many({blob("a").hash: b"a"})
    assert cache.errors == 0
    RedisStore(url).close()


def test_keys_of_others_below_the_prefix_are_reported(store, client):
    assert not any("keys of others" in risk.problem for risk in store.server_facts().risks)
    put(store, "main", blob("a"))
    assert store.lease("job", "me", ttl_seconds=60)
    store.expire("session/", 60, links=links)
    store.collect(links)
    assert not any("keys of others" in risk.problem for risk in store.server_facts().risks)
    client.call("SET", client.key("users"), "1")
    assert "users" in store.server_facts().risks[-1].problem


def test_two_processes_that_make_a_store_at_once_get_one(url):
    with ThreadPoolExecutor(8) as threads:
        stores = list(threads.map(lambda _: RedisStore(url), range(8)))
    put(stores[0], "main", blob("a"))
    assert {store.ref("main") for store in stores} == {blob("a").hash}


def test_a_database_that_the_server_does_not_have_is_named(redis_url):
    with pytest.raises(Invalid, match="no database 99") as caught:
        RedisStore(redis_url.replace("/0?", "/99?"))
    assert "/0" in caught.value.hint


def test_a_host_that_nobody_knows_is_named():
    with pytest.raises(Unavailable) as caught:
        RedisStore("redis://no-such-host.invalid/0")
    assert "name of the host" in caught.value.hint


def test_a_server_that_evicts_any_key_is_refused(tmp_path):
    with redis_server(tmp_path, maxmemory="50mb", maxmemory_policy="allkeys-lru") as server:
        with pytest.raises(Unsupported, match="noeviction"):
            RedisStore(server.url)
        cache = RedisCache(server.url)
        cache.put_many({blob("a").hash: b"a"})
        assert cache.get_many([blob("a").hash]) == {blob("a").hash: b"a"}


@pytest.mark.parametrize(
    ("sync", "durability", "durable"),
    [("always", "full", True), ("everysec", "full", False), ("everysec", "fast", True)],
)
def test_it_is_durable_if_the_server_syncs_often_enough(tmp_path, sync, durability, durable):
    with redis_server(tmp_path, appendonly="yes", appendfsync=sync) as server:
        store = RedisStore(server.url, durability=durability)
        assert store.capabilities.durable is durable


def test_it_is_not_durable_if_the_server_does_not_tell(tmp_path):
    with redis_server(tmp_path, appendonly="yes", appendfsync="always") as server:
        server.tell("ACL SETUSER plain on >word ~* &* +@all -config -info")
        store = RedisStore(server.url.replace("//", "//plain:word@"))
        assert not store.capabilities.durable
        put(store, "main", blob("a"))


# ---------------------------------------------------------------- secrets


def test_no_password_is_shown_anywhere(tmp_path, capsys):
    secret = "hunter2+sesame"
    with redis_server(tmp_path, requirepass="other") as server:
        wrong = server.url.replace("//", f"//:{secret}@")
        with pytest.raises(otolith.Denied) as caught:
            RedisStore(wrong)
    with pytest.raises(Unavailable) as gone:
        RedisStore(wrong)
    for error in (caught.value, gone.value):
        text = "".join(traceback.format_exception(error))
        assert secret not in text
        assert secret not in f"{error!r} {error.hint}"
        assert error.__cause__ is None
    assert secret not in repr(RedisCache(wrong))
    assert secret not in "".join(capsys.readouterr())


# ---------------------------------------------------------------- writing


def test_a_commit_is_one_round_trip(redis_url):
    port = int(redis_url.split(":")[2].partition("/")[0])
    with Proxy(port) as proxy:
        repo = otolith.open(fresh(redis_url.replace(f":{port}", f":{proxy.port}")))
        state = repo.session("s")
        state["a"] = 1
        state.commit("first")
        before = proxy.round_trips
        for number in range(10):
            state["a"] = number + 2
            state.commit("more")
        assert proxy.round_trips - before == 10
        repo.close()


def test_a_large_batch_lands_whole_and_leaves_nothing_pending(store, client):
    items = [blob(b"%d" % number + bytes(70_000)) for number in range(300)]
    store.write(Batch(objects=items, swaps=[Swap("main", None, items[0].hash)]))
    assert len(store.read([item.hash for item in items])) == 300
    assert store.usage().stored_bytes == sum(len(item.data) for item in items)
    assert client.call("TTL", client.key(b"object:" + items[5].hash)) == -1
    assert _keys(client, "pending:*") == []
    store.write(Batch(objects=items))  # they are there already
    assert _keys(client, "pending:*") == []


def test_a_large_batch_that_is_refused_shows_nothing_and_is_dropped_later(store, client):
    items = [blob(b"%d" % number) for number in range(1500)]
    with pytest.raises(otolith.StaleRef):
        store.write(Batch(objects=items, swaps=[Swap("main", items[0].hash, None)]))
    assert store.read([item.hash for item in items]) == {}
    assert store.usage().objects == 0
    pending = _keys(client, "pending:*")
    assert len(pending) == 1500
    assert 0 < client.call("TTL", pending[0]) <= 3600


def test_a_large_batch_whose_parts_were_dropped_is_sent_again(store, client, monkeypatch):
    items = [blob(b"%d" % number) for number in range(1500)]
    send, times = RedisStore._send_ahead, count(1)

    def forgetful(self, pending, objects):
        send(self, pending, objects)
        if next(times) == 1:
            client.call("DEL", pending + items[700].hash)

    monkeypatch.setattr(RedisStore, "_send_ahead", forgetful)
    store.write(Batch(objects=items))
    assert next(times) == 3
    assert store.usage().objects == 1500


def test_a_quota_counts_new_objects_only(url):
    store = RedisStore(url, limit_bytes=100)
    store.write(Batch(objects=[blob(b"a" * 60)]))
    store.write(Batch(objects=[blob(b"a" * 60), blob(b"b" * 40)]))
    with pytest.raises(QuotaExceeded):
        store.write(Batch(objects=[blob(b"c")], swaps=[Swap("main", None, blob(b"c").hash)]))
    assert (store.usage().objects, store.usage().limit_bytes) == (2, 100)
    assert store.ref("main") is None


def test_a_name_that_cannot_be_sent_is_refused(store):
    for call in (store.ref, store.refs, store.moves):
        with pytest.raises(Invalid):
            call("\ud800")


def test_tokens_of_63_bits_are_compared_exactly(store):
    high = (1 << 63) - 1
    store.write(Batch(fences={"job": high - 1}))
    store.write(Batch(fences={"job": high}))
    with pytest.raises(Fenced):
        store.write(Batch(fences={"job": high - 1}))
    with pytest.raises(Fenced):
        store.write(Batch(fences={"job": 9}))


def test_a_server_that_forgot_its_scripts_is_sent_them_again(store, client):
    put(store, "main", blob("a"))
    client.call("SCRIPT", "FLUSH")
    put(store, "main", blob("b"))
    assert store.ref("main") == blob("b").hash


def test_bytes_that_were_changed_are_corrupt(store, client):
    put(store, "main", blob("a"))
    client.call("SET", client.key(b"object:" + blob("a").hash), "b")
    with pytest.raises(Corrupt):
        store.read([blob("a").hash])
    with pytest.raises(Corrupt):
        store.collect(links)
    client.call("RPUSH", client.key("moves:main"), b"\x03short")
    with pytest.raises(Corrupt):
        store.moves("main")


def test_what_is_there_is_told_without_sending_it(store):
    store.write(Batch(objects=[blob("a"), blob("b")]))
    assert store.holds([blob("a").hash, blob("c").hash, blob("b").hash]) == {
        blob("a").hash,
        blob("b").hash,
    }
    assert store.holds([]) == set()


def _keys(client, pattern):
    """Return all keys of a store that match."""
    found, at = [], b"0"
    glob = client.key(pattern).replace(b"[", b"\\[")
    while True:
        at, some = client.call("SCAN", at, "MATCH", glob, "COUNT", 1000)
        found += some
        if at == b"0":
            return found


# ---------------------------------------------------------------- leases


def test_a_lease_is_held_by_one_and_renewed_by_its_holder(store):
    first = store.lease("job", "a", ttl_seconds=30)
    assert store.lease("job", "b", ttl_seconds=30) is None
    again = store.lease("job", "a", ttl_seconds=60)
    assert again.token == first.token
    assert again.expires > first.expires
    assert abs(first.expires / 1e6 - time.time() - 30) < 20
    assert store.lease("other", "b", ttl_seconds=30) is not None


def test_a_lease_that_was_given_back_is_free_and_its_token_ends(store):
    first = store.lease("job", "a", ttl_seconds=30)
    store.write(Batch(objects=[blob("a")], fences={"job": first.token}))
    store.release(first)
    with pytest.raises(Fenced):
        store.write(Batch(objects=[blob("b")], fences={"job": first.token}))
    second = store.lease("job", "b", ttl_seconds=30)
    assert second.token > first.token
    store.release(first)  # it was lost; nothing happens
    assert store.lease("job", "c", ttl_seconds=30) is None


def test_a_lease_that_has_run_out_is_fenced_and_acquired_anew(store):
    first = store.lease("job", "a", ttl_seconds=0.01)
    time.sleep(0.05)  # the clock of the server has to pass
    with pytest.raises(Fenced, match="run out"):
        store.write(Batch(objects=[blob("a")], fences={"job": first.token}))
    assert store.read([blob("a").hash]) == {}
    again = store.lease("job", "a", ttl_seconds=30)
    assert again.token > first.token
    store.write(Batch(objects=[blob("a")], fences={"job": again.token}))
    with pytest.raises(Fenced):
        store.write(Batch(fences={"job": first.token}))


@pytest.mark.parametrize(("name", "ttl"), [("", 1), ("job", 0), ("job", -1), ("job", float("nan"))])
def test_a_lease_needs_a_name_and_a_time(store, name, ttl):
    with pytest.raises(Invalid):
        store.lease(name, "a", ttl_seconds=ttl)


# ---------------------------------------------------------------- news


def test_a_subscription_hears_of_refs_that_moved(store):
    news = store.subscribe("session/")
    put(store, "tag/x", blob("a"))
    put(store, "session/ü/main", blob("a"))
    assert news.wait(HANG_SECONDS) == {"session/ü/main"}
    assert news.wait(0) == set()
    other = RedisStore(store.url)
    swaps = [Swap(name, None, blob("a").hash) for name in ("session/x", "session/y", "user/z")]
    other.write(Batch(swaps=swaps))
    assert news.wait(HANG_SECONDS) == {"session/x", "session/y"}
    news.close()
    news.close()
    with pytest.raises(Closed):
        news.wait(0)


def test_a_check_that_moves_nothing_is_not_news(store):
    put(store, "main", blob("a"))
    news = store.subscribe()
    store.write(Batch(swaps=[Swap("main", blob("a").hash, blob("a").hash)]))
    assert news.wait(0.05) == set()


def test_a_subscription_that_lost_its_connection_reports_everything(redis_url):
    port = int(redis_url.split(":")[2].partition("/")[0])
    with Proxy(port) as proxy:
        store = RedisStore(fresh(redis_url))
        watcher = RedisStore(store.url.replace(f":{port}", f":{proxy.port}"))
        put(store, "a", blob("a"))
        put(store, "b", blob("a"))
        news = watcher.subscribe()
        proxy.cut()
        store.write(Batch(swaps=[Swap("a", blob("a").hash, None)]))
        assert news.wait(HANG_SECONDS) == {"a", "b"}
        put(store, "c", blob("a"))
        assert news.wait(HANG_SECONDS) == {"c"}
        proxy.fault = "refuse"
        proxy.cut()
        with pytest.raises(Unavailable):
            news.wait(0.3)
        proxy.fault = "pass"
        assert news.wait(HANG_SECONDS) == {"a", "b", "c"}


# ---------------------------------------------------------------- collections


class _Interrupt(Exception):
    pass


def _interrupted(store, phase):
    """Collect until a phase begins; then stop as a process that was killed, without cleaning up."""

    def stop(name, done, total):
        if name == phase:
            raise _Interrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc.RedisCollector, "_yield_claim", lambda self: None)
        with pytest.raises(_Interrupt):
            store.collect(links, progress=stop)


def _let_the_claim_run_out(client):
    client.call("DEL", client.key("gc"))


@pytest.mark.parametrize("phase", ["mark", "sweep"])
def test_a_collector_that_died_is_taken_over(store, client, phase, monkeypatch):
    monkeypatch.setattr(gc, "_TOGETHER", 3)
    lost = [blob(f"lost {number}") for number in range(10)]
    put(store, "main", node(blob("leaf")), blob("leaf"), *lost)
    _interrupted(store, phase)
    assert client.call("EXISTS", client.key("gc")) == 1
    _let_the_claim_run_out(client)
    store.collect(links)
    assert store.usage().objects == 2
    assert store.usage().stored_bytes == len(node(blob("leaf")).data) + len(blob("leaf").data)
    for key in ("gc", "young", "building", "doomed"):
        assert client.call("EXISTS", client.key(key)) == 0


def test_a_collector_that_stood_still_too_long_does_nothing_more(store, client):
    put(store, "main", blob("a"), blob("lost"))

    def stall(phase, done, total):
        _let_the_claim_run_out(client)

    with pytest.raises(Busy):
        store.collect(links, progress=stall)
    assert store.usage().objects == 2


def test_what_is_doomed_satisfies_no_need_and_can_be_written_again(store, client, monkeypatch):
    monkeypatch.setattr(gc, "_TOGETHER", 3)
    lost = [blob(f"lost {number}") for number in range(10)]
    put(store, "main", blob("a"), *lost)
    _interrupted(store, "sweep")
    (left, *_) = client.call("SMEMBERS", client.key("doomed"))
    assert store.holds([left]) == set()
    with pytest.raises(NotFound):
        store.write(Batch(swaps=[Swap("other", None, left)], needs=[left]))
    again = next(item for item in lost if item.hash == left)
    put(store, "other", again)
    store.write(Batch(needs=[left]))
    _let_the_claim_run_out(client)
    store.collect(links)
    assert store.read([left]) == {left: again.data}
    assert store.usage().objects == 2


def test_an_object_that_is_needed_while_marking_stays_with_all_below_it(store):
    leaf = blob("leaf")
    top = node(leaf)
    put(store, "main", blob("a"), leaf, top)
    writer = RedisStore(store.url)

    def need(phase, done, total):
        if phase == "mark" and writer.ref("other") is None:
            writer.write(Batch(swaps=[Swap("other", None, top.hash)], needs=[top.hash]))

    store.collect(links, progress=need)
    assert store.read([top.hash, leaf.hash]).keys() == {top.hash, leaf.hash}


@pytest.mark.parametrize("moment", ["SADD", "SREM"])  # the second is just before the end
def test_what_is_written_again_after_marking_stays_with_all_below_it(store, monkeypatch, moment):
    leaf = blob("leaf")
    top = node(leaf)
    put(store, "main", blob("a"), leaf, top)
    writer, condemn = RedisStore(store.url), gc.RedisCollector._change_building

    def write_first(self, command, hashes):
        condemn(self, command, hashes)
        if command == moment and writer.ref("other") is None:
            put(writer, "other", top, leaf)

    monkeypatch.setattr(gc.RedisCollector, "_change_building", write_first)
    assert store.collect(links).dropped_objects == 0
    assert store.read([top.hash, leaf.hash]).keys() == {top.hash, leaf.hash}


def test_a_dry_run_counts_the_same_bytes(store):
    put(store, "main", blob("a"), blob("lost"), blob("more" * 100))
    dry, done = store.collect(links, dry_run=True), store.collect(links)
    assert dry.freed_bytes == done.freed_bytes == 404
    assert dry.dropped_objects == done.dropped_objects == 2


def test_erasing_says_where_bytes_may_still_be(store):
    put(store, "main", blob("a"), blob("lost"))
    report = store.collect(links, erase=True)
    assert not report.erased
    assert "append-only file" in report.residue


WRITE = """
import sys, otolith
repo = otolith.open(sys.argv[1])
state = repo.session(sys.argv[2])
for number in range(int(sys.argv[3])):
    state["same"] = "x" * 300 + str(number % 5)
    state["n"] = number
    state.commit()
    if number % 3 == 2:
        try:
            state.undo()
        except otolith.NotFound:  # the history was forgotten
            continue
        state["n"] = number
        state.commit()
repo.close()
"""


def test_processes_that_write_lose_nothing_to_a_collection_beside_them(url, rounds):
    each = rounds(40, 2_000)
    repo = otolith.open(url)
    command = [sys.executable, "-c", WRITE, url]
    writers = [subprocess.Popen([*command, f"s{number}", str(each)]) for number in range(2)]
    collections = 0
    while any(process.poll() is None for process in writers):
        prune(repo, expire_seconds=0)
        collections += 1
    assert [process.wait(timeout=HANG_SECONDS) for process in writers] == [0, 0]
    assert collections > 1
    assert verify(repo, level="deep").ok
    assert [repo.session(f"s{number}")["n"] for number in range(2)] == [each - 1] * 2
    prune(repo, expire_seconds=0)
    assert verify(repo, level="deep").ok
    repo.close()


# ---------------------------------------------------------------- a cache


def test_a_cache_returns_what_was_put_and_counts(redis_url):
    cache = RedisCache(fresh(redis_url), ttl_seconds=60)
    a, b = blob("a"), blob("")
    cache.put_many({a.hash: a.data, b.hash: b.data})
    assert cache.get_many([a.hash, b.hash, blob("c").hash]) == {a.hash: a.data, b.hash: b.data}
    assert (cache.hits, cache.misses, cache.errors) == (2, 1, 0)
    client = Client(RedisAddress.of(cache._client.address.shown))
    assert 0 < client.call("TTL", client.key(b"cache:" + a.hash)) <= 60
    client.call("SET", client.key(b"cache:" + a.hash), "other")
    assert cache.get_many([a.hash]) == {}
    cache.close()
    with pytest.raises(Closed):
        cache.get_many([a.hash])


def test_a_cache_whose_server_is_gone_is_empty(tmp_path):
    with redis_server(tmp_path) as server:
        cache = RedisCache(server.url)
        cache.put_many({blob("a").hash: b"a"})
    assert cache.get_many([blob("a").hash]) == {}
    cache.put_many({blob("b").hash: b"b"})
    assert (cache.hits, cache.misses, cache.errors) == (0, 1, 1)  # the second is not even tried


def test_a_cache_that_is_slow_is_left_alone(tmp_path):
    with redis_server(tmp_path) as server:
        cache = RedisCache(f"{server.url}&timeout=0.2")
        server.freeze()
        began = time.monotonic()
        for _ in range(20):
            assert cache.get_many([blob("a").hash]) == {}
        assert time.monotonic() - began < 3
        assert cache.errors == 1
        server.thaw()


# ---------------------------------------------------------------- what a full server does


def _fill(store):
    """Write until the server is full; return how many batches it took, and the refused objects."""
    for number in count():
        items = [blob(b"%d %d" % (number, at) + bytes(50_000)) for at in range(4)]
        try:
            store.write(Batch(objects=items, swaps=[Swap(f"r{number}", None, items[0].hash)]))
        except Full:
            return number, items
    raise AssertionError


def test_a_full_server_refuses_whole_batches_and_can_be_pruned(tmp_path):
    with redis_server(tmp_path, maxmemory="12mb", maxmemory_policy="noeviction") as server:
        store = RedisStore(server.url)
        put(store, "main", blob("start"))
        lost, items = _fill(store)
        assert lost > 3
        assert store.ref(f"r{lost}") is None
        assert store.read([item.hash for item in items]) == {}
        assert store.usage().objects == 1 + 4 * lost
        with pytest.raises(Full):  # the same in parts
            store.write(Batch(objects=[blob(b"%d" % at) for at in range(2000)]))
        for number in range(lost):
            assert store.moves(f"r{number}")
        removals = RedisStore(server.url)
        server.tell("CONFIG", "SET", "maxmemory", "20mb")
        for number in range(lost):
            head = removals.ref(f"r{number}")
            removals.write(Batch(swaps=[Swap(f"r{number}", head, None)], time=1))
        server.tell("CONFIG", "SET", "maxmemory", "5mb")
        report = store.collect(links, forget_moves_before=2)  # although it is full
        assert report.dropped_objects == 4 * lost
        assert store.moves("main") == []
        server.tell("CONFIG", "SET", "maxmemory", "12mb")
        put(store, "main", blob("more"))
        assert store.moves("main") == [Move("main", blob("start").hash, blob("more").hash, 0, "")]
