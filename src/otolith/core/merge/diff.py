"""Differences between two states, by path, in time that grows with the difference.

Maps are compared key by key, lists by runs of elements, models of one class by field.

The order of a dict is part of it: where the keys that two dicts share come in another order, the
dict itself has changed, beside what changed in it. Keys that were added or removed do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import partial
from typing import Any, NamedTuple, cast

from otolith.core.paths import Path, format_path
from otolith.core.trees.cells import Cells
from otolith.core.trees.encoding import FSCK, key_bytes
from otolith.core.trees.layout import full_size
from otolith.core.trees.maps import Difference
from otolith.core.trees.model_tables import model_in
from otolith.errors import Corrupt, TooLarge

_MOST_CHANGES = 10_000
_MOST_MATCHES = 1_000_000
"""Beyond so many pairs of equal elements, aligning two lists is not worth its time."""


class Change:
    """One path whose value was added, removed or changed. Values are read on demand.

    `kind` is "added", "removed" or "changed"; `keys` are those of the path.
    """

    __slots__ = ("_cells", "_new", "_old", "keys", "kind")

    def __init__(self, cells: Cells, keys: Path, old: bytes | None, new: bytes | None) -> None:
        self._cells = cells
        self._old = old
        self._new = new
        self.keys = keys
        self.kind = "added" if old is None else "removed" if new is None else "changed"

    @property
    def path(self) -> str:
        """The path as text."""
        return format_path(self.keys)

    @property
    def old(self) -> Any:
        """The value before; None if it was added."""
        return None if self._old is None else self._cells.load(self._old)

    @property
    def new(self) -> Any:
        """The value after; None if it was removed."""
        return None if self._new is None else self._cells.load(self._new)

    @property
    def stored(self) -> tuple[bytes | None, bytes | None]:
        """The values before and after as they are stored: equal values have equal forms."""
        old, new = (None if c is None else self._cells.settle(c) for c in (self._old, self._new))
        return old, new

    def __repr__(self) -> str:
        return f"<{self.kind} {self.path}>"


class Hunk(NamedTuple):
    """Elements `start` to `stop` of the old list that became other ones."""

    start: int
    stop: int
    new_start: int
    new: list[bytes]


def differences(cells: Cells, old: bytes, new: bytes, path: Path = ()) -> Iterator[Change]:
    """Yield the changes from one cell to another, in path order.

    Raises:
        TooLarge: they are very many, between states that are larger than any memory.
        Corrupt: a value is nested deeper than any that can be stored.
    """
    limit = WalkLimit(cells, old, new)
    try:
        for change in _differences(cells, old, new, path):
            limit.step()
            yield change
    except RecursionError:
        raise too_deep("compared") from None


def differences_outside(cells: Cells, name: str, old: bytes, new: bytes) -> Iterator[Change]:
    """Yield the changes from one state to another, but for what is under a name at the top."""
    unkey = cells.encoding.unkey
    found = [each for each in cells.map_differences(old, new) if unkey(each[0]) != name]
    yield from _named_changes(cells, found, ())


def too_deep(what: str) -> Corrupt:
    """Return the error for a value with no bottom in sight: a forged one."""
    return Corrupt(f"a value is nested too deep to be {what}", hint=FSCK)


def without_reserved(changes: Iterator[Change]) -> list[Change]:
    """Leave out what belongs to otolith."""
    return [change for change in changes if not change.path.startswith(".")]


class WalkLimit:
    """Ends a walk over values that are small in a store and large in memory.

    Objects are shared: a forged state of a few objects can have more paths than anyone can visit.
    """

    def __init__(self, cells: Cells, *values: bytes) -> None:
        self._limit = cells.objects.load_limit_bytes
        self._is_large = max(map(full_size, values)) > self._limit
        self._left = _MOST_CHANGES

    def step(self) -> None:
        """Count a step of the walk."""
        self._left -= 1
        if self._is_large and self._left < 0:
            raise TooLarge(
                f"more than {_MOST_CHANGES} changes in a state of more than {self._limit} bytes",
                hint="compare parts of it, or open the repo with a higher load_limit_bytes",
            )


def _differences(cells: Cells, old: bytes, new: bytes, path: Path) -> Iterator[Change]:
    """Yield the differences of two cells, by descending into maps, lists and models."""
    if cells.same(old, new):
        return
    kind = cells.kind(old)
    if kind == "map" and cells.kind(new) == "map":
        if path and is_reordered(cells, old, new):
            yield Change(cells, path, old, new)
        yield from _named_changes(cells, cells.map_differences(old, new), path)
    elif kind == "list" and cells.kind(new) == "list":
        yield from _list_changes(cells, old, new, path)
    elif kind == "tagged":
        yield from _model_changes(cells, old, new, path)
    else:
        yield Change(cells, path, old, new)


def _named_changes(cells: Cells, found: list[Difference], path: Path) -> Iterator[Change]:
    """Yield the differences of what has names in two values."""
    for key, before, after in found:
        where = (*path, cells.encoding.unkey(key))
        if before is not None and after is not None:
            yield from _differences(cells, before, after, where)
        else:
            yield Change(cells, where, before, after)


def _model_changes(cells: Cells, old: bytes, new: bytes, path: Path) -> Iterator[Change]:
    """Yield the differences of two tagged values: by field, if they are models of one class.

    The model itself has changed where more differs than the values of names: their order, or which
    of them were set.
    """
    was, now = model_in(cells, old), model_in(cells, new)
    if was is None or now is None or not was.is_like(now, cells):
        yield Change(cells, path, old, new)
        return
    tables = [
        (mine, yours)
        for mine, yours in zip(was.tables, now.tables, strict=True)
        if mine is not None and yours is not None
    ]
    found = sorted(each for pair in tables for each in cells.map_differences(*pair))
    moved = (was.given or frozenset()) ^ (now.given or frozenset())
    is_reset = not moved <= {key for key, _, _ in found}
    if is_reset or not found or any(is_reordered(cells, *pair) for pair in tables):
        yield Change(cells, path, old, new)
    yield from _named_changes(cells, found, path)


def is_reordered(cells: Cells, old: bytes, new: bytes) -> bool:
    """Tell whether the keys that two maps share come in another order."""
    if cells.tree(old) is not None and cells.tree(new) is not None:
        gone, come = _tail_differences(cells, old, new)
        left = [key for key in gone if cells.entry(new, key) is not None]
        if left == [key for key in come if cells.entry(old, key) is not None]:
            return False
    was, is_now = cells.names(old), cells.names(new)
    shared = set(was) & set(is_now)
    return [key for key in was if key in shared] != [key for key in is_now if key in shared]


def in_order_of(cells: Cells, names: set[bytes], old: bytes, new: bytes) -> list[bytes]:
    """Return some keys of a map in its order; `old` is one that it was made from."""
    if len(names) < 2:
        return list(names)
    is_added = all(cells.entry(old, key) is None for key in names)
    if is_added and cells.tree(old) is not None and cells.tree(new) is not None:
        _, come = _tail_differences(cells, old, new)
        late = [key for key in come if key in names]
        return [*sorted(names.difference(late)), *late]
    return [key for key in cells.names(new) if key in names]


def _tail_differences(cells: Cells, old: bytes, new: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return the keys of two tails without what they begin and end with alike."""
    before, after = cells.order(old), cells.order(new)
    if before == after:
        return [], []
    _, gone, come = list_middle(cells, before, after)
    was, is_now = ([key_bytes(cells.loosen(part)) for part in parts] for parts in (gone, come))
    return was, is_now


