"""The interface for a database of the user's own: `get`, `set`, and as much more as it can do.

Keys are short and plain (lower-case letters, digits and "-"), so they can be file names. Values are
bytes of any length, also empty; nearly all are below 64 KiB.

`KVStore` is the class to derive from. `KVClient` is how this package calls it: in groups that are
not too large, with answers checked and failures translated. Classes that were written for agex work
as they are: `get_many(*keys)`, `set_many(**values)`, and `items()` in place of `keys(prefix)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import Parameter, signature
from threading import RLock
from typing import Any, ClassVar, Self

from otolith.errors import Error, Invalid, Unavailable, Unsupported


class KVStore(ABC):
    """Bytes under keys. Only `get` and `set` are required; the rest has defaults.

    Methods may be called from several threads. Exceptions pass through, except for the kinds in
    `failures`, which become `Unavailable`.

        class DictKV(KVStore):
            def __init__(self):
                self.values = {}
            def get(self, key):
                return self.values.get(key)
            def set(self, key, value):
                self.values[key] = value
    """

    failures: ClassVar[tuple[type[Exception], ...]] = (OSError,)
    """The exceptions that mean that the database cannot be reached."""

    durable: bool = False
    """Whether what was set is still there after the database itself has crashed."""

    _guard: RLock

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Add a lock, whether or not the `__init__` of a subclass calls ours."""
        made = super().__new__(cls)
        object.__setattr__(made, "_guard", RLock())  # works for frozen dataclasses too
        return made

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """Return the bytes under a key, or None."""

    @abstractmethod
    def set(self, key: str, value: bytes) -> None:
        """Store bytes under a key, replacing what was there."""

    def get_many(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Return the values of several keys; absent ones are left out."""
        found = {key: self.get(key) for key in keys}
        return {key: value for key, value in found.items() if value is not None}

    def set_many(self, values: Mapping[str, bytes]) -> None:
        """Store several values. All are there when it returns; if it fails, any of them may be."""
        for key, value in values.items():
            self.set(key, value)

    def delete(self, key: str) -> None:
        """Remove a key; an absent one is ignored. Without this method nothing is ever removed."""
        raise Unsupported(f"{type(self).__name__} has no delete", hint="define delete(key)")

    def keys(self, prefix: str) -> Iterable[str]:
        """Yield every key that starts with a prefix. Only a collection needs it."""
        raise Unsupported(f"{type(self).__name__} has no keys", hint="define keys(prefix)")

    def swap(self, key: str, old: bytes | None, new: bytes) -> bool:
        """Set a key if it still has its old value (None: is absent); return whether it was set.

        Every write ends with one swap of one key. This default compares and sets under a lock of
        this object, so it is right for one object in one process only: with two processes, the
        commits of one can be lost. A class for several processes defines its own, in which the
        database itself compares and sets in one step; `capabilities.shared` is then true.
        """
        with self._guard:
            if self.get(key) != old:
                return False
            self.set(key, new)
            return True

    def close(self) -> None:  # noqa: B027 - most have nothing to release
        """Release resources. No other method is called afterwards."""


_KEYS_AT_ONCE = 256
_BYTES_AT_ONCE = 4 << 20


class KVClient:
    """Calls a KVStore, checks its answers and translates its failures."""

    def __init__(self, kv: KVStore) -> None:
        self._kv = kv
        self.name = type(kv).__name__
        self.swaps, self.deletes, self.lists = (
            getattr(type(kv), name) is not getattr(KVStore, name)  # has it overridden the default?
            for name in ("swap", "delete", "keys")
        )
        self._items: Callable[[], Iterable[Any]] | None = getattr(kv, "items", None)
        self.lists = self.lists or self._items is not None
        self._spreads_keys = _takes(kv.get_many, Parameter.VAR_POSITIONAL)
        self._spreads_values = _takes(kv.set_many, Parameter.VAR_KEYWORD)

    def get(self, key: str) -> bytes | None:
        """Return the bytes under a key, or None."""
        with self._translated("get"):
            found = self._kv.get(key)
        return None if found is None else self._checked("get", found)

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the values that are there."""
        found: dict[str, bytes] = {}
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            wanted = keys[start : start + _KEYS_AT_ONCE]
            with self._translated("get_many"):
                some = self._kv.get_many(*(wanted if self._spreads_keys else [wanted]))
            for key, value in some.items():
                found[key] = self._checked("get_many", value)
        return found

    def set_many(self, values: Mapping[str, bytes]) -> None:
        """Store values, in their order."""
        for group in _groups(values):
            with self._translated("set_many"):
                if self._spreads_values:
                    self._kv.set_many(**group)  # type: ignore[arg-type]
                else:
                    self._kv.set_many(group)

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove keys, if the KVStore can."""
        if self.deletes:
            with self._translated("delete"):
                for key in keys:
                    self._kv.delete(key)

    def keys(self, prefix: str) -> set[str]:
        """Return every key that starts with a prefix."""
        with self._translated("keys"):
            if self._items is not None and type(self._kv).keys is KVStore.keys:
                return {key for key, _ in self._items() if key.startswith(prefix)}
            return {key for key in self._kv.keys(prefix) if key.startswith(prefix)}

    def swap(self, key: str, old: bytes | None, new: bytes) -> bool:
        """Compare and set. Only True is certain: a reply can be lost, or be that of a retry."""
        with self._translated("swap", hint="it may have landed: read again before writing again"):
            done = self._kv.swap(key, old, new)
        if done is None:
            raise Invalid(f"{self.name}.swap returned None", hint="return True or False")
        return bool(done)

    def close(self) -> None:
        """Close the KVStore."""
        with self._translated("close"):
            self._kv.close()

    @contextmanager
    def _translated(self, call: str, hint: str = "try again later") -> Iterator[None]:
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


def _takes(method: Callable[..., object], kind: object) -> bool:
    """Tell whether a method takes arguments of a kind, such as `*keys`."""
    return any(each.kind is kind for each in signature(method).parameters.values())


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
