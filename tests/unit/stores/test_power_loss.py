"""The SQLite store on a disk that loses power, runs full, or fails."""

from __future__ import annotations

import pytest

from otolith.errors import Full, ReadOnly, Unavailable
from otolith.stores import Batch, SqliteStore
from otolith.testing import PowerLossVFS, blob, put


@pytest.fixture
def disk():
    with PowerLossVFS(seed=5) as disk:
        yield disk


def grow(store, steps, *, start=0, then=lambda number: None):
    """Write a line of objects, each a small change of the last, and count them in a ref."""
    last = None
    for number in range(start, start + steps):
        item = blob(b"%04d" % number + b"x" * 400 + b"%04d" % number, base=last)
        put(store, "main", item)
        last = item
        then(number)


def count(store):
    head = store.ref("main")
    return -1 if head is None else int(store.read([head])[head][:4])


@pytest.mark.parametrize("durability", ["full", "fast"])
def test_a_power_cut_leaves_a_whole_store(tmp_path, disk, durability):
    store = SqliteStore(tmp_path / "a.db", vfs=disk.name, durability=durability)
    store._connections.writer().execute("pragma wal_autocheckpoint=20")
    lost = []

    def cut(number):
        if number % 4:
            return
        image = tmp_path / f"cut {number}"
        image.mkdir()
        disk.crash(into=image)
        after = SqliteStore(image / "a.db")
        lost.append(number - count(after))
        (sound,) = after._connections.writer().execute("pragma integrity_check").fetchall()[0]
        assert sound == "ok"
        assert len(after.moves("main")) == count(after) + 1
        after.close()

    grow(store, 60, then=cut)
    store.close()
    assert len(lost) == 15
    if durability == "full":
        assert set(lost) == {0}


def test_a_full_disk_refuses_the_write_and_keeps_what_was_acknowledged(tmp_path, disk):
    for place, budget in enumerate(range(0, 90_000, 4_321)):
        path = tmp_path / f"{place}.db"
        store = SqliteStore(path, vfs=disk.name)
        grow(store, 1)
        disk.budget_bytes = budget
        done = [0]
        with pytest.raises(Full):
            grow(store, 60, start=1, then=done.append)
        assert count(store) == done[-1]
        disk.budget_bytes = None
        grow(store, 1, start=done[-1] + 1)
        assert count(store) == done[-1] + 1
        store.close()


def test_after_a_failed_sync_the_store_takes_no_more_writes(tmp_path, disk):
    store = SqliteStore(tmp_path / "a.db", vfs=disk.name)
    grow(store, 3)
    disk.syncs_fail = True
    with pytest.raises(Unavailable):
        grow(store, 1, start=3)
    disk.syncs_fail = False
    with pytest.raises(ReadOnly, match="disk failed"):
        store.write(Batch(objects=[blob("late")]))
    assert count(store) == 2
    store.close()
    assert count(SqliteStore(tmp_path / "a.db")) in {2, 3}


def test_a_disk_that_cannot_read_is_unavailable(tmp_path, disk):
    store = SqliteStore(tmp_path / "a.db", vfs=disk.name)
    grow(store, 3)
    store.close()
    disk.reads_fail = True
    with pytest.raises(Unavailable):
        SqliteStore(tmp_path / "a.db", vfs=disk.name)
    disk.reads_fail = False
    assert count(SqliteStore(tmp_path / "a.db", vfs=disk.name)) == 2
