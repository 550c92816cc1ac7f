"""The Postgres store: round trips, addresses, refusals, connections and collections."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from gc import collect as collect_garbage
from threading import Event, Thread
from time import monotonic

import psycopg
import pytest

import otolith
from otolith.core import links as core_links
from otolith.errors import (
    Busy,
    Corrupt,
    Denied,
    Error,
    FormatTooNew,
    Full,
    Invalid,
    NotAStore,
    NotFound,
    QuotaExceeded,
    ReadOnly,
    StaleRef,
    StoreNotFound,
    Unavailable,
    Unsupported,
)
from otolith.stores import Batch, PostgresStore, Swap, Usage
from otolith.stores.postgres import gc, store
from otolith.testing import blob, links, node, put
from tests.patience import HANG_SECONDS
from tests.servers.postgres import PASSWORD, fresh, postgres_server
from tests.servers.process import free_port
from tests.servers.proxy import Proxy


@pytest.fixture(scope="module")
def server():
    with postgres_server() as server:
        yield server


@pytest.fixture
def url(server):
    return fresh(server.url)


@pytest.fixture
def opened(url):
    opened = PostgresStore(url)
    yield opened
    opened.close()


def run_in_threads(threads, work) -> None:
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(work) for _ in range(threads)]:
            done.result(HANG_SECONDS)


def schema_of(url: str) -> str:
    return url.partition("schema=")[2].partition("&")[0]


# -------------------- round trips


@pytest.fixture
def counted(server, url):
    """A store behind a proxy that counts, and the proxy."""
    with Proxy(server.port) as proxy:
        opened = PostgresStore(url.replace(str(server.port), str(proxy.port)))
        yield opened, proxy
        opened.close()


def test_a_commit_is_one_round_trip(counted):
    opened, proxy = counted
    state = otolith.Repo(opened).session("s")
    state["x"] = 0
    state.commit()
    before = proxy.round_trips
    for number in range(5):
        state["x"] = number + 1
        state.commit()
    assert proxy.round_trips - before == 5


def test_many_objects_are_read_written_and_looked_up_in_one_round_trip_each(counted):
    opened, proxy = counted
    items = [blob(f"item {number}") for number in range(500)]
    before = proxy.round_trips
    opened.write(Batch(objects=items))
    assert len(opened.read([item.hash for item in items])) == 500
    assert len(opened.holds([item.hash for item in items])) == 500
    assert proxy.round_trips - before == 3


def test_a_statement_that_a_pooler_has_lost_is_sent_again_and_lands_once(url):
    """Poolers that know nothing of prepared statements give another server process each time."""
    opened = PostgresStore(f"{url}&pool=1")
    first, second, third = blob("1"), blob("2"), blob("3")
    put(opened, "main", first)
    with opened._connections.lend() as connection:
        connection.execute("deallocate all")
    put(opened, "main", second)
    put(opened, "main", third)

    assert [move.new for move in opened.moves("main")] == [third.hash, second.hash, first.hash]
    opened.close()


def test_a_statement_that_a_server_process_knows_already_lands_once(url):
    opened = PostgresStore(f"{url}&pool=1")
    first, second = blob("1"), blob("2")
    put(opened, "main", first)
    with opened._connections.lend() as connection:
        connection.prepared.clear()  # as if another client had prepared it
    put(opened, "main", second)

    assert [move.new for move in opened.moves("main")] == [second.hash, first.hash]
    assert opened.read([second.hash]) == {second.hash: second.data}
    opened.close()


def test_usage_counts_what_writers_add_at_the_same_time(server, url, opened):
    def work() -> None:
        for _ in range(20):
            opened.write(Batch(objects=[blob(os.urandom(50)), blob("shared by all")]))

    run_in_threads(8, work)

    query = "select count(*), sum(octet_length(hash) + octet_length(data))::bigint from {}.object"
    ((objects, stored_bytes),) = server.ask(query.format(schema_of(url)))
    assert opened.usage() == Usage(objects, stored_bytes)
    assert objects == 8 * 20 + 1


def test_a_writer_lands_beside_more_writers_than_there_are_counters(server, url, opened):
    name, item = schema_of(url), blob("x")
    with psycopg.connect(server.url) as many:  # as if each counter had a writer that is not done
        query = f"""select pg_try_advisory_xact_lock('{name}.meta'::regclass::oid::integer, shard)
            from {name}.tally"""
        assert all(locked for (locked,) in many.execute(query.encode()))
        put(opened, "main", item)

    assert opened.usage().objects == 1


def test_the_client_is_imported_when_it_is_needed():
    program = """
