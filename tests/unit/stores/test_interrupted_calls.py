"""What was wrong when every call was made to fail, each by itself."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import apsw
import pytest

from otolith.errors import Error, Unavailable
from otolith.stores import Batch, MemoryStore, Object, SqliteStore, Swap
from otolith.stores.base import digest
from otolith.stores.sqlite import store as sqlite_store
from otolith.testing import Fault, FaultyStore
from tests.fault.injection import Countdown, FailingDisk
from tests.fault.scenarios import repo_over


class Stop(BaseException):
    """Control-C."""


@pytest.fixture
def store():
    return FaultyStore(MemoryStore())


def next_fails(store: FaultyStore, *calls: str, kind: Any = "refuse") -> None:
    store.plan = [Fault(call, at=store.calls[call] + 1, kind=kind) for call in calls]


def test_a_commit_interrupted_once_it_has_landed_is_not_counted_again(store, monkeypatch):
    state = repo_over(store).session("s")
    state.counter("n").add(1)
    state.commit("one")
    state.counter("n").add(1)
    with monkeypatch.context() as patch:
        patch.setattr(state.cells.objects, "settle", _stop)  # what follows the write
        with pytest.raises(Stop):
            state.commit("two")

    state.counter("n").add(1)
    state.commit("three")

    fresh = repo_over(store).session("s")
    assert fresh["n"] == 3
    assert [commit.message for commit in fresh.log()] == ["three", "two", "one"]


def test_a_stash_that_could_not_be_taken_up_is_still_there_and_the_head_too(store):
    repo = repo_over(store)
    state = repo.session("s")
    state.counter("n").add(1)
    state["big"] = {f"k{number}": "x" * 200 for number in range(300)}
    state.commit("one")
    other = repo.session("s")
    other.counter("n").add(5)
    other.stash()
    state.counter("n").add(10)
    state.commit("two")
    calls = store.calls["read"]

    for number in range(1, 20):
        fresh = repo_over(store).session("s")
        store.plan = [Fault("read", at=store.calls["read"] + number)]
        try:
            fresh.unstash()
        except Unavailable:
            assert fresh.is_clean
            assert fresh["n"] == 11
            continue
        store.plan = []
        assert fresh["n"] == 6
        break
    assert store.calls["read"] > calls + 1


def test_a_rollback_that_failed_drops_no_edits(store):
    state = repo_over(store).session("s")
    for number in range(3):
        state["x"] = number
        state.commit(str(number))
    state["precious"] = 1
    next_fails(store, "write")
    with pytest.raises(Unavailable):
        state.rollback(steps=1, discard=True)

    assert state.to_dict() == {"x": 2, "precious": 1}
    state.commit("precious")
    assert repo_over(store.inner).session("s").to_dict() == {"x": 2, "precious": 1}


@pytest.mark.parametrize("calls", [["write"], ["write", "ref"]])
def test_edits_stashed_without_a_reply_are_stashed_again_or_committed(store, calls):
    repo = repo_over(store)
    for verb in ("stash", "commit"):
        state = repo.session(verb)
        state.counter("n").add(1)
        state.commit("one")
        state.counter("n").add(1)
        store.plan = [
            Fault(call, at=store.calls[call] + 1, kind="lose" if call == "write" else "refuse")
            for call in calls
        ]
        try:
            state.stash()
        except Unavailable:
            assert calls == ["write", "ref"]
        store.plan = []

        state.stash() if verb == "stash" else state.commit("two")

        fresh = repo_over(store.inner).session(verb)
        fresh.unstash()  # nothing is left there once it was committed
        assert fresh["n"] == 2
        assert fresh.is_clean == (verb == "commit")


def test_a_stash_emptied_without_a_reply_can_be_emptied_again(store):
    state = repo_over(store).session("s")
    state["x"] = 1
    state.commit("one")
    state["x"] = 2
    state.stash()
    state["x"] = 1
    next_fails(store, "write", kind="lose")
    with pytest.raises(Unavailable):
        state.stash()

    state.stash()

    assert store.refs("stage") == {}


@pytest.mark.parametrize("kind", ["counter", "list"])
def test_what_could_not_be_given_its_policy_is_not_added_twice(store, kind, monkeypatch):
    state = repo_over(store).session("s")

    def add() -> None:
        state.counter("a").add(1) if kind == "counter" else state.list("a").append(1)

    def fail(*_: object) -> None:
        raise Unavailable("no", hint="")

    with monkeypatch.context() as patch:
        patch.setattr(state, "adopt_policy", fail)
        with pytest.raises(Unavailable):
            add()
    add()

    assert state["a"] == (1 if kind == "counter" else [1])
    assert list(state.policies().values()) == ["counter" if kind == "counter" else "append"]


def test_an_edit_that_failed_on_its_way_down_leaves_no_map_behind(store, monkeypatch):
    repo = repo_over(store)
    state = repo.session("s")
    state["a"] = 1
    state.commit("one")
    check, calls = state._stage._check_map, []

    def fail_deeper(path: Any, names: Any) -> None:
        calls.append(path)
        if len(path) > 1:
            raise Stop
        check(path, names)

    with monkeypatch.context() as patch:
        patch.setattr(state._stage, "_check_map", fail_deeper)
        with pytest.raises(Stop):
            state["b/c/d"] = 1

    assert calls == [("b",), ("b", "c")]
    assert state.is_clean


def batch(*names: str) -> Batch:
    data = b"content"
    item = Object(digest(data), data)
    return Batch(objects=[item], swaps=[Swap(name, None, item.hash) for name in names], time=1)


def test_a_memory_store_interrupted_between_two_refs_moves_neither(monkeypatch):
    store = MemoryStore()
    log = store._moves

    class Half(dict[str, Any]):
        def setdefault(self, name: str, default: Any = None) -> Any:
            if name == "b":
                raise Stop
            return super().setdefault(name, default)

    store._moves = Half(log)
    with pytest.raises(Stop):
        store.write(batch("a", "b"))

    assert store.refs() == {}
    assert store.moves() == []
    assert store.usage() == MemoryStore().usage()


def test_a_transaction_is_ended_whatever_fails_right_after_it_began(tmp_path, monkeypatch):
    store = SqliteStore(tmp_path / "a.db")

    def fail() -> None:
        raise Stop

    store._group_commit._last_version = None
    with monkeypatch.context() as patch:
        patch.setattr(store._refs, "forget", fail, raising=True)
        with pytest.raises(Stop):
            store.write(batch("a"))
    # While it was undone, the same failed again.
    other = SqliteStore(tmp_path / "a.db", busy_timeout_seconds=0.05)
    other.write(batch("a"))

    assert set(store.refs()) == {"a"}


def test_a_ticket_that_was_interrupted_before_it_waited_is_written_by_nobody(tmp_path):
    store = SqliteStore(tmp_path / "a.db")

    class Queue(deque[Any]):
        def append(self, ticket: Any) -> None:
            super().append(ticket)
            raise Stop

    store._group_commit._waiting = Queue()
    with pytest.raises(Stop):
        store.write(batch("dropped"))
    store._group_commit._waiting = deque(store._group_commit._waiting)
    store.write(batch("a"))

    assert set(store.refs()) == {"a"}


def test_a_connection_whose_snapshot_cannot_be_ended_is_not_lent_again(tmp_path, monkeypatch):
    store = SqliteStore(tmp_path / "a.db")
    store.write(batch("a"))
    store.refs()

    def fail(connection: Any) -> None:
        raise apsw.IOError("no")

    with monkeypatch.context() as patch:
        patch.setattr("otolith.stores.sqlite.connections.roll_back", fail)
        assert set(store.refs()) == {"a"}

    assert store._connections._idle == []
    assert set(store.refs()) == {"a"}


def test_a_reader_that_was_lost_on_its_way_does_not_count_as_lent(tmp_path, monkeypatch):
    store = SqliteStore(tmp_path / "a.db")
    connections = store._connections
    with monkeypatch.context() as patch:
        patch.setattr("otolith.stores.sqlite.connections.connect_reader", _stop)
        with pytest.raises(Stop):
            store.refs()
    reading = connections.reading()
    connections.borrow(reading)
    assert len(connections._lent) == 1
    del reading  # as if interrupted before it was stored

    assert not connections._lent


def _stop(*_: object) -> None:
    raise Stop


def test_the_first_error_of_a_store_that_could_not_be_made_is_told(tmp_path):
    with FailingDisk() as disk:
        counted = Countdown()
        with disk.armed(counted):
            SqliteStore(tmp_path / "counted.db", vfs=disk.name).close()
        for number in range(1, counted.count + 1):
            path = tmp_path / f"{number}.db"
            with disk.armed(Countdown(at=number)):
                told = why_not(lambda: SqliteStore(path, vfs=disk.name).close())  # noqa: B023
            assert "rollback" not in told, counted.log[number - 1]


def why_not(act: Callable[[], object]) -> str:
    try:
        act()
    except Error as error:
        return str(error)
    return ""


def test_a_write_needs_no_second_thread(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_store, "_TWO_THREADS_FROM_BYTES", 1)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    store = SqliteStore(tmp_path / "a.db")
    monkeypatch.setattr(threading.Thread, "start", refuse)
    store.write(batch("a"))

    assert set(store.refs()) == {"a"}
