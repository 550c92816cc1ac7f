"""Arrays that look at the memory of other arrays: how they do, so that they can again."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

STAND_IN = "DummyArray"
"""What `as_strided` puts between an array and the one that it looks at."""


class View(NamedTuple):
    """How part of an array looks at the whole: from which byte, and in which strides."""

    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    is_fixed: bool = False  # it cannot be written to, where the whole can

    def dump(self) -> list[Any]:
        """Return the view as data that can be kept."""
        kept = [self.dtype, list(self.shape), list(self.strides), self.offset]
        return [*kept, True] if self.is_fixed else kept

    @classmethod
    def load(cls, data: Any) -> View:
        """Return the view that data describes."""
        dtype, shape, strides, offset, *fixed = data
        return cls(dtype, tuple(shape), tuple(strides), offset, any(fixed))

    def of(self, whole: Any) -> Any:
        """Return the part of an array that this view shows, or None if the array is another one."""
        if not is_array(whole) or not self.fits(whole):
            return None
        numpy = sys.modules["numpy"]
        flat = whole.reshape(-1, order="A").view("u1")
        part = numpy.ndarray(self.shape, self.dtype, flat, self.offset, self.strides)
        if self.is_fixed:
            part.flags.writeable = False
        return part

    def fits(self, whole: Any) -> bool:
        """Tell whether an array has what this view shows."""
        if not whole.flags.forc or whole.dtype.hasobject:
            return False
        low, high = _reach(self.shape, self.strides)
        end = self.offset + high + int(self.dtype.itemsize)
        return self.offset + low >= 0 and end <= int(whole.nbytes)


def is_array(value: object) -> bool:
    """Tell whether a value is an array of numpy, and not of a subclass."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray


def identity(value: Any) -> int:
    """Return what two references to one object, or two views of one array, have in common."""
    while is_array(value) and value.base is not None:
        value = value.base
        if type(value).__name__ == STAND_IN:
            value = value.base
    return id(value)


def view_in(whole: Any, part: Any) -> View | None:
    """Return how an array looks at another one, or None if it looks beyond it."""
    if part.size == 0 or part.dtype.hasobject:
        return None
    fixed = bool(whole.flags.writeable and not part.flags.writeable)
    view = View(part.dtype, part.shape, part.strides, _address(part) - _address(whole), fixed)
    return view if view.fits(whole) else None


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def _reach(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    """Return how far before and after its first byte an array reaches."""
    steps = [(length - 1) * stride for length, stride in zip(shape, strides, strict=True)]
    return sum(min(0, step) for step in steps), sum(max(0, step) for step in steps)