import sys
import otolith.stores
otolith.open("memory:").close()
assert "PostgresStore" in dir(otolith.stores) and "SqliteStore" in dir(otolith.stores)
assert "psycopg" not in sys.modules
otolith.stores.PostgresStore
assert "psycopg" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=HANG_SECONDS)


def test_a_name_that_no_index_can_hold_is_refused(opened):
    name = os.urandom(8000).hex()
    with pytest.raises(Invalid):
        opened.write(Batch(swaps=[Swap(name, None, blob("a").hash)]))
    assert opened.refs() == {}


# -------------------- addresses


@pytest.mark.parametrize(
    "options",
    ["shema=x", "schema=", "schema=pg_x", "schema=a%22b", "schema=a&schema=b", "pool=0",
     "pool=x", "timeout=nan", "connect_timeout=soon", "sslmode=perhaps"],
)  # fmt: skip
def test_options_that_mean_nothing_are_refused(server, options):
    with pytest.raises(Invalid):
        PostgresStore(f"{server.url}?{options}")


def shown(error: BaseException) -> str:
    """Return all that a log could show of an error."""
    chain = [error]
    while (before := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(before)
    texts = [f"{each} {each!r} {vars(each)}" for each in chain]
    return "".join([*texts, *traceback.format_exception(error)])


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://locked:sesame%21@127.0.0.1:{port}/postgres",
        "postgresql://locked@127.0.0.1:{port}/postgres?password=sesame%21",
        "postgresql://locked:sesame%21@127.0.0.1:{port}/postgres?nonsense=1",
        "postgresql://locked:sesame%21@127.0.0.1:{port}x/postgres",
        "postgresql://locked:sesame%21@127.0.0.1:{closed}/postgres",
    ],
)
def test_no_error_shows_a_password(server, address):
    with pytest.raises(Error) as caught:
        PostgresStore(address.format(port=server.port, closed=free_port()))
    assert "sesame" not in shown(caught.value)


def test_a_store_does_not_show_its_password(server):
    server.ask("grant create on database postgres to locked")
    place = fresh(f"postgresql://locked:{PASSWORD}@127.0.0.1:{server.port}/postgres")
    opened = PostgresStore(place.replace(" ", "%20"))
    assert PASSWORD not in f"{opened!r} {opened._connections.address!r}"
    opened.close()
    with pytest.raises(Error) as caught:
        opened.ref("x")
    assert PASSWORD not in shown(caught.value)


def test_a_wrong_password_is_denied(server):
    with pytest.raises(Denied, match="password"):
        PostgresStore(f"postgresql://locked:wrong@127.0.0.1:{server.port}/postgres")


def test_a_role_without_rights_is_denied(server, url):
    server.ask("drop role if exists guest")
    server.ask("create role guest login")
    with pytest.raises(Denied):
        PostgresStore(url.replace("postgres@", "guest@"))


def test_a_server_that_is_not_there_is_reported_at_once():
    with pytest.raises(Unavailable):
        PostgresStore(f"postgresql://127.0.0.1:{free_port()}/postgres")


