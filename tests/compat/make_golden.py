"""Makes the golden store of the current format: `python tests/compat/make_golden.py`.

Clock, chance and author are fixed, so every commit has the same id each time. The store holds every
kind of value in every place a value can have, and every kind of ref, move and row.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
from blake3 import blake3

# Run as a script, Python puts the script's folder on the path, not the project's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from otolith.care import prune
from otolith.codecs import Codecs
from otolith.core import BareRepo, Branch
from otolith.stores import SqliteStore, Store
from tests.compat.golden_values import CHANGES, VALUES, codecs, in_key_order, log_line

GOLDEN = Path(__file__).with_name("golden")
FIRST_MOMENT = 1_767_225_600_000_000  # 2026-01-01
SECOND = 1_000_000


def golden_clock() -> Any:
    """Return a clock that goes on by a second each time it is looked at."""
    ticks: Iterator[int] = iter(range(FIRST_MOMENT, FIRST_MOMENT + 10_000 * SECOND, SECOND))
    return lambda: next(ticks)


def golden_repo(store: Store, *, own: Codecs | None = None) -> BareRepo:
    """Return a repo whose every commit can be foretold."""
    return BareRepo(
        store,
        codec=own if own is not None else codecs(),
        clock=golden_clock(),
        author="golden",
        entropy=lambda size: bytes(range(1, size + 1)),
    )


def tell(repo: BareRepo) -> None:
    """Write the whole story into an empty repo."""
    main = repo.session("values")
    _leave_garbage(repo)
    for name, value in VALUES.items():
        main[name] = value
    main.commit("every kind of value")
    _edit(main)
    _branch_and_merge(repo)
    _conflict(repo)
    _delete_a_branch(main)
    main.rollback("@~2")
    main["number"] = 1
    main.commit("fenced", fences={"lease": 3}, author="other", kind="tool", meta={"cost": 1.5})
    main.undo()
    repo.tag("first", main.resolve("@~6"))
    repo.session("ünï/cödé", branch="a/b").commit("empty", allow_empty=True)
    main["shelved"] = ["not", "committed", "yet"]
    main.stash()


def _leave_garbage(repo: BareRepo) -> None:
    """Make rows that are no objects any more, only what others differ from, and forgotten moves."""
    scratch = repo.session("garbage")
    scratch["table"] = in_key_order({f"row {number}": number**2 for number in range(400)})
    scratch.commit("base")
    scratch["table/row 7"] = "changed"
    scratch.commit("difference")
    kept = scratch.fork("kept")
    kept["table/row 9"] = "changed too"
    kept.commit("kept")
    kept.rollback("@")
    for name in ("main", "kept"):
        head = repo.branches("garbage")[name]
        repo.delete_branch("garbage", name)
        if name == "kept":
            fresh = repo.session("garbage", branch="fresh")
            fresh["table"] = repo.at(head)["table"]
            fresh.commit("the same table, without its past")
    prune(repo, expire_seconds=0)


def _edit(main: Branch) -> None:
    for message, edits in CHANGES.items():
        for path, value in edits.items():
            main[path] = value
        main.commit(message)
    events = main.list("events")
    for number in range(20):
        events.append(log_line(number))
        main.commit(f"event {number}")
    main.blob("many chunks").splice(300_000, 300_010, b"in the middle")
    del main["inline/list"]
    main.commit("edit a blob, remove a path")


def _branch_and_merge(repo: BareRepo) -> None:
    left = repo.session("merging")
    left["name"] = "base"
    left.counter("tokens").add(10)
    left.list("notes").append("base")
    left.policy("best/*", "max")
    left.policy("**/draft", "last-writer")
    left["best/score"] = 1
    left.commit("base")
    right = left.fork("right")
    for branch, score in ((left, 5), (right, 7)):
        branch.counter("tokens").add(score)
        branch.list("notes").append(branch.name)
        branch["best/score"] = score
        branch.set("seen").add(branch.name)
        branch.commit(f"on {branch.name}")
    before = left.head
    left.merge(right)
    right.merge(before)  # type: ignore[arg-type]
    right.counter("tokens").add(100)
    right.commit("criss")
    left.merge(right, message="cross")


def _conflict(repo: BareRepo) -> None:
    ours = repo.session("conflict")
    ours["plan"] = "base"
    ours.commit("base")
    theirs = ours.fork("theirs")
    ours["plan"] = "ours"
    ours.commit("ours")
    theirs["plan"] = "theirs"
    theirs.commit("theirs")
    ours.merge(theirs)
    ours.stash()


def _delete_a_branch(main: Branch) -> None:
    gone = main.fork("deleted")
    gone["only here"] = True
    gone.commit("on a branch that is deleted")
    main._backend.move(gone.ref, gone.head.hash, None, note="delete")  # type: ignore[union-attr]


# ---------------------------------------------------------------- what to expect


def expectations(repo: BareRepo) -> dict[str, Any]:
    """Return what a reader must find, without regard to how it is stored."""
    refs = repo.store.refs()
    moves = {name: repo.store.moves(name) for name in _every_name(repo)}
    tips = {*refs.values(), *(side for all_ in moves.values() for m in all_ for side in m[1:3])}
    tips.discard(refs[".config"])
    commits = _ancestry(repo, [tip.hex() for tip in tips if tip is not None])
    return {
        "format": 1,
        "refs": {name: hash.hex() for name, hash in refs.items()},
        "moves": {name: [_move(move) for move in past] for name, past in moves.items()},
        "commits": {id: _commit(repo, id) for id in sorted(commits)},
    }


def _every_name(repo: BareRepo) -> list[str]:
    deleted = ["session/garbage/main", "session/garbage/kept", "session/values/deleted"]
    return sorted({*repo.store.refs(), *deleted})


def _ancestry(repo: BareRepo, tips: list[str]) -> set[str]:
    seen: set[str] = set()
    while tips:
        id = tips.pop()
        if id not in seen:
            seen.add(id)
            tips += repo.resolve(id).parents
    return seen


def _commit(repo: BareRepo, id: str) -> dict[str, Any]:
    commit = repo.resolve(id)
    fields = ("root", "generation", "time", "author", "message", "kind")
    return {
        **{name: getattr(commit, name) for name in fields},
        "parents": list(commit.parents),
        "meta": dict(commit.meta),
        "state": state_digest(repo, id),
    }


def state_digest(repo: BareRepo, id: str) -> str:
    """Return the BLAKE3 of the full encoding of a whole state: what it is, not how it is cut."""
    snapshot = repo.at(id)
    own = (name for name in (".conflicts", ".policy") if name in snapshot)
    whole = snapshot.to_dict() | {name: snapshot[name] for name in own}
    in_order = {name: whole[name] for name in sorted(whole)}
    return blake3(repo.encoding.encode(in_order)).hexdigest()


def _move(move: Any) -> list[Any]:
    old, new = (None if side is None else side.hex() for side in (move.old, move.new))
    return [old, new, move.time, move.note]


def row_kinds(path: Path) -> Counter[str]:
    """Count the physical forms of the rows of a store file."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"file:{path}?immutable=1", flags=flags)
    kinds: Counter[str] = Counter()
    for key, data in connection.execute("select key, data from object"):
        kinds[("plain", "zstd", "splice", "patch")[data[0] & 7]] += 1
        kinds["base only"] += key == 0
    connection.close()
    return kinds


def main() -> None:
    place = GOLDEN / "format-v1.db"
    for leftover in GOLDEN.glob("format-v1.db*"):
        leftover.unlink()
    GOLDEN.mkdir(exist_ok=True)
    repo = golden_repo(SqliteStore(place))
    tell(repo)
    expected = expectations(repo)
    repo.close()
    (GOLDEN / "format-v1.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")
    print(f"{place.name}: {place.stat().st_size} bytes, {len(expected['commits'])} commits")
    print(dict(row_kinds(place)))


if __name__ == "__main__":
    main()
