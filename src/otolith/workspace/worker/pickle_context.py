"""What a pickle of a session refers to beyond itself: its globals, sources, classes and data.

There is one world to a worker. Functions are bound to the live namespace, never to a copy of it;
classes are found by their id, so that `isinstance` holds between pickles; code is found in the
source it came from.

Objects that are data of their own: a pickle that meets one of them refers to it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from otolith.codecs import Codecs
from otolith.core import Path
from otolith.state.tracking.shared_objects import ArrayView, identity, is_array, part_at, view_in
from otolith.types import Piece, Tagged
from otolith.workspace.worker.module_state import named
from otolith.workspace.worker.namespace import Namespace
from otolith.workspace.worker.process_state import Ambience
from otolith.workspace.worker.sources import Sources, Way, untrapped
from otolith.workspace.worker.value_traits import by_rows


class World:
    """Everything that pickles of one session find when they are loaded."""

    def __init__(self, namespace: Namespace, sources: Sources, codecs: Codecs) -> None:
        self.namespace = namespace
        self.sources = sources
        self.codecs = codecs
        self.around: Ambience | None = None
        self.class_of: Callable[[str], type] = _no_class
        self.variable: Callable[[str], Any] = namespace.__getitem__

    def enter(self) -> None:
        """Make this the world of this process, and its namespace that of `__main__`."""
        global _here  # noqa: PLW0603  # unpickling calls functions by name, which find it here
        _here = self
        sys.modules["__main__"] = Main(self.namespace)


@contextmanager
def use(world: World) -> Iterator[None]:
    """Let pickles find a world for a while."""
    global _here  # noqa: PLW0603  # as above
    before = globals().get("_here")
    _here = world
    try:
        yield
    finally:
        if before is not None:
            _here = before


class Main(ModuleType):
    """The module `__main__`, whose names are those of the session."""

    def __init__(self, namespace: Namespace) -> None:
        super().__init__("__main__")
        ModuleType.__setattr__(self, "_namespace", namespace)

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        return ModuleType.__getattribute__(self, "_namespace")

    def __getattr__(self, name: str) -> Any:
        try:
            return ModuleType.__getattribute__(self, "_namespace")[name]
        except KeyError:
            raise AttributeError(f"module '__main__' has no attribute {name!r}") from None

    def __setattr__(self, name: str, value: object) -> None:
        ModuleType.__getattribute__(self, "_namespace")[name] = value

    def __delattr__(self, name: str) -> None:
        del ModuleType.__getattribute__(self, "_namespace")[name]


def _no_class(id: str) -> type:
    raise LookupError(f"there is no class {id}")


_here: World


# What pickles call. The names are in stored pickles and never change.


def empty_cell() -> CellType:
    """Return a cell of a closure, to be filled."""
    return CellType()


def fill_cell(cell: CellType, filling: tuple[object, ...]) -> None:
    """Fill a cell, unless it is empty."""
    if filling:
        cell.cell_contents = filling[0]


def exception(kind: type[BaseException], arguments: tuple[object, ...]) -> BaseException:
    """Return an exception as it was."""
    made = kind.__new__(kind, *arguments)
    made.args = arguments
    return made


def function(code: CodeType, name: str, closure: tuple[CellType, ...] | None) -> FunctionType:
    """Return a function of the session, bound to its namespace."""
    return FunctionType(code, _here.namespace, name, None, closure)


def finish_function(made: FunctionType, state: tuple[dict[str, Any], dict[str, Any], Any]) -> None:
    """Give a function what it has beyond its code, and fill the cells of its closure."""
    attributes, own, contents = state
    for cell, filling in zip(made.__closure__ or (), contents, strict=True):
        if filling:
            cell.cell_contents = filling[0]
    for name, value in attributes.items():
        setattr(made, name, value)
    made.__dict__.update(own)


def code_at(way: Way) -> CodeType:
    """Return code of a step, compiled from its source."""
    code = _here.sources.follow(way)
    for name in untrapped(code, is_top=False):
        _here.namespace.warm_if_cold(name)
    return code


def main_module() -> ModuleType:
    """Return the module `__main__`."""
    return sys.modules["__main__"]


def cached(wrapped: Any, maxsize: int | None, typed: bool) -> Any:  # noqa: FBT001
    """Return a function with a cache, an empty one."""
    return lru_cache(maxsize=maxsize, typed=typed)(wrapped)


def attribute(module: str, name: str) -> Any:
    """Return something that a library has one of."""
    return getattr(import_module(module), name)


def original(place: str) -> Any:
    """Return something of a library that a step has put something else in the place of."""
    return named(place) if _here.around is None else _here.around.patches.before(place)


def placed(node: str, thing: object) -> object:
    """Take in what a step has put into a module, or set in a library."""
    if _here.around is not None:
        _here.around.arrived[node] = thing
    return thing


def class_at(id: str) -> type:
    """Return a class that was defined in a step."""
    return _here.class_of(id)


def globals_here() -> Namespace:
    """Return the namespace of the session."""
    return _here.namespace


def variable_at(name: str, steps: Path, view: list[Any] | None) -> object:
    """Return a variable that is data, or a part of it, or a view of an array in it."""
    found = part_at(_here.variable(name), steps)
    return found if view is None else ArrayView.load(view).of(found)


def piece(buffer: Any) -> Piece:
    """Return raw bytes as they are lifted from."""
    view = memoryview(buffer)
    return Piece(memoryview(bytearray(view)) if view.readonly else view.cast("B"))


def lifted(data: Any) -> Any:
    """Return the value of data that codecs lowered."""
    return _lift(data)


def lifted_by_rows(data: Any, rows: bool | list[list[int]] = True) -> Any:  # noqa: FBT001, FBT002
    """Return a frame whose numbers lie row by row."""
    return by_rows(_lift(data), rows)


def read_only(data: Any) -> Any:
    """Return an array that cannot be written to."""
    array = _lift(data)
    array.flags.writeable = False
    return array


def view_of(owner: Any, view: list[Any], is_read_only: bool = False) -> Any:  # noqa: FBT001, FBT002
    """Return an array that looks at another one."""
    array = ArrayView.load(view).of(owner)
    if is_read_only:
        array.flags.writeable = False
    return array


def object_view_of(owner: Any, shape: Any, strides: Any, offset: int) -> Any:
    """Return an array that looks at another one of objects."""
    strided = sys.modules["numpy"].lib.stride_tricks.as_strided
    flat = owner.reshape(-1, order="A")[offset // owner.itemsize :]
    return strided(flat, shape, strides, subok=False)


def wrapper_filled(made: Any, own: dict[str, Any]) -> None:
    """Give a static or class method what it has itself, instead of what it took over."""
    vars(made).clear()
    vars(made).update(own)


def _lift(data: Any) -> Any:
    if type(data) is Tagged:
        return _here.codecs.lift(data.code, _lift(data.data))
    if type(data) is dict:
        return {key: _lift(part) for key, part in data.items()}
    if type(data) is list:
        return [_lift(part) for part in data]
    return data


class Reference(NamedTuple):
    """Where an object is among the variables that are data."""

    name: str
    steps: Path
    view: list[Any] | None = None


@dataclass
class References:
    """Objects that are data of their own, by identity; arrays also by that of their memory."""

    things: dict[int, Reference] = field(default_factory=dict)
    memory: dict[int, list[tuple[Any, Reference]]] = field(default_factory=dict)

    def add(self, thing: object, reference: Reference) -> None:
        """Note where an object is."""
        self.things.setdefault(id(thing), reference)
        if is_array(thing):
            self.memory.setdefault(identity(thing), []).append((thing, reference))

    def find(self, thing: Any) -> Reference | None:
        """Return where an object is, or the array that it is a view of."""
        found = self.things.get(id(thing))
        if found is not None or not is_array(thing):
            return found
        for whole, reference in self.memory.get(identity(thing), ()):
            view = view_in(whole, thing)
            if view is not None:
                return Reference(reference.name, reference.steps, view.dump())
        return None
