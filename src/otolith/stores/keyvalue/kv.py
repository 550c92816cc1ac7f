"""What a user writes to keep everything somewhere else: `get`, `set`, and as much more as it can.

Keys are short and plain (lower-case letters, digits and "-"), so they can be file names. Values are
bytes of any length, also none; nearly all are below 64 KiB.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from threading import RLock
from typing import Any, ClassVar, Self

from otolith.errors import Unsupported


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
