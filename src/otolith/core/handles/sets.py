"""A handle on a set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet
from typing import Any

from otolith.core.handles.base import Handle, equal_numbers, in_one_turn
from otolith.core.trees.cells import EMPTY_MAP
from otolith.errors import BadValue
from otolith.types import Tag


class SetHandle(Handle, MutableSet[Any]):
    """A set. Two branches that add or discard different elements merge by themselves."""

    _noun = "set"

    def _fits(self, cell: bytes) -> bool:
        tag = self._cells.tag(cell)
        return tag is not None and tag.code == Tag.SET

    def _elements(self) -> bytes:
        cell = self._cell()
        tag = self._cells.tag(cell) if cell is not None else None
        return tag.data if tag is not None and isinstance(tag.data, bytes) else EMPTY_MAP

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> set[Any]:
        return set(it)  # what `|`, `&`, `-` and `^` give is a plain set

    def __len__(self) -> int:
        return self._cells.length(self._elements())

    def __contains__(self, value: object) -> bool:
        return self._cells.entry(self._elements(), self._key(value)) is not None

    def __iter__(self) -> Iterator[Any]:
        for key, _ in self._cells.entries(self._elements()):
            yield self._cells.encoding.unkey(key)

    @in_one_turn
    def add(self, value: Any) -> None:
        """Add an element."""
        self._edit([value], self._put(None))

    @in_one_turn
    def discard(self, value: Any) -> None:
        """Remove an element if it is there."""
        if value in self:
            self._edit([value], None)

    @in_one_turn
    def update(self, values: Iterable[Any]) -> None:
        """Add elements."""
        self._edit(values, self._put(None))

    def _edit(self, values: Iterable[Any], cell: bytes | None) -> None:
        elements = self._cells.edit_map(
            self._elements(), dict.fromkeys(map(self._key, values), cell)
        )
        self._state.write_cell(self._path, self._cells.tagged_cell(Tag.SET, elements))

    def _key(self, value: object) -> bytes:
        try:
            hash(value)
        except TypeError:
            raise BadValue(f"{self.path}: {value!r} cannot be an element of a set") from None
        keys = [self._cells.encoding.key(each) for each in equal_numbers(value)]
        elements = self._elements() if len(keys) > 1 else b""
        return next((key for key in keys[1:] if self._cells.entry(elements, key)), keys[0])
