"""Collectors and writers of other processes: what this one remembers is never taken for what is."""

from __future__ import annotations

import random

import apsw
import pytest
from blake3 import blake3

import otolith
from otolith.care import prune, verify
from otolith.core import links
from otolith.errors import Corrupt
from otolith.stores import Batch, Object, SqliteStore, Swap
from otolith.types import Hash

FOR_EVER = 1 << 62


def hash_of(data: bytes) -> Hash:
    return Hash(blake3(data).digest())


def thing(data: bytes, base: Hash | None = None) -> Object:
    return Object(hash_of(data), data, base)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "s.db"


def many(count: int, words: int = 3) -> dict[str, str]:
    return {f"k{number:05}": f"value number {number} " * words for number in range(count)}


def collected_and_written_again(path):
    """Return two repos of one file; the first knows rows that the second collected and rewrote."""
    mine, other = otolith.open(path), otolith.open(path)
    scratch = mine.session("scratch")
    scratch["m"] = many(400)
    scratch.commit()
    side = other.session("side")
    side["x"] = 1
    side.commit()
    other.delete_branch("scratch", "main")
    prune(other, expire_seconds=0)
    again = other.session("again")
    again["m"] = many(400)  # equal content: equal hashes, other rows
    again.commit()
    return mine, other


def test_a_difference_is_never_written_against_a_row_that_another_process_collected(path):
    mine, other = SqliteStore(path), SqliteStore(path)
    base = b"pXYZ" + random.Random(1).randbytes(3000)
    changed = base[:1500] + b"!!!" + base[1500:]
    name = hash_of(base)
    mine.write(Batch(objects=[thing(base)], swaps=[Swap("r", None, name)]))
    other.write(Batch(objects=[thing(b"pz")], swaps=[Swap("z", None, hash_of(b"pz"))]))
    other.write(Batch(swaps=[Swap("r", name, None)]))
    assert other.collect(lambda data: [], forget_moves_before=FOR_EVER).dropped_objects
    other.write(Batch(objects=[thing(base)], swaps=[Swap("r", None, name)]))
    mine.write(Batch(swaps=[Swap("a", None, name)]))
    mine.write(Batch(objects=[thing(changed, name)], swaps=[Swap("k", None, hash_of(changed))]))

    assert SqliteStore(path).read([hash_of(changed)]) == {hash_of(changed): changed}


def test_a_state_can_be_read_whatever_another_process_collected_meanwhile(path):
    mine, other = collected_and_written_again(path)
    state = mine.session("again")
    for number in range(0, 400, 20):
        state.map("m")[f"k{number:05}"] = f"changed {number}"
        state.commit()
    mine.close()
    other.close()

    with otolith.open(path) as repo:
        assert verify(repo, level="deep").ok
        assert repo.session("again")["m/k00020"] == "changed 20"


def test_a_collection_drops_nothing_below_an_object_whose_base_is_gone(path):
    """The base may be remembered by this process all the same."""
    with otolith.open(path) as repo:
        state = repo.session("s")
        state["m"] = many(200, words=20)
        state.commit()
        for number in range(0, 200, 45):
            state.map("m")[f"k{number:05}"] = f"changed {number} " * 20
            state.commit()
        objects = repo.store.usage().objects
        outside = apsw.Connection(str(path))
        bases = {
            int.from_bytes(row[1:6], "little")
            for (row,) in outside.execute("select data from object where key<>0")
            if row[0] & 7 in (2, 3)  # the forms that differ from another row
        }
        outside.execute("delete from object where id=?", (max(bases),))
        outside.close()

        with pytest.raises(Corrupt, match="nothing was dropped"):
            prune(repo, expire_seconds=0)
        assert repo.store.usage().objects >= objects - 1


def test_what_is_tagged_while_two_collect_stays(path):
    now = [1000]
    first, second = (otolith.open(path, clock=lambda: now[0]) for _ in range(2))
    scratch = first.session("scratch")
    scratch["m"] = many(300)
    commit = scratch.commit()
    first.delete_branch("scratch", "main")
    state = first.session("keep")
    for number in range(3):
        now[0] += 1000
        state["x"] = number
        state.commit()
    done = set()

    def tag_after_forgetting(phase, at, total):
        if phase == "forget" and at == total and "tag" not in done:
            done.add("tag")
            second.tag("saved", commit)

    def collect_after_marking(phase, at, total):
        if phase == "mark" and total and "collect" not in done:
            done.add("collect")
            second.store.collect(  # type: ignore[attr-defined]
                links, forget_moves_before=FOR_EVER, progress=tag_after_forgetting
            )

    first.store.collect(  # type: ignore[attr-defined]
        links, forget_moves_before=1500, progress=collect_after_marking
    )

    assert done == {"collect", "tag"}
    with otolith.open(path) as repo:
        assert len(repo.at("saved")["m"]) == 300
        assert verify(repo, level="deep").ok


def test_numbers_of_moves_never_come_again(path):
    with otolith.open(path) as repo:
        for number in range(5):
            state = repo.session("s", branch=f"b{number}")
            state["x"] = number
            state.commit()
            repo.delete_branch("s", f"b{number}")
            newest = moves(path)[-1]
            prune(repo, expire_seconds=0)
            assert moves(path) == [newest]  # blank, and only the newest
        assert repo.store.moves() == []


def moves(path):
    with apsw.Connection(str(path)) as connection:
        return [seq for (seq,) in connection.execute("select seq from move order by seq")]
