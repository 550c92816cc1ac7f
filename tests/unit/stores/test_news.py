"""News: who waits is told when a ref moves, by this process or another one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from contextlib import closing
from gc import collect as collect_garbage
from pathlib import Path
from threading import Event

import pytest

import otolith
from otolith.care import prune
from otolith.errors import Closed, Corrupt, Denied, Unavailable
from otolith.greenlets import GreenletPool
from otolith.stores import (
    Batch,
    KeyValueStore,
    KVStore,
    Layer,
    MemoryStore,
    SqliteStore,
    Store,
    listened_news,
    news_of,
    open_store,
)
from otolith.stores.listened_news import Alarm, StoreNews
from otolith.testing import blob, links, put
from tests.patience import HANG_SECONDS
from tests.servers import postgres
from tests.servers.process import wait_until
from tests.servers.redis import fresh

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")


@pytest.fixture(params=["sqlite", "postgres", "redis", "etcd"])
def url(request, tmp_path):
    """A place that several processes can open, whose store tells which refs move."""
    if request.param == "sqlite":
        return str(tmp_path / "a.db")
    if request.param == "postgres":
        return postgres.fresh(request.getfixturevalue("postgres_url"))
    if request.param == "redis":
        return fresh(request.getfixturevalue("redis_url"))
    return request.getfixturevalue("etcd_cluster").url(tmp_path / "objects.db")


@pytest.fixture
def store(tmp_path):
    with closing(SqliteStore(tmp_path / "a.db", durability="fast")) as store:
        yield store


def news_threads() -> list[str]:
    """Return the names of threads that listen or look."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith(("otolith-news", "otolith-listener"))]


def heard(news, wanted: str) -> set[str]:
    """Wait until a name is reported; return all that were."""
    names: set[str] = set()
    while wanted not in names:
        found = news.wait(HANG_SECONDS)
        assert found, f"{wanted} was not reported"
        names |= found
    return names


# -------------------- from process to process

WRITER = """
    import sys
    from otolith.stores import open_store
    from otolith.testing import blob, put
    put(open_store(sys.argv[1]), sys.argv[2], blob(sys.argv[3]))
"""


def move_elsewhere(url: str, name: str, content: str) -> None:
    """Move a ref in another process."""
    command = [sys.executable, "-c", textwrap.dedent(WRITER), url, name, content]
    subprocess.run(command, check=True, cwd=Path.cwd())


def test_a_move_by_another_process_is_heard(url):
    with closing(open_store(url)) as store:
        news = news_of(store, "branch/")
        move_elsewhere(url, "tag/1", "1")
        move_elsewhere(url, "branch/main", "2")
        assert heard(news, "branch/main") == {"branch/main"}
        move_elsewhere(url, "branch/main", "3")
        assert heard(news, "branch/main") == {"branch/main"}
        news.close()


@needs_fork
def test_a_child_hears_and_so_does_its_parent(url):
    with closing(open_store(url)) as store:
        news = news_of(store)
        put(store, "before", blob("1"))
        heard(news, "before")
        child = os.fork()
        if child == 0:
            status = 1
            try:
                put(store, "main", blob("2"))
                heard(news, "main")
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert heard(news, "main") == {"main"}
        news.close()


@pytest.mark.parametrize("ends", ["subscription", "store", "nobody"])
def test_no_thread_is_left(url, ends):
    before = threading.active_count()
    store = open_store(url)
    several = [news_of(store), news_of(store, "x")]
    assert threading.active_count() > before
    if ends == "subscription":
        for news in several:
            news.close()
    elif ends == "nobody" and not url.startswith(("redis", "postgresql", "etcd")):
        several.clear()
        collect_garbage()  # a server's listener notices later
    else:
        store.close()
    wait_until(lambda: threading.active_count() == before, "the end of the thread")
    store.close()


# -------------------- SQLite


def test_a_store_that_was_opened_to_read_hears(store):
    with closing(SqliteStore(store.path, read_only=True)) as reader:
        news = reader.subscribe()
        put(store, "main", blob("1"))
        assert heard(news, "main") == {"main"}