def has_same_content(cells: Cells, old: bytes | None, new: bytes | None) -> bool:
    """Tell whether two cells hold the same but for the order of dicts."""
    if old is None or new is None or cells.same(old, new):
        return cells.same(old, new)
    kind = cells.kind(old)
    if kind != cells.kind(new):
        return False
    if kind == "map":
        pairs = cells.map_differences(old, new)
        return all(has_same_content(cells, before, after) for _, before, after in pairs)
    if kind == "list":
        _, gone, come = list_middle(cells, old, new)
        same = partial(has_same_content, cells)
        return len(gone) == len(come) and all(map(same, gone, come))
    was, is_now = cells.tag(old), cells.tag(new)
    if was is None or is_now is None or was.code != is_now.code:
        return False
    return has_same_content(cells, cast("bytes", was.data), cast("bytes", is_now.data))


def list_hunks(cells: Cells, old: bytes, new: bytes) -> list[Hunk]:
    """Return how one list became another, as few replacements of runs of elements as possible."""
    start, before, after = list_middle(cells, old, new)
    if not before and not after:
        return []
    shared = Counter(before)
    matches = sum(shared[cell] * count for cell, count in Counter(after).items())
    if not matches or matches > _MOST_MATCHES:
        return [Hunk(start, start + len(before), start, after)]
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [
        Hunk(start + a, start + b, start + c, after[c:d])
        for tag, a, b, c, d in blocks
        if tag != "equal"
    ]


def list_middle(cells: Cells, old: bytes, new: bytes) -> tuple[int, list[bytes], list[bytes]]:
    """Return where two lists begin to differ, and what each has up to their common end."""
    old_tree, new_tree = cells.tree(old), cells.tree(new)
    if old_tree is not None and new_tree is not None:
        return cells.lists.middle(old_tree, new_tree)
    before = [cells.settle(cell) for cell in cells.all_elements(old)]
    after = [cells.settle(cell) for cell in cells.all_elements(new)]
    return 0, before, after


def _list_changes(cells: Cells, old: bytes, new: bytes, path: Path) -> Iterator[Change]:
    """Yield the differences of two lists; replaced elements are compared in pairs."""
    for start, stop, new_start, elements in list_hunks(cells, old, new):
        removed = list(cells.elements(old, start, stop))
        if len(removed) == len(elements):
            for at, (before, after) in enumerate(zip(removed, elements, strict=True), start):
                yield from _differences(cells, before, after, (*path, str(at)))
            continue
        for at, before in enumerate(removed, start):
            yield Change(cells, (*path, str(at)), before, None)
        for at, after in enumerate(elements, new_start):
            yield Change(cells, (*path, str(at)), None, after)