def test_a_server_that_does_not_answer_is_reported_in_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = monotonic()
        with pytest.raises(Unavailable):
            PostgresStore(
                f"postgresql://127.0.0.1:{silent.getsockname()[1]}/postgres?connect_timeout=2"
            )
        assert monotonic() - began < HANG_SECONDS / 10


def test_a_database_that_is_not_there_is_not_found(server):
    with pytest.raises(StoreNotFound):
        PostgresStore(server.url.removesuffix("postgres") + "nowhere")


# -------------------- schemas


def test_a_store_is_made_only_if_asked_for(server, url):
    with pytest.raises(StoreNotFound):
        PostgresStore(url, create=False)
    with pytest.raises(StoreNotFound):
        PostgresStore(url, read_only=True)
    assert server.ask(f"select to_regnamespace('{schema_of(url)}')") == [(None,)]


def test_a_schema_of_somebody_else_is_left_alone(server, url):
    server.ask(f"create schema {schema_of(url)}")
    server.ask(f"create table {schema_of(url)}.meta(x integer)")
    with pytest.raises(NotAStore):
        PostgresStore(url)
    tables = f"select count(*) from pg_tables where schemaname = '{schema_of(url)}'"
    assert server.ask(tables) == [(1,)]


def test_an_empty_schema_becomes_a_store_without_the_right_to_make_one(server, url):
    server.ask("drop role if exists tenant")
    server.ask("create role tenant login")
    server.ask(f"create schema {schema_of(url)} authorization tenant")
    opened = PostgresStore(url.replace("postgres@", "tenant@"))
    put(opened, "main", blob("a"))
    opened.close()


def test_a_newer_format_is_refused(server, url):
    PostgresStore(url).close()
    server.ask(f"update {schema_of(url)}.meta set otolith_format = 2")
    with pytest.raises(FormatTooNew, match="format 2"):
        PostgresStore(url)


def test_older_functions_are_replaced(server, url):
    PostgresStore(url).close()
    schema = schema_of(url)
    server.ask(f"update {schema}.meta set functions = 0")
    server.ask(f"drop function {schema}.lease_1")
    opened = PostgresStore(url)
    assert opened.lease("job", "ann", ttl_seconds=60) is not None
    opened.close()


def test_many_make_the_same_store_at_once(url):
    opened: list[PostgresStore] = []
    run_in_threads(4, lambda: opened.append(PostgresStore(url)))
    put(opened[0], "main", blob("a"))
    assert {each.ref("main") for each in opened} == {blob("a").hash}
    for each in opened:
        each.close()


def test_a_schema_that_was_dropped_is_reported(server, url, opened):
    server.ask(f"drop schema {schema_of(url)} cascade")
    with pytest.raises(StoreNotFound):
        opened.ref("main")
    with pytest.raises(StoreNotFound):
        opened.write(Batch(objects=[blob("a")]))


# -------------------- refusals


def test_a_read_only_store_refuses_to_change_anything(url, opened):
    put(opened, "main", blob("a"))
    reader = PostgresStore(url, read_only=True)
    assert reader.ref("main") == blob("a").hash
    for change in (
        lambda: reader.write(Batch(objects=[blob("b")])),
        lambda: reader.collect(links),
        lambda: reader.lease("job", "ann", ttl_seconds=1),
    ):
        with pytest.raises(ReadOnly):
            change()
    reader.close()


def test_transactions_that_see_too_little_are_refused(server, url):
    PostgresStore(url).close()
    server.ask("drop role if exists strict")
    server.ask("create role strict superuser login")
    server.ask("alter role strict set default_transaction_isolation = 'repeatable read'")
    opened = PostgresStore(url.replace("postgres@", "strict@"))
    with pytest.raises(Unsupported, match="repeatable read"):
        opened.write(Batch(objects=[blob("a")]))
    opened.close()


