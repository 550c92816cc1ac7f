"""The pickler of objects: for what is not data, written and read only inside a worker.

The C pickler walks the objects; how it stores the special ones is decided here:

    functions and classes of the session    by reference to source, namespace and class id
    data inside of objects                   lowered by codecs, so that frames are cut at columns
    raw bytes                                out of band: chunked, deduplicated, mapped when read
    what is part of a variable that is data  by reference to that variable
    views of one array                       as views
    functions with a cache                   with the calls whose results are in it
    handlers of logs                         without their lock, on the same stream or file
    what a library has one of                by name: `dataclasses.MISSING`, the root logger, the
                                             generator of `numpy.random` are compared by identity
    the rest                                 as cloudpickle does
"""

from __future__ import annotations

import functools
import gc
import io
import logging
import pickle
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, update_wrapper
from typing import Any, TypeAlias

import cloudpickle  # type: ignore[import-untyped]

from otolith.codecs import Codecs
from otolith.errors import BadValue
from otolith.former_names import today
from otolith.state.tracker.shared_objects import identity, is_array, view_in
from otolith.types import Raw, Tagged
from otolith.workspace.worker import pickle_context
from otolith.workspace.worker.classes import definition
from otolith.workspace.worker.mapped_memory import addresses, owner_of, span
from otolith.workspace.worker.namespace import Namespace
from otolith.workspace.worker.pickle_context import (
    PickleContext,
    VariableReference,
    VariableReferences,
)
from otolith.workspace.worker.sources import key_of
from otolith.workspace.worker.value_layout import row_layout

Calls: TypeAlias = list[tuple[tuple[Any, ...], dict[str, Any], object]]
"""Positional arguments, keyword arguments and result of calls; the last used is the last."""

_LINK = "_lru_list_elem"
"""The type that follows a key and a result in a cache with a limit."""


def calls_of(cached: Any) -> Calls:
    """Return the calls whose results are in a cache; none if it cannot be read."""
    held = gc.get_referents(cached)
    at = int(bool(held) and held[0] is type(cached))
    pairs = list[tuple[Any, Any]]()
    while at + 2 < len(held) and getattr(held[at + 2], "__name__", "") == _LINK:
        pairs.append((held[at], held[at + 1]))
        at += 3
    cache = held[at] if at < len(held) else None
    if type(cache) is not dict:
        return []
    settings = cached.cache_parameters()
    if settings["maxsize"] is None:
        pairs = list(cache.items())
    if len(pairs) != len(cache) or not all(key in cache for key, _ in pairs):
        return []
    marks = [each for each in held if type(each) is object]
    return [(*_arguments(key, marks, settings["typed"]), result) for key, result in pairs]


