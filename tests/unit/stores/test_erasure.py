"""What is dropped and erased is gone from every file, and what differs from it lives on."""

from __future__ import annotations

import apsw
import pytest

import otolith
from otolith.care import prune, verify
from otolith.errors import Corrupt
from otolith.stores import TIME_LIMIT, Batch, MemoryStore, SqliteStore
from otolith.testing import blob, links, put
from tests.residue import objects, residue

BODY = b"".join(blob(str(number)).hash for number in range(40))
PIN = "wxzkbvqjhdfgklmnprstbcdf"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "s.db"


@pytest.fixture
def store(path):
    store = SqliteStore(path, durability="fast", busy_timeout_seconds=0.2)
    yield store
    store.close()


def line(store, length):
    """Write objects that each differ a little from the last; return them."""
    items = [blob(b"head" + BODY + PIN.encode())]
    store.write(Batch(objects=items))
    for number in range(1, length):
        text = b"%04d" % number + BODY + PIN.encode() + b"%04d" % number
        items.append(blob(text, base=items[-1]))
        store.write(Batch(objects=[items[-1]]))
    return items


def erase(store):
    return store.collect(links, forget_moves_before=TIME_LIMIT, erase=True)


def sizes(path):
    with apsw.Connection(str(path)) as connection:
        return dict(connection.execute("select id, length(data) from object where key<>0"))


# Bases


def test_rows_on_top_of_an_erased_base_are_read_as_before(store, path):
    items = line(store, 8)
    kept = [items[2], items[5], items[6]]
    for number, item in enumerate(kept):
        put(store, f"keep{number}", item)
    put(store, "newest", blob("newest"))
    assert erase(store).erased
    assert store.read([item.hash for item in items]) == {item.hash: item.data for item in kept}
    assert len(objects(path)) == len(kept) + 1  # also checks each row's form, base and depth


def test_a_row_whose_base_was_erased_is_a_difference_from_what_is_kept_below(store, path):
    items = line(store, 6)
    put(store, "low", items[1])
    put(store, "high", items[4])
    put(store, "newest", blob("newest"))
    erase(store)
    low, high, _ = sizes(path).values()
    assert high < 60 < len(BODY) < low


def test_a_row_on_top_of_several_erased_bases_is_whole(store, path):
    items = line(store, 6)
    put(store, "high", items[5])
    erase(store)
    assert objects(path) == {6: items[5].data}


def test_the_newest_row_is_blank_once_it_is_erased(store, path):
    put(store, "main", blob("main"))
    store.write(Batch(objects=[blob(PIN)]))
    erase(store)
    assert sorted(objects(path).values()) == [b"", b"main"]
    put(store, "main", blob("next"))
    assert max(objects(path)) == 3  # numbers do not come again
    erase(store)
    assert list(objects(path).values()) == [b"next"]


def test_a_base_whose_depth_changed_meanwhile_is_not_taken_as_it_was(store, path):
    other = SqliteStore(path, durability="fast")
    items = line(other, 5)
    put(other, "main", items[4])
    put(other, "newest", blob("newest"))
    erase(store)  # the last of the line is whole now, and the other store does not know
    new = blob(b"9999" + items[4].data[4:], base=items[4])
    put(other, "main", new)
    other.close()
    assert new.data in objects(path).values()  # every depth is one more than that of its base


def test_nothing_is_erased_below_an_object_that_cannot_be_read(store):
    items = line(store, 4)
    put(store, "main", items[3])
    store.collect(links, forget_moves_before=TIME_LIMIT)
    connection = apsw.Connection(store.path)
    connection.execute("update object set data=cast(x'00' || data as blob) where key=0 and id=1")
    before = connection.execute("select count(*) from object").fetchall()
    with pytest.raises(Corrupt):
        erase(store)
    assert connection.execute("select count(*) from object").fetchall() == before
    connection.close()


@pytest.mark.parametrize("phase", ["mark", "sweep", "rewrite", "erase"])
def test_two_that_erase_at_once_lose_nothing(path, phase):
    """The second runs in the middle of the first, after more became garbage."""
    first, second = (SqliteStore(path, durability="fast") for _ in range(2))
    items = line(first, 12)
    for number in (3, 5, 7, 9, 11):
        put(first, f"r{number}", items[number])
    put(first, "newest", blob("newest"))
    seen: list[str] = []

    def during(now, at, total):
        if now == phase and not seen:
            seen.append(now)
            put(second, "r5", blob("other"))
            put(second, "r9", blob(b"late" + items[11].data, base=items[11]))
            erase(second)

    first.collect(links, forget_moves_before=TIME_LIMIT, erase=True, progress=during)
    assert seen == [phase]
    kept = [items[number] for number in (3, 7, 11)]
    for store in (first, second):
        assert len(store.read([item.hash for item in kept])) == 3
        store.close()
    late = blob(b"late" + items[11].data)
    assert late.data in objects(path).values()


