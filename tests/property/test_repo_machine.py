"""Random histories: a repo does what its model does, whatever is done to it, or in place."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import otolith
from otolith import core, environment
from otolith.codecs import Codecs
from otolith.stores import MemoryStore
from tests.reference.repo_machine import RepoMachine


class CoreMachine(RepoMachine):
    holds = False

    def make(self):
        return core.BareRepo(
            MemoryStore(),
            codec=Codecs(),
            clock=environment.wall_clock,
            author="test",
            entropy=bytes,
        )


class MemoryMachine(RepoMachine):
    def make(self):
        return otolith.open("memory:")


class SqliteMachine(RepoMachine):
    def make(self):
        self.folder = Path(tempfile.mkdtemp(prefix="otolith-"))
        return self._open()

    def _open(self):
        return otolith.open(self.folder / "repo.db", durability="fast")

    def reopen(self, repo):
        repo.close()
        return self._open()

    def teardown(self):
        super().teardown()
        shutil.rmtree(self.folder)


TestCore = CoreMachine.TestCase
TestMemory = MemoryMachine.TestCase
TestSqlite = SqliteMachine.TestCase
