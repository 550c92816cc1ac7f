"""Stores by URL, by path, and under the names that users of a state know.

    memory:                                 a store in memory
    sqlite:///abs/path, sqlite:relative.db  a store in one SQLite file
    a path                                  the same; of the file, or of a directory that has it
    postgresql://, redis://, rediss://      a store on a server
    s3://, gs://, az://                     a store in a bucket
    etcd://, etcds://host:2379?objects=URL  refs in etcd, objects in another store

A store on a server needs an extra, such as `pip install 'otolith[postgres]'`; its client is
imported when the first URL of its kind is opened. `InMemory` (exported as `Memory`), `Disk` and
`Cache` are the stores of this machine with fewer arguments.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias
from urllib.parse import unquote

from otolith.errors import Invalid, MissingExtra, Unsupported
from otolith.shapes import check_argument
from otolith.stores.base import ServerReporter, Store, check_limit
from otolith.stores.keyvalue import KeyValueStore, KVStore
from otolith.stores.layers import CachedStore, ObjectCache
from otolith.stores.memory import MemoryStore
from otolith.stores.server_url import is_ambiguous, without_secrets
from otolith.stores.sqlite import SqliteStore

StoreLike: TypeAlias = Store | KVStore | str | os.PathLike[str]
"""A store, or what `as_store` can make one of."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")  # two letters or more: C:\ is a drive
_FILE_OF_INIT = ".otolith/store.db"
_FILE_OF_DISK = "otolith.db"
_ON_SERVERS = {
    "postgresql": ("postgres", "PostgresStore", "postgres"),
    "postgres": ("postgres", "PostgresStore", "postgres"),
    "redis": ("redis", "RedisStore", "redis"),
    "rediss": ("redis", "RedisStore", "redis"),
    "s3": ("bucket", "BucketStore", "s3"),
    "gs": ("bucket", "BucketStore", "gs"),
    "az": ("bucket", "BucketStore", "az"),
    "etcd": ("etcd", "EtcdStore", "etcd"),
    "etcds": ("etcd", "EtcdStore", "etcd"),
}
"""By scheme: the module, the class, and the extra that brings its client."""

CACHES = {"redis": "RedisCache", "rediss": "RedisCache"}
"""By scheme: the class by which a server is a cache in front of another store."""

_METHODS = ("read", "write", "ref", "refs", "moves", "find", "usage", "close")


def open_store(url: str | os.PathLike[str], **options: Any) -> Store:
    """Open the store that a URL or path names. Options are arguments of its class.

    Raises:
        Unsupported: no store has this scheme.
        Invalid: the URL does not say where, or the store does not have such an option.
    """
    text = os.fspath(url)
    found = _SCHEME.match(text) if isinstance(url, str) else None
    if found is None:
        return _construct(SqliteStore, options, file_in(text))
    scheme, rest = found[1].lower(), text[found.end() :]
    if scheme == "sqlite":
        return _construct(SqliteStore, options, file_in(_sqlite_path(rest)))
    if scheme in _ON_SERVERS and is_ambiguous(text):
        raise Invalid(
            f"{without_secrets(text)}: the password has a character with another meaning in a URL",
            hint="write # as %23, / as %2F, ? as %3F and @ as %40",
        )
    if scheme in _ON_SERVERS:
        module, name, extra = _ON_SERVERS[scheme]
        return _construct(_import(scheme, module, name, extra), options, text)
    if scheme != "memory":
        known = ", ".join(f"{name}:" for name in ("memory", "sqlite", *_ON_SERVERS))
        raise Unsupported(f"no store for {scheme}:", hint=f"use {known} or a path")
    if rest.strip("/"):
        raise Invalid(f"memory: takes no address, got {rest!r}", hint="use memory:")
    return _construct(MemoryStore, options)


def scheme_of(place: str) -> str:
    """Return the scheme of a URL; that of a path is empty."""
    found = _SCHEME.match(place)
    return found[1].lower() if found is not None else ""


class ServerCache(ObjectCache, Protocol):
    """A cache on a server, which may refuse to be one."""

    def check(self) -> None:
        """Ask the server once.

        Raises:
            Denied, Unavailable: it refuses to answer, or does not.
        """
        ...


def open_server_cache(url: str, **options: Any) -> ServerCache:
    """Open a server as a cache of objects; its scheme is one of `CACHES`.

    Raises:
        MissingExtra: its client is not installed.
    """
    scheme = scheme_of(url)
    module, _, extra = _ON_SERVERS[scheme]
    found: ServerCache = _import(scheme, module, CACHES[scheme], extra)(url, **options)
    return found


