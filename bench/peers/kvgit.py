"""kvgit on its disk backend (diskcache: SQLite in WAL mode, synchronous=NORMAL), pickled values."""

from __future__ import annotations

from pathlib import Path

import kvgit
from kvgit import Repo
from kvgit.kv.disk import Disk

LOST_RACE = kvgit.ConcurrencyError


class Kvgit:
    """A worktree on the branch `main`."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.repo = Repo(Disk(str(place)))
        self.tree = self.repo.worktree("main", create=True)

    def fill(self, items: dict[str, object]) -> None:
        for key, value in items.items():
            self.tree[key] = value
        self.tree.commit()

    def change(self, key: str, value: object) -> None:
        self.tree[key] = value
        self.tree.commit()

    def append(self, message: str) -> None:
        self.tree["events"] = [*self.tree.get("events", ()), message]
        self.tree.commit()

    def settle(self) -> None:
        """Nothing waits outside of SQLite's WAL."""

    def close(self) -> None:
        self.repo.close()


def make():
    return Kvgit
