"""What the SQLite store promises beyond the contract."""

from __future__ import annotations

import os
import subprocess
import sys
from threading import Thread

import apsw
import pytest

from otolith.errors import Busy, Corrupt, Error, Full, QuotaExceeded, StaleRef
from otolith.stores import Batch, SqliteStore, Swap
from otolith.testing import blob, links, node, put
from tests.patience import HANG_SECONDS

BODY = b"".join(blob(str(number)).hash for number in range(40))


@pytest.fixture
def store(tmp_path):
    store = SqliteStore(tmp_path / "a.db", durability="fast")
    yield store
    store.close()


def direct(store, query, *bindings):
    """Change the file behind the store's back."""
    connection = apsw.Connection(store.path)
    connection.set_busy_timeout(2000)
    rows = connection.execute(query, bindings).fetchall()
    connection.close()
    return rows


def line(store, length):
    """Write objects that each differ a little from the last."""
    items = [blob(b"head" + BODY)]
    store.write(Batch(objects=items))
    for number in range(length):
        new = blob(b"%04d" % number + BODY + b"%04d" % number, base=items[-1])
        store.write(Batch(objects=[new]))
        items.append(new)
    return items


# Rot


def test_a_flipped_bit_in_an_object_is_corrupt_and_never_an_answer(store):
    item = blob(BODY)
    store.write(Batch(objects=[item]))
    direct(store, "update object set data=cast(x'00' || substr(data, 2, 100) as blob)")
    with pytest.raises(Corrupt, match="fsck"):
        store.read([item.hash])
    with pytest.raises(Corrupt):
        store.find(item.hash[:4])


def test_a_damaged_object_is_healed_by_writing_it_again(store):
    item = blob(BODY)
    store.write(Batch(objects=[item]))
    direct(store, "update object set data=x'0001'")
    store.write(Batch(objects=[item]))
    assert store.read([item.hash]) == {item.hash: item.data}
    assert len(direct(store, "select id from object")) == 2


def test_a_missing_base_is_corrupt(store):
    items = line(store, 3)
    direct(store, "delete from object where id=1")
    store._objects.recent.clear()
    with pytest.raises(Corrupt, match="missing"):
        store.read([items[-1].hash])


@pytest.mark.parametrize(
    "damage",
    [
        "delete from ref where name='main'",
        "update ref set name='mail' where name='main'",
        "update ref set hash=zeroblob(32) where name='main'",
        "update ref set hash=null where name='main'",
        "update ref set hash=zeroblob(8) where name=''",
        "delete from ref where name=''",
    ],
)
def test_a_damaged_ref_never_looks_absent(store, tmp_path, damage):
    put(store, "main", blob("a"))
    put(store, "other", blob("a"))
    direct(store, damage)
    again = SqliteStore(tmp_path / "a.db")
    with pytest.raises(Corrupt):
        again.refs()
    if "name=''" not in damage:
        with pytest.raises(Corrupt):
            again.ref("main")
    with pytest.raises(Corrupt):
        again.ref("absent")
    again.close()


def test_a_damaged_history_is_corrupt(store):
    put(store, "main", blob("a"))
    put(store, "main", blob("b"))
    direct(store, "update move set time=5 where seq=1")
    with pytest.raises(Corrupt):
        store.moves("main")
    direct(store, "delete from move where seq=1")
    with pytest.raises(Corrupt):
        store.moves("main")