def place_of(store: Store) -> str:
    """Return the file of a store, or the name of its class; a server is not one of its files."""
    path = None if isinstance(store, ServerReporter) else getattr(store, "path", None)
    return path or type(store).__name__


def _import(scheme: str, module: str, name: str, extra: str) -> Callable[..., Any]:
    """Import the class of a scheme.

    Raises:
        MissingExtra: its client is not installed, or lacks a library.
    """
    try:
        found: Callable[..., Any] = getattr(import_module(f"otolith.stores.{module}"), name)
    except ImportError as error:
        if (error.name or "").startswith("otolith"):
            raise
        problem = f"needs the package {error.name}"
        if not isinstance(error, ModuleNotFoundError):  # such as psycopg without its libpq
            problem = f"its client cannot be imported: {str(error).partition(chr(10))[0]}"
        raise MissingExtra(f"{scheme}: {problem}", hint=f"pip install 'otolith[{extra}]'") from None
    return found


def _sqlite_path(rest: str) -> str:
    path = rest.removeprefix("//")
    if rest.startswith("//") and not path.startswith("/"):
        raise Invalid(
            f"sqlite://{path} names a host", hint="use sqlite:///absolute/path or sqlite:relative"
        )
    if "?" in path:
        option = re.split("[=&]", path.partition("?")[2])[0]
        raise Invalid(
            f"sqlite: has no option {option!r}", hint="write a ? in the name of a file as %3F"
        )
    path = unquote(path)
    if re.match(r"/[A-Za-z]:[\\/]", path):
        path = path[1:]
    if not path:
        raise Invalid("sqlite: does not say which file", hint="use sqlite:relative.db")
    return path


def file_in(path: str) -> str:
    """Return the file of a store: the path itself or, if it is a directory, the file in it."""
    if not os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises for paths that no file can have
        return path
    file = Path(path, _FILE_OF_INIT)
    return str(file if file.exists() else Path(path, _FILE_OF_DISK))


def _construct(kind: Callable[..., Store], options: dict[str, Any], *path: str) -> Store:
    try:
        return kind(*path, **options)
    except TypeError as error:
        raise Invalid(f"{kind.__name__}: {error}", hint="check the options") from error


class InMemory(MemoryStore):
    """A store in memory; users import it as `Memory`.

    `size_limit` (bytes) refuses what would not fit; nothing is evicted.
    """

    def __init__(self, *, size_limit: int | None = None) -> None:
        super().__init__(limit_bytes=check_limit(size_limit, "size_limit"))


class Disk(SqliteStore):
    """A store in one file, which is made if it is missing.

    `path` is the file, or an existing directory: then `otolith.db` in it, or the file that
    `otolith init` has made in it. `size_limit` (bytes) refuses what would not fit; nothing is
    evicted. With `durability="fast"` a power cut (not a crash) can lose the last commits.

        state = otolith.Versioned(otolith.Disk("agent.db"))
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        size_limit: int | None = None,
        durability: Literal["full", "fast"] = "full",
    ) -> None:
        if not isinstance(path, str | os.PathLike):
            raise Invalid(f"path must be a path, got {type(path).__name__}")
        file = file_in(os.fspath(path))
        super().__init__(
            file, durability=durability, limit_bytes=check_limit(size_limit, "size_limit")
        )


class Cache(CachedStore):
    """A cache of `max_bytes` over another store, or over what `as_store` can make one of."""

    def __init__(self, store: StoreLike, *, max_bytes: int = 64 * 2**20) -> None:
        check_argument(max_bytes, "max_bytes", int, "a number of bytes")
        if max_bytes < 0:
            raise Invalid(f"max_bytes must be 0 or more, got {max_bytes}")
        super().__init__(as_store(store), limit_bytes=max_bytes)


def as_store(store: StoreLike) -> Store:
    """Return a store as it is, or the store over a KVStore, or the one that a path or URL names.

    Raises:
        Invalid: it is none of these.
        NotAStore, StoreNotFound, Unsupported: as `open_store` says.
    """
    if isinstance(store, KVStore):
        return KeyValueStore(store)
    if isinstance(store, str | os.PathLike):
        return open_store(store)
    if not isinstance(store, type) and all(hasattr(store, method) for method in _METHODS):
        return store
    kind = f"the class {store.__name__}" if isinstance(store, type) else type(store).__name__
    raise Invalid(
        f"cannot store a state in {kind}",
        hint="give a store (Memory(), Disk(path), Cache(store)), a KVStore, a path or a URL",
    )