@pytest.mark.parametrize(
    ("state", "kind"),
    [("53100", Full), ("53200", Full), ("53300", Busy), ("40P01", Busy), ("55P03", Busy),
     ("42501", Denied), ("25006", ReadOnly), ("XX001", Corrupt), ("57P03", Unavailable),
     ("99999", Unavailable)],
)  # fmt: skip
def test_an_error_of_the_server_says_what_to_do_next(opened, state, kind):
    query = f"do $$ begin raise exception 'because' using errcode = '{state}'; end $$"
    with pytest.raises(kind, match="because") as caught:
        opened._connections.tell(query.encode())
    assert type(caught.value) is kind


def test_a_statement_that_the_server_gave_up_is_repeated(server, url, opened):
    schema = schema_of(url)
    server.ask(f"create sequence {schema}.tries")
    query = f"""do $$ begin if nextval('{schema}.tries') < 3 then
        raise exception 'because' using errcode = '40P01'; end if; end $$"""
    opened._connections.tell(query.encode())
    assert server.ask(f"select last_value from {schema}.tries") == [(3,)]


def test_a_quota_bounds_what_objects_take(url):
    opened = PostgresStore(url, limit_bytes=2000)
    noise = [blob(os.urandom(800)) for _ in range(3)]
    opened.write(Batch(objects=noise[:2]))
    with pytest.raises(QuotaExceeded):
        opened.write(Batch(objects=noise[2:], swaps=[Swap("x", None, noise[2].hash)]))
    assert opened.ref("x") is None
    opened.write(Batch(objects=noise[:2], swaps=[Swap("x", None, noise[0].hash)]))
    opened.collect(links)
    opened.write(Batch(objects=noise[2:]))
    usage = opened.usage()
    assert (usage.objects, usage.limit_bytes) == (2, 2000)
    assert 1600 < usage.stored_bytes <= 2000
    opened.close()


def test_bytes_that_were_changed_on_the_server_are_an_error(server, url, opened):
    for damage in ("overlay(data placing 'x' from 9)", "'\\x02'", "'\\x01ff'", "''"):
        a = blob(f"{damage}" * 50)
        opened.write(Batch(objects=[a]))
        server.ask(f"update {schema_of(url)}.object set data = {damage}")
        with pytest.raises(Corrupt):
            opened.read([a.hash])
        put(opened, "main", a)
        with pytest.raises(Corrupt):
            opened.collect(links)
        server.ask(f"delete from {schema_of(url)}.object")


# -------------------- long batches


def test_a_batch_that_is_too_long_for_a_statement_lands_whole_or_not_at_all(opened, monkeypatch):
    monkeypatch.setattr(store, "_STATEMENT_BYTES", 5000)
    noise = [blob(os.urandom(2000)) for _ in range(9)]
    top = node(*noise)
    with pytest.raises(StaleRef):
        opened.write(Batch([*noise, top], [Swap("main", top.hash, noise[0].hash)]))
    assert opened.holds([item.hash for item in noise]) == set()
    opened.write(Batch([*noise, top], [Swap("main", None, top.hash)]))
    assert len(opened.read([item.hash for item in noise])) == 9
    assert opened.usage().objects == 10


def test_writers_of_the_same_objects_in_long_batches_do_not_block_each_other(opened, monkeypatch):
    monkeypatch.setattr(store, "_STATEMENT_BYTES", 3000)
    noise = [blob(os.urandom(1000)) for _ in range(12)]
    names = iter(range(100))

    def write() -> None:
        for _ in range(4):
            name = f"ref {next(names)}"
            opened.write(Batch(noise, [Swap(name, None, noise[0].hash)]))

    run_in_threads(4, write)
    assert len(opened.refs()) == 16


# -------------------- connections


def test_a_restart_between_two_calls_is_not_noticed(server, url, opened):
    put(opened, "main", blob("a"))
    server.ask("select pg_terminate_backend(pid) from pg_stat_activity "
               "where application_name = 'otolith'")  # fmt: skip
    put(opened, "main", blob("b"))
    assert opened.ref("main") == blob("b").hash


