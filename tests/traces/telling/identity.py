"""Which variables, and parts of variables, are the same object or the same memory.

Theory of operation. From the variables, in order of their names, walk level by level. Each
object that can change is met by its edges: `a['x']` is the edge 'x' of the first path that led to
`a`. An object with two edges or more is a group; a restored namespace with a group less has lost
an alias, with a group more has glued two things together. Values without identity (atoms, tuples,
indexes, what a library defines) are walked through where they have parts, and never counted.

Arrays are counted twice: as objects, and as memory. Arrays whose memory overlaps are a group of
their own, each with its offset, so that a view must come back as a view, at the same place.
"""

from __future__ import annotations

import collections
import enum
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from tests.traces.telling.atoms import PLAIN, atom, loaded
from tests.traces.telling.contents import tell
from tests.traces.telling.instances import attributes_of
from tests.traces.telling.makings import class_attributes
from tests.traces.telling.memory import overlaps
from tests.traces.telling.teller import is_made_in

LIMIT = 4000
"""How many objects are walked; the text says so when there were more."""

Edge: TypeAlias = tuple[str, Any]

_UNSEEN = (types.ModuleType, types.GeneratorType, types.CodeType, types.FrameType)
_UNCOUNTED = (
    tuple, frozenset, types.MethodType, functools.partial, property, staticmethod, classmethod,
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType, range,
)  # fmt: skip


def identity(namespace: dict[str, object], home: frozenset[str]) -> list[str]:
    """Return one line for each group, its paths joined by ` = `, in order."""
    walk = _Walk(home)
    walk.run(namespace)
    same = [" = ".join(sorted(paths)) for paths in walk.paths.values() if len(paths) > 1]
    lines = sorted(same) + [f"memory {line}" for line in sorted(overlaps(walk.arrays))]
    return [*lines, f"stopped after {LIMIT}"] if walk.is_cut else lines


class _Walk:
    """Paths by identity of what they lead to, and every array with its first path."""

    def __init__(self, home: frozenset[str]) -> None:
        self.paths: dict[int, list[str]] = {}
        self.arrays: list[tuple[str, Any]] = []
        self.is_cut = False
        self._home = home
        self._alive: list[object] = []
        self._passed: set[int] = set()
        self._ahead: collections.deque[Edge] = collections.deque()

    def run(self, namespace: dict[str, object]) -> None:
        for name in sorted(namespace):
            self._meet(name, namespace[name])
        while self._ahead:
            path, value = self._ahead.popleft()
            for step, part in self._edges(value):
                self._meet(path + step, part)

    def _meet(self, path: str, value: Any) -> None:
        if type(value) in PLAIN or isinstance(value, _UNSEEN) or not self._has_identity(value):
            return
        if id(value) in self.paths:
            self.paths[id(value)].append(path)
            return
        if id(value) in self._passed:
            return
        if len(self._alive) >= LIMIT:
            self.is_cut = True
            return
        self._alive.append(value)
        self._passed.add(id(value))
        if not isinstance(value, _UNCOUNTED):
            self.paths[id(value)] = [path]
        if _is_array(value):
            self.arrays.append((path, value))
        self._ahead.append((path, value))

    def _has_identity(self, value: Any) -> bool:
        if isinstance(value, enum.Enum):
            return self._is_ours(type(value))
        if isinstance(value, type | types.FunctionType):
            return self._is_ours(value)
        return atom(value) is None and not _is_index(value)

    def _is_ours(self, value: Any) -> bool:
        return is_made_in(self._home, value)

    # ------------------------------------------------------------ from an object to its parts

    def _edges(self, value: Any) -> Iterator[Edge]:
        if isinstance(value, type):
            yield from _attributes(class_attributes(value))
            yield from ((f".__bases__[{n}]", base) for n, base in enumerate(value.__bases__))
            return
        for kinds, edges in _EDGES:
            if isinstance(value, kinds):
                yield from edges(value)
        if isinstance(value, set | frozenset):
            yield from self._members(value)
        yield from _table_cells(value)
        yield from _drawing(value)
        yield from self._of_instance(value)

    def _members(self, value: Any) -> Iterator[Edge]:
        parts = [part for part in value if atom(part) is None]
        parts.sort(key=functools.partial(tell, home=self._home, fold=1000))
        return ((f"{{{n}}}", part) for n, part in enumerate(parts))

    def _of_instance(self, value: Any) -> Iterator[Edge]:
        if _is_array(value) or _is_table(value) or _is_drawn(value):
            return
        if self._is_ours(type(value)):
            yield ".__class__", type(value)
        if not isinstance(value, enum.Enum):
            yield from _attributes(attributes_of(value))


