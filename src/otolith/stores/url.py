"""Naming a store: `memory:`, `sqlite:///abs/path`, `sqlite:relative.db`, or a plain path.

A path is that of the file, or of a directory that is there and has it.

Stores under the names that users of a state know: Memory, Disk, Cache, or whatever is given.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

from otolith.errors import Invalid, Unsupported
from otolith.stores.base import Store
from otolith.stores.keyvalue import KeyValueStore, KVStore
from otolith.stores.layers import CachedStore
from otolith.stores.memory import MemoryStore
from otolith.stores.sqlite import SqliteStore

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")  # two letters or more: C:\ is a drive
_MADE_BY_INIT = ".otolith/store.db"
_FILE = "otolith.db"


def open_store(url: str | os.PathLike[str], **options: Any) -> Store:
    """Open the store that a URL or path names. Options go to the store that it is.

    Raises:
        Unsupported: there is no store for this scheme.
        Invalid: the address does not say where, or the store has no such option.
    """
    text = os.fspath(url)
    found = _SCHEME.match(text) if isinstance(url, str) else None
    if found is None:
        return _make(SqliteStore, file_in(text), options)
    scheme = found[1].lower()
    opener = _OPENERS.get(scheme)
    if opener is None:
        known = ", ".join(f"{name}:" for name in sorted(_OPENERS))
        raise Unsupported(f"no store for {scheme}:", hint=f"use {known} or a path")
    return opener(text[found.end() :], options)


def _open_memory(rest: str, options: dict[str, Any]) -> Store:
    if rest.strip("/"):
        raise Invalid(f"memory: takes no address, not {rest!r}", hint="use memory:")
    return _make(MemoryStore, None, options)


def _open_sqlite(rest: str, options: dict[str, Any]) -> Store:
    path = rest.removeprefix("//")
    if rest.startswith("//") and not path.startswith("/"):
        raise Invalid(
            f"sqlite://{path} names a host", hint="use sqlite:///absolute/path or sqlite:relative"
        )
    path = unquote(path)
    if re.match(r"/[A-Za-z]:[\\/]", path):
        path = path[1:]
    if not path:
        raise Invalid("sqlite: does not say which file", hint="use sqlite:relative.db")
    return _make(SqliteStore, file_in(path), options)


def file_in(path: str) -> str:
    """Return the file of a store: the path itself, or the one in the directory that it is."""
    if not os.path.isdir(path):  # noqa: PTH112 - a path that no file can have is no directory
        return path
    file = Path(path, _MADE_BY_INIT)
    return str(file if file.exists() else Path(path, _FILE))


def _make(kind: Callable[..., Store], place: str | None, options: dict[str, Any]) -> Store:
    try:
        return kind(**options) if place is None else kind(place, **options)
    except TypeError as error:
        raise Invalid(f"{kind.__name__}: {error}", hint="check the options") from error


_OPENERS: dict[str, Callable[[str, dict[str, Any]], Store]] = {
    "memory": _open_memory,
    "sqlite": _open_sqlite,
}


Place: TypeAlias = Store | KVStore | str | os.PathLike[str]
"""Whatever can be made a store of."""

_CALLS = ("read", "write", "ref", "refs", "moves", "find", "usage", "close")


class Memory(MemoryStore):
    """A store in memory. `size_limit` (bytes) refuses what would not fit; nothing is evicted."""

    def __init__(self, *, size_limit: int | None = None) -> None:
        super().__init__(limit_bytes=_checked(size_limit))


class Disk(SqliteStore):
    """A store in one file, which is made if it is missing.

    `path` is the file, or a directory that is there: then `otolith.db` in it, or what
    `otolith init` has made in it. `size_limit` (bytes) refuses what would not fit; nothing is
    evicted. `durability="fast"` lets a power cut (not a crash) take the last commits.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        size_limit: int | None = None,
        durability: Literal["full", "fast"] = "full",
    ) -> None:
        file = file_in(os.fspath(path))
        super().__init__(file, durability=durability, limit_bytes=_checked(size_limit))


class Cache(CachedStore):
    """A cache of `max_bytes` over any store, which `as_store` makes of what it is given."""

    def __init__(self, store: Place, *, max_bytes: int = 64 * 2**20) -> None:
        if max_bytes < 0:
            raise Invalid(f"a cache of {max_bytes} bytes", hint="give 0 or more")
        super().__init__(as_store(store), limit_bytes=max_bytes)


def as_store(place: Place) -> Store:
    """Return the store that something is, or names.

    Raises:
        Invalid: it is none of what is accepted.
        NotAStore, StoreNotFound, Unsupported: as `open_store` says.
    """
    if isinstance(place, KVStore):
        return KeyValueStore(place)
    if isinstance(place, str | os.PathLike):
        return open_store(place)
    if not isinstance(place, type) and all(hasattr(place, call) for call in _CALLS):
        return place
    kind = f"the class {place.__name__}" if isinstance(place, type) else type(place).__name__
    raise Invalid(
        f"{kind} is not a place to keep a state",
        hint="give a store (Memory(), Disk(path), Cache(store)), a KVStore, a path or a URL",
    )


def _checked(size_limit: object) -> int | None:
    if size_limit is None or (isinstance(size_limit, int) and size_limit > 0):
        return size_limit
    raise Invalid(f"a size limit of {size_limit!r}", hint="give a number of bytes, or leave it out")
