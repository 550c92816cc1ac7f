"""`Mirror`: a class whose methods are those of a plain class, each a coroutine that runs in a lane.

A subclass names the plain class, and gets from it:

    def method(...)            async def method(...), the same signature
    property                   async def property(), unless it is in `known`
    def method() with yield    an async iterator
    x[key], for each in x      await x[key], async for each in x
    x[key] = value, del x[key], key in x, len(x)
                               await x.set(key, value), x.delete(key), x.contains(key), x.length()
    x.name = value             await x.set_name(value)

The operators themselves are refused with a TypeError that names what to await: Python would answer
`key in x` by asking for x[0], x[1] and so on, for ever. What a method returns is mirrored too if
its class is: an `Event` of an awaited log is awaited. The types that a checker sees are in
`surface.pyi`; a test compares them with what is made here.
"""

from __future__ import annotations

import inspect
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Generator,
    ItemsView,
    Iterator,
    KeysView,
    ValuesView,
)
from functools import cached_property, wraps
from time import monotonic
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

from otolith.aio.lanes import Lane
from otolith.errors import Error
from otolith.types import cut_line

P = ParamSpec("P")
R = TypeVar("R")

_READ_AHEAD_SECONDS = 0.002
"""How long a thread continues to read ahead for an `async for`."""

_PLUMBING = "what handles need of a state; not for programs"
_EFFECTS = "what carrying out effects needs of a machine; not for programs"
_STATEMENTS = "what reading statements needs of a profile; not for programs"
_PLAIN = "a part of the plain repo: it is at `.plain`"

NOT_MIRRORED = {
    "Conversation.dialogue": "makes messages and stores nothing; it is at `.plain`",
    "EventLog.contains": "no two events are equal",
    "EventLog.count": "no two events are equal",
    "EventLog.index": "an event knows its index",
    "Machine.answer": _EFFECTS,
    "Machine.change_outbox": _EFFECTS,
    "Machine.end": _EFFECTS,
    "Machine.pending": _EFFECTS,
    "Machine.record": _EFFECTS,
    "adopt_policy": _PLUMBING,
    "attempts": _PLUMBING,
    "backend": _PLAIN,
    "cell_at": _PLUMBING,
    "cells": _PLUMBING,
    "clock": _PLAIN,
    "commit_change": _PLUMBING,
    "carry": _PLUMBING,
    "draft": _PLUMBING,
    "encoding": _PLAIN,
    "extend_cell": _PLUMBING,
    "extend_reserved": _PLUMBING,
    "FlowRun.begin": "what `await state.flow(flow)` does",
    "FlowRun.settle_edited": "what `work` does first",
    "FlowRun.worker": "for programs that run several workers; they are plain",
    "hold_commits": _PLUMBING,
    "look_only": _PLUMBING,
    "lock": "the lane of a state keeps others out",
    "path": "the caller that made the handle has it",
    "Profile.add_statement": _STATEMENTS,
    "Profile.mark_read": _STATEMENTS,
    "Profile.read_until": _STATEMENTS,
    "remotes": _PLAIN,
    "FairQueue.request": _PLUMBING,
    "FairQueue.revoke": "a part of removing a member",
    "InboxConflict.conflict": "its values are those of the mirror",
    "InboxConflict.seen": _PLUMBING,
    "Team.presence": "what `async with team:` does",
    "TeamLease.hold": _PLUMBING,
    "TeamLease.request": _PLUMBING,
    "Watch.ref": _PLUMBING,
    "WatchedChange.change": "its values are those of the mirror",
    "repo": "the caller that opened the state has its mirror; the plain one is `.plain.repo`",
    "salt": _PLAIN,
    "signatures": _PLAIN,
    "state": "the caller that made it of a state has its mirror",
    "store": _PLAIN,
    "stage_merge": _PLUMBING,
    "stored": _PLUMBING,
    "write_cell": _PLUMBING,
    "write_reserved": _PLUMBING,
}
"""The public names of plain classes that their mirrors do not have, and why."""

_CALLS_OUT = frozenset(
    {
        "transact",
        "carry_out",
        "propose",
        "resolve_all",
        "learn",
        *("work", "decompose"),
        *("push", "pull", "fetch", "clone", "mirror"),
    }
)
"""Methods that call functions of the user, or open stores, and may block for long."""

_OPERATORS = {
    "__getitem__": "__getitem__",
    "set": "__setitem__",
    "delete": "__delitem__",
    "contains": "__contains__",
    "length": "__len__",
}


_AWAITED_OPERATORS = {
    "__iter__": "async for each in x",
    "__reversed__": "[each async for each in x]",
    "__contains__": "await x.contains(key)",
    "__len__": "await x.length()",
    "__bool__": "await x.length()",
    "__setitem__": "await x.set(key, value)",
    "__delitem__": "await x.delete(key)",
    "__int__": "int(await x.value())",
}
"""The operators of plain classes that cannot be awaited, and what to write instead."""

