"""Opening a store file: what is refused, and what the refusal says."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from otolith.errors import (
    Denied,
    FormatTooNew,
    Invalid,
    NotAStore,
    ReadOnly,
    StoreNotFound,
    Unsupported,
)
from otolith.stores import Batch, SqliteStore
from otolith.stores.sqlite import schema
from otolith.stores.sqlite.sql import GuardedConnection
from otolith.testing import blob, put

NOBODY = 65534
LOCAL = "36 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw"
SHARE = r"90 36 0:50 / /mnt/my\040share rw - nfs4 server:/x rw"


@pytest.mark.parametrize("version", ["3.40.1", "3.51.2"])
def test_an_sqlite_that_can_lose_writes_is_refused(version):
    with pytest.raises(Unsupported, match="lose committed writes"):
        schema.check_library(version)


@pytest.mark.parametrize("version", ["3.51.3", "3.54.1", "4.0.0"])
def test_a_safe_sqlite_is_taken(version):
    schema.check_library(version)


def test_the_guard_stands_at_the_door(tmp_path, monkeypatch):
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")
    with pytest.raises(Unsupported):
        SqliteStore(tmp_path / "a.db")


def test_a_network_file_system_is_refused():
    with pytest.raises(Unsupported, match="network file system"):
        schema.check_file_system("/mnt/my share/a.db", [LOCAL, SHARE])
    schema.check_file_system("/mnt/my shared/a.db", [LOCAL, SHARE])


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(StoreNotFound, match="no directory"):
        SqliteStore(tmp_path / "missing" / "a.db")


def test_a_missing_file_is_not_made_unless_asked(tmp_path):
    for options in ({"create": False}, {"read_only": True}):
        with pytest.raises(StoreNotFound):
            SqliteStore(tmp_path / "a.db", **options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_not_a_store(tmp_path):
    with pytest.raises(NotAStore, match="directory"):
        SqliteStore(tmp_path)


def test_a_text_file_is_not_a_store_and_stays_as_it_is(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("not a database, but longer than sixteen bytes")
    with pytest.raises(NotAStore):
        SqliteStore(file)
    assert file.read_text().startswith("not a database")


@pytest.mark.parametrize("text", ["x", "x" * 100, "x" * 5000, "\0" * 4096])
@pytest.mark.parametrize("options", [{}, {"read_only": True}], ids=["write", "read"])
def test_a_file_of_any_length_is_not_a_store_and_stays_as_it_is(tmp_path, text, options):
    file = tmp_path / "notes.txt"
    file.write_text(text)
    with pytest.raises(NotAStore):
        SqliteStore(file, **options)
    assert file.read_text() == text
    assert list(tmp_path.iterdir()) == [file]


ASK_FOR_THE_LOCK = """if True:
    import fcntl, sys
    with open(sys.argv[1], "rb+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="locks of other systems are elsewhere")
def test_opening_a_store_again_keeps_the_locks_that_this_process_has(tmp_path):
    """The range is the one that SQLite locks while a file is in use."""

    def is_locked():
        ask = [sys.executable, "-c", ASK_FOR_THE_LOCK, tmp_path / "a.db"]
        return b"BlockingIOError" in subprocess.run(ask, capture_output=True, check=False).stderr

    first = SqliteStore(tmp_path / "a.db")
    put(first, "main", blob("a"))
    assert is_locked()
    SqliteStore(tmp_path / "a.db", read_only=True).close()
    SqliteStore(tmp_path / "a.db").close()
    assert is_locked()
    first.close()
    assert not is_locked()


def test_the_database_of_another_program_is_not_a_store_and_stays_as_it_is(tmp_path):
    with sqlite3.connect(tmp_path / "a.db") as other:
        other.execute("create table t(x)")
    other.close()
    before = (tmp_path / "a.db").read_bytes()
    with pytest.raises(NotAStore, match="not an otolith store"):
        SqliteStore(tmp_path / "a.db")
    assert (tmp_path / "a.db").read_bytes() == before


def test_a_newer_format_is_refused(tmp_path):
    SqliteStore(tmp_path / "a.db").close()
    apsw.Connection(str(tmp_path / "a.db")).pragma("user_version", 2)
    with pytest.raises(FormatTooNew, match="format 2"):
        SqliteStore(tmp_path / "a.db")


def test_durability_is_one_of_two_words(tmp_path):
    with pytest.raises(Invalid):
        SqliteStore(tmp_path / "a.db", durability="sometimes")  # type: ignore[arg-type]


def test_a_store_opened_to_read_takes_no_writes(tmp_path):
    with_writer = SqliteStore(tmp_path / "a.db")
    item = blob("a")
    put(with_writer, "main", item)
    store = SqliteStore(tmp_path / "a.db", read_only=True)
    assert store.read([item.hash]) == {item.hash: item.data}
    with pytest.raises(ReadOnly):
        store.write(Batch(objects=[blob("b")]))
    store.close()
    with_writer.close()


@pytest.fixture
def as_nobody():
    """A directory of one's own, and no right beyond it: root could write everywhere."""
    with tempfile.TemporaryDirectory() as folder:
        is_root = os.geteuid() == 0
        if is_root:
            os.chown(folder, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        yield Path(folder)
        if is_root:
            os.seteuid(0)
        Path(folder).chmod(0o700)


def test_a_directory_that_cannot_be_written_is_denied_but_can_be_read(as_nobody):
    SqliteStore(as_nobody / "a.db").close()
    (as_nobody / "a.db").chmod(0o444)
    as_nobody.chmod(0o555)
    with pytest.raises(Denied, match="read_only=True"):
        SqliteStore(as_nobody / "a.db")
    with closing(SqliteStore(as_nobody / "a.db", read_only=True)) as store:
        assert store.refs() == {}


def test_a_store_on_a_read_only_medium_is_read_as_it_is(tmp_path, monkeypatch):
    item = blob("a")
    store = SqliteStore(tmp_path / "a.db")
    put(store, "main", item)
    store.close()
    connect = GuardedConnection

    def without_shared_memory(name, **options):
        if "immutable=1" not in name:
            raise apsw.CantOpenError("unable to open database file")
        return connect(name, **options)

    monkeypatch.setattr(schema, "GuardedConnection", without_shared_memory)
    assert SqliteStore(tmp_path / "a.db", read_only=True).ref("main") == item.hash
    (tmp_path / "a.db-wal").write_bytes(b"x")
    with pytest.raises(ReadOnly, match="writes in its -wal"):
        SqliteStore(tmp_path / "a.db", read_only=True)


def test_the_file_is_kept_as_the_design_says(tmp_path):
    store = SqliteStore(tmp_path / "a.db")
    connection = store._connections.writer()
    settings = {
        "journal_mode": "wal",
        "synchronous": 2,
        "auto_vacuum": 2,
        "page_size": 4096,
        "application_id": int.from_bytes(b"otol", "big"),
        "user_version": 1,
        "mmap_size": 0,
    }
    assert {name: connection.pragma(name) for name in settings} == settings
    assert connection.pragma("journal_size_limit") >= 16 << 20
    store.close()


def test_a_store_that_several_make_at_once_is_made_once(tmp_path):
    for number in range(25):
        with ThreadPoolExecutor(6) as pool:  # an error of one is raised here
            for store in pool.map(SqliteStore, [tmp_path / f"{number}.db"] * 6):
                store.close()
