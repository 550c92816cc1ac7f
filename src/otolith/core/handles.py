"""What every handle on one value of a state has, and what it needs of the state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from otolith.core.paths import Path, format_path
from otolith.core.trees.cells import Cells
from otolith.errors import BadPath, BadValue, ReadOnly


class Holder(ABC):
    """What a handle needs of the state it belongs to."""

    @property
    @abstractmethod
    def cells(self) -> Cells:
        """How values are read and written here."""

    def turn(self) -> AbstractContextManager[object]:
        """Return what keeps other threads out while a value is read and written."""
        return nullcontext()

    @abstractmethod
    def cell_at(self, path: Path) -> bytes | None:
        """Return the cell at a path."""

    def write_cell(self, path: Path, cell: bytes | None) -> None:
        """Set or remove the cell at a path."""
        raise self._read_only(path)

    def extend_cell(self, path: Path, cells: list[bytes]) -> None:
        """Append to the list at a path; one that starts this way gets the policy append."""
        raise self._read_only(path)

    def adopt_policy(self, path: Path, policy: str) -> None:
        """Give a path a merge policy, unless it has one."""
        raise self._read_only(path)

    def write_reserved(self, path: Path, cell: bytes | None) -> None:
        """Set or remove a cell under a name that belongs to otolith."""
        raise self._read_only(path)

    def extend_reserved(self, path: Path, cells: list[bytes]) -> int:
        """Append to a list under a name that belongs to otolith; return how long it is then."""
        raise self._read_only(path)

    @staticmethod
    def _read_only(path: Path) -> ReadOnly:
        return ReadOnly(
            f"{format_path(path)}: a snapshot cannot be changed",
            hint="write to a branch: repo.session(id), or fork() from this commit",
        )


P = ParamSpec("P")
R = TypeVar("R")
H = TypeVar("H", bound="Handle")


def in_one_turn(method: Callable[Concatenate[H, P], R]) -> Callable[Concatenate[H, P], R]:
    """Let no other thread in while a method reads and writes."""

    @wraps(method)
    def run(self: H, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.turn():
            return method(self, *args, **kwargs)

    return run


def equal_numbers(key: Any) -> list[Any]:
    """Return a key, and the numbers of other types that Python takes for the same key."""
    if type(key) not in (bool, int, float) or key != key or key in _ENDLESS:
        return [key]
    if key == 0:
        return [key, 0, 0.0, -0.0, False]
    same = [key] if key != int(key) else [key, int(key)]
    if abs(key) < _LARGEST_FLOAT and float(key) == key:
        same.append(float(key))
    return [*same, True] if key == 1 else same


_ENDLESS = (float("inf"), float("-inf"))
_LARGEST_FLOAT = 2**1023


class Handle:
    """A value at a path of a state."""

    def __init__(self, state: Holder, path: Path) -> None:
        self._state = state
        self._path = path
        self._check()

    @property
    def path(self) -> str:
        """The path as text."""
        return format_path(self._path)

    @property
    def _cells(self) -> Cells:
        return self._state.cells

    def turn(self) -> AbstractContextManager[object]:
        """Return what keeps other threads out while the value is read and written."""
        return self._state.turn()

    def _cell(self) -> bytes | None:
        return self._state.cell_at(self._path)

    def _check(self) -> None:
        """Refuse a value of another kind at once, where the mistake is."""
        cell = self._cell()
        if cell is not None and not self._fits(cell):
            raise BadPath(
                f"{self.path} is a {self._cells.kind(cell)}, not a {self._noun}",
                hint="see `otolith ls`, or choose another path",
            )

    _noun = "value"

    def _fits(self, cell: bytes) -> bool:
        return True

    def _put(self, value: object) -> bytes:
        try:
            return self._cells.put(value)
        except BadValue as error:
            raise BadValue(f"{self.path}: {error.message}", hint=error.hint) from None

    def __repr__(self) -> str:
        return f"<{self._noun} {self.path}>"