_OPERATORS_OF_VALUES = (
    *("bool", "len", "iter", "contains", "getitem", "setitem", "delitem", "int", "float"),
    *("eq", "ne", "lt", "le", "gt", "ge", "add", "radd", "sub", "rsub", "mul", "truediv"),
)

_VIEWS = frozenset({"keys", "values", "items"})

_MIRRORS: dict[type, tuple[type[Mirror], bool]] = {}
"""Mirrors by plain class, and whether each object has its own lane."""


class Lookup(Coroutine[Any, Any, Any]):
    """What `mirror[key]` returns: a coroutine that refuses to be taken for the value."""

    @property
    def _instead(self) -> str:
        """What to write to get the value."""
        return "(await state[key])"

    def __init__(self, start: Callable[[], Coroutine[Any, Any, Any]], key: object) -> None:
        self._start = start
        self._key = key

    def __repr__(self) -> str:
        return f"<aio.Lookup [{cut_line(repr(self._key))}], to be awaited>"

    @cached_property
    def _coroutine(self) -> Coroutine[Any, Any, Any]:
        return self._start()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        """Resume the coroutine, for an event loop."""
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an error in the coroutine, for an event loop."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """End the coroutine; one that was not awaited never starts."""
        if "_coroutine" in vars(self):
            self._coroutine.close()

    __hash__ = object.__hash__


def _not_awaited(self: Lookup, *operands: object) -> NoReturn:
    raise TypeError(f"this value was not awaited: write {self._instead}")


for _name in _OPERATORS_OF_VALUES:
    setattr(Lookup, f"__{_name}__", _not_awaited)


class View(Lookup):
    """What `mirror.keys()`, `values()` and `items()` return, for `dict(mirror)` to refuse it too.

    Python replaces a TypeError of `__iter__` by one that names no awaitable, so the first element
    is refused instead.
    """

    @property
    def _instead(self) -> str:
        """What to write to get the list."""
        return f"await x.{self._key}(), or dict(await x.items())"

    def __repr__(self) -> str:
        return f"<aio.View {self._key}, to be awaited>"

    def __iter__(self) -> Iterator[Any]:
        yield _not_awaited(self)


class Mirror:
    """A plain object whose methods are awaited. `reach` returns the object, inside a thread."""

    def __init__(self, reach: Callable[[], Any], lane: Lane, label: str = "") -> None:
        self._reach = reach
        self._lane = lane
        self._label = label

    def __init_subclass__(
        cls,
        *,
        plain: type | None = None,
        has_lane: bool = False,
        known: Collection[str] = (),
        apart: Collection[str] = (),
    ) -> None:
        """Mirror a plain class.

        With `has_lane` each object has a lane; others use that of the object they came from.
        `known` names attributes that are read at once, because nothing has to be looked up; the
        methods in `apart` run in a lane of their own, so that they keep no others waiting.
        """
        if plain is None:
            return
        _MIRRORS[plain] = cls, has_lane
        made: dict[str, Any] = {name: property(_reader(name)) for name in known}
        others = [name for name in _names(plain) if name not in made]
        made |= {name: _method(plain, name, is_apart=name in apart) for name in others}
        made |= {name: _view(made[name], name) for name in _VIEWS & {*others}}
        made |= {
            f"set_{name}": _setter(name)
            for name in others
            if getattr(inspect.getattr_static(plain, name, None), "fset", None) is not None
        }
        if hasattr(plain, "__iter__"):
            made["__aiter__"] = lambda self: self._walk(iter)
        made |= _refusals(plain)
        for name, value in made.items():
            is_left_out = {name, f"{cls.__name__}.{name}"} & NOT_MIRRORED.keys()
            if name in known or not (hasattr(cls, name) or is_left_out):
                setattr(cls, name, value)

    @property
    def plain(self) -> Any:
        """The plain object. Its verbs block; a handle is looked up first."""
        return self._reach()

    def __repr__(self) -> str:
        return f"<aio.{f'{type(self).__name__} {self._label}'.strip()}>"

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            instead = (
                f"await x.set_{name}(value)" if hasattr(self, f"set_{name}") else "await a verb"
            )
            raise TypeError(f"{type(self).__name__} x of otolith.aio is awaited: write `{instead}`")
        super().__setattr__(name, value)

    async def run(
        self, function: Callable[Concatenate[Any, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call a function with the plain object, in a thread, with no other call in between."""
        work = lambda: function(self.plain, *args, **kwargs)  # noqa: E731 - it runs in a thread
        return await self._lane.run(work, calls_out=True)

    async def _run(self, function: Callable[[Any], R]) -> R:
        """Call a function with the plain object in the lane; a subclass may have its own `run`."""
        return await self._lane.run(lambda: function(self.plain))

    async def _look_up(self, key: Any) -> Any:
        return _mirrored(await self._run(lambda plain: plain[_plain(key)]), self._lane)

    async def _walk(self, begin: Callable[[Any], Iterator[Any]]) -> AsyncIterator[Any]:
        """Yield what an iterator yields; the iterator runs in the thread, a little ahead."""
        iterator = await self._run(begin)
        end: Exception | None = None
        while end is None:
            found, end = await self._lane.run(lambda: next_few(iterator))
            for each in found:
                yield _mirrored(each, self._lane)
        if isinstance(end, Error):
            raise end