def test_a_thread_waits_for_a_connection_and_not_for_ever(server):
    opened = PostgresStore(fresh(server.url, pool=1, connect_timeout=1))
    taken, done = Event(), Event()

    def hold() -> None:
        with opened._connections.lend():
            taken.set()
            done.wait(HANG_SECONDS)

    holder = Thread(target=hold)
    holder.start()
    taken.wait(HANG_SECONDS)
    with pytest.raises(Busy, match="all 1 connections"):
        opened.ref("main")
    done.set()
    holder.join()
    assert opened.ref("main") is None
    run_in_threads(4, lambda: put(opened, f"r{id(object())}", blob("a")))
    opened.collect(links)
    opened.close()


def test_connections_are_used_again(server, opened):
    for number in range(20):
        put(opened, "main", blob(str(number)))
    assert len(opened._connections._idle) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_uses_connections_of_its_own(opened):
    put(opened, "main", blob("a"))
    news = opened.subscribe()
    before = opened._connections._idle[0].pgconn.backend_pid
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            put(opened, "main", blob("b"))
            assert opened._connections._idle[0].pgconn.backend_pid != before
            assert news.wait(HANG_SECONDS) == {"main"}
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert opened.ref("main") == blob("b").hash
    assert opened._connections._idle[0].pgconn.backend_pid == before
    assert news.wait(HANG_SECONDS) == {"main"}


def test_a_store_that_nobody_has_any_more_leaves_no_connection(server, url):
    opened = PostgresStore(url)
    connection = opened._connections._idle[0]
    del opened
    collect_garbage()
    assert connection.closed


# -------------------- news


def test_nobody_is_notified_while_nobody_listens(server, url, opened):
    schema = schema_of(url)
    ((channel,),) = server.ask(f"select 'otolith_' || '{schema}.meta'::regclass::oid")
    with psycopg.connect(server.url, autocommit=True) as ear:
        ear.execute(f"listen {channel}".encode())
        put(opened, "main", blob("a"))
        assert list(ear.notifies(timeout=0.1)) == []
        news = opened.subscribe()
        put(opened, "main", blob("b"))
        assert [note.payload for note in ear.notifies(timeout=HANG_SECONDS, stop_after=1)] == [
            b"main".hex()
        ]
        news.close()


def test_a_listener_that_slept_too_long_reports_everything(server, url, opened, monkeypatch):
    put(opened, "main", blob("a"))
    news = opened.subscribe()
    server.ask(f"update {schema_of(url)}.meta set listen_until = 0")
    put(opened, "main", blob("b"))
    assert news.wait(0.1) == set()
    listener = opened._listener
    connection = listener._connect()
    listener._renew(connection)
    connection.close()
    server.ask(f"update {schema_of(url)}.meta set listen_until = 0")
    connection = opened._connections.connect()
    listener._renew(connection)
    connection.close()
    assert news.wait(HANG_SECONDS) == {"main"}


# -------------------- collections that are interrupted


class Stop(Exception):
    """A collector died."""


def stopped(opened, step: str, monkeypatch) -> None:
    """Run a collection that dies before one of its steps."""

    def die(*_: object) -> None:
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(gc.PostgresCollector, step, die)
        with pytest.raises(Stop):
            opened.collect(links)


STEPS = ["_follow", "_condemn", "_catch_up", "_declare", "_sweep"]


@pytest.mark.parametrize("step", STEPS)
def test_a_collector_that_died_leaves_a_store_that_works(opened, step, monkeypatch):
    leaf, lost = blob("leaf"), blob("lost")
    top = node(leaf)
    put(opened, "main", top, leaf, lost)
    stopped(opened, step, monkeypatch)
    late = blob("late")
    put(opened, "late", node(late), late)
    if step == "_sweep":  # it counts as absent already
        with pytest.raises(NotFound):
            opened.write(Batch(needs=[lost.hash]))
    opened.collect(links)
    assert opened.usage().objects == 4
    assert len(opened.read([top.hash, leaf.hash, late.hash, node(late).hash])) == 4
    assert opened.read([lost.hash]) == {}


