"""Makes the golden store of documents: `python tests/compat/make_golden_documents.py`.

It has texts that one writer made, that several made one after the other, and that several made at
once. Beside it are the texts, by the message of each commit.
"""

from __future__ import annotations

import json
import sys
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from otolith import Versioned
from otolith.codecs import Codecs
from otolith.core import BareRepo
from otolith.stores import SqliteStore, Store
from tests.compat.make_golden import GOLDEN, golden_clock

STORE, EXPECTED = GOLDEN / "documents-v1.db", GOLDEN / "documents-v1.json"


def documents_repo(store: Store) -> BareRepo:
    """Return a repo whose every commit can be foretold, and in which each writer is another."""
    writers = count(1)
    return BareRepo(
        store,
        codec=Codecs(),
        clock=golden_clock(),
        author="golden",
        entropy=lambda size: (next(writers) * 0x0123_4567_89AB_CDEF % 2**64).to_bytes(size, "big"),
    )


def tell_documents(repo: BareRepo) -> None:
    """Write texts, alone and together."""
    main = Versioned(repo, session="documents")
    one = main.text("alone")
    one.append("Hello world, 😀 é e\u0301\r\n")
    for at in range(11, 5, -1):
        one.delete(at, at + 1)  # one after the other, backwards
    one.insert(5, " there")
    main.text("empty").edit("")
    main.commit("alone")
    one.edit("Hello you there, 😀")
    main.text("long").append("line of a long text\n" * 2000)
    main.commit("edited")
    after = main.fork("after")
    after.text("alone").append(" And more.")
    after.commit("after")
    main.merge(after)
    one.delete(0, 6)
    main.commit("in turn")
    members = [main.fork(name) for name in "abc"]
    for member in members:
        text = member.text("together")
        text.append(f"By {member.name}.")
        member.text("alone").insert(0, f"[{member.name}]")
        member.text("long").replace(20, 24, member.name * 3)
        member.commit(f"member {member.name}")
    for member in members:
        main.merge(member)
    one.append(" After all.")
    main.commit("together")


def document_expectations(repo: BareRepo) -> dict[str, Any]:
    """Return what a reader must find, by the message of each commit."""
    state = Versioned(repo, session="documents")
    return {
        commit.message: {
            "id": commit.id,
            "root": commit.root,
            "texts": {name: str(value) for name, value in state.at(commit).to_dict().items()},
        }
        for commit in state.log()
    }


def main() -> None:
    for leftover in GOLDEN.glob(f"{STORE.name}*"):
        leftover.unlink()
    repo = documents_repo(SqliteStore(STORE))
    tell_documents(repo)
    EXPECTED.write_text(json.dumps(document_expectations(repo), indent=1) + "\n")
    repo.close()
    print(f"{STORE.name}: {STORE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
