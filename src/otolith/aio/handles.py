"""Handles on one value of a state, awaitable: made without looking, and checked at each call."""

from __future__ import annotations

from collections.abc import (
    AsyncIterator,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
)
from typing import Any, Protocol, TypeVar, cast, overload

from otolith import state
from otolith.aio.mirror import Mirror, awaited

M = TypeVar("M", bound=Mapping[Any, Any])


class ListHandle(Mirror[MutableSequence[Any]]):
    """A list. `await log[-1]` and `await log[2:5]` read; `async for` goes through all of it."""

    append = awaited(MutableSequence[Any].append)
    extend = awaited(MutableSequence[Any].extend)
    insert = awaited(MutableSequence[Any].insert)
    pop = awaited(MutableSequence[Any].pop)
    remove = awaited(MutableSequence[Any].remove)
    reverse = awaited(MutableSequence[Any].reverse)
    clear = awaited(MutableSequence[Any].clear)
    index = awaited(MutableSequence[Any].index)
    count = awaited(MutableSequence[Any].count)

    @overload
    async def __getitem__(self, at: int) -> Any: ...
    @overload
    async def __getitem__(self, at: slice) -> list[Any]: ...
    async def __getitem__(self, at: int | slice) -> Any:
        return await self.run(lambda plain: plain[at])

    @overload
    async def set(self, at: int, value: Any) -> None: ...
    @overload
    async def set(self, at: slice, value: Iterable[Any]) -> None: ...
    async def set(self, at: Any, value: Any) -> None:
        """Replace an element, or those of a slice."""
        await self.run(lambda plain: plain.__setitem__(at, value))

    async def delete(self, at: int | slice) -> None:
        """Remove an element, or those of a slice."""
        await self.run(lambda plain: plain.__delitem__(at))

    async def length(self) -> int:
        """Return how many elements there are."""
        return await self.run(len)

    async def contains(self, value: object) -> bool:
        """Tell whether an element is equal to a value."""
        return await self.run(lambda plain: value in plain)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._walk(iter)


class Mapped(Mirror[M]):
    """Reading anything that is a mapping: `await users[42]`, `async for key in users`."""

    async def __getitem__(self, key: Any) -> Any:
        return await self.run(lambda plain: plain[key])

    async def get(self, key: Any, default: Any = None) -> Any:
        """Return the value under a key, or the default if there is none."""
        return await self.run(lambda plain: plain.get(key, default))

    async def contains(self, key: object) -> bool:
        """Tell whether there is a key."""
        return await self.run(lambda plain: key in plain)

    async def length(self) -> int:
        """Return how many keys there are."""
        return await self.run(len)

    async def keys(self) -> list[Any]:
        """Return all keys."""
        return await self.run(list)

    async def values(self) -> list[Any]:
        """Return all values, in the order of their keys."""
        return await self.run(lambda plain: list(plain.values()))

    async def items(self) -> list[tuple[Any, Any]]:
        """Return all keys and values."""
        return await self.run(lambda plain: list(plain.items()))

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._walk(iter)


class MapHandle(Mapped[MutableMapping[Any, Any]]):
    """A dict with keys of any plain type, in key order."""

    update = awaited(MutableMapping[Any, Any].update)
    popitem = awaited(MutableMapping[Any, Any].popitem)
    clear = awaited(MutableMapping[Any, Any].clear)

    async def set(self, key: Any, value: Any) -> None:
        """Set the value under a key."""
        await self.run(lambda plain: plain.__setitem__(key, value))

    async def delete(self, key: Any) -> None:
        """Remove a key."""
        await self.run(lambda plain: plain.__delitem__(key))

    async def pop(self, key: Any, *default: Any) -> Any:
        """Remove a key and return its value, or the default if it is not there."""
        return await self.run(lambda plain: plain.pop(key, *default))

    async def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return the value under a key; it is set if there is none."""
        return await self.run(lambda plain: plain.setdefault(key, default))

    def scan(self, prefix: str = "", *, start: str | None = None) -> AsyncIterator[tuple[str, Any]]:
        """Yield the str keys with a prefix and their values, in order, reading no others."""
        return self._walk(lambda plain: cast("Scanned", plain).scan(prefix, start=start))


class SetHandle(Mirror[MutableSet[Any]]):
    """A set. Two branches that add or discard different elements merge by themselves."""

    add = awaited(MutableSet[Any].add)
    discard = awaited(MutableSet[Any].discard)
    remove = awaited(MutableSet[Any].remove)
    pop = awaited(MutableSet[Any].pop)
    clear = awaited(MutableSet[Any].clear)
    isdisjoint = awaited(MutableSet[Any].isdisjoint)

    async def update(self, values: Iterable[Any]) -> None:
        """Add elements."""
        await self.run(lambda plain: cast("Updated", plain).update(values))

    async def length(self) -> int:
        """Return how many elements there are."""
        return await self.run(len)

    async def contains(self, value: object) -> bool:
        """Tell whether a value is an element."""
        return await self.run(lambda plain: value in plain)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._walk(iter)


class CounterHandle(Mirror["Adding"]):
    """A number to which several branches add at the same time; a merge adds up what each added."""

    async def add(self, amount: Any = 1) -> Any:
        """Add to the number and return it."""
        return await self.run(lambda plain: plain.add(amount))

    async def value(self) -> Any:
        """Return the number; 0 if nothing was added yet."""
        return await self.run(lambda plain: plain.value)


class BlobHandle(Mirror["Bytes"]):
    """A bytes value of any length, of which any part can be read or replaced by itself."""

    async def read(self, start: int = 0, stop: int | None = None) -> bytes:
        """Return a range of the bytes, reading only the chunks that hold it."""
        return await self.run(lambda plain: plain.read(start, stop))

    async def write(self, data: bytes | Iterable[bytes]) -> None:
        """Replace everything, by bytes or by pieces, which are asked for in the thread."""
        await self.run(lambda plain: plain.write(data))

    async def append(self, data: bytes) -> None:
        """Add bytes at the end."""
        await self.run(lambda plain: plain.append(data))

    async def splice(self, start: int, stop: int, data: bytes) -> None:
        """Replace a range; what lies before and after is not read."""
        await self.run(lambda plain: plain.splice(start, stop, data))

    async def length(self) -> int:
        """Return how many bytes there are."""
        return await self.run(len)


class FrameHandle(Mapped[state.Frame]):
    """A frame or table, read a column at a time: `await prices["price"]`."""

    at = awaited(state.Frame.at)

    async def columns(self) -> list[Any]:
        """Return the labels of the columns, in order."""
        return await self.run(lambda plain: plain.columns)

    async def library(self) -> str:
        """Return whose frame it is: pandas, polars or pyarrow."""
        return await self.run(lambda plain: plain.library)


# What the plain handles can do, beyond what every collection can: the door of core has no names
# for them, and type checkers hold them to this where a handle is made.


class Scanned(Protocol):
    def scan(self, prefix: str = "", *, start: str | None = None) -> Iterator[tuple[str, Any]]: ...


class Updated(Protocol):
    def update(self, values: Iterable[Any]) -> None: ...


class Adding(Protocol):
    @property
    def value(self) -> Any: ...
    def add(self, amount: Any = 1) -> Any: ...


class Bytes(Protocol):
    def __len__(self) -> int: ...
    def read(self, start: int = 0, stop: int | None = None) -> bytes: ...
    def write(self, data: bytes | Iterable[bytes]) -> None: ...
    def append(self, data: bytes) -> None: ...
    def splice(self, start: int, stop: int, data: bytes) -> None: ...
