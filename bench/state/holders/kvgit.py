"""kvgit's worktree on its disk backend (diskcache), with pickled values or its codec for frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvgit import Repo
from kvgit.kv.disk import Disk


class Kvgit:
    """A worktree on the branch `main`, and the program's own variables.

    Read again from the worktree, a frame has buffers of its own, and all of it would be stored
    again; who holds on to it stores less.
    """

    notices = False

    def __init__(self, place: Path, codec: str) -> None:
        self.place = place
        self._codec = codec
        self._live: dict[str, Any] = {}
        self._open()

    def _open(self) -> None:
        self._repo = Repo(Disk(str(self.place)), codec=self._codec)
        self._tree = self._repo.worktree("main", create="main" not in self._repo.branches)

    def get(self, key: str) -> Any:
        if key not in self._live:
            self._live[key] = self._tree[key]
        return self._live[key]

    def set(self, key: str, value: object) -> None:
        self._tree[key] = self._live[key] = value

    def commit(self) -> str:
        self._tree.commit()
        head: str = self._tree.head
        return head

    def at(self, version: Any, key: str) -> Any:
        return self._repo.snapshot(commit=version)[key]

    def reopen(self) -> None:
        self._repo.close()
        self._live.clear()
        self._open()

    def close(self) -> None:
        self._repo.close()


def make(place: Path, codec: str) -> Kvgit:
    return Kvgit(place, codec)
