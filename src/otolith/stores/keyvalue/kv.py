"""What a user writes to keep everything somewhere else: `get`, `set`, and as much more as it can.

Keys are short and plain (lower-case letters, digits and "-"), so they can be file names. Values are
bytes of any length, also none; nearly all are below 64 KiB.

Calls of a user's class: in groups that are not too large, answers checked, failures named.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any, ClassVar, Self

from otolith.errors import Error, Invalid, Unavailable, Unsupported


class KVStore(ABC):
    """Bytes under keys. `get` and `set` are all it takes; the rest has defaults.

    It may be called from several threads. What it raises passes through, except for the kinds in
    `failures`, which become `Unavailable`.
    """

    failures: ClassVar[tuple[type[Exception], ...]] = (OSError,)
    """What is raised when the place cannot be reached."""

    durable: bool = False
    """Whether what was set is still there after the place itself has crashed."""

    _guard: RLock

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Give it a lock, whether or not its `__init__` calls ours."""
        made = super().__new__(cls)
        object.__setattr__(made, "_guard", RLock())  # a frozen dataclass is welcome too
        return made

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """Return the bytes under a key, or None."""

    @abstractmethod
    def set(self, key: str, value: bytes) -> None:
        """Keep bytes under a key, in place of what was there."""

    def get_many(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Return what is there under several keys; the others are left out."""
        found = {key: self.get(key) for key in keys}
        return {key: value for key, value in found.items() if value is not None}

    def set_many(self, values: Mapping[str, bytes]) -> None:
        """Keep several values. All are there when it returns; if it fails, any of them may be."""
        for key, value in values.items():
            self.set(key, value)

    def delete(self, key: str) -> None:
        """Remove a key; one that is not there is no error. Without it nothing is ever removed."""
        raise Unsupported(f"{type(self).__name__} has no delete", hint="define delete(key)")

    def keys(self, prefix: str) -> Iterable[str]:
        """Yield every key that starts with a prefix. Only a collection needs it."""
        raise Unsupported(f"{type(self).__name__} has no keys", hint="define keys(prefix)")

    def swap(self, key: str, old: bytes | None, new: bytes) -> bool:
        """Set a key if it still has its old value (None: is absent); tell whether it was set.

        Every write comes down to one swap of one key. This default compares and sets under a lock
        of this object, so it is right for one object in one process only: with two processes, the
        commits of one can be lost. A class that is used by several defines its own, in which the
        place itself compares and sets in one step; `capabilities.shared` then says so.
        """
        with self._guard:
            if self.get(key) != old:
                return False
            self.set(key, new)
            return True

    def close(self) -> None:  # noqa: B027 - most have nothing to release
        """Release what it holds. Nothing is asked of it afterwards."""


_KEYS_AT_ONCE = 256
_BYTES_AT_ONCE = 4 << 20


class Calls:
    """A KVStore as the rest of this room sees it."""

    def __init__(self, kv: KVStore) -> None:
        self._kv = kv
        self.name = type(kv).__name__
        self.swaps = _defines(kv, "swap")
        self.deletes = _defines(kv, "delete")
        self.lists = _defines(kv, "keys")

    def get(self, key: str) -> bytes | None:
        with self._calling("get"):
            found = self._kv.get(key)
        return None if found is None else self._checked("get", found)

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return what is there."""
        found: dict[str, bytes] = {}
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            with self._calling("get_many"):
                some = self._kv.get_many(keys[start : start + _KEYS_AT_ONCE])
            for key, value in some.items():
                found[key] = self._checked("get_many", value)
        return found

    def set_many(self, values: Mapping[str, bytes]) -> None:
        """Keep values, in their order."""
        for group in _groups(values):
            with self._calling("set_many"):
                self._kv.set_many(group)

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove keys, if that can be done."""
        if self.deletes:
            with self._calling("delete"):
                for key in keys:
                    self._kv.delete(key)

    def keys(self, prefix: str) -> set[str]:
        with self._calling("keys"):
            return {key for key in self._kv.keys(prefix) if key.startswith(prefix)}

    def swap(self, key: str, old: bytes | None, new: bytes) -> bool:
        """Compare and set. Only True is certain: an answer can be lost, or be that of a retry."""
        with self._calling("swap", hint="it may have landed: read again before writing again"):
            done = self._kv.swap(key, old, new)
        if done is None:
            raise Invalid(f"{self.name}.swap returned None", hint="return True or False")
        return bool(done)

    def close(self) -> None:
        with self._calling("close"):
            self._kv.close()

    @contextmanager
    def _calling(self, call: str, hint: str = "try again later") -> Iterator[None]:
        try:
            yield
        except self._kv.failures as error:
            if isinstance(error, Error):
                raise
            raise Unavailable(f"{self.name}.{call}: {error}", hint=hint) from error

    def _checked(self, call: str, value: object) -> bytes:
        if isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        kind = type(value).__name__
        raise Invalid(f"{self.name}.{call} returned {kind}", hint="return the bytes that were set")


def _defines(kv: KVStore, name: str) -> bool:
    own: Callable[..., object] = getattr(type(kv), name)
    return own is not getattr(KVStore, name)


def _groups(values: Mapping[str, bytes]) -> Iterator[dict[str, bytes]]:
    group: dict[str, bytes] = {}
    size = 0
    for key, value in values.items():
        group[key] = value
        size += len(value)
        if size >= _BYTES_AT_ONCE:
            yield group
            group, size = {}, 0
    if group:
        yield group
