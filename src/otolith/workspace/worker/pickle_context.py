"""The context in which pickles of a session are loaded: its globals, sources, classes and data.

A worker has one context. Functions are bound to the live namespace, never to a copy of it; classes
are found by their id, so that `isinstance` holds between pickles; code is compiled from the source
it came from. `VariableReferences` are the objects that a pickle refers to instead of storing them,
because they are part of a variable that is data.
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

from otolith.codecs import Codecs, part_at
from otolith.core import Path
from otolith.state.tracker.shared_objects import ArrayView, identity, is_array, view_in
from otolith.types import Piece, Tagged
from otolith.workspace.worker.module_changes import attribute_at
from otolith.workspace.worker.namespace import Namespace
from otolith.workspace.worker.process_state import ProcessState
from otolith.workspace.worker.sources import CodePath, Sources, names_needing_fetch
from otolith.workspace.worker.value_layout import with_row_layout


class PickleContext:
    """What the pickles of one session need when they are loaded."""

    def __init__(self, namespace: Namespace, sources: Sources, codecs: Codecs) -> None:
        self.namespace = namespace
        self.sources = sources
        self.codecs = codecs
        self.process: ProcessState | None = None
        self.class_of: Callable[[str], type] = _unknown_class
        self.variable: Callable[[str], Any] = namespace.__getitem__

    def enter(self) -> None:
        """Make this the context of this process, and its namespace that of `__main__`."""
        global _active  # noqa: PLW0603  # pickles call functions by name, which need it
        _active = self
        sys.modules["__main__"] = Main(self.namespace)


@contextmanager
def use_context(context: PickleContext) -> Iterator[None]:
    """Make this the context of this process for a while."""
    global _active  # noqa: PLW0603  # as above
    before = globals().get("_here")
    _active = context
    try:
        yield
    finally:
        if before is not None:
            _active = before


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


def _unknown_class(id: str) -> type:
    raise LookupError(f"there is no class {id}")


_active: PickleContext


# What pickles call. The names are in stored pickles and never change.


def empty_cell() -> CellType:
    """Return a cell of a closure, to be filled."""
    return CellType()


def fill_cell(cell: CellType, filling: tuple[object, ...]) -> None:
    """Fill a cell, unless it is empty."""
    if filling:
        cell.cell_contents = filling[0]


def exception(kind: type[BaseException], arguments: tuple[object, ...]) -> BaseException:
    """Return an exception without calling its `__init__`."""
    made = kind.__new__(kind, *arguments)
    made.args = arguments
    return made


def function(code: CodeType, name: str, closure: tuple[CellType, ...] | None) -> FunctionType:
    """Return a function of the session, bound to its namespace."""
    return FunctionType(code, _active.namespace, name, None, closure)


def finish_function(made: FunctionType, state: tuple[dict[str, Any], dict[str, Any], Any]) -> None:
    """Set the attributes of a function, and fill the cells of its closure."""
    attributes, own, contents = state
    for cell, filling in zip(made.__closure__ or (), contents, strict=True):
        if filling:
            cell.cell_contents = filling[0]
    for name, value in attributes.items():
        setattr(made, name, value)
    made.__dict__.update(own)


def code_at(way: CodePath) -> CodeType:
    """Return code of a step, compiled from its source."""
    code = _active.sources.code_at(way)
    for name in names_needing_fetch(code, is_top=False):
        _active.namespace.fetch_if_unloaded(name)
    return code


def main_module() -> ModuleType:
    """Return the module `__main__`."""
    return sys.modules["__main__"]


def cached(wrapped: Any, maxsize: int | None, typed: bool) -> Any:  # noqa: FBT001
    """Return a function with an empty cache."""
    return lru_cache(maxsize=maxsize, typed=typed)(wrapped)


def attribute(module: str, name: str) -> Any:
    """Return an object that a library has one of, by its name."""
    return getattr(import_module(module), name)


def original(place: str) -> Any:
    """Return an attribute of a library as it was before a step replaced it."""
    return attribute_at(place) if _active.process is None else _active.process.patches.before(place)


def placed(node: str, thing: object) -> object:
    """Report something that a step has set in a module or in a library."""
    if _active.process is not None:
        _active.process.loaded[node] = thing
    return thing


def class_at(id: str) -> type:
    """Return a class that was defined in a step."""
    return _active.class_of(id)


def globals_here() -> Namespace:
    """Return the namespace of the session."""
    return _active.namespace


def variable_at(name: str, steps: Path, view: list[Any] | None) -> object:
    """Return a variable that is data, or a part of it, or a view of an array in it."""
    found = part_at(_active.variable(name), steps)
    return found if view is None else ArrayView.load(view).of(found)


def piece(buffer: Any) -> Piece:
    """Return raw bytes in the form that codecs take."""
    view = memoryview(buffer)
    return Piece(memoryview(bytearray(view)) if view.readonly else view.cast("B"))


def lifted(data: Any) -> Any:
    """Return the value that codecs make of lowered data."""
    return _lift(data)


def lifted_by_rows(data: Any, rows: bool | list[list[int]] = True) -> Any:  # noqa: FBT001, FBT002
    """Return a frame whose numbers lie row by row."""
    return with_row_layout(_lift(data), rows)


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
    """Set the attributes of a static or class method, in place of those of its function."""
    vars(made).clear()
    vars(made).update(own)


def _lift(data: Any) -> Any:
    """Return the values of lowered data, from the inside out."""
    if type(data) is Tagged:
        return _active.codecs.lift(data.code, _lift(data.data))
    if type(data) is dict:
        return {key: _lift(part) for key, part in data.items()}
    if type(data) is list:
        return [_lift(part) for part in data]
    return data


class VariableReference(NamedTuple):
    """The place of an object in a variable that is data."""

    name: str
    steps: Path
    view: list[Any] | None = None


@dataclass
class VariableReferences:
    """Objects that are part of data, by identity; arrays also by that of their memory."""

    things: dict[int, VariableReference] = field(default_factory=dict)
    memory: dict[int, list[tuple[Any, VariableReference]]] = field(default_factory=dict)

    def add(self, thing: object, reference: VariableReference) -> None:
        """Note the place of an object."""
        self.things.setdefault(id(thing), reference)
        if is_array(thing):
            self.memory.setdefault(identity(thing), []).append((thing, reference))

    def find(self, thing: Any) -> VariableReference | None:
        """Return the place of an object, or of the array that it is a view of."""
        found = self.things.get(id(thing))
        if found is not None or not is_array(thing):
            return found
        for whole, reference in self.memory.get(identity(thing), ()):
            view = view_in(whole, thing)
            if view is not None:
                return VariableReference(reference.name, reference.steps, view.dump())
        return None
