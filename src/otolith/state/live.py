"""`LiveValues` and `Stateless`: state in this process, by reference and without history.

They have the verbs of `Versioned`. What works without history works the same; what does not raises
Unsupported and names what to use instead.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from threading import Lock, RLock
from types import EllipsisType
from typing import Any, NoReturn, Self, TypeVar

from otolith import environment
from otolith.core import (
    Change,
    Commit,
    Expected,
    Path,
    Target,
    format_path,
    parse_own_path,
    parse_path,
)
from otolith.errors import BadPath, BadValue, KeyNotFound, Unsupported
from otolith.shapes import NOTHING, check_argument
from otolith.state.base import AnyState
from otolith.state.event_log import (
    CommonEvents,
    Event,
    EventLog,
    Reducer,
    check_event,
    make_event,
)
from otolith.state.stored_events import check_count
from otolith.state.texts import LiveText
from otolith.state.tracker.held import part_of, put_part, remove_part
from otolith.types import Clock

T = TypeVar("T")
_NOTHING = object()


class LiveValues(MutableMapping[str, Any]):
    """Values and events in memory: any object, by reference. `Live` has an agent's rooms beside."""

    def __init__(
        self, values: Mapping[str, Any] | None = None, *, clock: Clock | None = None
    ) -> None:
        check_argument(values, "values", (Mapping, NOTHING), "a mapping")
        self._root: dict[Any, Any] = {}
        self.lock = RLock()
        self._clock = environment.wall_clock if clock is None else clock
        self._events = LiveEventLog(self._clock)
        self._policies: dict[str, str] = {}
        self.update(values or {})

    def __getitem__(self, path: str | Path) -> Any:
        keys = parse_path(path)
        with self.lock:
            value: Any = self._root
            for depth, key in enumerate(keys):
                if type(value) is dict:
                    _check_key(key, keys[: depth + 1])
                value = part_of(value, keys, depth)
            return value

    def __setitem__(self, path: str | Path, value: object) -> None:
        keys = parse_own_path(path)
        for key in keys:
            _check_key(key, keys)
        with self.lock:
            put_part(self._root, (), keys, value)

    def __delitem__(self, path: str | Path) -> None:
        keys = parse_own_path(path)
        with self.lock:
            remove_part(self._root, (), keys)

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str | tuple) and self.get(path, _NOTHING) is not _NOTHING

    def get(self, path: str | Path, default: Any = None) -> Any:
        """Return the value at a path, or the default if nothing is there."""
        try:
            return self[path]
        except KeyNotFound:
            return default

    def __iter__(self) -> Iterator[str]:
        return iter([format_path((key,)) for key in self._root])

    def __len__(self) -> int:
        return len(self._root)

    def names(self, path: str | Path = ()) -> builtins.list[str]:
        """Return the keys at a path, as parts of paths; the top by default."""
        return [format_path((key,)) for key in self.map(path)] if path else [*self]

    def to_dict(self) -> dict[str, Any]:
        """Return the whole state; its values are the objects themselves, not copies."""
        return {name: self[name] for name in self}

    def kind(self, path: str | Path = ()) -> str:
        """Name what is at a path: map, list, or the type of anything else."""
        name = type(self[path] if path else self._root).__name__
        return "map" if name == "dict" else name

    # Where Versioned returns handles: the containers themselves, made if they are missing

    def list(self, path: str | Path) -> builtins.list[Any]:
        """Return the list at a path."""
        return self._container(path, builtins.list)

    def map(self, path: str | Path) -> dict[Any, Any]:
        """Return the dict at a path."""
        return self._container(path, dict)

    def set(self, path: str | Path) -> builtins.set[Any]:
        """Return the set at a path."""
        return self._container(path, builtins.set)

    def counter(self, path: str | Path) -> LiveCounter:
        """Return a handle on a number to add to."""
        return LiveCounter(self, path)

    def text(self, path: str | Path) -> LiveText:
        """Return a handle on a text: a str that the handle edits."""
        return LiveText(self, parse_own_path(path))

    def _container(self, path: str | Path, kind: type[T]) -> T:
        """Return the container at a path, made there if nothing is."""
        with self.lock:
            found = self.get(path, _NOTHING)
            if found is _NOTHING:
                found = self[path] = kind()
        if not isinstance(found, kind):
            raise BadPath(
                f"{format_path(parse_path(path))} is a {type(found).__name__},"
                f" not a {kind.__name__}",
                hint="choose another path",
            )
        return found

    @property
    def events(self) -> EventLog:
        """What happened, in order, since this state was made."""
        return self._events

    def now(self) -> int:
        """Return the time by the clock of this state, in microseconds since 1970."""
        return self._clock()

    # Verbs that are the same without history

    @property
    def head(self) -> Commit | None:
        """None: there are no commits."""
        return None

    @property
    def is_clean(self) -> bool:
        """True: nothing waits to be committed."""
        return True

    def commit(
        self,
        message: str = "",
        *,
        author: str | None = None,
        kind: str = "step",
        meta: Mapping[str, Any] | None = None,
        fences: Mapping[str, int] | None = None,
        reads: Mapping[str, Commit] | None = None,
        allow_empty: bool = False,
        skip_unstorable: bool = False,
        expect: Expected = ...,
        user: bool = False,
    ) -> None:
        """Return None: there is no history to add to."""
        if not isinstance(expect, EllipsisType | None):
            raise self._no_history("commit onto an expected head")

    def status(self) -> builtins.list[Change]:
        """Return nothing: there is nothing to commit."""
        return []

    def diff(self, old: Target | None = None, new: Target | None = None) -> builtins.list[Change]:
        """Return nothing, as long as no commit is asked for."""
        if old is not None or new is not None:
            raise self._no_history("diff")
        return []

    def log(
        self,
        target: Target | None = None,
        *,
        limit: int | None = None,
        path: str | Path | None = None,
    ) -> Iterator[Commit]:
        """Yield nothing, as long as no commit is asked for."""
        if target is not None:
            raise self._no_history("log")
        return iter(())

    def refresh(self) -> None:
        """Return None: no other process writes here."""

    def fork(self, name: str, *, at: Target = "@") -> Self:
        """Return a copy of this state. Dicts and lists are copied, other values are shared."""
        if at != "@":
            raise self._no_history("fork at a commit")
        copy = type(self)(clock=self._clock)
        with self.lock:
            copy._copy_from(self)  # noqa: SLF001 - another of the same kind
        return copy

    def _copy_from(self, other: Self) -> None:
        self._root = copy_containers(other._root, {})
        self._events.extend(other.events)
        self._policies = other.policies()

    def policy(self, pattern: str, name: str) -> None:
        """Store a merge policy for `policies()`. Nothing merges here."""
        check_argument(pattern, "pattern", str, "a path with wildcards")
        check_argument(name, "name", str, "the name of a policy")
        self._policies[pattern] = name

    def policies(self) -> dict[str, str]:
        """Return the merge policies by pattern."""
        return dict(self._policies)

    def close(self) -> None:
        """Do nothing; there is nothing to close."""

    # Verbs that need history

    def at(self, target: Target) -> NoReturn:
        """Raise Unsupported: there is no history."""
        raise self._no_history("at")

    def checkout(self, target: Target) -> NoReturn:
        """Raise Unsupported: there is no history."""
        raise self._no_history("checkout")

    def resolve(self, target: Target) -> NoReturn:
        """Raise Unsupported: there are no commits to name."""
        raise self._no_history("resolve")

    def rollback(
        self, target: Target | None = None, *, steps: int | None = None, discard: bool = False
    ) -> NoReturn:
        """Raise Unsupported: there is nothing to go back to."""
        raise self._no_history("rollback")

    def earlier(self, steps: int = 1) -> NoReturn:
        """Raise Unsupported: there is nothing to go back to."""
        raise self._no_history("earlier")

    def undo(self) -> NoReturn:
        """Raise Unsupported: there is nothing to go back to."""
        raise self._no_history("undo")

    def redo(self) -> NoReturn:
        """Raise Unsupported: there is nothing to go forward to."""
        raise self._no_history("redo")

    def discard(self) -> NoReturn:
        """Raise Unsupported: what was overwritten is gone."""
        raise self._no_history("discard")

    def transact(
        self,
        edit: Callable[[Self], object],
        message: str = "",
        *,
        author: str | None = None,
        meta: Mapping[str, Any] | None = None,
        reads: Mapping[str, Commit] | None = None,
        attempts: int = 1000,
        patience_seconds: float = 30.0,
        if_moved: str = "rerun",
        look_first: bool = True,
    ) -> NoReturn:
        """Raise Unsupported: edits could not be discarded. `with state.lock:` keeps others out."""
        raise self._no_history("transact")

    def merge(self, other: object, *, message: str = "", author: str | None = None) -> NoReturn:
        """Raise Unsupported: a merge needs a common ancestor."""
        raise self._no_history("merge")

    def blame(self, path: str | Path = (), *, at: Target = "@") -> NoReturn:
        """Raise Unsupported: writes are not recorded."""
        raise self._no_history("blame")

    def _no_history(self, verb: str) -> Unsupported:
        """Return the error for a verb that needs history."""
        return Unsupported(
            f"{verb}: {type(self).__name__} state has no history",
            hint="use Versioned(Memory()) for history in memory, Versioned(Disk(path)) to store it",
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self)} keys>"


