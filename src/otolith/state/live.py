"""Live and Stateless: state in this process, which holds any object and remembers no past.

They have the verbs of `Versioned`. What can be done without history is done; what cannot raises
Unsupported and says what to use instead.

A mapping by paths over Python's own dicts and lists, as they stand.

Events in memory, for states without history.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, MutableMapping
from threading import Lock, RLock
from typing import Any, NoReturn, Self, TypeVar

from otolith import environment
from otolith.core import Change, Commit, Path, Target, format_path, parse_own_path, parse_path
from otolith.errors import BadPath, BadValue, KeyNotFound, Unsupported
from otolith.state.base import State
from otolith.state.event_log import Event, EventLog, EventOrigins, Reducer, check_words
from otolith.state.stored_events import count_of
from otolith.state.tracking.held import index_of, put_part, remove_part
from otolith.types import Clock

T = TypeVar("T")
_NOTHING = object()


class PathDict(MutableMapping[str, Any]):
    """Values by path. A path goes down through dicts and lists; threads take turns."""

    def __init__(self) -> None:
        self._root: dict[Any, Any] = {}
        self.lock = RLock()

    def __getitem__(self, path: str | Path) -> Any:
        keys = parse_path(path)
        with self.lock:
            value: Any = self._root
            for depth, key in enumerate(keys):
                value = _part(value, key, keys[: depth + 1])
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
        """Return the whole state; its values are those that are held, not copies."""
        return {name: self[name] for name in self}

    def kind(self, path: str | Path = ()) -> str:
        """Name what is at a path: map, list, or the type of anything else."""
        name = type(self[path] if path else self._root).__name__
        return "map" if name == "dict" else name

    # What Versioned has handles for: the containers themselves, made if they are missing

    def list(self, path: str | Path) -> builtins.list[Any]:
        """Return the list at a path."""
        return self._container(path, builtins.list)

    def map(self, path: str | Path) -> dict[Any, Any]:
        """Return the dict at a path."""
        return self._container(path, dict)

    def set(self, path: str | Path) -> builtins.set[Any]:
        """Return the set at a path."""
        return self._container(path, builtins.set)

    def counter(self, path: str | Path) -> Counter:
        """Return a handle on a number to add to."""
        return Counter(self, path)

    def _container(self, path: str | Path, kind: type[T]) -> T:
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


class Counter:
    """A number that is added to."""

    def __init__(self, state: PathDict, path: str | Path) -> None:
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


def _part(value: Any, key: object, path: Path) -> Any:
    if type(value) is list:
        at = index_of(key, len(value))
        if at is not None:
            return value[at]
    elif type(value) is dict:
        _check_key(key, path)
        if key in value:
            return value[key]
    raise KeyNotFound(
        f"nothing at {format_path(path)}", hint="list(state) shows what is at the top"
    )


def _check_key(key: object, path: Path) -> None:
    try:
        hash(key)
    except TypeError:
        raise BadValue(f"{format_path(path)}: {key!r} cannot be a key") from None


def copied(value: Any, known: dict[int, Any]) -> Any:
    """Return a copy of the dicts and lists in a value, in which what was one is still one."""
    if type(value) not in (dict, list):
        return value
    if id(value) not in known:
        known[id(value)] = twin = type(value)()
        if type(value) is dict:
            twin.update({key: copied(part, known) for key, part in value.items()})
        else:
            twin.extend(copied(part, known) for part in value)
    return known[id(value)]


class LiveEvents(EventLog):
    """Events in memory; their data is held by reference."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._all: list[Event] = []
        self.lock = Lock()

    def append(self, kind: str, /, *, agent: str = "", **data: Any) -> Event:
        check_words(kind, agent)
        with self.lock:
            event = _event(kind, self._clock(), agent, len(self._all), data)
            self._all.append(event)
        return event

    def extend(self, events: EventLog) -> None:
        """Take over the events of another log."""
        self._all += list(events)

    def clear(self) -> None:
        """Forget all events."""
        self._all = []

    def __len__(self) -> int:
        return len(self._all)

    def _read(self, start: int, stop: int) -> builtins.list[Event]:
        some = self._all[start:stop]
        return [_event(each.kind, each.time, each.agent, each.index, each.data) for each in some]

    def _common(self, target: Commit | str) -> EventOrigins:
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
        value = copied(initial, {})
        for event in self[: len(self) if upto is None else count_of(upto)]:
            value = reducer(value, event)
        return value


