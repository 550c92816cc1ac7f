"""Makes the golden store of dicts with an order: `python tests/compat/make_golden_ordered.py`.

It has dicts whose order is not that of their keys in every place a dict can have, and what edits
and a merge make of them. Beside it are the digests of the states as JSON, which keeps the order.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from blake3 import blake3

from otolith.core import BareRepo
from otolith.stores import SqliteStore
from tests.compat.make_golden import GOLDEN, golden_repo

STORE, EXPECTED = GOLDEN / "ordered-v1.db", GOLDEN / "ordered-v1.json"


def scattered(count: int) -> dict[str, Any]:
    """Return a dict in an order that has nothing to do with its keys."""
    return {f"k{number * 7919 % count:05d}": number for number in range(count)}


def tell_ordered(repo: BareRepo) -> None:
    """Write dicts with an order, and edit and merge them."""
    main = repo.session("order")
    main["inline"] = {"z": 1, "a": {"y": 2, "b": [{"d": 3, "c": 4}]}}
    main["packed"] = {f"key {number}": "x" * 20 for number in range(20)}
    main["tree"] = scattered(2003)
    main["two long texts"] = {"second": "s" * 20_000, "first": "f" * 20_000}
    main["long keys"] = {letter * 300: letter for letter in "zyxwvutsrqponmlkjihgfedcba"} | {
        f"{number:04d}" * 10: number for number in range(500)
    }
    main["nearly sorted"] = {f"k{number:05d}": number for number in range(2000)}
    main.commit("dicts in their own order")
    main["nearly sorted/a"], main["nearly sorted/zz"] = "new", "new"
    del main["tree/k00000"]
    main["inline/new"] = {"z": 0, "y": 0}
    main["grows"] = {"b": "b" * 9000, "a": "a"}
    main["grows/c"] = "c" * 9000
    main.commit("edits")
    other = main.fork("other")
    main["inline/ours"], other["inline/theirs"] = 1, 2
    main["tree/ours"], other["tree/theirs"] = 1, 2
    main.commit("ours")
    other.commit("theirs")
    main.merge(other)


def ordered_expectations(repo: BareRepo) -> dict[str, Any]:
    """Return what a reader must find, by the message of each commit."""
    return {
        commit.message: {
            "id": commit.id,
            "root": commit.root,
            "state": json_digest(repo.at(commit).to_dict()),
        }
        for commit in repo.session("order").log()
    }


def json_digest(state: object) -> str:
    """Return the BLAKE3 of a state as JSON, with its dicts in their order."""
    return blake3(json.dumps(state).encode()).hexdigest()


def main() -> None:
    for leftover in GOLDEN.glob(f"{STORE.name}*"):
        leftover.unlink()
    repo = golden_repo(SqliteStore(STORE))
    tell_ordered(repo)
    EXPECTED.write_text(json.dumps(ordered_expectations(repo), indent=1) + "\n")
    repo.close()
    print(f"{STORE.name}: {STORE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
