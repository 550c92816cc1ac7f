"""Use a store as a careless program would, within bounds of memory; a part of the hostile tests.

Run with paths of stores. For each it prints a line: what every use came to, `ok` or the kind of our
error. Anything else is a failure: another exception, a lack of memory, or no line at all.
"""

from __future__ import annotations

import resource
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress

import otolith
from otolith.care import prune, verify
from otolith.views import view

MEMORY_BYTES = 1 << 30
LIMIT_BYTES = 8 << 20  # an empty list is one byte, and more than sixty in memory


def uses(repo: otolith.Repo) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what is done with a repo that could be opened."""
    store = repo.store

    def sessions() -> list[str]:
        return [session.id for session in repo.sessions()]

    def read() -> None:
        for id in sessions():
            for branch in repo.branches(id):
                repo.session(id, branch=branch).to_dict()

    def walk() -> None:
        for id in sessions():
            for commit in repo.session(id).log():
                dict(repo.at(commit).items())

    def compare() -> None:
        heads = [commit for id in sessions() for commit in repo.branches(id).values()]
        for old in heads[-4:]:
            for new in heads[-4:]:
                repo.session("s").diff(old, new)

    def write() -> None:
        state = repo.session("s")
        state["new"] = {"number": list(range(100))}
        state.commit("new")

    def merge() -> None:
        for id in sessions():
            for branch in repo.branches(id):
                if branch != "main":
                    repo.session(id).merge(branch)

    def show() -> None:
        for id in sessions():
            view(repo.session(id), "recent")
            view(repo.session(id), "full")

    yield "show", show
    yield "read", read
    yield "walk", walk
    yield "refs", store.refs
    yield "moves", store.moves
    yield "undo", lambda: repo.session("s").undo()
    yield "usage", store.usage
    yield "find", lambda: [store.find(bytes((first, 0))) for first in range(256)]
    yield "compare", compare
    yield "verify", lambda: verify(repo, level="deep")
    yield "merge", merge
    yield "write", write
    yield "prune", lambda: prune(repo)
    yield "erase", lambda: prune(repo, expire_seconds=0)
    yield "write again", write


def outcome(use: Callable[[], object]) -> str:
    """Return how one use ended."""
    try:
        use()
    except otolith.Error as error:
        return error.kind
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        traceback.print_exc()
        return f"RAW-{type(error).__name__}"
    return "ok"


def look(path: str) -> str:
    """Open a store and use it."""
    told = []
    repo: list[otolith.Repo] = []
    told.append(
        f"open={outcome(lambda: repo.append(otolith.open(path, create=False, load_limit_bytes=LIMIT_BYTES)))}"
    )
    if repo:
        told += [f"{name.replace(' ', '-')}={outcome(use)}" for name, use in uses(repo[0])]
        told.append(f"close={outcome(repo[0].close)}")
    return " ".join(told)


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for path in sys.argv[1:]:
        print(path, look(path), flush=True)


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main()
