"""The etcd store when members die, replies get lost, holders freeze, and URLs are wrong."""

from __future__ import annotations

import http.server
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import traceback
from contextlib import contextmanager
from functools import partial
from threading import Event, Thread
from time import monotonic

import pytest

import otolith
from otolith.errors import (
    Denied,
    Fenced,
    FormatTooNew,
    Invalid,
    NotAStore,
    ReadOnly,
    StoreNotFound,
    Unavailable,
)
from otolith.stores import Batch, EtcdStore, Swap
from otolith.testing import blob, put
from tests.patience import HANG_SECONDS, seconds
from tests.servers.etcd import MEMBERS, EtcdCluster, ask, running
from tests.servers.process import free_port, wait_until
from tests.servers.proxy import Proxy


@pytest.fixture(scope="module")
def fragile(tmp_path_factory):
    """A cluster whose members are killed and frozen."""
    with running(tmp_path_factory.mktemp("fragile")) as cluster:
        yield cluster


@pytest.fixture
def store(etcd_cluster, tmp_path):
    with closing(EtcdStore(etcd_cluster.url(tmp_path / "objects.db"), durability="fast")) as store:
        yield store


@contextmanager
def closing(store):
    try:
        yield store
    finally:
        store.close()


# -------------------- members that die


def _add_until(url: str, name: str, is_over: Event, done: dict[str, int]) -> None:
    """Count up again and again; after an error, `commit` finds out what became of the last one."""
    with otolith.open(url, durability="fast") as repo:
        state = repo.session("job")
        while not is_over.is_set():
            state.counter("n").add(1)
            state.counter(name).add(1)
            while not _has_committed(state, name):
                pass
            done[name] += 1


def _has_committed(state, message: str) -> bool:
    try:
        state.commit(message)
    except Unavailable:
        return False
    return True


