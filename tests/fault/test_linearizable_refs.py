"""Refs are linearizable on every store, whoever writes and whatever fails between."""

from __future__ import annotations

from functools import partial
from threading import Lock

import pytest

from otolith.errors import StaleRef
from otolith.stores import MemoryStore, Store
from otolith.testing import RegisterModel, check_linearizable
from tests.fault.ref_histories import record_refs
from tests.patience import HANG_SECONDS
from tests.servers.places import opener  # noqa: F401 - a fixture

MODEL = RegisterModel()


def test_histories_of_refs_are_linearizable(opener, rounds):  # noqa: F811
    for seed in range(rounds(10, 1000)):
        history = record_refs(opener, seed=str(seed))
        verdict = check_linearizable(history, MODEL, timeout_seconds=HANG_SECONDS)
        assert verdict.outcome == "linearizable", verdict.reason


class LastWriteWins(MemoryStore):
    """A store that swaps without comparing."""

    def write(self, batch):
        while True:
            try:
                return super().write(batch)
            except StaleRef as stale:
                swaps = [
                    swap._replace(old=stale.actual) if swap.name == stale.name else swap
                    for swap in batch.swaps
                ]
                batch = type(batch)(batch.objects, swaps, note=batch.note)


class WritesTwice(MemoryStore):
    """A store that repeats a write which was refused, in case the refusal was an echo of its own.

    So a caller that was slower than another one is told that it was first.
    """

    def write(self, batch):
        try:
            super().write(batch)
        except StaleRef as stale:
            if stale.expected is not None:
                raise


class LateReads(MemoryStore):
    """A store whose reads are answered from a copy that is one write behind."""

    def __init__(self):
        super().__init__()
        self._copy_lock = Lock()
        self._copy = {}

    def write(self, batch):
        with self._copy_lock:
            self._copy = dict(self._refs)
            super().write(batch)

    def ref(self, name):
        return self._copy.get(name)


def _itself(store: Store) -> Store:
    return store


@pytest.mark.parametrize("kind", [LastWriteWins, WritesTwice, LateReads])
def test_a_store_that_breaks_its_promise_is_found(kind):
    for seed in range(20):
        history = record_refs(partial(_itself, kind()), seed=str(seed))
        if check_linearizable(history, MODEL).outcome == "not linearizable":
            return
    pytest.fail(f"{kind.__name__} was taken for a store")
