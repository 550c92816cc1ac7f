"""Sessions that nobody commits to disappear, with their stash and what only they held."""

from __future__ import annotations

from datetime import timedelta

import pytest

import otolith
from otolith.care import verify
from otolith.core import links
from otolith.durations import duration_seconds
from otolith.errors import Invalid, RefNotFound, StaleRef, Unsupported
from otolith.stores import Batch, CachedStore, MemoryStore, RedisStore, Swap
from otolith.stores.redis.client import Client, RedisAddress
from otolith.testing import blob, put
from tests.servers.process import wait_until
from tests.servers.redis import fresh

DAY = 24 * 3600


@pytest.fixture
def repo(redis_url):
    repo = otolith.open(fresh(redis_url), expire="1d")
    yield repo
    repo.close()


@pytest.fixture
def pass_time(repo):
    """Let time pass for what expires, by moving all deadlines: the clock of the server stays."""
    client = Client(RedisAddress.of(repo.store.url))

    def move(hours):
        key = client.key("deadlines")
        found = client.call("ZRANGE", key, 0, -1, "WITHSCORES")
        for name, deadline in zip(found[::2], found[1::2], strict=True):
            client.call("ZADD", key, repr(float(deadline) - hours * 3600e6), name)
        client.call("HDEL", client.key("meta"), "sweep_at")

    yield move
    client.close()


def _commit(repo, id="a", **values):
    state = repo.session(id)
    state.update(values)
    state.commit("set")
    return state


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("90s", 90), ("1h", 3600), ("7d", 7 * DAY), (5, 5), (0.5, 0.5), (timedelta(hours=2), 7200)],
)
def test_a_duration_is_a_text_seconds_or_a_timedelta(given, wanted):
    assert duration_seconds(given, "expire") == wanted


@pytest.mark.parametrize("wrong", ["", "soon", "1y", "0s", 0, -1, float("nan"), True, None, "-1h"])
def test_what_is_not_a_duration_is_refused(wrong):
    with pytest.raises(Invalid, match="expire must be a time"):
        duration_seconds(wrong, "expire")


def test_a_session_that_was_not_touched_is_gone(repo, pass_time):
    _commit(repo, x=1)
    pass_time(hours=23)
    assert repo.session("a")["x"] == 1
    pass_time(hours=2)
    assert repo.sessions() == []
    assert repo.branches("a") == {}
    assert dict(repo.session("a")) == {}
    assert repo.store.moves("session/a/main") == []
    assert repo.store.moves() == repo.store.moves(".config")


def test_time_is_that_of_the_server(redis_url):
    repo = otolith.open(fresh(redis_url), expire="200ms", clock=lambda: 0)
    _commit(repo, x=1)
    wait_until(lambda: repo.sessions() == [], "the end of the session")


def test_a_commit_starts_the_time_anew_and_reading_does_not(repo, pass_time):
    _commit(repo, x=1)
    _commit(repo, "b", x=1)
    pass_time(hours=20)
    _commit(repo, x=2)
    assert repo.session("b")["x"] == 1
    pass_time(hours=20)
    assert [session.id for session in repo.sessions()] == ["a"]


def test_branches_and_stash_of_a_session_live_and_go_together(repo, pass_time):
    state = _commit(repo, x=1)
    state.fork("try")
    state["staged"] = 2
    state.stash()
    pass_time(hours=20)
    _commit(repo, y=2)
    pass_time(hours=20)
    assert set(repo.branches("a")) == {"main", "try"}
    assert repo.store.refs("stage/")
    pass_time(hours=20)
    assert repo.store.refs().keys() == {".config"}


def test_users_applications_and_tags_stay(repo, pass_time):
    repo.user("u")["name"] = "Ada"
    user = repo.user("u")
    user["name"] = "Ada"
    user.commit()
    state = _commit(repo, x=1)
    repo.tag("kept", state.head)
    pass_time(hours=1000)
    assert repo.user("u")["name"] == "Ada"
    assert repo.at("kept")["x"] == 1
    repo.store.collect(links)
    assert repo.at("kept")["x"] == 1


def test_a_handle_on_a_session_that_is_gone_says_so(repo, pass_time):
    state = _commit(repo, x=1)
    pass_time(hours=25)
    state["x"] = 2
    with pytest.raises(RefNotFound):
        state.commit()


def test_a_name_that_expired_is_free_again(repo, pass_time):
    old = _commit(repo, x=1).head.hash
    pass_time(hours=25)
    with pytest.raises(StaleRef) as caught:
        repo.store.write(Batch(swaps=[Swap("session/a/main", old, None)]))
    assert caught.value.actual is None
    state = _commit(repo, y=2)
    assert dict(state) == {"y": 2}
    assert len(repo.store.moves("session/a/main")) == 1
    pass_time(hours=23)
    assert dict(repo.session("a")) == {"y": 2}


