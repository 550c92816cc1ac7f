"""The promises of a repo's verbs, as test classes to subclass.

class TestMine(RepoContract):
    def make(self, folder):
        return otolith.open(folder / "mine.db")

An `otolith.core.BareRepo`, whose branches return copies, keeps the promises of `CoreContract`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from otolith.core import BareRepo, Branch
from tests.reference.repo_contract.concurrency import RacePromises, SharingPromises
from tests.reference.repo_contract.fork import SESSION
from tests.reference.repo_contract.history import HistoryPromises
from tests.reference.repo_contract.merge import ConflictPromises, MergePromises
from tests.reference.repo_contract.state import (
    CopyPromises,
    HandlePromises,
    HeldPromises,
    StatePromises,
)
from tests.reference.repo_contract.teams import TeamPromises

__all__ = ["CoreContract", "RepoContract"]


class _Promises(
    StatePromises,
    HandlePromises,
    HistoryPromises,
    MergePromises,
    ConflictPromises,
    RacePromises,
    SharingPromises,
):
    """Promises of both. `make` returns an empty repo; `reopen` the same one, if it can last."""

    def make(self, folder: Path) -> BareRepo:
        raise NotImplementedError

    def reopen(self, repo: BareRepo, folder: Path) -> BareRepo | None:
        return None

    @pytest.fixture
    def repo(self, tmp_path: Path) -> Iterator[BareRepo]:
        repo = self.make(tmp_path)
        yield repo
        repo.close()

    @pytest.fixture
    def state(self, repo: BareRepo) -> Branch:
        return repo.session(SESSION)


class CoreContract(_Promises, CopyPromises):
    """The promises of a bare repo, whose branches hand out copies of what they keep."""


class RepoContract(_Promises, HeldPromises, TeamPromises):
    """The promises of a repo whose states hold what they hand out, as `otolith.open` gives one."""