def _arguments(
    key: Any,
    marks: list[object],
    is_typed: bool,  # noqa: FBT001
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that a key was made of."""
    if type(key) is not tuple:
        return (key,), {}
    at = next((at for at, part in enumerate(key) if any(part is mark for mark in marks)), None)
    if at is None:
        return key[: len(key) // 2] if is_typed else key, {}
    rest = key[at + 1 :]
    named = rest[: 2 * ((len(rest) - at) // 3)] if is_typed else rest
    return key[:at], dict(zip(named[::2], named[1::2], strict=True))


class CacheFiller:
    """A function that returns given results first, and then calls the function it stands for."""

    __slots__ = ("function", "results")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.results: Iterator[object] = iter(())

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        for result in self.results:
            return result
        return self.function(*arguments, **named)


# Python shows the content of a cache only to its garbage collector, and offers no way to fill it.
# So the function inside of a restored cache first returns the stored results.
# The names of functions that pickles call are in stored pickles and never change.


def cache_made(function: Any, maxsize: int | None, is_typed: bool) -> Any:  # noqa: FBT001
    """Return a function with a cache, to be filled."""
    made = lru_cache(maxsize=maxsize, typed=is_typed)(CacheFiller(function))
    return update_wrapper(made, function)


def cache_filled(made: Any, state: tuple[dict[str, Any], Calls]) -> None:
    """Set the attributes of a function, and fill its cache."""
    own, calls = state
    vars(made).update(own)
    filler = next(each for each in gc.get_referents(made) if type(each) is CacheFiller)
    for arguments, named, result in calls:
        filler.results = iter((result,))
        with suppress(Exception):  # the hash of an argument may need what is not loaded yet
            made(*arguments, **named)
        filler.results = iter(())


_STREAMS = ("stderr", "stdout")


def is_handler(thing: object) -> bool:
    """Tell whether this is a handler of the standard library."""
    return isinstance(thing, logging.Handler) and type(thing).__module__.startswith("logging")


def _reduce_handler(handler: Any) -> Any:
    """Return how a handler is made again, in the form that `reducer_override` returns."""
    state = {name: value for name, value in vars(handler).items() if name not in ("lock", "stream")}
    stream = getattr(handler, "stream", None)
    if isinstance(handler, logging.FileHandler):
        state["mode"] = handler.mode.replace("w", "a")
        return handler_made, (type(handler), None), state, None, None, handler_filled
    names = [
        name for name in _STREAMS if stream in (getattr(sys, name), getattr(sys, f"__{name}__"))
    ]
    if stream is not None and not names:
        state["stream"] = stream
    return handler_made, (type(handler), *names[:1]), state, None, None, handler_filled


# As above: pickles call these by name.


def handler_made(kind: type[logging.Handler], stream: str | None = None) -> Any:
    """Return a handler without its state; one of a file opens it when it first writes."""
    made: Any = kind.__new__(kind)
    made.createLock()
    if issubclass(kind, logging.StreamHandler):
        made.stream = None if stream is None else getattr(sys, stream)
    return made


def handler_filled(made: Any, state: dict[str, Any]) -> None:
    """Set the attributes of a handler, and register it as its `__init__` would."""
    vars(made).update(state)
    logging._addHandlerRef(made)  # type: ignore[attr-defined]  # noqa: SLF001


_library_names: dict[str, dict[int, str]] = {}
_NEVER = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)


def name_of(thing: Any) -> tuple[str, str] | None:
    """Return module and name of an object that is an attribute of the module of its type."""
    home = getattr(type(thing), "__module__", None)
    if not isinstance(home, str) or home in ("builtins", "__main__"):
        return None
    names = _library_names.get(home)
    if names is None:
        names = _library_names[home] = _names(home)
    name = names.get(id(thing))
    return None if name is None else (home, name)


def _names(home: str) -> dict[int, str]:
    """Return the names of objects that a library has one of, by identity."""
    module = sys.modules.get(home)
    place = getattr(module, "__file__", None) or ""
    if module is None or (
        "site-packages" not in place and home.partition(".")[0] not in sys.stdlib_module_names
    ):
        return {}
    return {
        id(thing): name
        for name, thing in vars(module).items()
        if type(thing).__module__ == home and not isinstance(thing, _NEVER)
    }


def _lower(thing: Any, codecs: Codecs) -> Tagged | None:
    """Return data, lowered by codecs as far as possible; None for what is not data."""
    # Arrays that hold several columns of a pandas frame are known to no codec.
    is_block = hasattr(thing, "_from_sequence") and getattr(thing, "ndim", 1) > 1
    if is_block or not _is_library_data(thing):
        return None
    try:
        lowered: Tagged = _lower_parts(thing, codecs)
    except BadValue:
        return None
    return lowered


def _lower_parts(data: Any, codecs: Codecs) -> Any:
    if type(data) is dict:
        return {key: _lower_parts(part, codecs) for key, part in data.items()}
    if type(data) is list:
        return [_lower_parts(part, codecs) for part in data]
    if _is_library_data(data):
        code, inner = codecs.lower(data)
        return Tagged(code, _lower_parts(inner, codecs))
    return data


def _is_library_data(value: object) -> bool:
    return type(value).__module__.partition(".")[0] in _DATA_MODULES


_DATA_MODULES = frozenset({"numpy", "pandas", "pyarrow", "polars"})
_SMALL_BYTES = 4096
"""A shorter array stays in the pickle: it would not be stored as a separate object."""

_ATTRIBUTES = (
    "__name__", "__qualname__", "__module__", "__doc__",
    "__defaults__", "__kwdefaults__", "__annotations__",
)  # fmt: skip


@dataclass
class PickleDump:
    """A pickle, its raw bytes, and all objects that it reached, which stay alive with it."""

    head: bytes
    buffers: list[memoryview]
    reached: dict[int, object] = field(default_factory=dict)
    owners: dict[int, list[Any]] = field(default_factory=dict)
    references: list[VariableReference] = field(default_factory=list)
    classes: set[str] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)
    has_bytecode: bool = False


ClassId = Callable[[type], "str | None"]


def dump(
    value: object,
    context: PickleContext,
    *,
    class_id: ClassId,
    references: VariableReferences | None = None,
    defines: frozenset[type] = frozenset(),
    probes: Sequence[PickleDump] | None = None,
) -> PickleDump:
    """Pickle a value of a session.

    `references` are objects that are part of data. Classes in `defines` are written themselves,
    where others are referred to. `probes` are pickles of the parts; without them this is a probe
    itself, which finds out what is reached, and stores views of one memory as separate arrays.

    Raises:
        Exception: whatever the objects raise that cannot be pickled.
    """
    options = _DumpOptions(context, class_id, references or VariableReferences(), defines)
    for probe in probes or ():
        for owner, some in probe.owners.items():
            options.owners.setdefault(owner, some[:1]).extend(some[1:])
    options.views = _views(options.owners)
    found = _dump(value, options)
    if probes is not None and (more := _views(found.owners).keys() - options.views.keys()):
        options.views |= {owner: span(found.owners[owner]) for owner in more}
        found = _dump(value, options)
    return found


def needs_views(probe: PickleDump) -> bool:
    """Tell whether a probe reached arrays that are views of one memory."""
    return bool(_views(probe.owners))


def _views(owners: dict[int, list[Any]]) -> dict[int, Any]:
    """Return the memory that more than one array is a view of."""
    return {
        own: span([owner, *arrays])
        for own, (owner, *arrays) in owners.items()
        if len(set(map(id, arrays))) > 1
    }


@dataclass
class _DumpOptions:
    """How a value is pickled."""

    context: PickleContext
    class_id: ClassId
    references: VariableReferences
    defines: frozenset[type]
    views: dict[int, Any] = field(default_factory=dict)
    owners: dict[int, list[Any]] = field(default_factory=dict)
    trying: set[int] = field(default_factory=set)  # caches that are being tried


def _dump(value: object, options: _DumpOptions) -> PickleDump:
    """Pickle a value once."""
    sink = io.BytesIO()
    pickler = (_ReferencePickler if options.references.things else _Pickler)(sink, options)
    pickler.dump(value)
    found = pickler.found
    found.head = sink.getvalue()
    found.reached = {id: thing for id, (_, thing) in pickler.memo.copy().items()}
    return found


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    """A pickler that stores the special objects of a session in their own ways."""

    def __init__(self, sink: io.BytesIO, options: _DumpOptions) -> None:
        super().__init__(sink, protocol=5, buffer_callback=self._store_buffer)
        self.found = PickleDump(b"", [])
        self._options = options
        process = options.context.process
        self._replaced = {} if process is None else process.patches.replaced
        self._filled_later: set[int] = set()

    def _store_buffer(self, buffer: pickle.PickleBuffer) -> bool:
        """Take long raw bytes out of the pickle."""
        view = buffer.raw()
        if view.nbytes < _SMALL_BYTES:
            return True
        self.found.buffers.append(view)
        return False

    def reducer_override(self, thing: Any) -> Any:
        """Return how an object is pickled; NotImplemented for the usual way."""
        kind = type(thing)
        if id(thing) in self._replaced:
            return pickle_context.original, (self._replaced[id(thing)],)
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
        """Store a class of the session by its id, or by its definition."""
        if kind in self._options.defines:
            return definition(kind)
        own = self._options.class_id(kind)
        if own is None:
            return None
        self.found.classes.add(own)
        return pickle_context.class_at, (own,)

    def _instance(self, thing: Any, kind: Any) -> Any:
        """Store data by codecs, and single objects of libraries by name."""
        if is_array(thing):
            return self._array(thing)
        if (name := name_of(thing)) is not None:
            return pickle_context.attribute, name
        if isinstance(thing, BaseException) and kind.__reduce__ is BaseException.__reduce__:
            # Its `__init__`, which may need other arguments, is not called when it is loaded.
            return pickle_context.exception, (kind, thing.args), thing.__dict__ or None
        if is_handler(thing):
            return _reduce_handler(thing)
        data = _lower(thing, self._options.context.codecs)
        if data is None:
            return None
        rows = row_layout(thing)
        if rows:
            return pickle_context.lifted_by_rows, (data, rows)
        return pickle_context.lifted, (data,)

    def _array(self, array: Any) -> Any:
        """Store an array as a view, by codecs, or as usual if it is short."""
        own = identity(array)
        if own in self._options.views and array is not self._options.views[own]:
            reduced = _view(self._options.views[own], array)
            if reduced is not None:
                return reduced
        owner = owner_of(array)
        if owner is not None:
            arrays = self.found.owners.setdefault(own, [owner])
            if arrays[0] is owner:
                arrays.append(array)
        is_fixed = not array.flags.writeable
        if not is_fixed and (array.nbytes < _SMALL_BYTES or array.dtype.hasobject):
            return None
        data = _lower(array, self._options.context.codecs)
        lift = pickle_context.read_only if is_fixed else pickle_context.lifted
        return None if data is None else (lift, (data,))

    def _function(self, function: types.FunctionType) -> Any:
        """Store a function of the session by its code, bound to the live namespace."""
        if function.__globals__ is not self._options.context.namespace:
            return None
        attributes = {name: getattr(function, name) for name in _ATTRIBUTES}
        closure = function.__closure__ or ()
        self._filled_later.update(map(id, closure))
        state = attributes, dict(function.__dict__), [_cell_content(cell) for cell in closure]
        code, name = function.__code__, function.__name__
        made = (code, name, function.__closure__)
        return pickle_context.function, made, state, None, None, pickle_context.finish_function

    def _code(self, code: types.CodeType) -> Any:
        """Store code by its path in a source; without one, as bytecode."""
        found = self._options.context.sources.path_to(code)
        if found is None:
            self.found.has_bytecode = True
            return None
        self.found.sources.add(key_of(found))
        return pickle_context.code_at, (found,)

    def _cell(self, cell: types.CellType) -> Any:
        """Store a cell; those of our functions are filled after the function is made."""
        if id(cell) in self._filled_later:
            return pickle_context.empty_cell, ()
        return (
            pickle_context.empty_cell,
            (),
            _cell_content(cell),
            None,
            None,
            pickle_context.fill_cell,
        )

    def _method(self, method: types.MethodType) -> Any:
        """Store a method by its object and name, if that leads to it."""
        owner, name = method.__self__, method.__name__
        return (getattr, (owner, name)) if getattr(owner, name, None) == method else None

    def _cached(self, cached: Any) -> Any:
        """Store a function with a cache, and its content if that can be pickled."""
        settings = cached.cache_parameters()
        made = (cached.__wrapped__, settings["maxsize"], settings["typed"])
        own = {
            k: v for k, v in cached.__dict__.items() if k not in ("__wrapped__", "cache_parameters")
        }
        calls = calls_of(cached)
        if not calls or not self._can_pickle(cached, calls):
            return pickle_context.cached, made, own
        return cache_made, made, (own, calls), None, None, cache_filled

    def _can_pickle(self, cached: object, calls: object) -> bool:
        """Try whether the content of a cache can be pickled."""
        if id(cached) in self._options.trying:
            return True
        self._options.trying.add(id(cached))
        try:
            type(self)(io.BytesIO(), self._options).dump(calls)
        except Exception:  # noqa: BLE001  # a result may be anything
            return False
        finally:
            self._options.trying.discard(id(cached))
        return True

    def _wrapper(self, wrapper: Any) -> Any:
        """Store the attributes of a static or class method, if they differ from its function's."""
        kind, function, own = type(wrapper), wrapper.__func__, vars(wrapper)
        taken = vars(kind(function))
        if own.keys() == taken.keys() and all(_is_same(own[name], taken[name]) for name in own):
            return None
        return kind, (function,), dict(own), None, None, pickle_context.wrapper_filled


class _ReferencePickler(_Pickler):
    """Checks every object for a reference, which costs time; for pickles that need it."""

    def persistent_id(self, thing: Any) -> Any:
        """Return the place of an object in data; None if it has none."""
        found = self._options.references.find(thing)
        if found is None:
            return None
        self.found.references.append(found)
        return tuple(found)


_REDUCE: dict[type, Callable[[Any, Any], Any]] = {
    types.FunctionType: _Pickler._function,  # noqa: SLF001
    types.CodeType: _Pickler._code,  # noqa: SLF001
    types.CellType: _Pickler._cell,  # noqa: SLF001
    types.MethodType: _Pickler._method,  # noqa: SLF001
    Raw: lambda _, raw: (pickle_context.piece, (pickle.PickleBuffer(raw.view),)),
    Namespace: lambda *_: (pickle_context.globals_here, ()),
    pickle_context.Main: lambda *_: (pickle_context.main_module, ()),
    staticmethod: _Pickler._wrapper,  # noqa: SLF001
    classmethod: _Pickler._wrapper,  # noqa: SLF001
    functools._lru_cache_wrapper: _Pickler._cached,  # noqa: SLF001
}


def _is_same(value: object, other: object) -> bool:
    return value is other or (type(value) is type(other) is str and value == other)


def _cell_content(cell: types.CellType) -> tuple[object, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _view(owner: Any, array: Any) -> Any:
    """Return how a view of an array is made; None if it is not inside of it."""
    if array.dtype.hasobject:
        low, high = addresses(array)
        start, end = addresses(owner)
        if array.dtype != owner.dtype or low < start or high > end:
            return None
        made = array.__array_interface__["data"][0] - start
        return pickle_context.object_view_of, (owner, array.shape, array.strides, made)
    view = view_in(owner, array)
    if view is None:
        return None
    return pickle_context.view_of, (owner, view.dump(), not array.flags.writeable)


def load(head: bytes, buffers: Sequence[Any]) -> Any:
    """Load a pickle of this session; the caller knows that it was signed.

    Raises:
        Exception: whatever the objects raise that cannot be made again.
    """
    return _Unpickler(io.BytesIO(head), buffers=buffers).load()


class _Unpickler(pickle.Unpickler):  # noqa: S301  # what the host has signed, in a sandbox
    """An unpickler that knows references to variables, and former names of functions."""

    def persistent_load(self, found: Any) -> Any:
        """Return the object at a place in data."""
        return pickle_context.variable_at(*found)

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        """Return a global, by its name of today if it was renamed."""
        try:
            return super().find_class(module_name, global_name)
        except (ModuleNotFoundError, AttributeError):
            name = today(f"{module_name}:{global_name}")
            module, _, found = name.partition(":")
            if (module, found) == (module_name, global_name):
                raise
            return super().find_class(module, found)


def load_inputs(pickled: bytes) -> dict[str, Any]:
    """Return the variables that the host sets in this session; see `workspace/inputs.py`."""
    found: dict[str, Any] = pickle.loads(pickled)  # noqa: S301  # by the user's own program
    return found