def test_a_session_can_have_a_time_of_its_own(repo, pass_time):
    _commit(repo, "short").expire("1h")
    _commit(repo, "for ever").expire(None)
    first = repo.session("later")
    first.expire("2h")  # before its first commit
    _commit(repo, "short", x=1)
    _commit(repo, "for ever", x=1)
    _commit(repo, "later", x=1)
    _commit(repo, "usual", x=1)
    pass_time(hours=1.5)
    assert {each.id for each in repo.sessions()} == {"for ever", "later", "usual"}
    pass_time(hours=1)
    assert {each.id for each in repo.sessions()} == {"for ever", "usual"}
    pass_time(hours=100)
    assert {each.id for each in repo.sessions()} == {"for ever"}


def test_a_rule_is_that_of_the_store_and_not_of_a_handle(repo, pass_time):
    other = otolith.open(repo.store.url)
    _commit(other, x=1)
    pass_time(hours=20)
    _commit(other, x=2)
    pass_time(hours=20)
    again = otolith.open(repo.store.url, expire="1d")  # the same rule: nothing lives longer
    assert again.session("a")["x"] == 2
    pass_time(hours=5)
    assert again.sessions() == other.sessions() == []


def test_a_new_rule_counts_from_now_and_none_ends_it(repo, pass_time):
    _commit(repo, x=1)
    pass_time(hours=20)
    repo.expire("2d")
    pass_time(hours=30)
    assert len(repo.sessions()) == 1
    repo.expire(None)
    pass_time(hours=1000)
    assert len(repo.sessions()) == 1


def test_writers_remove_what_expired_sessions_held(repo, pass_time):
    empty = repo.store.usage().objects
    for number in range(5):
        _commit(repo, f"s{number}", text=f"{number}" * 500)
    pass_time(hours=25)
    _commit(repo, "s0", text="new")  # removes the old session of this name
    wait_until(lambda: repo.store.usage().objects == empty + 2, "the collection")
    assert dict(repo.session("s0")) == {"text": "new"}
    assert verify(repo).ok


def _recorder(stores):
    """Return a method that notes the store it is called on."""
    return lambda store: stores.append(store) or None


def test_one_writer_at_a_time_removes(repo, pass_time, monkeypatch):
    chosen: list[RedisStore] = []
    monkeypatch.setattr(RedisStore, "_collect_in_background", _recorder(chosen))
    other = otolith.open(repo.store.url, expire="1d")
    plain = otolith.open(repo.store.url)  # it never asked for expiry, and does no work for it
    _commit(repo, x=1)
    pass_time(hours=25)
    _commit(plain, "p", x=1)
    for _ in range(3):
        _commit(other, "b", x=len(chosen))
        _commit(repo, "c", x=len(chosen))
    assert chosen == [other.store]


def test_what_is_purged_is_news(repo, pass_time):
    _commit(repo, x=1)
    news = repo.store.subscribe("session/")
    pass_time(hours=25)
    repo.store.collect(links)
    assert news.wait(10) == {"session/a/main"}


def test_refs_of_other_shapes_never_expire(redis_url):
    store = RedisStore(fresh(redis_url))
    store.expire("session/", 3600, links=links)
    for name in ("main", "session", "session/", "a//b", "session//x", ".attempts/x"):
        put(store, name, blob("a"))
    client = Client(RedisAddress.of(store.url))
    assert client.call("ZRANGE", client.key("deadlines"), 0, -1) == [b"session//"]
    assert len(store.refs()) == 6


@pytest.mark.parametrize("open_one", [lambda: "memory:", lambda: "agent.db"])
def test_a_store_that_cannot_expire_says_which_can(open_one, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Unsupported, match="redis:"):
        otolith.open(open_one(), expire="1h")
    with otolith.open(open_one()) as repo, pytest.raises(Unsupported, match="redis:"):
        repo.session("a").expire("1h")


def test_a_layer_passes_expiry_on(redis_url):
    inner = RedisStore(fresh(redis_url))
    repo = otolith.Repo(CachedStore(inner))
    repo.session("a").expire("1h")
    client = Client(RedisAddress.of(inner.url))
    assert client.call("HGETALL", client.key("rules")) == [b"session/a/", b"3600000000"]
    with pytest.raises(Unsupported):
        otolith.Repo(CachedStore(MemoryStore())).session("a").expire("1h")
    with pytest.raises(Unsupported):
        CachedStore(MemoryStore()).expire("session/", 1, links=links)
