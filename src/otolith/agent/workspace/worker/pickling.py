"""Pickles of what is not data: the last resort, written and read only inside a worker.

The C pickler walks the objects; what it asks about is decided here:

    functions and classes of the session    by reference to source, namespace and class id
    data inside of objects                   lowered by codecs, so that frames are cut at columns
    raw bytes                                out of band: chunked, deduplicated, mapped when read
    what is data of its own, as a variable   by reference to that variable
    views of one array                       as views
    the rest                                 as cloudpickle does
"""

from __future__ import annotations

import functools
import io
import pickle
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]

from otolith.agent.tracking.views import identity, is_array, view_in
from otolith.agent.workspace.worker import singletons
from otolith.agent.workspace.worker import world as making
from otolith.agent.workspace.worker.definitions import definition
from otolith.agent.workspace.worker.namespace import Namespace
from otolith.agent.workspace.worker.sources import key_of
from otolith.agent.workspace.worker.traits import is_by_rows
from otolith.agent.workspace.worker.world import World
from otolith.codecs import Codecs
from otolith.core import Path
from otolith.errors import BadValue
from otolith.types import Raw, Tagged

_SMALL_BYTES = 4096
"""A shorter array stays in the pickle: it would be no object of its own."""

_ATTRIBUTES = (
    "__name__", "__qualname__", "__module__", "__doc__",
    "__defaults__", "__kwdefaults__", "__annotations__",
)  # fmt: skip


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


@dataclass
class Dump:
    """A pickle, its raw bytes, and everything that was met on the way, kept alive."""

    head: bytes
    buffers: list[memoryview]
    met: dict[int, object] = field(default_factory=dict)
    owners: dict[int, list[Any]] = field(default_factory=dict)
    references: list[Reference] = field(default_factory=list)
    classes: set[str] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)
    has_bytecode: bool = False


ClassId = Callable[[type], "str | None"]


def dump(
    value: object,
    world: World,
    *,
    class_id: ClassId,
    references: References | None = None,
    defines: frozenset[type] = frozenset(),
) -> Dump:
    """Pickle a value of a session.

    `references` are objects that are data of their own. With `defines`, that class is
    written itself, where others refer to it.

    Raises:
        Exception: whatever the objects raise that cannot be pickled.
    """
    way = _Way(world, class_id, references or References(), defines)
    found = _dump(value, way)
    way.views = {owner: some[0] for owner, some in found.owners.items() if len(some) > 1}
    return _dump(value, way) if way.views else found


@dataclass
class _Way:
    """How to pickle."""

    world: World
    class_id: ClassId
    references: References
    defines: frozenset[type]
    views: dict[int, Any] = field(default_factory=dict)