def _attributes(named: dict[str, object]) -> Iterator[Edge]:
    return ((f".{name}", named[name]) for name in sorted(named, key=str))


def _items(value: Any) -> Iterator[Edge]:
    return ((f"[{n}]", part) for n, part in enumerate(value))


def _entries(value: Any) -> Iterator[Edge]:
    for n, (key, part) in enumerate(value.items()):
        short = type(key) in PLAIN or isinstance(key, enum.Enum)
        yield f"[{key!r}]" if short else f"[key {n}]", part
        if not short:
            yield f".keys[{n}]", key


def _function(value: Any) -> Iterator[Edge]:
    cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
    yield from ((f".cell {name}", cell) for name, cell in cells)
    yield from ((f".default {n}", part) for n, part in enumerate(value.__defaults__ or ()))
    yield from _attributes(value.__kwdefaults__ or {})


def _cell(value: Any) -> Iterator[Edge]:
    try:
        yield ".content", value.cell_contents
    except ValueError:
        return


def _partial(value: Any) -> Iterator[Edge]:
    yield ".func", value.func
    yield from ((f".args[{n}]", part) for n, part in enumerate(value.args))
    yield from _attributes(value.keywords)


def _method(value: Any) -> Iterator[Edge]:
    yield ".__self__", value.__self__
    yield ".__func__", value.__func__


def _built_in(value: Any) -> Iterator[Edge]:
    yield ".__self__", value.__self__


def _wrapper(value: Any) -> Iterator[Edge]:
    yield ".__func__", value.__func__


def _property(value: Any) -> Iterator[Edge]:
    yield from ((f".{name}", getattr(value, name)) for name in ("fget", "fset", "fdel"))


_EDGES: tuple[tuple[Any, Callable[[Any], Iterator[Edge]]], ...] = (
    ((list, tuple, collections.deque), _items),
    (dict, _entries),
    (types.FunctionType, _function),
    (types.CellType, _cell),
    (functools.partial, _partial),
    (types.MethodType, _method),
    (types.BuiltinFunctionType, _built_in),
    (staticmethod | classmethod, _wrapper),
    (property, _property),
)


# ---------------------------------------------------------------- arrays, frames and figures


def _is_array(value: object) -> bool:
    np = loaded("numpy")
    return np is not None and isinstance(value, np.ndarray)


def _is_index(value: object) -> bool:
    pd = loaded("pandas")
    return pd is not None and hasattr(pd, "Index") and isinstance(value, pd.Index)


def _is_table(value: object) -> bool:
    pd = loaded("pandas")
    if pd is None or not hasattr(pd, "DataFrame"):
        return False
    return isinstance(value, pd.DataFrame | pd.Series | pd.api.extensions.ExtensionArray)


def _is_drawn(value: object) -> bool:
    return any(base.__module__.startswith("matplotlib.") for base in type(value).__mro__)


def _table_cells(value: Any) -> Iterator[Edge]:
    """Yield the objects in columns and arrays of objects, and the notes of a frame."""
    if _is_array(value):
        if value.dtype.kind == "O":
            yield from _items(value.ravel().tolist())
        return
    pd = loaded("pandas")
    if pd is None or not _is_table(value):
        return
    if isinstance(value, pd.DataFrame):
        for place, name in enumerate(value.columns):
            yield from _column(f"[{name!r}]", value.iloc[:, place])
    elif isinstance(value, pd.Series):
        yield from _column("", value)
    if getattr(value, "attrs", None):
        yield ".attrs", value._attrs


def _column(path: str, series: Any) -> Iterator[Edge]:
    if series.dtype != object:
        return
    yield from ((f"{path}[{n}]", part) for n, part in enumerate(series.array))


def _drawing(value: Any) -> Iterator[Edge]:
    if not _is_drawn(value):
        return
    if hasattr(value, "get_size_inches"):
        yield from ((f".axes[{n}]", axes) for n, axes in enumerate(value.axes))
    elif hasattr(value, "get_title"):
        yield ".figure", value.figure