def test_a_file_that_is_collected_and_rebuilt_is_heard_on(tmp_path):
    with otolith.open(tmp_path / "a.db") as repo:
        state = repo.session("s")
        for number in range(5):
            state["x"] = number
            state.commit()
        news = news_of(repo.store, "session/")
        assert prune(repo, expire_seconds=0).erased
        assert news.wait(0.1) == set()
        state["x"] = "new"
        state.commit()
        assert heard(news, state.ref) == {state.ref}


def test_objects_alone_are_no_news(store):
    news = store.subscribe()
    store.write(Batch(objects=[blob("1")]))
    store.write(Batch(fences={"lease": 1}))
    store.collect(links)
    assert news.wait(0.1) == set()


def test_a_file_that_was_replaced_by_an_older_one_reports_all_refs(store):
    for name in ("a", "b"):
        put(store, name, blob(name))
    news = store.subscribe()
    store._news._newest = 1000  # as if more had happened in the one before
    put(store, "c", blob("c"))
    assert heard(news, "c") == {"a", "b", "c"}


def test_a_look_that_fails_for_a_moment_is_told_and_made_up_for(store, monkeypatch):
    news = store.subscribe()
    look = store._news.look

    def fail() -> set[str]:
        raise Unavailable("the disk is away", hint="wait")

    monkeypatch.setattr(store._news, "look", fail)
    put(store, "main", blob("1"))
    wait_until(lambda: store._news.failure is not None, "a failure")
    with pytest.raises(Unavailable, match="the disk is away"):
        news.wait(0.01)
    monkeypatch.setattr(store._news, "look", look)
    assert heard(news, "main") == {"main"}
    wait_until(lambda: store._news.failure is None, "a look that succeeds")
    assert news.wait(0.01) == set()


def test_a_look_that_fails_for_good_ends_a_wait_at_once(store, monkeypatch):
    news = store.subscribe()

    def fail() -> set[str]:
        raise Corrupt("a bit has flipped", hint="run otolith fsck")

    monkeypatch.setattr(store._news, "look", fail)
    for _ in range(2):
        with pytest.raises(Corrupt, match="a bit has flipped"):
            news.wait(10 * HANG_SECONDS)
    with pytest.raises(Corrupt):
        store.subscribe()


def test_what_moves_while_nobody_can_hear_is_made_up_for(url, monkeypatch):
    """After an error for good the next wait listens anew, and reports every ref."""
    with closing(open_store(url)) as store:
        news = news_of(store)
        source = vars(news)["_news"]

        def fail(alarm: Alarm) -> None:
            raise Denied("the password has changed", hint="check it")

        source.stop()
        monkeypatch.setattr(source, "listen", fail)
        with pytest.raises(Denied):
            news.wait(HANG_SECONDS)
        put(store, "main", blob("1"))
        monkeypatch.undo()
        assert "main" in heard(news, "main")
        news.close()


# -------------------- memory


def test_a_store_in_memory_needs_no_thread():
    before = threading.active_count()
    store = MemoryStore()
    news = store.subscribe("branch/")
    put(store, "tag/x", blob("1"))
    put(store, "branch/x", blob("1"))
    assert threading.active_count() == before
    assert news.wait(0) == {"branch/x"}
    store.close()
    with pytest.raises(Closed):
        news.wait(HANG_SECONDS)
    with pytest.raises(Closed):
        store.subscribe()


# -------------------- stores that do not tell


class Values(KVStore):
    """A dict."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def set(self, key: str, value: bytes) -> None:
        self.values[key] = value


class CountedStore(Layer):
    """A store that counts how often its refs were listed."""

    def __init__(self) -> None:
        super().__init__(KeyValueStore(Values()))
        self.looks = 0
        self.failure: Exception | None = None

    def refs(self, prefix: str = "") -> dict[str, otolith.types.Hash]:
        self.looks += 1
        if self.failure is not None:
            raise self.failure
        return super().refs(prefix)


class Pauses(Alarm):
    """An alarm that notes how long it was to wait, and waits for nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def wait(self, seconds: float, descriptor: int | None = None) -> bool:
        self.seconds.append(seconds)
        return False


