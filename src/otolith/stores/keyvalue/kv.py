"""Calls of a user's class: in groups that are not too large, answers checked, failures named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from otolith.errors import Error, Invalid, Unavailable
from otolith.stores.keyvalue.kv import KVStore

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
