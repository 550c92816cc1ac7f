"""Verifying and mending: every kind of damage is found where it is, and a replica heals it."""

from __future__ import annotations

import random

import apsw
import pytest

from otolith import Repo
from otolith.care import prune, verify
from otolith.errors import Invalid
from otolith.stores import MemoryStore, SqliteStore, open_store


@pytest.fixture
def place(tmp_path):
    """A store with history, and a copy of it."""
    path = tmp_path / "a.db"
    repo = Repo(open_store(str(path)), author="test")
    state = repo.session("job")
    for number in range(20):
        state[f"cell/{number}"] = "word " * (number * 40)
        state.commit(str(number))
    side = state.fork("side")
    side["gone"] = "only here " * 50
    side.commit("side")
    repo.delete_branch("job", "side")
    repo.close()
    (tmp_path / "copy.db").write_bytes(path.read_bytes())
    return path


def damage(path, hash):
    """Make the row of one object unreadable."""
    key = int.from_bytes(hash[:8], "big", signed=True)
    connection = apsw.Connection(str(path))
    connection.execute("update object set data=x'00ff' where key=?", (key,))
    assert connection.changes() == 1
    connection.close()


def test_a_damaged_head_is_found_and_mended(place):
    repo = Repo(SqliteStore(place), author="test")
    damage(place, repo.store.ref("session/job/main"))
    repo.close()
    repo = Repo(SqliteStore(place), author="test")
    report = verify(repo, level="quick")
    assert not report.ok
    replica = SqliteStore(place.with_name("copy.db"))
    mended = verify(repo, level="full", repair_from=replica)
    assert mended.ok, mended.problems
    assert mended.repaired >= 1
    assert mended.commits == 21
    assert repo.session("job")["cell/3"] == "word " * 120
    assert verify(repo, level="deep").ok
    replica.close()
    repo.close()


def test_what_a_deleted_branch_held_is_verified_while_it_is_remembered(place):
    repo = Repo(SqliteStore(place), author="test")
    held = [move.old for move in repo.store.moves() if move.note == "delete"]
    damage(place, held[0])
    repo.close()
    repo = Repo(SqliteStore(place), author="test")
    assert not verify(repo, level="full").ok
    repo.close()


def test_a_whole_store_has_no_problems_at_any_level(place):
    repo = Repo(SqliteStore(place), author="test")
    reports = [verify(repo, level=level) for level in ("quick", "full", "deep")]
    assert all(report.ok for report in reports)
    assert {report.commits for report in reports} == {21}
    assert reports[0].objects < reports[1].objects == reports[2].objects
    repo.close()


def test_an_unknown_level_is_refused():
    with pytest.raises(Invalid, match="quick, full, deep"):
        verify(Repo(MemoryStore(), author="test"), level="thorough")


def test_pruning_keeps_what_is_remembered_until_it_expires():
    repo = Repo(MemoryStore(), author="test")
    state = repo.session("job")
    state["a"] = random.Random(1).randbytes(5000)
    state.commit("a")
    repo.delete_branch("job", "main")
    assert prune(repo, expire_seconds=3600).dropped_objects == 0
    assert prune(repo, expire_seconds=0, dry_run=True).dropped_objects == 3
    assert prune(repo, expire_seconds=0).dropped_objects == 3
