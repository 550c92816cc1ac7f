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
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from otolith.agent.tracking.views import identity, is_array, view_in
from otolith.agent.workspace.worker import caches, handlers, singletons
from otolith.agent.workspace.worker import world as making
from otolith.agent.workspace.worker.definitions import definition
from otolith.agent.workspace.worker.lowering import lowered
from otolith.agent.workspace.worker.memory import addresses, owner_of, span
from otolith.agent.workspace.worker.namespace import Namespace
from otolith.agent.workspace.worker.references import Reference, References
from otolith.agent.workspace.worker.sources import key_of
from otolith.agent.workspace.worker.traits import rows_of
from otolith.agent.workspace.worker.world import World
from otolith.types import Raw

_SMALL_BYTES = 4096
"""A shorter array stays in the pickle: it would be no object of its own."""

_ATTRIBUTES = (
    "__name__", "__qualname__", "__module__", "__doc__",
    "__defaults__", "__kwdefaults__", "__annotations__",
)  # fmt: skip


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
    probes: Sequence[Dump] | None = None,
) -> Dump:
    """Pickle a value of a session.

    `references` are objects that are data of their own. With `defines`, that class is
    written itself, where others refer to it. Without `probes`, which are pickles of the parts,
    this is a probe: to see what is met; arrays that look at one memory have not been told apart.

    Raises:
        Exception: whatever the objects raise that cannot be pickled.
    """
    way = _Way(world, class_id, references or References(), defines)
    for probe in probes or ():
        for owner, some in probe.owners.items():
            way.owners.setdefault(owner, some[:1]).extend(some[1:])
    way.views = _views(way.owners)
    found = _dump(value, way)
    if probes is not None and (more := _views(found.owners).keys() - way.views.keys()):
        way.views |= {owner: span(found.owners[owner]) for owner in more}
        found = _dump(value, way)
    return found


def needs_views(probe: Dump) -> bool:
    """Tell whether a probe met arrays that look at one memory."""
    return bool(_views(probe.owners))


def _views(owners: dict[int, list[Any]]) -> dict[int, Any]:
    """Return the memory that more than one array looks at."""
    return {
        own: span([owner, *arrays])
        for own, (owner, *arrays) in owners.items()
        if len(set(map(id, arrays))) > 1
    }


