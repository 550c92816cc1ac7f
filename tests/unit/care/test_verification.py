"""Verifying and mending: every kind of damage is found where it is, and a replica heals it."""

from __future__ import annotations

import random
from dataclasses import replace

import apsw
import pytest

import otolith
from otolith import Repo, Versioned
from otolith.care import prune, verify
from otolith.core.history.commits import make_commit
from otolith.errors import Invalid
from otolith.stores import Batch, MemoryStore, Object, SqliteStore, Swap, open_store


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


# ---------------------------------------------------------------- from the disk


def damaged_outside(path, statement):
    connection = apsw.Connection(str(path))
    connection.execute(statement)
    changed = connection.changes()
    connection.close()
    assert changed


def test_what_a_cache_remembers_is_not_taken_for_what_is_stored(tmp_path):
    path = tmp_path / "a.db"
    repo = otolith.Repo(otolith.Cache(otolith.Disk(path)))
    state = repo.session("s")
    state["x"] = random.Random(1).randbytes(30_000)
    state.commit()
    damaged_outside(path, "update object set data=x'00' where length(data) > 20000")

    assert [problem.kind for problem in verify(repo, level="deep").problems] == ["corrupt"]


def test_what_the_store_itself_remembers_is_not_taken_for_what_is_stored(tmp_path):
    path = tmp_path / "a.db"
    with otolith.open(path) as repo:
        state = repo.session("s")
        state["m"] = {f"k{number:04}": f"value {number}" for number in range(400)}
        state.commit()
        state.map("m")["k0001"] = "changed"
        state.commit()
        with apsw.Connection(str(path)) as connection:
            rows = [row for (row,) in connection.execute("select data from object")]
        base = max(int.from_bytes(row[1:6], "little") for row in rows if row[0] & 7 in (2, 3))
        damaged_outside(path, f"delete from object where id = {base}")

        assert not verify(repo).ok


@pytest.mark.parametrize("level", ["full", "deep"])
@pytest.mark.parametrize(
    "statement",
    [
        "delete from fence where name='lease'",
        "update fence set token=9 where name='lease'",
        "delete from fence where name='other'",
    ],
)
def test_a_fence_that_is_gone_or_changed_is_found(tmp_path, statement, level):
    path = tmp_path / "a.db"
    with otolith.open(path) as repo:
        state = repo.session("s")
        for token in (7, 8):
            state["x"] = token
            state.commit(fences={"lease": token, "other": 1})
        assert verify(repo, level=level).ok
        damaged_outside(path, statement)

        assert [problem.name for problem in verify(repo, level=level).problems] == ["fences"]


@pytest.mark.parametrize("level", ["quick", "full", "deep"])
def test_a_branch_that_names_no_commit_is_found(level):
    repo = otolith.open("memory:")
    state = repo.session("s")
    state["x"] = 1
    state.commit()
    config = repo.store.ref(".config")
    repo.store.write(Batch(swaps=[Swap("session/broken/main", None, config)]))

    found = verify(repo, level=level).problems

    assert [problem.name for problem in found] == ["session/broken/main"]


def test_a_commit_that_does_not_come_after_its_parents_is_found():
    repo = otolith.open("memory:")
    state = repo.session("s")
    state["x"] = 1
    first = state.commit()
    parent = replace(first, generation=first.generation + 5, time=first.time + 10)
    commit, data = make_commit(first.cell, (parent,), now=0, author="a", message="", objects=[])
    swap = Swap("session/s/main", first.hash, commit.hash)
    repo.store.write(Batch(objects=[Object(commit.hash, data)], swaps=[swap]))

    assert "come after" in verify(repo, level="deep").problems[0].message


def test_what_sqlite_itself_finds_wrong_is_told(tmp_path):
    path = tmp_path / "a.db"
    with otolith.open(path) as repo:
        repo.session("s").commit(allow_empty=True)
    with path.open("r+b") as file:
        file.seek(36)
        file.write((5).to_bytes(4, "big"))  # how many pages are free
    with otolith.open(path) as repo:
        assert "file" in [problem.name for problem in verify(repo).problems]


@pytest.mark.parametrize("seconds", [-1, "14d", float("nan"), float("inf"), True])
def test_an_expiry_that_is_not_a_number_from_0_on_is_refused(seconds):
    with otolith.open("memory:") as repo, pytest.raises(Invalid, match="expire_seconds must be"):
        prune(repo, expire_seconds=seconds)


@pytest.mark.parametrize("verb", [prune, verify])
@pytest.mark.parametrize("wrong", [5, None, "a.db", Versioned()])
def test_what_is_not_a_repo_is_refused(verb, wrong):
    with pytest.raises(Invalid, match="needs a repo, got"):
        verb(wrong)


@pytest.mark.parametrize("verb", [prune, verify])
def test_a_progress_that_cannot_be_called_is_refused(verb):
    with pytest.raises(Invalid, match="progress must be a function, got int"):
        verb(Versioned().repo, progress=3)


def test_a_replica_that_is_not_a_store_is_refused():
    with pytest.raises(Invalid, match="repair_from must be a store, got int"):
        verify(Versioned().repo, repair_from=3)  # type: ignore[arg-type]