class Stateless(LiveValues):
    """The values of one step: empty again after each commit."""

    def commit(self, message: str = "", **details: Any) -> None:
        """Forget everything: the step is over."""
        with self.lock:
            self._root.clear()
            self._events.clear()


def state_of(state: AnyState | None) -> AnyState:
    """Return the state, or a `Stateless` one if there is none."""
    if state is None:
        return Stateless()
    return state


class LiveCounter:
    """A handle on a number: `state.counter("calls").add()`."""

    def __init__(self, state: LiveValues, path: str | Path) -> None:
        self._state = state
        self._path = parse_path(path)

    @property
    def value(self) -> Any:
        """The number; 0 if nothing was added yet."""
        return self._state.get(self._path, 0)

    def add(self, amount: Any = 1) -> Any:
        """Add to the number and return it."""
        with self._state.lock:
            self._state[self._path] = value = self.value + amount
        return value

    def __int__(self) -> int:
        return int(self.value)

    def __repr__(self) -> str:
        return f"<LiveCounter {format_path(self._path)} {self.value}>"


def _check_key(key: object, path: Path) -> None:
    """Refuse a key that cannot be hashed."""
    try:
        hash(key)
    except TypeError:
        raise BadValue(f"{format_path(path)}: {key!r} cannot be a key") from None