@dataclass
class _Way:
    """How to pickle."""

    world: World
    class_id: ClassId
    references: References
    defines: frozenset[type]
    views: dict[int, Any] = field(default_factory=dict)
    owners: dict[int, list[Any]] = field(default_factory=dict)
    trying: set[int] = field(default_factory=set)  # caches of which it is tried if they can be kept


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
        around = way.world.around
        self._replaced = {} if around is None else around.patches.replaced
        self._bare: set[int] = set()

    def _keep_outside(self, buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes < _SMALL_BYTES:
            return True
        self.found.buffers.append(view)
        return False

    def reducer_override(self, thing: Any) -> Any:
        kind = type(thing)
        if id(thing) in self._replaced:
            return making.original, (self._replaced[id(thing)],)
        reduce = _REDUCE.get(kind)
        if reduce is not None:
            reduced = reduce(self, thing)
            if reduced is not None:
                return reduced
        elif isinstance(thing, type):
            if (reduced := self._class(thing)) is not None:
                return reduced
        elif (reduced := self._instance(thing, kind)) is not None:
            return reduced
        return super().reducer_override(thing)

    def _class(self, kind: type) -> Any:
        if kind in self._way.defines:
            return definition(kind)
        own = self._way.class_id(kind)
        if own is None:
            return None
        self.found.classes.add(own)
        return making.class_at, (own,)

    def _instance(self, thing: Any, kind: type) -> Any:
        if is_array(thing):
            return self._array(thing)
        if (name := singletons.name_of(thing)) is not None:
            return making.attribute, name
        if isinstance(thing, BaseException) and _has_plain_reduce(kind):
            return self._exception(thing)
        if handlers.is_handler(thing):
            return handlers.reduced(thing)
        data = lowered(thing, self._way.world.codecs)
        if data is None:
            return None
        rows = rows_of(thing)
        return (making.lifted_by_rows, (data, rows)) if rows else (making.lifted, (data,))

    def _array(self, array: Any) -> Any:
        own = identity(array)
        if own in self._way.views and array is not self._way.views[own]:
            reduced = _view(self._way.views[own], array)
            if reduced is not None:
                return reduced
        owner = owner_of(array)
        if owner is not None:
            met = self.found.owners.setdefault(own, [owner])
            if met[0] is owner:
                met.append(array)
        is_fixed = not array.flags.writeable
        if not is_fixed and (array.nbytes < _SMALL_BYTES or array.dtype.hasobject):
            return None
        data = lowered(array, self._way.world.codecs)
        return None if data is None else (making.read_only if is_fixed else making.lifted, (data,))

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
        """Keep a function with a cache, and what is in it, unless that cannot be kept."""
        settings = cached.cache_parameters()
        made = (cached.__wrapped__, settings["maxsize"], settings["typed"])
        own = {
            k: v for k, v in cached.__dict__.items() if k not in ("__wrapped__", "cache_parameters")
        }
        calls = caches.calls_of(cached)
        if not calls or not self._can_keep(cached, calls):
            return making.cached, made, own
        return caches.cache_made, made, (own, calls), None, None, caches.cache_filled

    def _can_keep(self, cached: object, calls: object) -> bool:
        if id(cached) in self._way.trying:
            return True
        self._way.trying.add(id(cached))
        try:
            type(self)(io.BytesIO(), self._way).dump(calls)
        except Exception:  # noqa: BLE001  # a result may be anything
            return False
        finally:
            self._way.trying.discard(id(cached))
        return True

    def _wrapper(self, wrapper: Any) -> Any:
        """Keep what a static or class method took over from its function, if that has changed."""
        kind, function, own = type(wrapper), wrapper.__func__, vars(wrapper)
        taken = vars(kind(function))
        if own.keys() == taken.keys() and all(_is_one(own[name], taken[name]) for name in own):
            return None
        return kind, (function,), dict(own), None, None, making.wrapper_filled

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
    staticmethod: _Pickler._wrapper,  # noqa: SLF001
    classmethod: _Pickler._wrapper,  # noqa: SLF001
    functools._lru_cache_wrapper: _Pickler._cached,  # noqa: SLF001
}


def _has_plain_reduce(kind: Any) -> bool:
    return kind.__reduce__ is BaseException.__reduce__


def _is_one(value: object, other: object) -> bool:
    return value is other or (type(value) is type(other) is str and value == other)


def _filling(cell: types.CellType) -> tuple[object, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _view(owner: Any, array: Any) -> Any:
    """Return how an array is made that looks at its owner; None if it looks beyond it."""
    if array.dtype.hasobject:
        low, high = addresses(array)
        start, end = addresses(owner)
        if array.dtype != owner.dtype or low < start or high > end:
            return None
        made = array.__array_interface__["data"][0] - start
        return making.object_view_of, (owner, array.shape, array.strides, made)
    view = view_in(owner, array)
    return (
        None if view is None else (making.view_of, (owner, view.dump(), not array.flags.writeable))
    )


def load(head: bytes, buffers: Sequence[Any]) -> Any:
    """Load a pickle of this session; the caller knows that it was signed.

    Raises:
        Exception: whatever the objects raise that cannot be made again.
    """
    return _Unpickler(io.BytesIO(head), buffers=buffers).load()


class _Unpickler(pickle.Unpickler):  # noqa: S301  # what the host has signed, in a sandbox
    def persistent_load(self, found: Any) -> Any:
        return making.variable_at(*found)


def unpacked(pickled: bytes) -> dict[str, Any]:
    """Return variables that the host gives to this session; see `giving.py`."""
    found: dict[str, Any] = pickle.loads(pickled)  # noqa: S301  # by the user's own program
    return found