@contextmanager
def _writers(url: str, names: str = "abc"):
    """Run writers beside the block; at its end, all that they have done is there, and only that."""
    otolith.open(url, durability="fast").close()
    done, is_over, errors = dict.fromkeys(names, 0), Event(), list[BaseException]()

    def run(name: str) -> None:
        try:
            _add_until(url, name, is_over, done)
        except BaseException as error:  # noqa: BLE001 - it fails the test below
            errors.append(error)

    threads = [Thread(target=run, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    try:
        yield done
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert errors == []
    with otolith.open(url, durability="fast") as repo:
        state = repo.session("job")
        assert {name: state[name] for name in names} == done
        assert state["n"] == sum(done.values())
        messages = [commit.message for commit in state.log()]
        assert {name: messages.count(name) for name in names} == done


def _wait_for_progress(done: dict[str, int]) -> None:
    """Wait until every writer has committed again."""
    goal = {name: number + 1 for name, number in done.items()}
    wait_until(lambda: all(done[name] >= goal[name] for name in goal), "progress of all writers")


def test_the_leader_is_killed_during_commits_and_nothing_is_lost_or_doubled(
    fragile, tmp_path, rounds
):
    url = fragile.url(tmp_path / "objects.db", timeout=HANG_SECONDS)
    with _writers(url) as done:
        for _ in range(rounds(2, 20)):
            _wait_for_progress(done)
            leader = fragile.leader()
            assert leader is not None
            leader.kill()
            _wait_for_progress(done)
            leader.start()
            wait_until(lambda: fragile.leader() is not None, "a leader of etcd")


def _has_passed(proxy: Proxy, round_trips: int) -> bool:
    return proxy.round_trips > round_trips


def test_replies_that_get_lost_double_no_commit_and_lose_none(fragile, tmp_path, rounds):
    with Proxy(fragile.members[0].port) as proxy:
        prefix = fragile.url(tmp_path / "objects.db").partition("prefix=")[2]
        url = f"etcd://127.0.0.1:{proxy.port}?objects={tmp_path / 'objects.db'}&prefix={prefix}"
        with _writers(url) as done:
            for _ in range(rounds(6, 100)):
                _wait_for_progress(done)
                proxy.fault = "lose replies"
                before = proxy.round_trips
                wait_until(partial(_has_passed, proxy, before + 5), "requests")
                proxy.fault = "pass"


@pytest.mark.parametrize(("lose", "restore"), [("kill", "start"), ("freeze", "thaw")])
def test_a_member_that_is_lost_is_not_missed(fragile, tmp_path, lose, restore):
    url = fragile.url(tmp_path / "objects.db", timeout=HANG_SECONDS)
    with closing(EtcdStore(url)) as store:
        for number, member in enumerate(fragile.members):
            getattr(member, lose)()
            try:
                put(store, "main", blob(str(number)))
                assert store.ref("main") == blob(str(number)).hash
            finally:
                getattr(member, restore)()
        assert len(store.moves("main")) == MEMBERS


def test_a_lost_majority_is_unavailable_in_time_and_the_store_recovers(fragile, tmp_path):
    store = EtcdStore(fragile.url(tmp_path / "objects.db", timeout=1))
    put(store, "main", blob("1"))
    for member in fragile.members[:2]:
        member.kill()
    try:
        began = monotonic()
        with pytest.raises(Unavailable, match=r"in \d[.\d]* s \("):
            put(store, "main", blob("2"))
        with pytest.raises(Unavailable):
            store.ref("main")
        assert monotonic() - began < 2 + seconds(2)
    finally:
        for member in fragile.members[:2]:
            member.start()
    wait_until(lambda: fragile.leader() is not None, "a leader of etcd")
    put(store, "main", blob("3"))
    assert store.ref("main") == blob("3").hash
    store.close()


def test_a_subscription_outlives_the_leader(fragile, tmp_path):
    with closing(EtcdStore(fragile.url(tmp_path / "objects.db", timeout=HANG_SECONDS))) as store:
        news = store.subscribe("branch/")
        put(store, "branch/a", blob("1"))
        assert news.wait(HANG_SECONDS) == {"branch/a"}
        leader = fragile.leader()
        leader.kill()
        try:
            put(store, "other", blob("2"))
            put(store, "branch/b", blob("3"))
            assert news.wait(HANG_SECONDS) == {"branch/b"}
        finally:
            leader.start()
        news.close()


# -------------------- news


def test_a_subscription_reports_what_moves_and_nothing_else(store):
    news = store.subscribe("branch/")
    assert news.wait(0.01) == set()
    put(store, "side", blob("0"))
    put(store, "branch/a", blob("1"))
    assert news.wait(HANG_SECONDS) == {"branch/a"}
    put(store, "branch/é", blob("2"))
    assert news.wait(HANG_SECONDS) == {"branch/é"}
    store.write(Batch(swaps=[Swap("branch/a", blob("1").hash, None)]))
    assert news.wait(HANG_SECONDS) == {"branch/a"}
    news.close()


def test_after_a_compaction_every_ref_is_reported(etcd_cluster, store):
    put(store, "a", blob("1"))
    revision = store._cluster.revision()
    put(store, "b", blob("2"))
    port = int(etcd_cluster.hosts.partition(",")[0].rpartition(":")[2])
    ask(port, "/v3/kv/compaction", {"revision": str(store._cluster.revision())})
    late = store.subscribe()
    wait_until(lambda: late._news._connection is not None, "the watch")
    late._news._next = revision  # as if it had been cut off since then
    late._news._connection.sock.shutdown(socket.SHUT_RDWR)
    names: set[str] = set()
    while not {"a", "b"} <= names:
        names |= late.wait(HANG_SECONDS)
    late.close()


# -------------------- leases


def test_a_lease_has_one_holder_until_it_is_released(store):
    first = store.lease("work", "a", ttl_seconds=60)
    assert store.lease("work", "b", ttl_seconds=60) is None
    renewed = store.lease("work", "a", ttl_seconds=120)
    assert renewed.token == first.token
    assert renewed.expires > first.expires
    store.write(Batch(fences={"work": first.token}))
    store.release(first)
    with pytest.raises(Fenced, match="run out"):
        store.write(Batch(fences={"work": first.token}))
    second = store.lease("work", "b", ttl_seconds=60)
    assert second.token > first.token
    store.release(first)
    assert store.lease("work", "a", ttl_seconds=60) is None


def test_a_lease_that_ran_out_is_fenced_off_although_nobody_else_wants_it(store):
    item = blob("late")
    lease = store.lease("work", "a", ttl_seconds=1)
    key = store._cluster.keys.lease("work")
    wait_until(lambda: not store._cluster.read([key])[0].value, "the end of the lease")
    with pytest.raises(Fenced):
        store.write(Batch([item], [Swap("main", None, item.hash)], fences={"work": lease.token}))
    assert (store.ref("main"), store.read([item.hash])) == (None, {})
    assert store.lease("work", "a", ttl_seconds=60).token > lease.token


def test_a_holder_that_was_frozen_until_its_lease_ran_out_is_refused(etcd_cluster, tmp_path):
    url = etcd_cluster.url(tmp_path / "objects.db")
    with closing(EtcdStore(url)) as store:
        command = [sys.executable, "-m", "tests.fault.lease_holder", url, "work", "1"]
        with subprocess.Popen(
            command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            holder.send_signal(signal.SIGSTOP)
            wait_until(lambda: store.lease("work", "b", ttl_seconds=60) is not None, "the lease")
            holder.send_signal(signal.SIGCONT)
            assert holder.communicate("go\n", timeout=HANG_SECONDS)[0] == "Fenced\n"
        assert store.ref("main") is None


# -------------------- what is refused


def _has_nothing(store, *items):
    return store.refs() == {} and store.moves() == [] and store.read([i.hash for i in items]) == {}


def test_more_refs_than_a_transaction_can_move_are_refused(store):
    item = blob("a")
    swaps = [Swap(f"ref {at}", None, item.hash) for at in range(200)]
    for number in (64, 200):
        with pytest.raises(Invalid, match="refs in one transaction"):
            store.write(Batch([item], swaps[:number]))
        assert _has_nothing(store, item)
    store.write(Batch([item], swaps[:62]))
    assert len(store.refs()) == 62


def test_a_note_that_is_longer_than_a_request_is_refused(store):
    with pytest.raises(Invalid, match="more than etcd accepts"):
        store.write(Batch(swaps=[Swap("main", None, blob("a").hash)], note="x" * (2 << 20)))
    assert _has_nothing(store)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("etcd://127.0.0.1:1", "objects"),
        ("etcd://127.0.0.1:1?objects=memory:", "memory"),
        ("etcd://127.0.0.1:1?objects=a.db&colour=red", "colour"),
        ("etcd://127.0.0.1:1/agents?objects=a.db", "path"),
        ("etcd://?objects=a.db", "address"),
        ("etcd://127.0.0.1:x?objects=a.db", "address"),
        ("etcd://127.0.0.1:1?objects=a.db&timeout=soon", "timeout"),
        ("etcds://127.0.0.1:1?objects=a.db&ca=/nowhere/ca.pem", "certificate"),
    ],
)
def test_a_url_that_cannot_be_right_is_refused(url, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Invalid, match=said):
        otolith.open(url)
    assert list(tmp_path.iterdir()) == []


def test_nobody_at_the_address_is_unavailable_in_time(tmp_path):
    began = monotonic()
    with pytest.raises(Unavailable, match="refused"):
        EtcdStore(f"etcd://127.0.0.1:{free_port()}?objects={tmp_path / 'a.db'}&timeout=0.5")
    assert monotonic() - began < 0.5 + seconds(2)
    assert not (tmp_path / "a.db").exists()


def test_a_server_that_is_not_etcd_is_told_apart(tmp_path):
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(NotAStore, match="does not answer like etcd"):
            EtcdStore(f"etcd://127.0.0.1:{server.server_port}?objects={tmp_path / 'a.db'}")
        server.shutdown()


def test_nothing_there_is_not_found_and_not_made(etcd_cluster, tmp_path):
    url = etcd_cluster.url(tmp_path / "objects.db", "empty")
    with pytest.raises(StoreNotFound, match="empty"):
        EtcdStore(url, create=False)
    with pytest.raises(StoreNotFound, match="empty"):
        EtcdStore(url, read_only=True)
    assert not (tmp_path / "objects.db").exists()


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("format", b'{"otolith": 2, "id": "x"}', FormatTooNew),
        ("format", b"something else", NotAStore),
        ("registry/pods/default", b"k8s", NotAStore),
    ],
)
def test_keys_of_others_are_left_alone(store, etcd_cluster, tmp_path, key, value, error):
    prefix = f"foreign-{key.replace('/', '-')}-{error.__name__}/"
    raw = {"key": prefix.encode() + key.encode(), "value": value}
    store._cluster.gateway.call("/v3/kv/put", raw, dict)
    with pytest.raises(error):
        EtcdStore(etcd_cluster.url(tmp_path / "others.db", prefix))
    assert not (tmp_path / "others.db").exists()
    assert [entry.value for entry in store._cluster.scan(prefix.encode())] == [value]


