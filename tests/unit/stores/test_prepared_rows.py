"""Objects that are made ready ahead of a write, and a WAL that is moved beside the commits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from otolith.errors import Invalid
from otolith.stores import Batch, CachedStore, MemoryStore, Object, Preparer, SqliteStore
from otolith.stores.base import digest
from otolith.stores.sqlite.objects import PreparedRow, PreparedRows, key_of

CHUNKS = [bytes([number]) * 60_000 + os.urandom(20) for number in range(8)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with_store = SqliteStore(tmp_path / "a.db")
    yield with_store
    with_store.close()


def test_what_was_prepared_is_written_as_it_is(store: SqliteStore) -> None:
    names = store.prepare(CHUNKS)
    store.write(Batch([Object(name, data) for name, data in zip(names, CHUNKS, strict=True)]))
    assert store.read(names) == dict(zip(names, CHUNKS, strict=True))


def test_preparing_writes_nothing(store: SqliteStore) -> None:
    names = store.prepare(CHUNKS)
    assert store.read(names) == {}
    assert store.usage().objects == 0


def test_other_bytes_under_a_prepared_name_are_refused(store: SqliteStore) -> None:
    (name,) = store.prepare(CHUNKS[:1])
    with pytest.raises(Invalid, match="does not hash to its name"):
        store.write(Batch([Object(name, CHUNKS[1])]))
    assert store.read([name]) == {}


def test_a_layer_prepares_for_the_store_in_it(tmp_path: Path) -> None:
    for inner in (MemoryStore(), SqliteStore(tmp_path / "b.db")):
        layer = CachedStore(inner)
        assert isinstance(layer, Preparer)
        assert layer.prepare(CHUNKS) == list(map(digest, CHUNKS))
        layer.close()


def test_no_more_is_prepared_than_the_limit_allows() -> None:
    prepared = PreparedRows(limit_bytes=1000)
    drafts = [draft(bytes([number]) * 200) for number in range(10)]
    for each in drafts:
        prepared.put(each)
    kept = [each for each in drafts if prepared.take(Object(each.hash, each.data)) is not None]
    assert kept == drafts[-2:]  # 400 bytes each, data and row


def draft(data: bytes) -> PreparedRow:
    name = digest(data)
    return PreparedRow(name, key_of(name), data, data, None)


def test_a_long_wal_is_moved_into_the_file_while_the_store_is_open(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "a.db")
    noise = [os.urandom(60_000) for _ in range(400)]  # 24 MB, three times what makes a WAL long
    store.write(Batch([Object(digest(data), data) for data in noise]))
    store._connections._checkpoints.wait()
    assert (tmp_path / "a.db").stat().st_size > 20e6
    store.close()
    assert not (tmp_path / "a.db-wal").exists()


def test_a_store_that_is_closed_at_once_has_everything(tmp_path: Path) -> None:
    noise = [os.urandom(60_000) for _ in range(400)]
    names = list(map(digest, noise))
    store = SqliteStore(tmp_path / "a.db")
    store.write(Batch([Object(name, data) for name, data in zip(names, noise, strict=True)]))
    store.close()
    again = SqliteStore(tmp_path / "a.db")
    assert len(again.read(names)) == 400
    again.close()


def test_a_fork_beside_a_checkpoint_leaves_both_sides_working(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "a.db")
    noise = [os.urandom(60_000) for _ in range(400)]
    store.write(Batch([Object(digest(data), data) for data in noise]))
    child = os.fork()
    if child == 0:
        store.write(Batch([Object(digest(b"child"), b"child")]))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    store.write(Batch([Object(digest(b"parent"), b"parent")]))
    assert status == 0
    assert len(store.read([digest(b"child"), digest(b"parent")])) == 2
    store.close()
