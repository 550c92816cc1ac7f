"""kvgit's worktree on its disk backend (diskcache), with pickled values or its codec for frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvgit import Repo
from kvgit.kv.disk import Disk


class Kvgit:
    """A worktree on the branch `main`."""

    notices = False

    def __init__(self, place: Path, codec: str) -> None:
        self.place = place
        self._codec = codec
        self._open()

    def _open(self) -> None:
        self._repo = Repo(Disk(str(self.place)), codec=self._codec)
        self._tree = self._repo.worktree("main", create="main" not in self._repo.branches)

    def get(self, key: str) -> Any:
        return self._tree[key]

    def set(self, key: str, value: object) -> None:
        self._tree[key] = value

    def commit(self) -> str:
        self._tree.commit()
        head: str = self._tree.head
        return head

    def at(self, version: Any, key: str) -> Any:
        return self._repo.snapshot(commit=version)[key]

    def reopen(self) -> None:
        self._repo.close()
        self._open()

    def close(self) -> None:
        self._repo.close()


def make(place: Path, codec: str) -> Kvgit:
    return Kvgit(place, codec)
