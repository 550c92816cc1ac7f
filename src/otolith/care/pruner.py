"""Garbage collection beside writers: what no ref, tag or remembered move reaches is dropped."""

from __future__ import annotations

from collections.abc import Callable

from otolith.core import BareRepo, links
from otolith.errors import Unsupported
from otolith.stores import TIME_LIMIT, CollectionReport, Collector

TWO_WEEKS_SECONDS = 14 * 24 * 3600.0


def prune(
    repo: BareRepo,
    *,
    expire_seconds: float = TWO_WEEKS_SECONDS,
    dry_run: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> CollectionReport:
    """Drop objects that nothing reaches, and give their space back to the file system.

    A ref's history keeps what it names reachable for `expire_seconds`, so that an undo, or a
    branch deleted by mistake, can be taken back until then. Writers and readers go on meanwhile.

    With `expire_seconds=0` what is dropped is also erased: no file of the store has a byte of it
    afterwards. `erased` of the result tells whether that was done, and `residue` why not. A file is
    rebuilt for it, during which writers wait.

    Raises:
        Unsupported: the store cannot collect.
    """
    store = repo.store
    if not isinstance(store, Collector) or not store.capabilities.collects:
        raise Unsupported(f"{type(store).__name__} cannot collect garbage")
    young = repo.clock() - int(expire_seconds * 1_000_000) + 1
    erase = expire_seconds == 0
    if erase:  # clocks jump: a move may seem to be yet to come, and is forgotten with the others
        young = TIME_LIMIT
    return store.collect(
        links, forget_moves_before=young, progress=progress, dry_run=dry_run, erase=erase
    )