def copy_containers(value: Any, known: dict[int, Any]) -> Any:
    """Return a copy of the dicts and lists in a value; shared ones stay shared."""
    if type(value) not in (dict, list):
        return value
    if id(value) not in known:
        known[id(value)] = copy = type(value)()
        if type(value) is dict:
            copy.update({key: copy_containers(part, known) for key, part in value.items()})
        else:
            copy.extend(copy_containers(part, known) for part in value)
    return known[id(value)]


class LiveEventLog(EventLog):
    """Events in memory; their data is stored by reference."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._all: list[Event] = []
        self.lock = Lock()

    def append(self, kind: str, /, *, agent: str = "", **data: Any) -> Event:
        """Record that something happened."""
        check_event(kind, agent)
        with self.lock:
            event = _event(kind, self._clock(), agent, len(self._all), data)
            self._all.append(event)
        return event

    def extend(self, events: EventLog) -> None:
        """Append the events of another log."""
        self._all += list(events)

    def clear(self) -> None:
        """Forget all events."""
        self._all = []

    def __len__(self) -> int:
        return len(self._all)

    def _read(self, start: int, stop: int) -> builtins.list[Event]:
        some = self._all[start:stop]
        return [_event(each.kind, each.time, each.agent, each.index, each.data) for each in some]

    def _common(self, target: Commit | str) -> CommonEvents:
        raise _no_commit(target)

    def rebuild(
        self,
        reducer: Reducer,
        initial: Any = None,
        *,
        name: str | None = None,
        version: int = 1,
        upto: int | Commit | str | None = None,
    ) -> Any:
        """Fold all events into a value; there are no snapshots, so all of them are replayed."""
        if isinstance(upto, Commit | str):
            raise _no_commit(upto)
        value = copy_containers(initial, {})
        for event in self[: len(self) if upto is None else check_count(upto)]:
            value = reducer(value, event)
        return value


def _event(kind: str, time: int, agent: str, index: int, data: dict[str, Any]) -> Event:
    return make_event(kind, time, agent, index, load=data.copy, find=lambda: None)


def _no_commit(target: Commit | str) -> Unsupported:
    """Return the error for a commit named to events in memory."""
    name = target.short if isinstance(target, Commit) else target
    return Unsupported(
        f"{name}: events in memory have no commits", hint="give a time or a count, or use Versioned"
    )