def _event(kind: str, time: int, agent: str, index: int, data: dict[str, Any]) -> Event:
    return Event(kind, time, agent, index, data.copy, _never)


def _never() -> None:
    """Return the commit of an event that has none."""


def _no_commit(target: Commit | str) -> Unsupported:
    name = target.short if isinstance(target, Commit) else target
    return Unsupported(
        f"{name}: events in memory have no commits", hint="give a time or a count, or use Versioned"
    )


class Live(PathDict):
    """What an agent knows, in memory: any object, by reference, for as long as the process lives.

    A path goes down through dicts and lists. Threads take turns.
    """

    def __init__(
        self, values: Mapping[str, Any] | None = None, *, clock: Clock | None = None
    ) -> None:
        super().__init__()
        self._clock = environment.wall_clock if clock is None else clock
        self._events = LiveEvents(self._clock)
        self._policies: dict[str, str] = {}
        self.update(values or {})

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
    ) -> None:
        """Return None: everything is in place already, and nothing is stored."""

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
        """Return None: nobody else writes here."""

    def fork(self, name: str, *, at: Target = "@") -> Self:
        """Return a copy to go on with. Dicts and lists are copied, other values are shared."""
        if at != "@":
            raise self._no_history("fork at a commit")
        twin = type(self)(clock=self._clock)
        with self.lock:
            twin._take_over(self)  # noqa: SLF001 - another of the same kind
        return twin

    def _take_over(self, other: Self) -> None:
        self._root = copied(other._root, {})
        self._events.extend(other.events)
        self._policies = other.policies()

    def policy(self, pattern: str, name: str) -> None:
        """Remember how a path would merge. Nothing merges here."""
        self._policies[pattern] = name

    def policies(self) -> dict[str, str]:
        """Return the merge policies by pattern."""
        return dict(self._policies)

    def close(self) -> None:
        """Do nothing; there is nothing to close."""

    # Verbs that need history

    def at(self, target: Target) -> NoReturn:
        """Raise Unsupported: there is no past to look at."""
        raise self._no_history("at")

    def checkout(self, target: Target) -> NoReturn:
        """Raise Unsupported: there is no past to look at."""
        raise self._no_history("checkout")

    def resolve(self, target: Target) -> NoReturn:
        """Raise Unsupported: there are no commits to name."""
        raise self._no_history("resolve")

    def rollback(self, target: Target | None = None, *, steps: int | None = None) -> NoReturn:
        """Raise Unsupported: there is nothing to go back to."""
        raise self._no_history("rollback")

    def undo(self) -> NoReturn:
        """Raise Unsupported: there is nothing to go back to."""
        raise self._no_history("undo")

    def redo(self) -> NoReturn:
        """Raise Unsupported: there is nothing to go forward to."""
        raise self._no_history("redo")

    def discard(self) -> NoReturn:
        """Raise Unsupported: what was overwritten is gone."""
        raise self._no_history("discard")

    def merge(self, other: object, *, message: str = "", author: str | None = None) -> NoReturn:
        """Raise Unsupported: a merge needs to know what two states had in common."""
        raise self._no_history("merge")

    def blame(self, path: str | Path = (), *, at: Target = "@") -> NoReturn:
        """Raise Unsupported: nobody wrote down who set what."""
        raise self._no_history("blame")

    @property
    def conversation(self) -> NoReturn:
        """Raise Unsupported: what is said is kept with its history."""
        raise self._no_history("conversation")

    @property
    def memory(self) -> NoReturn:
        """Raise Unsupported: what is noted is kept with its history."""
        raise self._no_history("memory")

    def _no_history(self, verb: str) -> Unsupported:
        return Unsupported(
            f"{verb}: {type(self).__name__} state has no history",
            hint="use Versioned(Memory()) for history in memory, Versioned(Disk(path)) to keep it",
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self)} keys>"


class Stateless(Live):
    """No state: a place for the values of one step, empty again after each commit."""

    def commit(self, message: str = "", **details: Any) -> None:
        """Forget everything: the step is over."""
        with self.lock:
            self._root.clear()
            self._events.clear()


def state_of(state: State | None) -> State:
    """Return a state to work with, also where none was given."""
    if state is None:
        return Stateless()
    return state
