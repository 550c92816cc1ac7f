"""What is dropped is gone at once: a collection, later and in any thread, would close its store."""

from __future__ import annotations

import gc
import weakref

from otolith.codecs import InertCodecs
from otolith.core import BareRepo
from otolith.stores import MemoryStore


def test_nothing_of_a_repo_waits_for_the_garbage_collector():
    repo = BareRepo(
        MemoryStore(), codec=InertCodecs(), clock=lambda: 1, author="test", entropy=bytes
    )
    kept = [weakref.ref(each) for each in (repo.backend, repo.backend.refs)]
    gc.disable()
    try:
        del repo

        assert [each() for each in kept] == [None, None]
    finally:
        gc.enable()
