"""The editor of a text, over a document of the library loro.

Edits go to the library and come from it as JSON, in the schema that it documents. Ids are
`number@writer` there, and an operation is an edit of one or more characters.

Rules:

1. The numbers of a writer's edits are never used twice: an editor that goes back to an earlier text
   is dropped, and the next one is another writer.
2. What the library raises is not an `Exception`, and it may panic. Both become `Corrupt`, and the
   editor must be dropped.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import NamedTuple, TypeAlias, Union

import msgspec

from otolith.codecs.base import VERIFY
from otolith.codecs.edit_runs import (
    RunShape,
    StoredRun,
    bad_document,
    bad_run,
    check_order,
    shaped_run,
)
from otolith.errors import BadValue, Corrupt, Invalid, MissingExtra
from otolith.types import MOST_EDITS, RunKey

TEXT = "text"
"""The name of the text in a document of the library."""

_SHORT_BYTES = 1024
_MOST_SHORT = 64
"""So many short runs of a writer are joined to one."""


@dataclass(slots=True)
class _Writer:
    """What one writer has made here: edits up to `staged` are in runs.

    Those from `sealed` on are in one run, which may still be replaced by a longer one.
    """

    id: int
    sealed: int = 0
    staged: int = 0
    short: list[RunKey] = field(default_factory=list)


class TextEditor:
    """A text in memory that is edited, and knows its new edits.

    `new_writer` returns a random number, which becomes the writer of the edits made here.

    Raises:
        MissingExtra: the library is not installed.
        Corrupt: the edits do not make a text.
    """

    def __init__(self, runs: Mapping[RunKey, object], *, new_writer: Callable[[], int]) -> None:
        self._loro = _library()
        self._doc = self._loro.LoroDoc()
        self._text = self._doc.get_text(TEXT)
        self._new_writer = new_writer
        self._current: _Writer | None = None
        self._writers: list[_Writer] = []
        self._counts: dict[int, int] = {}  # of edits that are in runs, by writer
        self.is_edited = False
        """Whether there are edits that are not in a run."""
        self._take_in(runs)
        self._counts = check_order(runs)

    # The text

    @property
    def value(self) -> str:
        """The text."""
        return str(self._text.to_string())

    @property
    def length(self) -> int:
        """The number of characters."""
        return int(self._text.len_unicode)

    def slice(self, start: int, stop: int) -> str:
        """Return the characters of a range that is in the text."""
        return str(self._text.slice(start, stop)) if start < stop else ""

    def insert(self, at: int, text: str) -> None:
        """Put characters, none of them lone surrogates, in at a position, as slices take it."""
        if self._current is None:
            self._begin()
        length = self._text.len_unicode
        if not 0 <= at <= length:
            at, _, _ = slice(at, None).indices(length)
        try:
            self._text.insert(at, text)
        except BaseException as error:  # noqa: BLE001 - see rule 2
            raise self._failure(error) from None
        self.is_edited = True

    def delete(self, start: int, stop: int | None) -> None:
        """Take out the characters of a range, as slices take it."""
        length = self._text.len_unicode
        if stop is None or not 0 <= start <= stop <= length:
            start, stop, _ = slice(start, stop).indices(length)
        if start < stop:
            if self._current is None:
                self._begin()
            try:
                self._text.delete(start, stop - start)
            except BaseException as error:  # noqa: BLE001 - see rule 2
                raise self._failure(error) from None
            self.is_edited = True

    def _begin(self) -> None:
        """Become a writer."""
        self._doc.commit()
        writer = self._new_writer()
        if writer in self._counts:
            raise Invalid(
                f"{writer:016x} was to be a new writer, and has edited this text before",
                hint="open the repo with an entropy that returns random bytes",
            )
        self._doc.peer_id = writer
        self._current = _Writer(writer)
        self._writers.append(self._current)

    def change_writer(self) -> None:
        """Make further edits as another writer: this editor is a copy, in a forked process."""
        self._current = None

    # Its edits

    def new_runs(self) -> dict[RunKey, StoredRun | None]:
        """Return the runs with the edits since the last call, and None for those they replace."""
        self._doc.commit()
        counts = self._doc.oplog_vv
        found: dict[RunKey, StoredRun | None] = {}
        for writer in self._writers:
            last = counts.get_last(writer.id)
            if last is not None and last >= writer.staged:
                found |= self._run(writer, last + 1)
        self.is_edited = False
        return found

    def _run(self, writer: _Writer, stop: int) -> dict[RunKey, StoredRun | None]:
        """Put the edits of a writer into a run; join its short runs once they are many."""
        if stop > MOST_EDITS:
            raise BadValue("more than 2^31 characters were edited", hint="open the state again")
        start, replaced = writer.sealed, list[RunKey]()
        if len(writer.short) >= _MOST_SHORT:
            start, replaced = writer.short[0].start, writer.short
            writer.short = []
        if writer.staged > writer.sealed:
            replaced.append(RunKey(writer.id, writer.sealed, writer.staged))
        span = self._loro.IdSpan(writer.id, self._loro.CounterSpan(start, stop))
        run = run_of(writer.id, self._doc.export_json_in_id_span(span))
        writer.sealed, writer.staged = start, stop
        self._counts[writer.id] = stop
        return {**dict.fromkeys(replaced), RunKey(writer.id, start, stop): run}

    def seal(self, size_of: Callable[[RunKey], int]) -> None:
        """Start new runs from now on: the last ones are part of a commit.

        `size_of` returns how many bytes a run takes.
        """
        for writer in self._writers:
            if writer.staged > writer.sealed:
                last = RunKey(writer.id, writer.sealed, writer.staged)
                is_short = size_of(last) < _SHORT_BYTES
                writer.short = [*writer.short, last] if is_short else []
                writer.sealed = writer.staged

    def take_over(
        self, keys: Iterable[RunKey], load: Callable[[list[RunKey]], Mapping[RunKey, object]]
    ) -> bool:
        """Add the edits of other runs; return False if the editor has edits that they have not.

        Then the text went back, and the editor must be dropped. `load` returns those that are new.
        """
        runs = list(keys)
        counts = check_order(runs)
        if any(counts.get(writer, 0) < count for writer, count in self._counts.items()):
            return False
        if any(counts.get(own.id, 0) > self._counts.get(own.id, 0) for own in self._writers):
            return False
        new = [key for key in runs if key.stop > self._counts.get(key.writer, 0)]
        self._take_in(load(new))
        self._counts = counts
        return True

    def _take_in(self, runs: Mapping[RunKey, object]) -> None:
        """Give runs to the library."""
        if not runs:
            return
        update = update_of(runs, self._lamport)
        try:
            missing = self._doc.import_json_updates(update).pending
        except BaseException as error:  # noqa: BLE001 - see rule 2
            raise self._failure(error) from None
        if missing is not None:
            raise Corrupt("edits that others of a document were made on are missing", hint=VERIFY)

    def _failure(self, error: BaseException) -> BaseException:
        """Return the error to raise instead of one of the library."""
        if isinstance(error, Exception) or type(error) in (KeyboardInterrupt, SystemExit):
            return error
        if type(error) is not BaseException:
            from ctypes import py_object, pythonapi

            pythonapi.Py_IncRef(py_object(self._doc))  # freeing it would panic again
        return Corrupt(
            f"the edits of a document do not make a text: {str(error)[:200]}", hint=VERIFY
        )

    def _lamport(self, writer: int, number: int) -> int | None:
        """Return the time of an edit that is known here."""
        if number >= self._counts.get(writer, 0):
            return None
        change = self._doc.get_change(self._loro.ID(writer, number))
        return None if change is None else int(change.lamport + number - change.id.counter)


def _library() -> ModuleType:
    try:
        import loro
    except ImportError as error:
        raise MissingExtra(
            f"the text of a document needs loro to be read or edited: {error}",
            hint="pip install 'otolith[crdt]'",
        ) from error
    return loro


# The JSON of the library

_MISFITS = (LookupError, ValueError, StopIteration, struct.error)


class _Insertion(msgspec.Struct, tag="insert", tag_field="type"):
    pos: int
    text: str


class _Deletion(msgspec.Struct, tag="delete", tag_field="type"):
    pos: int
    len: int
    start_id: str


_Content: TypeAlias = Union[_Insertion, _Deletion]  # noqa: UP007 - read by msgspec


class _Op(msgspec.Struct):
    content: _Content
    counter: int
    container: str = f"cid:root-{TEXT}:Text"


class _Change(msgspec.Struct):
    id: str
    deps: list[str]
    lamport: int
    ops: list[_Op]
    timestamp: int = 0
    msg: None = None


class _Updates(msgspec.Struct):
    """What the library imports. Ids are `number@writer`, the writer an index into `peers`."""

    peers: list[str]
    changes: list[_Change]
    schema_version: int = 1
    start_version: dict[str, int] = {}


_read_changes = msgspec.json.Decoder(list[_Change]).decode

LamportOf: TypeAlias = Callable[[int, int], "int | None"]
"""Returns the time of an edit, by its writer and number, if it is known already."""


class _DatedChange(NamedTuple):
    """A change of a run, with what it is sorted and checked by."""

    lamport: int
    writer: int
    start: int
    stop: int
    deps: list[tuple[int, int]]
    change: _Change


def update_of(runs: Mapping[RunKey, object], lamport_of: LamportOf = lambda *_: None) -> str:
    """Return runs as the JSON that the library imports.

    Raises:
        Corrupt: one of them is not a run of edits, or was made on edits that are missing.
    """
    peers: dict[int, int] = {}
    changes: list[_DatedChange] = []
    for key, stored in runs.items():
        shaped = shaped_run(key, stored)
        try:
            changes += _changes(key, shaped, peers)
        except _MISFITS as error:
            raise bad_run(key, error) from None
    changes.sort(key=lambda each: each[:3])
    _check_times(changes, lamport_of)
    updates = _Updates([str(writer) for writer in peers], [each.change for each in changes])
    return msgspec.json.encode(updates).decode()


def _changes(key: RunKey, run: RunShape, peers: dict[int, int]) -> list[_DatedChange]:
    """Return the changes of a run, and number their writers."""
    others, changes = run
    known = [key.writer, *(writer for (writer,) in struct.iter_unpack(">Q", others))]
    writers = [peers.setdefault(writer, len(peers)) for writer in known]
    counter = key.start
    found: list[_DatedChange] = []
    for lamport, deps, edits, text in changes:
        first, ops = counter, list[_Op]()
        at, numbers = 0, iter(edits)
        for position in numbers:
            size = next(numbers)
            if size > 0:
                ops.append(_Op(_Insertion(position, text[at : at + size]), counter))
                at += size
            else:
                length, writer, start = next(numbers), next(numbers), next(numbers)
                ops.append(_Op(_Deletion(position, length, f"{start}@{writers[writer]}"), counter))
                _require(size == 0 != length and writer >= 0 and 0 <= start < MOST_EDITS)
                size = abs(length)
            if position < 0:
                raise ValueError("a position is negative")
            counter += size
        _require(at == len(text) and counter > first)
        made_on = list(zip(deps[::2], deps[1::2], strict=True))
        ids = [f"{number}@{writers[writer]}" for writer, number in made_on]
        change = _Change(f"{first}@{writers[0]}", ids, lamport, ops)
        named = [(known[writer], number) for writer, number in made_on]
        found.append(_DatedChange(lamport, key.writer, first, counter, named, change))
    _require(counter == key.stop)
    return found


def _check_times(changes: list[_DatedChange], lamport_of: LamportOf) -> None:
    """Check that each change is one later than the last of those it was made on.

    The library relies on it. Changes come in the order of their times.
    """
    seen: dict[int, list[_DatedChange]] = {}

    def time_of(writer: int, number: int) -> int:
        of_writer = seen.get(writer, [])
        at = bisect_right(of_writer, number, key=lambda each: each.start) - 1
        if at >= 0 and number < of_writer[at].stop:
            return of_writer[at].lamport + number - of_writer[at].start
        time = lamport_of(writer, number)
        if time is None:
            raise bad_document(
                f"edit {number} of {writer:016x} is missing, on which others were made"
            )
        return time

    for each in changes:
        before = [time_of(*edit) for edit in each.deps]
        own = time_of(each.writer, each.start - 1) if each.start else -1
        if each.lamport != max(before, default=-1) + 1 or own >= each.lamport:
            raise bad_document(
                f"edit {each.start} of {each.writer:016x} has another time than it says"
            )
        seen.setdefault(each.writer, []).append(each)


def _require(holds: object) -> None:
    if not holds:
        raise ValueError("its numbers do not add up")


def run_of(writer: int, update: str) -> StoredRun:
    """Return edits of one writer, as the library exports them, as a run."""
    others: dict[int, int] = {writer: 0}

    def parsed(id: str) -> tuple[int, int]:
        number, _, peer = id.partition("@")
        return others.setdefault(int(peer), len(others)), int(number)

    changes: list[object] = []
    for change in _read_changes(update):
        edits: list[int] = []
        texts: list[str] = []
        for op in change.ops:
            content = op.content
            if isinstance(content, _Insertion):
                edits += content.pos, len(content.text)
                texts.append(content.text)
            else:
                edits += content.pos, 0, content.len, *parsed(content.start_id)
        deps = [number for id in change.deps for number in parsed(id)]
        changes.append([change.lamport, deps, edits, "".join(texts)])
    _, *named = others
    return [struct.pack(f">{len(named)}Q", *named), changes]