# Files


def secret(repo):
    state = repo.session("s")
    state["pin"] = PIN
    state.commit()
    repo.delete_branch("s", "main")


def test_a_reader_that_holds_the_wal_back_is_reported_and_the_close_finishes(path):
    store = SqliteStore(path, busy_timeout_seconds=0.05)
    put(store, "main", blob(PIN))
    reader = apsw.Connection(str(path))
    reader.execute("begin")
    reader.execute("select * from object").fetchall()
    put(store, "main", blob("other"))
    done = erase(store)
    assert not done.erased
    assert "-wal" in done.residue
    assert residue(path, [PIN]) == {PIN}
    reader.execute("rollback")
    store.close()
    assert residue(path, [PIN]) == set()
    reader.close()


def test_the_next_prune_finishes_what_a_reader_held_back(path):
    store = SqliteStore(path, busy_timeout_seconds=0.05)
    put(store, "main", blob(PIN))
    reader = apsw.Connection(str(path))
    reader.execute("begin")
    reader.execute("select * from object").fetchall()
    put(store, "main", blob("other"))
    assert not erase(store).erased
    reader.execute("rollback")
    assert erase(store).erased
    assert residue(path, [PIN]) == set()
    reader.close()
    store.close()


def test_a_writer_that_keeps_the_file_from_being_rebuilt_is_reported(path):
    store = SqliteStore(path, busy_timeout_seconds=0.05)
    put(store, "main", blob(PIN))
    put(store, "main", blob("other"))
    writer = apsw.Connection(str(path))

    def during(phase, at, total):
        if phase == "rebuild" and not writer.in_transaction:
            writer.execute("begin immediate")

    done = store.collect(links, forget_moves_before=TIME_LIMIT, erase=True, progress=during)
    assert not done.erased
    assert "not rebuilt" in done.residue
    assert "another process" in done.residue
    writer.execute("rollback")
    writer.close()
    store.close()


def test_a_large_file_is_rebuilt_beside_memory(path, monkeypatch):
    monkeypatch.setattr("otolith.stores.sqlite.erasure._IN_MEMORY_BYTES", 0)
    with otolith.open(path) as repo:
        secret(repo)
        assert prune(repo, expire_seconds=0).erased
        assert residue(path, [PIN]) == set()
        assert verify(repo, level="deep").ok


def test_without_an_erasure_only_the_objects_are_gone(path):
    with otolith.open(path) as repo:
        secret(repo)
        done = prune(repo, expire_seconds=0.000001)
        assert done.dropped_objects
        assert (done.erased, done.residue) == (False, "")
    assert residue(path, [PIN]) == {PIN}


def test_what_is_dated_in_the_future_is_forgotten_too(path):
    now = [1_000_000]
    with otolith.open(path, clock=lambda: now[0]) as repo:
        now[0] = 9_000_000
        secret(repo)
        now[0] = 2_000_000
        assert prune(repo, expire_seconds=0).dropped_objects
    assert residue(path, [PIN]) == set()


def test_a_value_is_forgotten_by_a_new_session_without_it(path):
    rest = [f"line {number}" for number in range(120)]
    with otolith.open(path) as repo:
        state = repo.session("old")
        state["doc"] = {"pin": PIN, "rest": rest}
        state.commit("with")
        state["doc"] = {"pin": "redacted", "rest": rest}
        state.commit("without")
        fresh = repo.session("fresh")
        for name in state:
            fresh[name] = state[name]
        fresh.commit("as of now")
        repo.delete_branch("old", "main")
        assert prune(repo, expire_seconds=0).erased
        assert residue(path, [PIN]) == set()
    with otolith.open(path) as repo:
        assert repo.session("fresh")["doc"] == {"pin": "redacted", "rest": rest}


def test_a_store_in_memory_has_nothing_left(store):
    memory = MemoryStore()
    put(memory, "main", blob("a"))
    assert memory.collect(links, erase=True).erased
    assert not memory.collect(links, erase=True, dry_run=True).erased
