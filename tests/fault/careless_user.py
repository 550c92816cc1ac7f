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


class Uses:
    """What is done with a repo that could be opened."""

    def __init__(self, repo: otolith.Repo) -> None:
        self._repo = repo

    def _heads(self) -> list[tuple[str, str, otolith.Commit]]:
        """Return session, name and commit of every branch."""
        ids = [session.id for session in self._repo.sessions()]
        return [(id, name, tip) for id in ids for name, tip in self._repo.branches(id).items()]

    def show(self) -> None:
        for id, branch, _ in self._heads():
            view(self._repo.session(id, branch=branch), "recent", max_tokens=200)
            view(self._repo.session(id, branch=branch), "full", max_tokens=200)

    def read(self) -> None:
        for id, branch, _ in self._heads():
            self._repo.session(id, branch=branch).to_dict()

    def walk(self) -> None:
        for id, branch, _ in self._heads():
            for commit in self._repo.session(id, branch=branch).log():
                dict(self._repo.at(commit).items())

    def compare(self) -> None:
        tips = [tip for _, _, tip in self._heads()][-4:]
        for old in tips:
            for new in tips:
                self._repo.session("s").diff(old, new)

    def merge(self) -> None:
        for id, branch, _ in self._heads():
            if branch != "main":
                self._repo.session(id).merge(branch)

    def write(self) -> None:
        state = self._repo.session("s")
        state["new"] = {"number": list(range(100))}
        state.commit("new")

    def find(self) -> None:
        for first in range(256):
            self._repo.store.find(bytes((first, 0)))

    def __iter__(self) -> Iterator[tuple[str, Callable[[], object]]]:
        repo = self._repo
        uses: dict[str, Callable[[], object]] = {
            "show": self.show,
            "read": self.read,
            "walk": self.walk,
            "refs": repo.store.refs,
            "moves": repo.store.moves,
            "undo": lambda: repo.session("s").undo(),
            "usage": repo.store.usage,
            "find": self.find,
            "compare": self.compare,
            "verify": lambda: verify(repo, level="deep"),
            "merge": self.merge,
            "write": self.write,
            "prune": lambda: prune(repo),
            "erase": lambda: prune(repo, expire_seconds=0),
            "write-again": self.write,
        }
        yield from uses.items()


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
    repo: list[otolith.Repo] = []

    def begin() -> None:
        repo.append(otolith.open(path, create=False, load_limit_bytes=LIMIT_BYTES))

    told = [f"open={outcome(begin)}"]
    if repo:
        told += [f"{name}={outcome(use)}" for name, use in Uses(repo[0])]
        told.append(f"close={outcome(repo[0].close)}")
    return " ".join(told)


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for path in sys.argv[1:]:
        print(path, look(path), flush=True)


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main()
