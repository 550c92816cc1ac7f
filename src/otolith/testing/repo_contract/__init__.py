"""Every promise of a repo's verbs as a test: subclass it, and say how to make your repo.

class TestMine(RepoContract):
    def make(self, folder):
        return otolith.open(folder / "mine.db")
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from otolith.core import Branch, Repo
from otolith.testing.repo_contract.conflicts import ConflictPromises
from otolith.testing.repo_contract.handles import HandlePromises
from otolith.testing.repo_contract.history import HistoryPromises
from otolith.testing.repo_contract.making import SESSION
from otolith.testing.repo_contract.merging import MergePromises
from otolith.testing.repo_contract.races import RacePromises
from otolith.testing.repo_contract.sharing import SharingPromises
from otolith.testing.repo_contract.state import StatePromises

__all__ = ["RepoContract"]


class RepoContract(
    StatePromises,
    HandlePromises,
    HistoryPromises,
    MergePromises,
    ConflictPromises,
    RacePromises,
    SharingPromises,
):
    """The promises. `make` returns an empty repo; `reopen` the same one again, if it can last."""

    def make(self, folder: Path) -> Repo:
        raise NotImplementedError

    def reopen(self, repo: Repo, folder: Path) -> Repo | None:
        return None

    @pytest.fixture
    def repo(self, tmp_path: Path) -> Iterator[Repo]:
        repo = self.make(tmp_path)
        yield repo
        repo.close()

    @pytest.fixture
    def state(self, repo: Repo) -> Branch:
        return repo.session(SESSION)