def _dump(value: object, way: _Way) -> Dump:
    sink = io.BytesIO()
    pickler = (_Referring if way.references.things else _Pickler)(sink, way)
    pickler.dump(value)
    found = pickler.found
    found.head = sink.getvalue()
    found.met = {id: thing for id, (_, thing) in pickler.memo.copy().items()}
    return found


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    def __init__(self, sink: io.BytesIO, way: _Way) -> None:
        super().__init__(sink, protocol=5, buffer_callback=self._keep_outside)
        self.found = Dump(b"", [])
        self._way = way
        self._bare: set[int] = set()

    def _keep_outside(self, buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes < _SMALL_BYTES:
            return True
        self.found.buffers.append(view)
        return False

    def reducer_override(self, thing: Any) -> Any:
        kind = type(thing)
        reduce = _REDUCE.get(kind)
        if reduce is not None:
            reduced = reduce(self, thing)
            if reduced is not None:
                return reduced
        elif isinstance(thing, type):
            if thing in self._way.defines:
                return definition(thing)
            own = self._way.class_id(thing)
            if own is not None:
                self.found.classes.add(own)
                return making.class_at, (own,)
        elif is_array(thing):
            return self._array(thing)
        elif (name := singletons.name_of(thing)) is not None:
            return making.attribute, name
        elif isinstance(thing, BaseException) and _has_plain_reduce(kind):
            return self._exception(thing)
        elif (lowered := _lowered(thing, self._way.world.codecs)) is not None:
            return making.lifted_by_rows if is_by_rows(thing) else making.lifted, (lowered,)
        return super().reducer_override(thing)

    def _array(self, array: Any) -> Any:
        own = identity(array)
        if own in self._way.views and array is not self._way.views[own]:
            view = view_in(self._way.views[own], array)
            if view is not None:
                owner, is_fixed = self._way.views[own], not array.flags.writeable
                return making.view_of, (owner, view.dump(), is_fixed)
        owner = _owner(array)
        if owner is not None:
            met = self.found.owners.setdefault(own, [owner])
            if array is not owner:
                met.append(array)
        if not array.flags.writeable:
            return making.read_only, (_lowered(array, self._way.world.codecs),)
        if array.nbytes < _SMALL_BYTES or array.dtype.hasobject:
            return super().reducer_override(array)
        return making.lifted, (_lowered(array, self._way.world.codecs),)

    def _function(self, function: types.FunctionType) -> Any:
        if function.__globals__ is not self._way.world.namespace:
            return None
        attributes = {name: getattr(function, name) for name in _ATTRIBUTES}
        closure = function.__closure__ or ()
        self._bare.update(map(id, closure))
        state = attributes, dict(function.__dict__), [_filling(cell) for cell in closure]
        code, name = function.__code__, function.__name__
        made = (code, name, function.__closure__)
        return making.function, made, state, None, None, making.finish_function

    def _code(self, code: types.CodeType) -> Any:
        found = self._way.world.sources.way_to(code)
        if found is None:
            self.found.has_bytecode = True
            return None
        self.found.sources.add(key_of(found))
        return making.code_at, (found,)

    def _cell(self, cell: types.CellType) -> Any:
        """Keep a cell; those of our functions are filled when the function is there, not before."""
        if id(cell) in self._bare:
            return making.empty_cell, ()
        return making.empty_cell, (), _filling(cell), None, None, making.fill_cell

    def _method(self, method: types.MethodType) -> Any:
        """Keep a method as that of its object, where it is: the function is the class's."""
        owner, name = method.__self__, method.__name__
        return (getattr, (owner, name)) if getattr(owner, name, None) == method else None

    def _exception(self, error: BaseException) -> Any:
        """Keep an exception without calling its `__init__`, which may want something else."""
        return making.exception, (type(error), error.args), error.__dict__ or None

    def _raw(self, raw: Raw) -> Any:
        return making.piece, (pickle.PickleBuffer(raw.view),)

    def _namespace(self, namespace: Namespace) -> Any:
        return making.globals_here, ()

    def _cached(self, cached: Any) -> Any:
        """Keep a function with a cache as a function with a new one: Python keeps it by name."""
        settings = cached.cache_parameters()
        made = (cached.__wrapped__, settings["maxsize"], settings["typed"])
        own = ("__wrapped__", "cache_parameters")
        return making.cached, made, {k: v for k, v in cached.__dict__.items() if k not in own}

    def _module(self, module: types.ModuleType) -> Any:
        return (making.main_module, ()) if isinstance(module, making.Main) else None


class _Referring(_Pickler):
    """Asks about every object, which costs time; for pickles that are known to need it."""

    def persistent_id(self, thing: Any) -> Any:
        found = self._way.references.find(thing)
        if found is None:
            return None
        self.found.references.append(found)
        return tuple(found)


_REDUCE: dict[type, Callable[[Any, Any], Any]] = {
    types.FunctionType: _Pickler._function,  # noqa: SLF001
    types.CodeType: _Pickler._code,  # noqa: SLF001
    types.CellType: _Pickler._cell,  # noqa: SLF001
    types.MethodType: _Pickler._method,  # noqa: SLF001
    Raw: _Pickler._raw,  # noqa: SLF001
    Namespace: _Pickler._namespace,  # noqa: SLF001
    making.Main: _Pickler._module,  # noqa: SLF001
    functools._lru_cache_wrapper: _Pickler._cached,  # noqa: SLF001
}


def _has_plain_reduce(kind: Any) -> bool:
    return kind.__reduce__ is BaseException.__reduce__


def _filling(cell: types.CellType) -> tuple[object, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _owner(array: Any) -> Any:
    """Return the array that owns the memory an array looks at, if that is an array."""
    while array.base is not None:
        array = array.base
        if not is_array(array):
            return None
    return array if array.flags.forc and not array.dtype.hasobject else None


def _lowered(thing: Any, codecs: Codecs) -> Tagged | None:
    """Return data inside of objects, lowered as far as it goes; None for what is not data."""
    if type(thing).__module__.partition(".")[0] not in _DATA or _is_inside_of_frames(thing):
        return None
    try:
        code, data = codecs.lower(thing)
        return Tagged(code, _all_lowered(data, codecs))
    except BadValue:
        return None


def _is_inside_of_frames(thing: Any) -> bool:
    """Tell whether an array is what pandas holds several columns in, which no codec knows."""
    return hasattr(thing, "_from_sequence") and getattr(thing, "ndim", 1) > 1


_DATA = frozenset({"numpy", "pandas", "pyarrow", "polars", "scipy"})


def _all_lowered(data: Any, codecs: Codecs) -> Any:
    if type(data) is dict:
        return {key: _all_lowered(part, codecs) for key, part in data.items()}
    if type(data) is list:
        return [_all_lowered(part, codecs) for part in data]
    if type(data).__module__.partition(".")[0] in _DATA:
        code, inner = codecs.lower(data)
        return Tagged(code, _all_lowered(inner, codecs))
    return data


def load(head: bytes, buffers: Sequence[Any]) -> Any:
    """Load a pickle of this session; the caller knows that it was signed.

    Raises:
        Exception: whatever the objects raise that cannot be made again.
    """
    return _Unpickler(io.BytesIO(head), buffers=buffers).load()


class _Unpickler(pickle.Unpickler):  # noqa: S301  # what the host has signed, in a sandbox
    def persistent_load(self, found: Any) -> Any:
        return making.variable_at(*found)
