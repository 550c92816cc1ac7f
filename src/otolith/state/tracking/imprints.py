"""What a value looked like when it was last encoded, so that encoding it again costs what changed.

An imprint mirrors the cell of a value. Where the value sits in one object, its imprint is one
fingerprint; where it has grown a tree, the imprint knows the parts:

    Whole      one fingerprint                     here
    Lowered    what a codec lowers the value to    here
    Parts      the elements of a list              lists.py
    Entries    the entries of a dict               dicts.py
    Chunks     the chunks of raw bytes             chunks.py
    Unchanging one object that has the content     unchanging.py

A fingerprint is always taken before the encoding it vouches for. If the value changes in between,
the next look finds a difference; the other way round it would be lost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from otolith.agent.tracking.circles import circle_in
from otolith.agent.tracking.fingerprint import fingerprint
from otolith.core import Cells
from otolith.errors import BadValue
from otolith.types import Tag, Tagged


class Imprint(ABC):
    """The cell that stands for a value, and the means to tell whether it still does."""

    __slots__ = ("cell",)

    def __init__(self, cell: bytes) -> None:
        self.cell = cell

    @abstractmethod
    def describes(self, value: object) -> bool:
        """Tell whether `again` can go on from here with this value."""

    @abstractmethod
    def again(self, value: Any, how: Imprints) -> Imprint:
        """Return the imprint of the value as it is now: this very one if nothing changed."""

    def keeps(self) -> Iterable[object]:
        """Return the objects of the value that this has references to, each as often as it has."""
        return ()


Shape: TypeAlias = "Callable[[object, bytes, Imprints], Imprint | None]"
"""Takes the imprint of a value that has a tree, if it is of the kind that this is for."""


class Imprints:
    """Takes imprints, and encodes again what changed since they were taken."""

    def __init__(self, cells: Cells, *shapes: Shape) -> None:
        self.cells = cells
        self._shapes = shapes

    def fresh(self, value: object) -> Imprint:
        """Encode a value and take its imprint.

        Raises:
            BadValue: it cannot be kept, or was changed while it was being encoded.
        """
        before = self.print(value)
        if before is None and (found := circle_in(value)) is not None:
            steps, part = found
            where = f"at {'/'.join(map(str, steps[:8]))}: " if steps else ""
            raise Endless(
                f"{where}a {type(part).__name__} has itself inside",
                hint="refer to it by a key instead",
            )
        cell = self.cells.put(value)
        if before is None:
            return Whole(cell, None)  # nothing vouches for it, and it is encoded again next time
        imprint = self.of(value, cell)
        if self.print(value) != before:
            raise changing(value)
        return imprint

    def of(self, value: object, cell: bytes) -> Imprint:
        """Take the imprint of a value that nobody else has seen since it was in this cell."""
        if self.cells.is_grown(cell):
            for shape in self._shapes:
                if (found := shape(value, cell, self)) is not None:
                    return found
        return Whole(cell, self.print(value))

    def again(self, value: object, old: Imprint) -> Imprint:
        """Return the imprint of a value as it is now: the old one itself if nothing changed.

        Raises:
            BadValue: it cannot be kept any more, or was changed while it was being encoded.
        """
        return old.again(value, self) if old.describes(value) else self.fresh(value)

    def part(self, value: object, old: Imprint | None) -> tuple[bytes, Imprint | None]:
        """Encode one part of a container; it has an imprint if it has a tree of its own."""
        if old is not None:
            imprint: Imprint | None = self.again(value, old)
        else:
            cell = self.cells.put(value)
            imprint = self.of(value, cell) if self.cells.is_grown(cell) else None
            if imprint is None:
                return cell, None
        assert imprint is not None
        return imprint.cell, imprint if self.cells.is_grown(imprint.cell) else None

    def print(self, value: object) -> int | None:
        """Return the fingerprint of a value."""
        return fingerprint(value, self.lower)

    def lower(self, value: object) -> Tagged:
        """Return a value one step plainer."""
        return self.cells.encoding.codec.lower(value)


class Whole(Imprint):
    """A value that is encoded in one go."""

    __slots__ = ("mark",)

    def __init__(self, cell: bytes, print: int | None) -> None:
        super().__init__(cell)
        self.mark = print

    def describes(self, value: object) -> bool:
        return True

    def again(self, value: Any, how: Imprints) -> Imprint:
        if self.mark is not None and how.print(value) == self.mark:
            return self
        new = how.fresh(value)
        if not how.cells.same(new.cell, self.cell):
            return new
        if isinstance(new, Whole):  # the same content in another order
            self.mark = new.mark
        return self


class Lowered(Imprint):
    """A value of a type that a codec keeps."""

    __slots__ = ("_data", "_kind")

    def __init__(self, cell: bytes, kind: type, data: Imprint) -> None:
        super().__init__(cell)
        self._kind = kind
        self._data = data

    @classmethod
    def of(cls, value: object, cell: bytes, how: Imprints) -> Imprint | None:
        stored = how.cells.tag(cell)
        if stored is None:
            return None
        code, data = how.lower(value)
        below = stored.data
        if code != stored.code or not isinstance(below, bytes) or not _fits(how, code, data, below):
            return None  # it was stored in a form of the past, and is replaced as a whole
        return cls(cell, type(value), how.of(data, below))

    def describes(self, value: object) -> bool:
        return type(value) is self._kind

    def again(self, value: Any, how: Imprints) -> Imprint:
        code, data = how.lower(value)
        new = how.again(data, self._data)
        if new is self._data:
            return self
        cell = how.cells.tagged_cell(code, new.cell)
        if not how.cells.is_grown(cell):
            return how.fresh(value)
        return Lowered(cell, self._kind, new)


class Endless(BadValue):
    """A value goes round in a circle, or is nested too deep to be walked through."""


class Changing(BadValue):
    """A value did not hold still while it was encoded."""


def changing(value: object) -> Changing:
    """Return the error for a value that did not hold still."""
    return Changing(
        f"a {type(value).__name__} was changed while it was being encoded",
        hint="another thread writes to it: commit when that is done, or give it a copy",
    )


def _fits(how: Imprints, code: int, data: object, cell: bytes) -> bool:
    """Tell whether data has the form that is stored, so that parts of it may be replaced."""
    cells, kind = how.cells, how.cells.kind(cell)
    if type(data) is dict:
        return kind == "map" and (code in _SETS or _has_keys(how, data, cell))
    if type(data) is not list:
        return True
    if kind != "list" or len(data) != cells.length(cell):
        return False
    if code not in _VERSIONED:
        return True
    name, version, content = (cells.element(cell, at) for at in range(3))
    is_same = cells.same(name, cells.put(data[0])) and cells.same(version, cells.put(data[1]))
    return is_same and (type(data[2]) is not dict or _has_keys(how, data[2], content))


def _has_keys(how: Imprints, data: dict[Any, Any], cell: bytes) -> bool:
    if how.cells.kind(cell) != "map" or len(data) != how.cells.length(cell):
        return False
    key = how.cells.encoding.key
    return all(how.cells.entry(cell, key(name)) is not None for name in data)


_SETS = frozenset({Tag.SET, Tag.FROZENSET})
_VERSIONED = frozenset({Tag.MODEL, Tag.CUSTOM})
