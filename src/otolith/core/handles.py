"""A state as a mapping by path, and handles on single values in it.

`StateReader` is what a branch and a snapshot have in common: values by path, top names as keys.
`Snapshot` is the state at one commit. A handle stands for one value and touches no more of the tree
than it must: `ListHandle` appends without reading the list, `MapHandle` scans a range of keys,
`SetHandle` and `CounterHandle` merge by themselves, `BlobHandle` reads and replaces ranges.
"""

from __future__ import annotations

import builtins
import math
from abc import abstractmethod
from collections.abc import (
    Callable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
)
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from itertools import takewhile
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from otolith.core.history.commits import Commit
from otolith.core.paths import Path, format_path, parse_path
from otolith.core.trees.cells import EMPTY_LIST, EMPTY_MAP, Cells, walk
from otolith.errors import BadPath, BadValue, KeyNotFound, ReadOnly
from otolith.types import Tag, cut_line

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Lockable")


class Lockable(Protocol):
    """What has a lock that its methods hold."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Keeps other threads out; reentrant."""
        ...


def synchronized(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Let a method hold the lock of its object while it runs."""

    @wraps(method)
    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.lock:
            return method(self, *args, **kwargs)

    return run


_HIDDEN = b"."
"""The first byte of reserved names."""


class StateReader(Mapping[str, Any]):
    """A state as a read-only mapping: a path gives the value there, the top names are its keys."""

    lock: AbstractContextManager[object] = nullcontext()
    """Keeps other threads out while a value is read and written; reentrant."""

    @property
    @abstractmethod
    def cells(self) -> Cells:
        """How values are read and written here."""

    @abstractmethod
    def cell_at(self, path: Path) -> bytes | None:
        """Return the cell at a path."""

    @abstractmethod
    def _root(self) -> bytes:
        """Return the cell of the whole state."""

    # What handles write through: a snapshot refuses

    def write_cell(self, path: Path, cell: bytes | None) -> None:
        """Set or remove the cell at a path."""
        raise _read_only(path)

    def extend_cell(self, path: Path, cells: builtins.list[bytes]) -> None:
        """Append to the list at a path; one that starts this way gets the policy append."""
        raise _read_only(path)

    def adopt_policy(self, path: Path, policy: str) -> None:
        """Give a path a merge policy, unless it has one."""
        raise _read_only(path)

    def write_reserved(self, path: Path, cell: bytes | None) -> None:
        """Set or remove a cell under a name that belongs to otolith."""
        raise _read_only(path)

    def extend_reserved(self, path: Path, cells: builtins.list[bytes]) -> int:
        """Append to a list under a name that belongs to otolith; return how long it is then."""
        raise _read_only(path)

    # Reading

    def __getitem__(self, path: str | Path) -> Any:
        return self.cells.load(self._existing_cell(parse_path(path)))

    def _existing_cell(self, path: Path) -> bytes:
        """Return the cell at a path, or raise KeyNotFound."""
        cell = self.cell_at(path)
        if cell is None:
            raise KeyNotFound(
                f"nothing at {format_path(path)}", hint="list(state) lists the names at the top"
            )
        return cell

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str | tuple) and self.cell_at(parse_path(path)) is not None

    def __iter__(self) -> Iterator[str]:
        unkey = self.cells.encoding.unkey
        for key, _ in self.cells.entries(self._root()):
            if not key.startswith(_HIDDEN):
                yield format_path((unkey(key),))

    def __len__(self) -> int:
        root = self._root()
        hidden = takewhile(
            lambda pair: pair[0].startswith(_HIDDEN), self.cells.entries_from(root, _HIDDEN)
        )
        return self.cells.length(root) - sum(1 for _ in hidden)

    def names(self, path: str | Path = ()) -> builtins.list[str]:
        """Return the keys at a path, as parts of paths; the top by default."""
        return [format_path((key,)) for key in self.map(path)] if path else list(self)

    def size(self, path: str | Path = ()) -> int:
        """Return the length of the full encoding of the value at a path, without reading it."""
        return self.cells.full_size(self._existing_cell(parse_path(path) if path else ()))

    def kind(self, path: str | Path = ()) -> str:
        """Name what is at a path: map, list, str, bytes, the type of a number, or a tag's name."""
        cell = self._existing_cell(parse_path(path) if path else ())
        kind = self.cells.kind(cell)
        if kind == "scalar":
            return type(self.cells.load(cell)).__name__
        tagged = self.cells.tag(cell) if kind == "tagged" else None
        return kind if tagged is None else Tag(tagged.code).name.lower()

    def to_dict(self) -> dict[str, Any]:
        """Return the whole state as plain Python values."""
        return {name: self[name] for name in self}

    def list(self, path: str | Path) -> ListHandle:
        """Return a handle on a list: appending costs the same at any length.

        state.list("log").append("booked the hotel")
        """
        return ListHandle(self, parse_path(path))

    def map(self, path: str | Path) -> MapHandle:
        """Return a handle on a dict; its keys may be of any plain type."""
        return MapHandle(self, parse_path(path))

    def set(self, path: str | Path) -> SetHandle:
        """Return a handle on a set."""
        return SetHandle(self, parse_path(path))

    def counter(self, path: str | Path) -> CounterHandle:
        """Return a handle on a number; a merge adds up what each branch added.

        state.counter("calls").add(1)
        """
        return CounterHandle(self, parse_path(path))

    def blob(self, path: str | Path) -> BlobHandle:
        """Return a handle on a long bytes value."""
        return BlobHandle(self, parse_path(path))


class Snapshot(StateReader):
    """The state at one commit, read-only; `at()` of a repo or branch returns it."""

    def __init__(self, cells: Cells, commit: Commit) -> None:
        self._tree = cells
        self.commit = commit

    @property
    def cells(self) -> Cells:
        """How values are read here."""
        return self._tree

    def _root(self) -> bytes:
        return self.commit.cell

    def cell_at(self, path: Path) -> bytes | None:
        """Return the cell at a path of the commit."""
        names = tuple(map(self._tree.encoding.key, path))
        return walk(self._tree, self.commit.cell, names)

    def __repr__(self) -> str:
        return f"<Snapshot {self.commit.short} {cut_line(repr(self.commit.message))}>"


def _read_only(path: Path) -> ReadOnly:
    """Return the error for a write to a snapshot."""
    return ReadOnly(
        f"{format_path(path)}: a snapshot cannot be changed",
        hint="write to a branch: repo.session(id), or fork() from this commit",
    )


def equal_numbers(key: Any) -> list[Any]:
    """Return a key, and the numbers of other types that equal it as keys of a dict."""
    if type(key) not in (bool, int, float) or (type(key) is float and not math.isfinite(key)):
        return [key]
    if key == 0:
        return [key, 0, 0.0, -0.0, False]
    same = [key] if key != int(key) else [key, int(key)]
    if abs(key) < _LARGEST_FLOAT and float(key) == key:
        same.append(float(key))
    return [*same, True] if key == 1 else same


_LARGEST_FLOAT = 2**1023


class Handle:
    """One value of a state, by its path.

    A handle reads the state at each call, so it sees what was staged since it was made. A value of
    another kind at its path is refused when the handle is made, where the mistake is.
    """

    _noun = "value"
    _kinds: tuple[str, ...] = ()  # of cells that fit
    _empty = b""  # the cell of a value that is not there yet

    def __init__(self, state: StateReader, path: Path) -> None:
        self._state = state
        self._path = path
        cell = self._cell()
        if cell is not None and not self._fits(cell):
            raise BadPath(
                f"{self.path} is a {self._cells.kind(cell)}, not a {self._noun}",
                hint="list(state) lists the names at the top; choose another path",
            )

    @property
    def path(self) -> str:
        """The path as text."""
        return format_path(self._path)

    @property
    def _cells(self) -> Cells:
        return self._state.cells

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Keeps other threads out while the value is read and written."""
        return self._state.lock

    def _cell(self) -> bytes | None:
        return self._state.cell_at(self._path)

    def _current(self) -> bytes:
        cell = self._cell()
        return self._empty if cell is None else cell

    def _fits(self, cell: bytes) -> bool:
        return self._cells.kind(cell) in self._kinds

    def _put(self, value: object) -> bytes:
        """Encode a value; an error names the path."""
        try:
            return self._cells.put(value)
        except BadValue as error:
            raise BadValue(f"{self.path}: {error.message}", hint=error.hint) from None

    def __repr__(self) -> str:
        return f"<{self._noun} {self.path}>"


class BlobHandle(Handle):
    """A bytes value of any length, of which any part can be read or replaced by itself."""

    _noun = "bytes"
    _kinds = ("bytes",)

    def __len__(self) -> int:
        cell = self._cell()
        if cell is None:
            return 0
        link = self._cells.blob(cell)
        return link.length if link is not None else len(self._whole(cell))

    def read(self, start: int = 0, stop: int | None = None) -> bytes:
        """Return a range of the bytes, reading only the chunks that hold it."""
        cell = self._cell()
        if cell is None:
            return b""
        start, stop, _ = slice(start, stop).indices(len(self))
        link = self._cells.blob(cell)
        if link is not None:
            return self._cells.blobs.read(link, start, stop)
        return self._whole(cell)[start:stop]

    def write(self, data: bytes | Iterable[bytes]) -> None:
        """Replace everything, by bytes or by the pieces of a stream."""
        pieces = [data] if isinstance(data, bytes | bytearray | memoryview) else data
        link = self._cells.blobs.build(map(bytes, pieces))
        self._state.write_cell(self._path, self._cells.bytes_cell(link))

    @synchronized
    def append(self, data: bytes) -> None:
        """Add bytes at the end."""
        self.splice(len(self), len(self), data)

    @synchronized
    def splice(self, start: int, stop: int, data: bytes) -> None:
        """Replace a range; what lies before and after is not read."""
        cell = self._cell()
        start, stop, _ = slice(start, stop).indices(len(self))
        stop = max(start, stop)
        link = self._cells.blob(cell) if cell is not None else None
        if link is None:
            whole = self._whole(cell) if cell is not None else b""
            self._state.write_cell(
                self._path, self._put(whole[:start] + bytes(data) + whole[stop:])
            )
            return
        changed = self._cells.blobs.splice(link, start, stop, bytes(data))
        self._state.write_cell(self._path, self._cells.bytes_cell(changed))

    def _whole(self, cell: bytes) -> bytes:
        data = self._cells.load(cell)
        return data if isinstance(data, bytes) else b""


class CounterHandle(Handle):
    """A number to which several branches add at the same time; a merge adds up what each added."""

    _noun = "number"
    _kinds = ("scalar", "tagged")

    @property
    def value(self) -> Any:
        """The number; 0 if nothing was added yet."""
        cell = self._cell()
        return 0 if cell is None else self._cells.load(cell)

    @synchronized
    def add(self, amount: Any = 1) -> Any:
        """Add to the number and return it."""
        before = self._cell()
        try:
            value = (0 if before is None else self._cells.load(before)) + amount
        except TypeError as error:
            raise BadValue(f"{self.path}: {error}", hint="a counter adds numbers") from None
        self._state.write_cell(self._path, self._put(value))
        try:
            self._state.adopt_policy(self._path, "counter")
        except BaseException:
            self._state.write_cell(self._path, before)  # else a retry would count twice
            raise
        return value

    def __int__(self) -> int:
        return int(self.value)


class ListHandle(Handle, MutableSequence[Any]):
    """A list. Appending costs the same at element ten and ten million."""

    _noun = "list"
    _kinds = ("list",)
    _empty = EMPTY_LIST

    def __len__(self) -> int:
        return self._cells.length(self._current())

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> list[Any]: ...
    def __getitem__(self, at: int | slice) -> Any:
        cell = self._current()
        if isinstance(at, slice):
            start, stop, step = at.indices(self._cells.length(cell))
            if step != 1:
                return [self[index] for index in range(start, stop, step)]
            return self._cells.load_all(self._cells.elements(cell, start, stop))
        index = self._index(at, cell)
        return self._cells.load(self._cells.element(cell, index))

    @overload
    def __setitem__(self, at: int, value: Any) -> None: ...
    @overload
    def __setitem__(self, at: slice, value: Iterable[Any]) -> None: ...
    @synchronized
    def __setitem__(self, at: int | slice, value: Any) -> None:
        cell = self._current()
        values = list(value) if isinstance(at, slice) else [value]
        self._splice(cell, *self._span(at, cell), values)

    @synchronized
    def __delitem__(self, at: int | slice) -> None:
        cell = self._current()
        self._splice(cell, *self._span(at, cell), [])

    def __iter__(self) -> Iterator[Any]:
        return map(self._cells.load, self._cells.elements(self._current()))

    @synchronized
    def insert(self, index: int, value: Any) -> None:
        """Insert before an index."""
        cell = self._current()
        start, _, _ = slice(index, None).indices(self._cells.length(cell))
        self._splice(cell, start, start, [value])

    def append(self, value: Any) -> None:
        """Append one element."""
        self.extend([value])

    @synchronized
    def extend(self, values: Iterable[Any]) -> None:
        """Append elements. A list that starts this way merges by appending those of both sides."""
        self._state.extend_cell(self._path, [self._put(value) for value in values])

    def _splice(self, cell: bytes, start: int, stop: int, values: list[Any]) -> None:
        parts = [self._put(value) for value in values]
        self._state.write_cell(self._path, self._cells.splice(cell, start, stop, parts))

    def _index(self, at: int, cell: bytes) -> int:
        """Return an index from the start, checked against the length."""
        length = self._cells.length(cell)
        if not -length <= at < length:
            raise IndexError(f"{self.path} has {length} elements, index {at} is out of range")
        return at % length

    def _span(self, at: int | slice, cell: bytes) -> tuple[int, int]:
        """Return where the elements that are written to start and stop."""
        if not isinstance(at, slice):
            index = self._index(at, cell)
            return index, index + 1
        start, stop, step = at.indices(self._cells.length(cell))
        if step != 1:
            raise BadValue(f"{self.path}: the slice to write must have step 1, got {step}")
        return start, max(start, stop)


class MapHandle(Handle, MutableMapping[Any, Any]):
    """A dict with keys of any plain type, in the order in which they were put in."""

    _noun = "map"
    _kinds = ("map",)
    _empty = EMPTY_MAP

    def __len__(self) -> int:
        return self._cells.length(self._current())

    def __getitem__(self, key: Any) -> Any:
        cell = self._state.cell_at((*self._path, self._stored_key(key)))
        if cell is None:
            raise KeyNotFound(f"{self.path} has no key {key!r}", hint=f"see {self.path}'s keys()")
        return self._cells.load(cell)

    def __contains__(self, key: object) -> bool:
        return self._state.cell_at((*self._path, self._stored_key(key))) is not None

    @synchronized
    def __setitem__(self, key: Any, value: Any) -> None:
        self._state.write_cell((*self._path, self._stored_key(key)), self._put(value))

    @synchronized
    def __delitem__(self, key: Any) -> None:
        if key not in self:
            raise KeyNotFound(f"{self.path} has no key {key!r}", hint=f"see {self.path}'s keys()")
        self._state.write_cell((*self._path, self._stored_key(key)), None)

    def _stored_key(self, key: Any) -> Any:
        """Return the key that this one is stored under: in a dict, 1, 1.0 and True are one key."""
        if type(key) is str:
            return key
        same = (each for each in equal_numbers(key) if self._state.cell_at((*self._path, each)))
        return next(same, key)

    def __iter__(self) -> Iterator[Any]:
        for key, _ in self._cells.entries(self._current()):
            yield self._cells.encoding.unkey(key)

    def scan(self, prefix: str = "", *, start: str | None = None) -> Iterator[tuple[str, Any]]:
        """Yield the str keys with a prefix and their values, in key order, reading no others."""
        first = (start if start is not None else prefix).encode()
        for key, cell in self._cells.entries_from(self._current(), first):
            if not key.startswith(prefix.encode()) or key[:1] == b"\xff":
                return
            yield key.decode(), self._cells.load(cell)


class SetHandle(Handle, MutableSet[Any]):
    """A set. Two branches that add or discard different elements merge by themselves."""

    _noun = "set"

    def _fits(self, cell: bytes) -> bool:
        tag = self._cells.tag(cell)
        return tag is not None and tag.code == Tag.SET

    def _elements(self) -> bytes:
        cell = self._cell()
        tag = self._cells.tag(cell) if cell is not None else None
        return tag.data if tag is not None and isinstance(tag.data, bytes) else EMPTY_MAP

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> set[Any]:
        return set(it)  # what `|`, `&`, `-` and `^` give is a plain set

    def __len__(self) -> int:
        return self._cells.length(self._elements())

    def __contains__(self, value: object) -> bool:
        return self._cells.entry(self._elements(), self._key(value)) is not None

    def __iter__(self) -> Iterator[Any]:
        for key, _ in self._cells.entries(self._elements()):
            yield self._cells.encoding.unkey(key)

    @synchronized
    def add(self, value: Any) -> None:
        """Add an element."""
        self._edit([value], self._put(None))

    @synchronized
    def discard(self, value: Any) -> None:
        """Remove an element if it is there."""
        if value in self:
            self._edit([value], None)

    @synchronized
    def update(self, values: Iterable[Any]) -> None:
        """Add elements."""
        self._edit(values, self._put(None))

    def _edit(self, values: Iterable[Any], cell: bytes | None) -> None:
        """Add or remove elements of the set."""
        edits: dict[bytes, bytes | None] = dict.fromkeys(map(self._key, values), cell)
        elements = self._cells.edit_map(self._elements(), edits, is_table=True)
        self._state.write_cell(self._path, self._cells.tagged_cell(Tag.SET, elements))

    def _key(self, value: object) -> bytes:
        """Return the key of an element; numbers that are equal share one, as in Python."""
        try:
            hash(value)
        except TypeError:
            raise BadValue(f"{self.path}: {value!r} cannot be an element of a set") from None
        keys = [self._cells.encoding.key(each) for each in equal_numbers(value)]
        elements = self._elements() if len(keys) > 1 else b""
        return next((key for key in keys[1:] if self._cells.entry(elements, key)), keys[0])