def _refusals(plain: type) -> dict[str, Any]:
    """Return a method for each operator of a plain class that a mirror cannot have."""
    has_length = hasattr(plain, "__len__")
    return {
        operator: _refusal(instead)
        for operator, instead in _AWAITED_OPERATORS.items()
        if getattr(plain, operator, None) is not None or (operator == "__bool__" and has_length)
    }


def _refusal(instead: str) -> Any:
    """Return the method of an operator that can only be awaited."""

    def refuse(self: Mirror, *operands: object) -> NoReturn:
        raise TypeError(f"{type(self).__name__} x of otolith.aio is awaited: write `{instead}`")

    return refuse


def next_few(iterator: Iterator[R]) -> tuple[list[R], Exception | None]:
    """Return at least one element, and all that a moment allows; and the end, if it was reached."""
    found: list[R] = []
    until = monotonic() + _READ_AHEAD_SECONDS
    while not found or monotonic() < until:
        try:
            found.append(next(iterator))
        except (StopIteration, Error) as end:
            return found, end
    return found, None


def _names(plain: type) -> list[str]:
    """Return the public names of a class, and what its operators are called in a mirror."""
    public = [name for name in dir(plain) if not name.startswith("_")]
    return [*public, *(name for name, operator in _OPERATORS.items() if hasattr(plain, operator))]


def _method(plain: type, name: str, *, is_apart: bool) -> Any:
    """Return the method of a mirror that calls a method, property or operator of its object."""
    own = _OPERATORS.get(name, name) if not hasattr(plain, name) else name
    found = inspect.getattr_static(plain, own)
    if isinstance(found, property | cached_property):
        reader = _reader(own)

        async def read(self: Mirror) -> Any:
            return _mirrored(await self._run(reader), self._lane)

        read.__name__, read.__doc__ = name, found.__doc__
        return read
    if name == "__getitem__":

        @wraps(found)
        def look_up(self: Mirror, key: Any) -> Lookup:
            return Lookup(lambda: self._look_up(key), key)

        return look_up
    if inspect.isgeneratorfunction(found) or _is_iterator(found):

        @wraps(found)
        def walk(self: Mirror, /, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            return self._walk(lambda plain: getattr(plain, own)(*args, **kwargs))

        return walk

    @wraps(found)
    async def call(self: Mirror, /, *args: Any, **kwargs: Any) -> Any:
        lane = Lane(self._lane.threads) if is_apart else self._lane

        def work() -> Any:
            """Call the method on the lane's thread, with mirrors replaced by what they mirror."""
            given = [_plain(each) for each in args]
            named = {key: _plain(each) for key, each in kwargs.items()}
            result = getattr(self.plain, own)(*given, **named)
            return [*result] if isinstance(result, KeysView | ValuesView | ItemsView) else result

        return _mirrored(await lane.run(work, calls_out=own in _CALLS_OUT), lane)

    return call


def _view(call: Callable[[Mirror], Coroutine[Any, Any, Any]], name: str) -> Any:
    """Return the method of a mirror that returns a view, of one that is a coroutine."""

    @wraps(call)
    def view(self: Mirror) -> View:
        return View(lambda: call(self), name)

    return view


def _is_iterator(method: Any) -> bool:
    """Tell whether a method returns an iterator, by its annotation."""
    return str(getattr(method, "__annotations__", {}).get("return", "")).startswith("Iterator[")


def _setter(name: str) -> Any:
    """Return the method of a mirror that assigns to a property."""

    async def assign(self: Mirror, value: Any) -> None:
        await self._run(lambda plain: setattr(plain, name, value))

    assign.__name__ = f"set_{name}"
    assign.__doc__ = f"Assign to `{name}`."
    return assign


def _plain(it: Any) -> Any:
    return it.plain if isinstance(it, Mirror) else it


def _reader(name: str) -> Callable[[Any], Any]:
    return lambda it: getattr(_plain(it), name)


def _mirrored(result: Any, lane: Lane) -> Any:
    """Return the mirror of a result whose class has one, or of each element of a list of such."""
    if type(result) is list and result and _mirror_of(result[0]) is not None:
        return [_mirrored(each, lane) for each in result]
    found = _mirror_of(result)
    if found is None:
        return result
    mirror, has_lane = found
    return mirror(lambda: result, Lane(lane.threads) if has_lane else lane)


def _mirror_of(result: object) -> tuple[type[Mirror], bool] | None:
    return next((_MIRRORS[kind] for kind in type(result).__mro__ if kind in _MIRRORS), None)