@pytest.mark.parametrize("step", STEPS)
def test_what_is_written_again_during_a_collection_stays(opened, step, monkeypatch):
    leaf = blob("leaf")
    top = node(leaf)
    opened.write(Batch(objects=[leaf, top]))
    real = getattr(gc.PostgresCollector, step)

    def beside(self, *arguments):
        if opened.ref("main") is None:
            other.write(Batch([leaf, top], [Swap("main", None, top.hash)]))
        return real(self, *arguments)

    with monkeypatch.context() as patch:
        other = opened
        if step == "_declare":  # it runs with the gate closed: the batch comes right before
            real = gc.PostgresCollector._catch_up
            step = "_catch_up"

            def beside(self, *arguments):
                real(self, *arguments)
                other.write(Batch([leaf, top], [Swap("main", None, top.hash)]))

        patch.setattr(gc.PostgresCollector, step, beside)
        opened.collect(links)
    assert len(opened.read([leaf.hash, top.hash])) == 2
    assert opened.usage().objects == 2


@pytest.mark.parametrize("step", STEPS[:3])
def test_what_is_needed_during_a_collection_stays_with_all_below(opened, step, monkeypatch):
    leaf = blob("leaf")
    middle = node(leaf)
    top = node(middle)
    opened.write(Batch(objects=[leaf, middle]))
    real = getattr(gc.PostgresCollector, step)

    def beside(self, *arguments):
        if opened.ref("main") is None:
            opened.write(Batch([top], [Swap("main", None, top.hash)], needs=[middle.hash]))
        return real(self, *arguments)

    monkeypatch.setattr(gc.PostgresCollector, step, beside)
    opened.collect(links)
    assert len(opened.read([leaf.hash, middle.hash, top.hash])) == 3


def test_a_collector_that_was_replaced_changes_nothing(server, url, opened, monkeypatch):
    lost = blob("lost")
    opened.write(Batch(objects=[lost]))
    real = gc.PostgresCollector._catch_up

    def slow(self):
        real(self)
        server.ask(f"update {schema_of(url)}.meta set run_until = 0")
        with monkeypatch.context() as patch:
            patch.setattr(gc.PostgresCollector, "_catch_up", real)
            put(opened, "main", lost)
            opened.collect(links)

    monkeypatch.setattr(gc.PostgresCollector, "_catch_up", slow)
    with pytest.raises(Busy, match="taken over"):
        opened.collect(links)
    assert opened.read([lost.hash]) == {lost.hash: lost.data}


def test_a_long_history_is_forgotten_in_few_passes(server, url, opened):
    name, kept = schema_of(url), blob("kept")
    put(opened, "long", kept)
    query = f"""insert into {name}.move(name, time, note)
        select case when n % 8 = 0 then 'short' else 'long' end::bytea, n, ''
        from generate_series(1, 40000) n"""
    server.ask(query)
    planned = opened.collect(links, forget_moves_before=39_001, dry_run=True)
    done = opened.collect(links, forget_moves_before=39_001)  # a silent server is given up in 30 s
    assert planned.dropped_moves == done.dropped_moves == 39_001
    assert len(opened.moves("long")) + len(opened.moves("short")) == 1_000


def test_a_large_object_is_marked_with_the_others(opened):
    large, small = blob(os.urandom(3 << 20)), blob("small")
    put(opened, "main", node(large, small), large, small, blob("lost"))
    assert opened.collect(links).dropped_objects == 1
    assert opened.usage().objects == 3


def test_a_collection_says_that_the_server_may_still_have_the_bytes(opened):
    done = opened.collect(core_links, erase=True)
    assert not done.erased
    assert "VACUUM" in done.residue