def test_flipped_bits_anywhere_in_the_file_never_give_a_wrong_answer(tmp_path):
    store = SqliteStore(tmp_path / "a.db")
    items = line(store, 30)
    for item in items[::3]:
        put(store, "main", item)
    wanted = {item.hash: item.data for item in items}
    head, moves = store.ref("main"), store.moves("main")
    store.close()
    image = (tmp_path / "a.db").read_bytes()
    caught = 0
    for step in range(0, len(image) * 8, 797):
        flipped = bytearray(image)
        flipped[step // 8] ^= 1 << step % 8
        (tmp_path / "b.db").write_bytes(flipped)
        try:
            other = SqliteStore(tmp_path / "b.db", create=False, read_only=True)
            got = other.read(list(wanted)), other.ref("main"), other.moves("main")
            other.close()
        except Error:
            caught += 1
            continue
        finally:
            for name in ("b.db-wal", "b.db-shm"):
                (tmp_path / name).unlink(missing_ok=True)
        # An object whose index entry rotted may look absent; what is there must be right.
        assert got[0].items() <= wanted.items()
        assert got[1:] == (head, moves)
    assert caught


# Room


def test_a_limit_refuses_the_write_and_keeps_what_is_there(tmp_path):
    store = SqliteStore(tmp_path / "a.db", limit_bytes=200_000)
    put(store, "main", blob("a"))
    big = [blob(BODY + bytes([n]) * n) for n in range(250)]
    noise = [blob(b"".join(blob(f"{n} {m}").hash for m in range(60))) for n in range(250)]
    with pytest.raises(QuotaExceeded, match="limit_bytes"):
        store.write(Batch(objects=[*big, *noise]))
    assert store.usage().objects == 1
    put(store, "main", blob("b"))
    assert store.usage().limit_bytes == 200_000
    store.close()


def test_a_chain_of_small_changes_takes_little_room(store):
    before = store.usage().stored_bytes
    line(store, 600)
    assert (store.usage().stored_bytes - before) / 600 < 250


# Groups


def queued(store, batches):
    """Let several writers queue up behind the lock, then let them go; return their errors."""
    errors = {}

    def write(number, batch):
        try:
            store.write(batch)
        except (StaleRef, Full) as error:
            errors[number] = type(error)

    threads = [Thread(target=write, args=pair) for pair in enumerate(batches)]
    waiting = store._group_commit._waiting
    with store._connections.lock:
        for place, thread in enumerate(threads):
            thread.start()
            while len(waiting) <= place:
                pass
    for thread in threads:
        thread.join()
    return errors


def test_waiting_writers_share_one_transaction(store):
    begun = []
    store._connections.writer().trace_v2(
        apsw.SQLITE_TRACE_STMT, lambda event: begun.append(event["sql"])
    )
    items = [blob(str(number)) for number in range(6)]
    batches = [
        Batch(objects=[item], swaps=[Swap(item.hash.hex(), None, item.hash)]) for item in items
    ]
    assert queued(store, batches) == {}
    store._connections.writer().trace_v2(0, None)
    assert len([sql for sql in begun if sql.lower().startswith("begin")]) == 1
    assert len(store.refs()) == 6


def test_a_batch_of_a_group_sees_what_earlier_ones_did(store):
    a, b, c = (blob(text) for text in "abc")
    batches = [
        Batch(objects=[a], swaps=[Swap("main", None, a.hash)]),
        Batch(objects=[b], swaps=[Swap("main", None, b.hash)]),
        Batch(objects=[c], swaps=[Swap("main", a.hash, c.hash)], needs=[a.hash]),
    ]
    assert queued(store, batches) == {1: StaleRef}
    assert store.ref("main") == c.hash
    assert store.read([b.hash]) == {}


def test_one_batch_too_many_does_not_take_its_group_along(tmp_path):
    store = SqliteStore(tmp_path / "a.db", limit_bytes=150_000)
    big = [blob(b"".join(blob(f"{n} {m}").hash for m in range(60))) for n in range(150)]
    small = [blob(str(number)) for number in range(3)]
    batches = [Batch(objects=[item]) for item in small]
    batches.insert(1, Batch(objects=big))
    assert queued(store, batches) == {1: QuotaExceeded}
    assert store.usage().objects == 3
    store.close()


# Processes


def test_a_locked_file_is_busy(tmp_path):
    store = SqliteStore(tmp_path / "a.db", busy_timeout_seconds=0.05)
    other = apsw.Connection(store.path)
    other.execute("begin immediate")
    with pytest.raises(Busy):
        store.write(Batch(objects=[blob("a")]))
    other.execute("rollback")
    store.write(Batch(objects=[blob("a")]))
    other.close()
    store.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_loses_nothing_when_its_parent_closes(tmp_path):
    code = """if True:
        import os, sys
        from otolith.stores import SqliteStore
        from otolith.testing import put, blob
        store = SqliteStore(sys.argv[1])
        put(store, "parent", blob("a"))
        store.refs()
        to_parent, to_child = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            put(store, "first", blob("b"))
            os.write(to_parent[1], b"x")
            os.read(to_child[0], 1)
            put(store, "second", blob("c"))
            store.close()
            os._exit(0)
        os.read(to_parent[0], 1)
        store.close()
        os.write(to_child[1], b"x")
        assert os.waitpid(child, 0)[1] == 0
        store = SqliteStore(sys.argv[1])
        assert sorted(store.refs()) == ["first", "parent", "second"], store.refs()
        put(store, "third", blob("d"))
    """
    subprocess.run(
        [sys.executable, "-c", code, tmp_path / "a.db"], check=True, timeout=HANG_SECONDS
    )


def test_a_base_that_another_process_collected_is_not_used(tmp_path, store):
    old = blob(b"head" + BODY)
    put(store, "main", old)
    other = SqliteStore(tmp_path / "a.db")
    put(other, "main", blob("else"), time=9)
    other.collect(links, forget_moves_before=10)
    other.close()
    assert store.read([old.hash]) == {}
    new = blob(b"HEAD" + BODY, base=old)
    put(store, "main", new)
    store._objects.recent.clear()
    assert store.read([new.hash]) == {new.hash: new.data}


# Collection


def test_a_base_that_nothing_reaches_lives_on_as_bytes_only(store):
    items = line(store, 5)
    put(store, "main", items[-1])
    done = store.collect(links)
    assert (done.kept_objects, done.dropped_objects) == (1, 5)
    assert store.read([item.hash for item in items]) == {items[-1].hash: items[-1].data}
    assert store.usage().objects == 1
    put(store, "main", blob("other"), time=1)
    store.collect(links, forget_moves_before=2)
    assert len(direct(store, "select id from object")) == 1


def test_row_ids_never_come_again(store):
    put(store, "main", blob("a"))
    store.write(Batch(objects=[blob("junk")]))
    (newest,) = direct(store, "select max(id) from object")[0]
    store.collect(links)
    put(store, "main", blob("b"))
    (after,) = direct(store, "select max(id) from object")[0]
    assert after > newest


def test_a_collection_gives_the_room_back(tmp_path, store):
    put(store, "main", blob("a"))
    noise = [blob(b"".join(blob(f"{n} {m}").hash for m in range(60))) for n in range(800)]
    store.write(Batch(objects=noise))
    before = store.usage().stored_bytes
    phases = []
    done = store.collect(links, progress=lambda phase, at, of: phases.append(phase))
    assert done.freed_bytes > before * 0.8
    assert store.usage().stored_bytes == before - done.freed_bytes
    assert (tmp_path / "a.db").stat().st_size < before * 0.3
    assert set(phases) == {"mark", "sweep", "shrink"}
    assert done.longest_block_seconds > 0


def test_nothing_is_dropped_while_a_reached_object_cannot_be_read(store):
    leaf = blob(BODY)
    put(store, "main", node(leaf), leaf, blob("junk"))
    direct(store, "update object set data=x'0007' where length(data)>1000")
    store._objects.recent.clear()
    with pytest.raises(Corrupt, match="nothing was dropped"):
        store.collect(links)
    assert store.read([blob("junk").hash])


def test_what_a_writer_builds_on_during_a_sweep_is_kept(store):
    """A writer dedups against a doomed tree between marking and sweeping."""
    leaf = blob(BODY)
    top = node(leaf)
    store.write(Batch(objects=[leaf, top]))
    junk = [blob(f"junk {number}") for number in range(500)]
    store.write(Batch(objects=junk))
    written: list[object] = []

    def during(phase, at, of):
        if phase == "sweep" and not written:
            written.append(phase)
            store.write(
                Batch(objects=[top], swaps=[Swap("late", None, top.hash)], needs=[leaf.hash])
            )

    put(store, "main", blob("a"))
    store.collect(links, progress=during)
    assert written
    assert len(store.read([top.hash, leaf.hash])) == 2
