"""Files that are no stores, and stores that somebody prepared: refused at once; nothing hangs."""

from __future__ import annotations

import os
from binascii import crc_hqx

import apsw
import pytest
from msgspec.msgpack import encode

import otolith
from otolith.care import verify
from otolith.errors import Corrupt, Error, Invalid, NotAStore, StoreNotFound, Unavailable

ENDLESS = "with recursive n(x) as (select 1 union all select x + 1 from n) select x from n"
CHANGES = {
    "a trigger that deletes": "create trigger t after insert on ref begin delete from object; end",
    "a view": f"create view v as {ENDLESS}",
    "a view in the place of a table": (
        f"drop table fence; create view fence as select x name, x token, x sum from ({ENDLESS})"
    ),
    "a table": "create table more(x)",
    "an index with an expression": "create index i on object(length(data))",
    "another table of the name": "drop table fence; create table fence(name, token, sum)",
    "a table with less to it": (
        "drop table move; create table move(seq integer, prev, old, new, time, note, sum)"
    ),
}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.db"
    with otolith.open(path) as repo:
        state = repo.session("s")
        state["x"] = 1
        state.commit()
    return path


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("options", [{}, {"read_only": True}], ids=["write", "read"])
def test_a_file_with_more_or_less_in_it_than_a_store_is_refused(path, change, options):
    connection = apsw.Connection(str(path))
    connection.execute(CHANGES[change])
    connection.close()

    with pytest.raises(Corrupt, match="otolith stores do not have"):
        otolith.open(path, **options)


def test_statistics_of_sqlite_are_let_pass(path):
    connection = apsw.Connection(str(path))
    connection.execute("analyze")
    connection.close()

    with otolith.open(path) as repo:
        assert repo.session("s")["x"] == 1


def test_a_history_that_leads_in_a_circle_is_damage(path):
    connection = apsw.Connection(str(path))
    ((seq, new, time, note),) = connection.execute(
        "select seq, new, time, note from move order by seq desc limit 1"
    ).fetchall()
    total = crc_hqx(encode((seq, None, new, time, note)), 0)
    connection.execute("update move set prev=?, old=null, sum=? where seq=?", (seq, total, seq))
    connection.close()

    with otolith.open(path) as repo, pytest.raises(Corrupt, match="circle"):
        repo.store.moves("session/s/main")


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
@pytest.mark.parametrize("is_new", [True, False])
def test_files_of_sqlite_that_are_none_are_refused(tmp_path, suffix, kind, is_new):
    path, victim = tmp_path / "a.db", tmp_path / "victim"
    victim.write_text("precious")
    if not is_new:
        otolith.open(path).close()
    sibling = tmp_path / f"a.db{suffix}"
    {"pipe": os.mkfifo, "link": lambda at: at.symlink_to(victim), "folder": os.mkdir}[kind](sibling)
    link = tmp_path / "named.db"
    link.symlink_to(path)

    for name in (path, link):
        for read_only in (True, False):
            with pytest.raises(Error):
                otolith.open(name, read_only=read_only)
    assert victim.read_text() == "precious"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(NotAStore):
        otolith.open(tmp_path / "pipe")


@pytest.mark.parametrize(
    "name", ["nul\0byte", "x" * 5000, "a/" * 3000 + "b"], ids=["nul", "long", "deep"]
)
def test_a_path_that_no_file_can_have_is_refused(tmp_path, name):
    with pytest.raises((Invalid, StoreNotFound)):
        otolith.open(f"{tmp_path}/{name}")


@pytest.mark.parametrize("how", ["moved", "replaced", "removed"])
def test_nothing_is_acknowledged_that_goes_into_a_file_of_another_name(path, how):
    with otolith.open(path) as repo:
        state = repo.session("s")
        if how == "removed":
            path.unlink()
        else:
            path.rename(path.with_name("moved.db"))
        if how == "replaced":
            otolith.open(path).close()
        state["x"] = 2
        with pytest.raises(Unavailable, match="moved or replaced"):
            state.commit()
        assert state["x"] == 2


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_no_commit_is_acknowledged_into_files_that_were_taken_away(tmp_path, suffix, how):
    path = tmp_path / "a.db"
    with otolith.open(path) as repo:
        state = repo.session("s")
        state["x"] = 1
        state.commit()
        state["x"] = 2
        state.commit()
        (tmp_path / f"a.db{suffix}").unlink()
        if how == "replaced":
            (tmp_path / f"a.db{suffix}").write_bytes(b"")

        state["x"] = 3
        with pytest.raises(Unavailable, match="moved or replaced"):
            state.commit()


def test_a_row_after_which_none_can_be_added_is_reported(tmp_path):
    path = tmp_path / "a.db"
    with otolith.open(path) as repo:
        state = repo.session("s")
        state["x"] = 1
        state.commit()
    connection = apsw.Connection(str(path))
    connection.execute("update object set id=id|(1<<41) where id=(select max(id) from object)")
    connection.close()

    with otolith.open(path) as repo:
        assert [problem.message for problem in verify(repo).problems if "number" in problem.message]
