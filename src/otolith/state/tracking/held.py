"""The values that were handed out: one object for each path, and what each looked like.

A value is *held* from when it is read or assigned until the state drops it. No held value is part
of another: reading a path inside a held value gives the part itself, and holding a value takes in
those that were held inside it. A value *rests* when nobody else has it or a part of it any more: it
need not be looked at until it is handed out again.

A value that was handed out, and what it looked like when it was last encoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from otolith.core import Cells, Path, format_path
from otolith.errors import BadPath, BadValue, KeyNotFound
from otolith.state.tracking.imprints import (
    Changing,
    Chunks,
    Endless,
    Entries,
    Imprint,
    Imprints,
    Lowered,
    Parts,
    Shape,
    Unchanging,
    Whole,
    changing,
)


class Hold:
    """A value that was handed out."""

    __slots__ = ("imprint", "likeness", "lost", "mark", "rests", "value", "was_asked")

    def __init__(self, value: object, imprint: Imprint | None = None) -> None:
        self.value = value
        self.imprint = imprint  # None until it is encoded for the first time
        self.likeness: Imprint | None = None  # of the value that it took the place of
        self.mark: tuple[Imprint, int] | None = None  # the fingerprint of all that an imprint has
        self.lost: bytes | None = None  # the cell that stands for it, if it cannot be kept
        self.was_asked = True  # it was handed out since the last look
        self.rests = False  # nobody else has it or a part of it, and the last look saw that


MISSING = object()

_ATTEMPTS = 10
"""How often a value is looked at that another thread is changing. It is mostly done by then."""


_SHORT_BYTES = 64 << 10
"""Up to this length a value is looked at as a whole before its parts are."""


class Held:
    """All values that were handed out, by path."""

    def __init__(self, cells: Cells, shapes: Iterable[Shape] = ()) -> None:
        own = (Unchanging.of, Lowered.of, Parts.of, Entries.of, Chunks.of)
        self.imprints = Imprints(cells, *shapes, *own)
        self._holds: dict[Path, Hold] = {}
        self._deepest = 0

    def __iter__(self) -> Iterator[tuple[Path, Hold]]:
        return iter(list(self._holds.items()))

    def __len__(self) -> int:
        return len(self._holds)

    def values(self) -> dict[Path, object]:
        """Return the values by path."""
        return {path: hold.value for path, hold in self._holds.items()}

    def find(self, path: Path) -> Path | None:
        """Return the path of the held value that this one is, or is inside of."""
        try:
            above = (path[:length] for length in range(len(path), 0, -1))
            return next((each for each in above if each in self._holds), None)
        except TypeError:  # a key that no dict has; whoever encodes it says so
            return None

    def get(self, path: Path) -> object:
        """Return what is at a path that is held, or inside of one; otherwise MISSING.

        Raises:
            KeyNotFound: a held value has no such part.
        """
        unit = self.find(path)
        if unit is None:
            return MISSING
        value = self.at(unit).value
        for depth in range(len(unit), len(path)):
            value = _part(value, path, depth)
        return value

    def inside(self, path: Path) -> list[Path]:
        """Return the paths of held values below a path."""
        if self._deepest <= len(path):
            return []
        return [each for each in self._holds if len(each) > len(path) and each[: len(path)] == path]

    def near(self, path: Path) -> dict[Path, Hold]:
        """Return what is held at, above and below a path."""
        unit = self.find(path)
        paths = [*([] if unit is None else [unit]), *self.inside(path)]
        return {each: self.at(each) for each in paths}

    def hold(self, path: Path, value: object, cell: bytes) -> Hold:
        """Hold a value that was just read."""
        hold = self._holds[path] = Hold(value, self.imprints.of(value, cell))
        for below in self.inside(path):
            steps = below[len(path) :]
            hold.value = put_part(hold.value, path, steps, self._holds.pop(below).value)
        self._deepest = max(map(len, self._holds))
        return hold

    def assign(self, path: Path, value: object) -> None:
        """Hold a value that is new."""
        before = self._holds.get(path)
        self.drop(path)
        self._holds[path] = new = Hold(value)
        if before is not None:  # a frame with another column is mostly the frame that was there
            new.likeness = before.imprint or before.likeness
        self._deepest = max(self._deepest, len(path))

    def drop(self, path: Path) -> None:
        """Let go of the value at a path and of those below."""
        for each in [path, *self.inside(path)]:
            self._holds.pop(each, None)

    def at(self, path: Path) -> Hold:
        """Return what is held at exactly this path; whoever asks may change it."""
        hold = self._holds[path]
        hold.rests, hold.was_asked = False, True
        return hold

    def look(self, hold: Hold) -> Imprint | None:
        """Return the imprint of a held value as it is now, or None if it has not changed.

        Raises:
            BadValue: it cannot be kept.
        """
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._look(hold)
            except Changing:
                continue
        return self._look(hold)

    def _again(self, hold: Hold, old: Imprint) -> Imprint:
        """Look at a value again: at a short one as a whole first, as it mostly has not changed."""
        if type(old) is Whole or self.imprints.cells.full_size(old.cell) > _SHORT_BYTES:
            return self.imprints.again(hold.value, old)
        mark = self.imprints.print(hold.value)
        if mark is not None and hold.mark == (old, mark):
            return old
        new = self.imprints.again(hold.value, old)
        hold.mark = None if mark is None else (new, mark)
        return new

    def _first(self, hold: Hold) -> Imprint:
        """Encode a value for the first time, from what was there before if that is alike."""
        likeness, hold.likeness = hold.likeness, None
        if likeness is not None:
            return self.imprints.again(hold.value, likeness)
        return self.imprints.fresh(hold.value)

    def _look(self, hold: Hold) -> Imprint | None:
        try:
            if hold.imprint is None:
                return self._first(hold)
            new = self._again(hold, hold.imprint)
        except (Changing, Endless):
            raise
        except BadValue as error:
            # Encoding the whole value says where in it the bad part is.
            self.imprints.cells.put(hold.value)
            raise error from None
        except RecursionError as error:
            raise Endless(
                f"a {type(hold.value).__name__} is nested too deep", hint="keep it in parts"
            ) from error
        except (RuntimeError, KeyError) as error:
            if not _is_of_moving(error):
                raise
            raise changing(hold.value) from error
        return None if new is hold.imprint else new


def _is_of_moving(error: Exception) -> bool:
    """Tell whether an error is what dicts and sets raise if they change while walked through."""
    return type(error) is KeyError or "during iteration" in str(error)


def _part(value: Any, path: Path, depth: int) -> object:
    key = path[depth]
    if type(value) is list:
        at = index_of(key, len(value))
        if at is not None:
            return value[at]
    elif type(value) is dict and key in value:
        return value[key]
    raise KeyNotFound(
        f"nothing at {format_path(path[: depth + 1])}", hint="list(state) shows what is at the top"
    )


def index_of(key: object, length: int) -> int | None:
    """Return the index that a key of a path names in a list of this length."""
    if isinstance(key, str) and key.removeprefix("-").isdecimal():
        key = int(key)
    if type(key) is not int or not -length <= key < length:
        return None
    return key % length


def put_part(value: Any, path: Path, steps: Path, part: object) -> Any:
    """Put a part into a value that is held at a path; dicts on the way are made."""
    parent = _parent(value, path, steps)
    if type(parent) is list:
        at = index_of(steps[-1], len(parent))
        if at is None:
            raise KeyNotFound(
                f"nothing at {format_path((*path, *steps))}", hint="append to the list itself"
            )
        parent[at] = part
    else:
        parent[steps[-1]] = part
    return value


def remove_part(value: Any, path: Path, steps: Path) -> None:
    """Remove a part of a value that is held at a path."""
    here = (*path, *steps)
    for depth in range(len(path), len(here)):
        if depth == len(here) - 1:
            _part(value, here, depth)
            key = here[depth]
            del value[index_of(key, len(value)) if type(value) is list else key]
        else:
            value = _part(value, here, depth)


def _parent(value: Any, path: Path, steps: Path) -> Any:
    here = (*path, *steps)
    for depth in range(len(path), len(here)):
        if type(value) not in (dict, list):
            raise BadPath(
                f"{format_path(here[:depth])} is a {type(value).__name__}, it has no parts to set",
                hint="read the value, and change it itself",
            )
        if depth == len(here) - 1:
            break
        if type(value) is dict:
            value = value.setdefault(here[depth], {})
        else:
            value = _part(value, here, depth)
    return value
