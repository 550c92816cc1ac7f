"""Every executor keeps every promise: one class per implementation."""

from __future__ import annotations

from pathlib import Path

import pytest

from otolith import flows
from otolith.flows import (
    DaskExecutor,
    DbosExecutor,
    InlineExecutor,
    ProcessExecutor,
    ThreadExecutor,
)
from otolith.testing import ExecutorContract


class TestInline(ExecutorContract):
    can_cancel = False

    def make(self, folder):
        return InlineExecutor()


class TestThreads(ExecutorContract):
    def make(self, folder):
        return ThreadExecutor(4)


class TestProcesses(ExecutorContract):
    can_die = True

    def make(self, folder):
        return ProcessExecutor(2)


class TestDask(ExecutorContract):
    can_die = True

    @pytest.fixture(autouse=True)
    def _cluster(self, dask_cluster):
        self.address = dask_cluster

    def make(self, folder):
        return DaskExecutor(self.address)


class TestDbos(ExecutorContract):
    def make(self, folder):
        pytest.importorskip("dbos")
        return DbosExecutor(f"sqlite:///{folder}/jobs.sqlite", slots=4)


def test_no_executor_escapes_the_table():
    names = {name for name in flows.__all__ if name.endswith("Executor")} - {"Executor"}
    here = Path(__file__).read_text()

    assert names
    assert [name for name in names if f"return {name}(" not in here] == []