def test_a_store_that_does_not_tell_is_looked_at():
    store = CountedStore()
    assert not store.capabilities.notifies
    news = news_of(store, "branch/")
    put(store, "branch/main", blob("1"))
    assert heard(news, "branch/main") == {"branch/main"}
    news.close()
    assert news_threads() == []


def test_pauses_grow_while_nothing_happens_and_are_short_after_news():
    news, pauses = StoreNews(CountedStore(), ""), Pauses()
    pauses_of = []
    for _ in range(12):
        news.look_soon()
        news.rest(pauses, has_news=False)
        pauses_of.append(pauses.seconds[-1])
    news.look_soon()
    news.rest(pauses, has_news=True)

    assert max(pauses_of[:2]) < 0.12
    assert all(0.5 <= pause <= 1 for pause in pauses_of[-3:])
    assert pauses.seconds[-1] <= 0.05
    assert len(set(pauses_of)) == len(pauses_of)  # each is a random part
    pauses.close()


def test_nobody_looks_while_nobody_waits():
    store = CountedStore()
    source = StoreNews(store, "")
    news = source.subscribe()
    wait_until(lambda: source._is_parked, "the end of looking")
    looks = store.looks
    put(store, "main", blob("1"))
    assert store.looks == looks
    assert heard(news, "main") == {"main"}
    news.close()


def test_those_who_wait_for_the_same_share_the_looks():
    store = CountedStore()
    several = [news_of(store, "branch/") for _ in range(20)]
    assert store.looks == 1
    assert len(news_threads()) == 1
    put(store, "branch/main", blob("1"))
    for news in several:
        assert heard(news, "branch/main") == {"branch/main"}
        news.close()


def test_the_looks_end_with_whoever_waited(monkeypatch):
    monkeypatch.setattr(listened_news, "CHECK_SECONDS", 0.01)
    store = CountedStore()
    news = news_of(store)
    del news
    collect_garbage()
    wait_until(lambda: news_threads() == [], "the end of looking")


def test_a_store_that_cannot_be_looked_at_says_so():
    store = CountedStore()
    news = news_of(store)
    store.failure = Unavailable("no answer", hint="wait")
    with pytest.raises(Unavailable):
        list(iter(lambda: news.wait(0.1), None))  # it looks now and then
    store.failure = None
    put(store, "main", blob("1"))
    assert heard(news, "main") == {"main"}
    store.failure = Closed("it was closed", hint="open it again")
    with pytest.raises(Closed):
        news.wait(HANG_SECONDS)
    with pytest.raises(Closed):
        news_of(store)


@needs_fork
def test_a_child_looks_for_itself():
    store = CountedStore()
    news = news_of(store)
    put(store, "main", blob("1"))
    heard(news, "main")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            put(store, "child", blob("2"))
            heard(news, "child")
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    news.close()


# -------------------- greenlets and tasks


@pytest.mark.parametrize("kind", ["memory", "sqlite", "looked at"])
def test_a_greenlet_that_waits_lets_the_others_continue(kind, tmp_path):
    makers: dict[str, Callable[[], Store]] = {
        "memory": MemoryStore,
        "sqlite": lambda: SqliteStore(tmp_path / "a.db", durability="fast"),
        "looked at": CountedStore,
    }
    with closing(makers[kind]()) as store:
        pool = GreenletPool()
        is_waiting = Event()

        def wait() -> set[str]:
            news = news_of(store, "main")
            is_waiting.set()
            return heard(news, "main")

        waiting = pool.submit(wait)
        assert is_waiting.wait(HANG_SECONDS)
        pool.submit(put, store, "main", blob("1")).result(HANG_SECONDS)
        assert waiting.result(HANG_SECONDS) == {"main"}
        pool.shutdown()


def test_a_thousand_tasks_wait_for_one_move(store):
    several = [store.subscribe() for _ in range(1000)]

    async def wait() -> list[set[str]]:
        waiting = [asyncio.create_task(news.wait_async(HANG_SECONDS)) for news in several]
        await asyncio.sleep(0)
        await asyncio.to_thread(put, store, "main", blob("1"))
        return [await each for each in waiting]

    assert asyncio.run(wait()) == [{"main"}] * 1000
    assert len(news_threads()) == 1