def test_objects_of_another_store_are_refused(etcd_cluster, tmp_path):
    EtcdStore(etcd_cluster.url(tmp_path / "objects.db", "mixed")).close()
    with pytest.raises(NotAStore, match="objects of"):
        EtcdStore(etcd_cluster.url(tmp_path / "others.db", "mixed"))


def test_a_read_only_handle_reads_and_does_not_write(etcd_cluster, tmp_path):
    url = etcd_cluster.url(tmp_path / "objects.db")
    with closing(EtcdStore(url)) as store:
        put(store, "main", blob("a"))
    with closing(EtcdStore(url, read_only=True)) as store:
        assert store.read([store.ref("main")]) == {blob("a").hash: b"a"}
        for write in (
            lambda: put(store, "main", blob("b")),
            lambda: store.lease("work", "a", ttl_seconds=5),
            lambda: store.collect(lambda data: ()),
        ):
            with pytest.raises(ReadOnly):
                write()


def test_two_processes_that_make_a_store_at_once_make_one(etcd_cluster, tmp_path):
    url = etcd_cluster.url(tmp_path / "objects.db")
    opened, errors = [], []

    def open_it() -> None:
        try:
            opened.append(EtcdStore(url))
        except BaseException as error:  # noqa: BLE001 - it fails the test below
            errors.append(error)

    threads = [Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for number, store in enumerate(opened):
        put(store, f"ref {number}", blob(str(number)))
    assert all(len(store.refs()) == 6 for store in opened)
    assert len(opened[0].inner.refs("etcd/")) == 1
    for store in opened:
        store.close()


def test_a_forked_child_has_its_own_connections(store):
    put(store, "main", blob("a"))
    child = os.fork()
    if not child:
        try:
            same = all(store.ref("main") == blob("a").hash for _ in range(50))
            os._exit(0 if same else 1)
        finally:
            os._exit(2)
    for number in range(50):
        put(store, f"ref {number}", blob("b"))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# -------------------- passwords and certificates


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A member that wants a password."""
    with running(tmp_path_factory.mktemp("guarded"), members=1) as cluster:
        port = cluster.members[0].port
        for name, password in (("root", "r00t"), ("ann", "s3cret&word")):
            ask(port, "/v3/auth/user/add", {"name": name, "password": password})
        ask(port, "/v3/auth/role/add", {"name": "root"})
        ask(port, "/v3/auth/user/grant", {"user": "root", "role": "root"})
        ask(port, "/v3/auth/role/add", {"name": "agents"})
        permission = {"permType": "READWRITE", "key": "YWdlbnRzLw==", "range_end": "YWdlbnRzMA=="}
        ask(port, "/v3/auth/role/grant", {"name": "agents", "perm": permission})
        ask(port, "/v3/auth/user/grant", {"user": "ann", "role": "agents"})
        ask(port, "/v3/auth/enable", {})
        yield cluster


def test_the_right_password_opens_what_its_role_may_see(guarded, tmp_path):
    at = f"127.0.0.1:{guarded.members[0].port}?objects={tmp_path / 'a.db'}"
    with closing(EtcdStore(f"etcd://ann:s3cret%26word@{at}&prefix=agents")) as store:
        put(store, "main", blob("a"))
        assert store.lease("work", "a", ttl_seconds=5) is not None
        store._cluster.gateway._token = "simple.1"  # one that has run out
        assert store.ref("main") == blob("a").hash
        assert "s3cret" not in repr(store)
    with pytest.raises(Denied, match="permission"):
        EtcdStore(f"etcd://ann:s3cret%26word@{at}&prefix=others")


@pytest.mark.parametrize("userinfo", ["ann:wr0ng@", "nobody:wr0ng@", ""])
def test_a_wrong_password_is_denied_and_shown_nowhere(guarded, tmp_path, userinfo, caplog):
    objects = f"postgresql://u:hidd3n@127.0.0.1:{free_port()}/db"
    with pytest.raises(Denied) as caught:
        EtcdStore(f"etcd://{userinfo}127.0.0.1:{guarded.members[0].port}?objects={objects}")
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + caplog.text
    assert "wr0ng" not in shown
    assert "hidd3n" not in shown


def test_tls_is_used_and_an_unknown_certificate_is_refused(tmp_path):
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not here")
    names = "subjectAltName=IP:127.0.0.1"
    make = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=etcd -addext {names}"
    files = ("-keyout", "key.pem", "-out", "ca.pem")
    subprocess.run([openssl, *make.split(), *files], cwd=tmp_path, check=True, capture_output=True)
    flags = (f"--cert-file={tmp_path / 'ca.pem'}", f"--key-file={tmp_path / 'key.pem'}")
    cluster = EtcdCluster(tmp_path, members=1, flags=flags, scheme="https")
    url = f"etcds://{cluster.hosts}?objects={tmp_path / 'a.db'}"
    try:
        cluster.members[0].start()
        with closing(EtcdStore(f"{url}&ca={tmp_path / 'ca.pem'}")) as store:
            put(store, "main", blob("a"))
            assert store.ref("main") == blob("a").hash
        with pytest.raises(Unavailable, match=r"(?i)certificate"):
            EtcdStore(f"{url}&timeout=1")
    finally:
        cluster.stop()
