"""The values that a branch has returned: one object for each path, and what each looked like.

Rules:

1. A value is *held* from when it is read or assigned until the state drops it.
2. No held value is part of another. Reading a path inside a held value returns the part itself,
   and holding a value takes over those that were held inside it.
3. A value is *unreferenced* when only the branch still has it, or any part of it. It cannot change
   then, and is not compared again until it is returned the next time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from otolith.codecs import fields_of, may_have, named_parts, with_named_part, without_named_part
from otolith.core import Cells, Path, field_stays, format_path, index_in
from otolith.errors import BadPath, BadValue, Invalid, KeyNotFound
from otolith.state.tracker.imprints import (
    BytesImprint,
    CodecImprint,
    ConcurrentChange,
    ContentImprint,
    DictImprint,
    Imprint,
    Imprinter,
    ImprintKind,
    ListImprint,
    NestedTooDeep,
    WholeImprint,
)


class HeldValue:
    """A value that was returned to the program, which may change it."""

    __slots__ = (
        "fingerprint",
        "imprint",
        "is_unreferenced",
        "lost_cell",
        "previous_imprint",
        "value",
        "was_returned",
    )

    def __init__(self, value: object, imprint: Imprint | None = None) -> None:
        self.value = value
        self.imprint = imprint  # None until it is encoded for the first time
        self.previous_imprint: Imprint | None = None  # of the value that was at its path before
        self.fingerprint: tuple[Imprint, int] | None = None  # of all that an imprint covers
        self.lost_cell: bytes | None = None  # what is stored instead, if it cannot be stored
        self.was_returned = True  # since it was last compared
        self.is_unreferenced = False  # when it was last compared


MISSING = object()

_ATTEMPTS = 10
"""How often a value is compared that another thread is changing; that mostly suffices."""

_SHORT_BYTES = 64 << 10
"""Up to this length, a value is compared as a whole before its parts are."""

_BUILT_IN_KINDS: tuple[ImprintKind, ...] = (
    ContentImprint.take,
    CodecImprint.take,
    ListImprint.take,
    DictImprint.take,
    BytesImprint.take,
)


class HeldValues:
    """All held values of a branch, by path."""

    def __init__(self, cells: Cells, kinds: Iterable[ImprintKind] = ()) -> None:
        self.imprinter = Imprinter(cells, *kinds, *_BUILT_IN_KINDS)
        self._holds: dict[Path, HeldValue] = {}
        self._deepest = 0

    def __iter__(self) -> Iterator[tuple[Path, HeldValue]]:
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
        except TypeError:  # a key that is not hashable; encoding it reports that
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
            value = part_of(value, path, depth)
        return value

    def below(self, path: Path) -> list[Path]:
        """Return the paths of held values below a path."""
        if self._deepest <= len(path):
            return []
        return [each for each in self._holds if len(each) > len(path) and each[: len(path)] == path]

    def around(self, path: Path) -> dict[Path, HeldValue]:
        """Return what is held at, above and below a path."""
        unit = self.find(path)
        paths = [*([] if unit is None else [unit]), *self.below(path)]
        return {each: self.at(each) for each in paths}

    def hold(self, path: Path, value: object, cell: bytes) -> HeldValue:
        """Hold a value that was just read, with what was held inside of it in its place."""
        inside = {each: self._holds.pop(each) for each in self.below(path)}
        is_stored = all(map(self.is_unchanged, inside.values()))
        hold = self._holds[path] = HeldValue(value)
        if not is_stored:
            hold.imprint = self.imprinter.take(value, cell)
        for each, part in inside.items():
            hold.value = put_part(hold.value, path, each[len(path) :], part.value)
        if is_stored:  # an equal object may be pickled in another way
            hold.imprint = self.imprinter.take(hold.value, cell)
        self._deepest = max(map(len, self._holds))
        return hold

    def is_unchanged(self, hold: HeldValue) -> bool:
        """Tell whether a held value is what is stored."""
        try:
            return hold.imprint is not None and self.changed_imprint(hold) is None
        except BadValue:
            return False

    def assign(self, path: Path, value: object) -> None:
        """HeldValue a value that is new."""
        before = self._holds.get(path)
        self.drop(path)
        self._holds[path] = new = HeldValue(value)
        if before is not None:  # a frame with another column is mostly the frame that was there
            new.previous_imprint = before.imprint or before.previous_imprint
        self._deepest = max(self._deepest, len(path))

    def drop(self, path: Path) -> None:
        """Hold the value at a path, and those below, no longer."""
        for each in [path, *self.below(path)]:
            self._holds.pop(each, None)

    def at(self, path: Path) -> HeldValue:
        """Return what is held at exactly this path; the caller may change it."""
        hold = self._holds[path]
        hold.is_unreferenced, hold.was_returned = False, True
        return hold

    def changed_imprint(self, hold: HeldValue) -> Imprint | None:
        """Return the imprint of a held value as it is now, or None if it has not changed.

        Raises:
            BadValue: it cannot be stored.
        """
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._compare(hold)
            except ConcurrentChange:
                continue
        return self._compare(hold)

    def _compare(self, hold: HeldValue) -> Imprint | None:
        """Return the new imprint of a value that changed, or None if it did not."""
        try:
            if hold.imprint is None:
                # A new value is often like the one before: a frame with one more column.
                before, hold.previous_imprint = hold.previous_imprint, None
                if before is not None:
                    return self.imprinter.update(hold.value, before)
                return self.imprinter.encode(hold.value)
            new = self._updated(hold, hold.imprint)
        except (ConcurrentChange, NestedTooDeep):
            raise
        except BadValue as error:
            # Encoding the whole value reports where in it the bad part is.
            self.imprinter.cells.put(hold.value)
            raise error from None
        except RecursionError as error:
            raise NestedTooDeep(
                f"a {type(hold.value).__name__} is nested too deep", hint="store it in parts"
            ) from error
        except (RuntimeError, KeyError) as error:
            # What dicts and sets raise if they change while they are iterated over.
            if type(error) is not KeyError and "during iteration" not in str(error):
                raise
            raise ConcurrentChange.of(hold.value) from error
        return None if new is hold.imprint else new

    def _updated(self, hold: HeldValue, old: Imprint) -> Imprint:
        """Update an imprint; a short value is compared as a whole, as most have not changed."""
        if type(old) is WholeImprint or self.imprinter.cells.full_size(old.cell) > _SHORT_BYTES:
            return self.imprinter.update(hold.value, old)
        now = self.imprinter.fingerprint(hold.value)
        if now is not None and hold.fingerprint == (old, now):
            return old
        new = self.imprinter.update(hold.value, old)
        hold.fingerprint = None if now is None else (new, now)
        return new


def part_of(value: Any, path: Path, depth: int) -> object:
    """Return the part of a container or a model at one depth of a path, or raise KeyNotFound."""
    key: Any = path[depth]
    if type(value) is list:
        at = index_in(key, len(value))
        if at is not None:
            return value[at]
    elif type(value) is dict:
        if key in value:
            return value[key]
    elif type(key) is str and key in (parts := named_parts(value) or {}):
        return parts[key]
    raise KeyNotFound(
        f"nothing at {format_path(path[: depth + 1])}", hint="list(state) shows what is at the top"
    )


def put_part(value: Any, path: Path, steps: Path, part: object, *, is_known: bool = False) -> Any:
    """Put a part into a value that is held at a path; dicts on the way are made.

    Return the value. A frozen model is replaced by a copy, which is returned then. A model gets an
    attribute that it does not have only if it `is_known` to be one.
    """
    if type(value) not in (dict, list) and named_parts(value) is None:
        raise BadPath(
            f"{format_path(path)} is a {type(value).__name__}, it has no parts to set",
            hint="read the value, and change it itself",
        )
    here = (*path, steps[0])
    if len(steps) > 1:
        is_new = type(value) is dict and steps[0] not in value
        inner = {} if is_new else part_of(value, here, len(path))
        part = put_part(inner, here, steps[1:], part, is_known=is_known)
        if part is inner and not is_new:
            return value
    return _with_part(value, here, part, is_known=is_known)


def _with_part(value: Any, path: Path, part: object, *, is_known: bool) -> Any:
    """Return a container, or a model, with the part that has this path."""
    key: Any = path[-1]
    if type(value) is dict:
        value[key] = part
        return value
    at = index_in(key, len(value)) if type(value) is list else None
    if at is not None:
        value[at] = part
        return value
    is_name = type(key) is str and type(value) is not list
    if not is_name or not (is_known or may_have(value, key)):
        hint = "append to the list itself" if type(value) is list else "a model has its fields only"
        raise KeyNotFound(f"nothing at {format_path(path)}", hint=hint)
    try:
        return with_named_part(value, key, part)
    except Invalid as error:
        raise Invalid(f"{format_path(path)}: {error.message}", hint=error.hint) from error


def remove_part(value: Any, path: Path, steps: Path) -> None:
    """Remove a part of a value that is held at a path."""
    here = (*path, *steps)
    for depth in range(len(path), len(here) - 1):
        value = part_of(value, here, depth)
    part_of(value, here, len(here) - 1)
    key: Any = here[-1]
    if type(value) is list:
        del value[index_in(key, len(value)) or 0]
    elif type(value) is dict:
        del value[key]
    elif key in (fields_of(type(value)) or ()):
        raise field_stays(here)
    else:
        without_named_part(value, key)
