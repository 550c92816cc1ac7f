"""`open(url)`: make a repo of a URL and options."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

from otolith.codecs import Codecs
from otolith.durations import Duration
from otolith.errors import Invalid
from otolith.session import Repo
from otolith.stores import Store, open_store, scheme_of, with_tiers
from otolith.types import Clock


def open(  # noqa: PLR0913 - each is an option of its own, by keyword
    url: str | os.PathLike[str] = "memory:",
    *,
    author: str | None = None,
    codecs: Codecs | None = None,
    pickle: Literal["never", "signed"] | None = None,
    clock: Clock | None = None,
    durability: str = "full",
    limit_bytes: int | None = None,
    read_only: bool = False,
    create: bool = True,
    expire: Duration | None = None,
    tiers: str | Sequence[str] | None = None,
    cache_bytes: int = 64 << 20,
    load_limit_bytes: int | None = None,
) -> Repo:
    """Open a repo; a SQLite file is made if it is missing.

    `url` is a path, `sqlite:///…`, `memory:`, or the address of a server such as `redis://…`.
    `durability="fast"` lets a power cut (not a crash) take the last commits. `limit_bytes` makes
    the store refuse what would not fit. `expire`, such as "1h", lets sessions disappear to which
    nothing was committed for so long; see `Repo.expire`. `tiers`, such as
    "memory:256MB,ssd.db;limit=10GB", are caches of objects in front of the store, the hottest
    first; `repo.store.tiers()` shows what is in them.
    `pickle="signed"`, the default, stores objects of any class as a last resort, and loads only
    those that the user's own key signed; with "never" they are refused.
    `load_limit_bytes`, this machine's memory unless given, is how long the encoding of a value may
    be that is read in one go: a small file can hold one that fits into no memory.

    Raises:
        StoreNotFound: there is no file, and `create` is False.
        NotAStore, FormatTooNew, Denied, Unsupported: the store cannot be opened, or not like this.
    """
    given: object = url
    place = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(place, str):
        raise Invalid(
            f"url must be a path or a URL, got {type(url).__name__}", hint='such as "agent.db"'
        )
    if durability not in ("full", "fast"):
        raise Invalid(f"durability must be 'full' or 'fast', got {durability!r}")
    is_in_memory = scheme_of(place) == "memory"
    if is_in_memory and read_only:
        raise Invalid("a repo in memory cannot be read_only: it is empty", hint="omit read_only")
    options: dict[str, object] = {"limit_bytes": limit_bytes}
    if not is_in_memory:
        options |= {"durability": durability, "read_only": read_only, "create": create}
    repo = Repo(
        _with_tiers(open_store(place, **options), tiers),
        author=author,
        codecs=codecs,
        pickle=pickle,
        clock=clock,
        cache_bytes=cache_bytes,
        load_limit_bytes=load_limit_bytes,
    )
    if expire is not None:
        try:
            repo.expire(expire)
        except BaseException:
            repo.close()
            raise
    return repo


def _with_tiers(store: Store, tiers: str | Sequence[str] | None) -> Store:
    """Put caches in front of a store, which is closed if they cannot be had."""
    try:
        return store if tiers is None else with_tiers(store, tiers)
    except BaseException:
        store.close()
        raise
