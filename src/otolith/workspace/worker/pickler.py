"""Pickles of what is not data: the last resort, written and read only inside a worker.

The C pickler walks the objects; what it asks about is decided here:

    functions and classes of the session    by reference to source, namespace and class id
    data inside of objects                   lowered by codecs, so that frames are cut at columns
    raw bytes                                out of band: chunked, deduplicated, mapped when read
    what is data of its own, as a variable   by reference to that variable
    views of one array                       as views
    the rest                                 as cloudpickle does

What functions with a cache (`functools.lru_cache`) have in it, and such functions made again.

Python shows a cache to its collector of garbage only, and lets nobody fill it. So the function
inside of a restored one first answers with what was kept, and then calls what it stands for.

Handlers of logs: made again without their lock, on the stream or file that they wrote to.

Objects that a library has one of: kept by name, as there must not be a second one.

`dataclasses.MISSING`, the generator behind `numpy.random`, the root logger: whoever has one of
these compares it by identity, or expects all others to use it too.

Data inside of objects, lowered by codecs before it is pickled: frames are cut at columns.
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
from otolith.state.tracking.shared_objects import identity, is_array, view_in
from otolith.types import Raw, Tagged
from otolith.workspace.worker import pickle_context
from otolith.workspace.worker.classes import definition
from otolith.workspace.worker.mapped_memory import addresses, owner_of, span
from otolith.workspace.worker.namespace import Namespace
from otolith.workspace.worker.pickle_context import Reference, References, World
from otolith.workspace.worker.sources import key_of
from otolith.workspace.worker.value_traits import rows_of

Calls: TypeAlias = list[tuple[tuple[Any, ...], dict[str, Any], object]]
"""Arguments by place and by name, and results, the one that was used last at the end."""

_LINK = "_lru_list_elem"
"""What follows a key and a result of a cache with a limit, in the order of their use."""


def calls_of(cached: Any) -> Calls:
    """Return the calls whose results are in a cache; none, if it cannot be read."""
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


class Replay:
    """A function that answers with what it is told to, and with its own results after that."""

    __slots__ = ("answers", "function")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.answers: Iterator[object] = iter(())

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        for answer in self.answers:
            return answer
        return self.function(*arguments, **named)


# What pickles call. The names are in stored pickles and never change.


def cache_made(function: Any, maxsize: int | None, is_typed: bool) -> Any:  # noqa: FBT001
    """Return a function with a cache that is to be filled."""
    made = lru_cache(maxsize=maxsize, typed=is_typed)(Replay(function))
    return update_wrapper(made, function)


def cache_filled(made: Any, state: tuple[dict[str, Any], Calls]) -> None:
    """Give a function its attributes, and its cache what was in it."""
    own, calls = state
    vars(made).update(own)
    replay = next(each for each in gc.get_referents(made) if type(each) is Replay)
    for arguments, named, answer in calls:
        replay.answers = iter((answer,))
        with suppress(Exception):  # the hash of an argument may need what is not loaded yet
            made(*arguments, **named)
        replay.answers = iter(())


_STREAMS = ("stderr", "stdout")


def is_handler(thing: object) -> bool:
    """Tell whether this is a handler that the standard library knows how to make."""
    return isinstance(thing, logging.Handler) and type(thing).__module__.startswith("logging")


def reduced(handler: Any) -> Any:
    """Return how a handler is made again, as a pickler wants to be told."""
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


# What pickles call. The names are in stored pickles and never change.


def handler_made(kind: type[logging.Handler], stream: str | None = None) -> Any:
    """Return a handler without its state; one of a file opens it when it first writes."""
    made: Any = kind.__new__(kind)
    made.createLock()
    if issubclass(kind, logging.StreamHandler):
        made.stream = None if stream is None else getattr(sys, stream)
    return made


def handler_filled(made: Any, state: dict[str, Any]) -> None:
    """Give a handler its state, and let the library know of it as of any other."""
    vars(made).update(state)
    logging._addHandlerRef(made)  # type: ignore[attr-defined]  # noqa: SLF001  # as its __init__ does


_known: dict[str, dict[int, str]] = {}
_NEVER = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)


def name_of(thing: Any) -> tuple[str, str] | None:
    """Return the module and the name of an object that its own module has under a name."""
    home = getattr(type(thing), "__module__", None)
    if not isinstance(home, str) or home in ("builtins", "__main__"):
        return None
    names = _known.get(home)
    if names is None:
        names = _known[home] = _names(home)
    name = names.get(id(thing))
    return None if name is None else (home, name)


def _names(home: str) -> dict[int, str]:
    module = sys.modules.get(home)
    place = getattr(module, "__file__", None) or ""
    if module is None or ("site-packages" not in place and not _is_standard(home)):
        return {}
    return {
        id(thing): name
        for name, thing in vars(module).items()
        if type(thing).__module__ == home and not isinstance(thing, _NEVER)
    }


def _is_standard(home: str) -> bool:
    return home.partition(".")[0] in sys.stdlib_module_names


def lowered(thing: Any, codecs: Codecs) -> Tagged | None:
    """Return data inside of objects, lowered as far as it goes; None for what is not data."""
    if type(thing).__module__.partition(".")[0] not in _DATA or _is_inside_of_frames(thing):
        return None
    try:
        code, data = codecs.lower(thing)
        return Tagged(code, _all(data, codecs))
    except BadValue:
        return None


def _is_inside_of_frames(thing: Any) -> bool:
    """Tell whether an array is what pandas holds several columns in, which no codec knows."""
    return hasattr(thing, "_from_sequence") and getattr(thing, "ndim", 1) > 1


_DATA = frozenset({"numpy", "pandas", "pyarrow", "polars"})


def _all(data: Any, codecs: Codecs) -> Any:
    if type(data) is dict:
        return {key: _all(part, codecs) for key, part in data.items()}
    if type(data) is list:
        return [_all(part, codecs) for part in data]
    if type(data).__module__.partition(".")[0] in _DATA:
        code, inner = codecs.lower(data)
        return Tagged(code, _all(inner, codecs))
    return data


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
        if kind in self._way.defines:
            return definition(kind)
        own = self._way.class_id(kind)
        if own is None:
            return None
        self.found.classes.add(own)
        return pickle_context.class_at, (own,)

    def _instance(self, thing: Any, kind: type) -> Any:
        if is_array(thing):
            return self._array(thing)
        if (name := name_of(thing)) is not None:
            return pickle_context.attribute, name
        if isinstance(thing, BaseException) and _has_plain_reduce(kind):
            return self._exception(thing)
        if is_handler(thing):
            return reduced(thing)
        data = lowered(thing, self._way.world.codecs)
        if data is None:
            return None
        rows = rows_of(thing)
        return (
            (pickle_context.lifted_by_rows, (data, rows))
            if rows
            else (pickle_context.lifted, (data,))
        )

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
        return (
            None
            if data is None
            else (pickle_context.read_only if is_fixed else pickle_context.lifted, (data,))
        )

    def _function(self, function: types.FunctionType) -> Any:
        if function.__globals__ is not self._way.world.namespace:
            return None
        attributes = {name: getattr(function, name) for name in _ATTRIBUTES}
        closure = function.__closure__ or ()
        self._bare.update(map(id, closure))
        state = attributes, dict(function.__dict__), [_filling(cell) for cell in closure]
        code, name = function.__code__, function.__name__
        made = (code, name, function.__closure__)
        return pickle_context.function, made, state, None, None, pickle_context.finish_function

    def _code(self, code: types.CodeType) -> Any:
        found = self._way.world.sources.way_to(code)
        if found is None:
            self.found.has_bytecode = True
            return None
        self.found.sources.add(key_of(found))
        return pickle_context.code_at, (found,)

    def _cell(self, cell: types.CellType) -> Any:
        """Keep a cell; those of our functions are filled when the function is there, not before."""
        if id(cell) in self._bare:
            return pickle_context.empty_cell, ()
        return pickle_context.empty_cell, (), _filling(cell), None, None, pickle_context.fill_cell

    def _method(self, method: types.MethodType) -> Any:
        """Keep a method as that of its object, where it is: the function is the class's."""
        owner, name = method.__self__, method.__name__
        return (getattr, (owner, name)) if getattr(owner, name, None) == method else None

    def _exception(self, error: BaseException) -> Any:
        """Keep an exception without calling its `__init__`, which may want something else."""
        return pickle_context.exception, (type(error), error.args), error.__dict__ or None

    def _raw(self, raw: Raw) -> Any:
        return pickle_context.piece, (pickle.PickleBuffer(raw.view),)

    def _namespace(self, namespace: Namespace) -> Any:
        return pickle_context.globals_here, ()

    def _cached(self, cached: Any) -> Any:
        """Keep a function with a cache, and what is in it, unless that cannot be kept."""
        settings = cached.cache_parameters()
        made = (cached.__wrapped__, settings["maxsize"], settings["typed"])
        own = {
            k: v for k, v in cached.__dict__.items() if k not in ("__wrapped__", "cache_parameters")
        }
        calls = calls_of(cached)
        if not calls or not self._can_keep(cached, calls):
            return pickle_context.cached, made, own
        return cache_made, made, (own, calls), None, None, cache_filled

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
        return kind, (function,), dict(own), None, None, pickle_context.wrapper_filled

    def _module(self, module: types.ModuleType) -> Any:
        return (pickle_context.main_module, ()) if isinstance(module, pickle_context.Main) else None


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
    pickle_context.Main: _Pickler._module,  # noqa: SLF001
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
        return pickle_context.object_view_of, (owner, array.shape, array.strides, made)
    view = view_in(owner, array)
    return (
        None
        if view is None
        else (pickle_context.view_of, (owner, view.dump(), not array.flags.writeable))
    )


def load(head: bytes, buffers: Sequence[Any]) -> Any:
    """Load a pickle of this session; the caller knows that it was signed.

    Raises:
        Exception: whatever the objects raise that cannot be made again.
    """
    return _Unpickler(io.BytesIO(head), buffers=buffers).load()


class _Unpickler(pickle.Unpickler):  # noqa: S301  # what the host has signed, in a sandbox
    def persistent_load(self, found: Any) -> Any:
        return pickle_context.variable_at(*found)

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        try:
            return super().find_class(module_name, global_name)
        except (ModuleNotFoundError, AttributeError):
            name = today(f"{module_name}:{global_name}")
            module, _, found = name.partition(":")
            if (module, found) == (module_name, global_name):
                raise
            return super().find_class(module, found)


def unpacked(pickled: bytes) -> dict[str, Any]:
    """Return variables that the host gives to this session; see `workspace/inputs.py`."""
    found: dict[str, Any] = pickle.loads(pickled)  # noqa: S301  # by the user's own program
    return found
