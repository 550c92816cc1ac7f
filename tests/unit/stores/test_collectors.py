"""Collectors and writers of other processes: what this one remembers is never taken for what is."""

from __future__ import annotations

import random

import pytest
from blake3 import blake3

import otolith
from otolith.care import prune, verify
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
