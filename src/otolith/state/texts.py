"""Handles on texts: one that several edit at once, and a plain one in memory, with the same verbs.

`state.text(path)` returns a handle. `TextHandle` stands for a document, whose edits are merged
character by character; `LiveText` for a str of a state without history.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any

from otolith import text as text_room
from otolith.core import Path, StateReader, format_path
from otolith.errors import BadPath, BadValue, Invalid
from otolith.state.open_documents import OpenDocuments

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.codecs import TextEditor


class EditableText(ABC):
    """A text at a path that is edited in place. Positions count characters (code points).

    They are taken as Python's slices take them: a negative one counts from the end, one beyond the
    text means its end.
    """

    lock: AbstractContextManager[object]
    """Keeps other threads out while the text is read and edited; reentrant."""

    @property
    @abstractmethod
    def path(self) -> str:
        """The path as text."""

    @property
    @abstractmethod
    def value(self) -> str:
        """The text; empty if nothing was written yet."""

    @abstractmethod
    def _replace(self, start: int, stop: int | None, text: str) -> None:
        """Replace a range, as slices take it."""

    def insert(self, index: int, text: str) -> None:
        """Put text in before a position."""
        _check_position(self.path, index)
        self._replace(index, index, text)

    def append(self, text: str) -> None:
        """Put text in at the end."""
        with self.lock:
            end = len(self)
            self._replace(end, end, text)

    def delete(self, start: int, stop: int | None = None) -> None:
        """Take out the characters from `start` up to `stop`, or up to the end."""
        self._replace(start, stop, "")

    def replace(self, start: int, stop: int | None, text: str) -> None:
        """Put text in place of the characters from `start` up to `stop`; None is the end."""
        self._replace(start, stop, text)

    def edit(self, text: str) -> None:
        """Make this the text: what differs is replaced, word by word, and the rest is not touched.

        What others wrote in between stays in a merge.
        """
        _check(self.path, text)
        with self.lock:
            changes = text_room.edits_between(self.value, text)
            for start, stop, part in reversed(changes):
                self._replace(start, stop, part)
            if not changes:
                self._replace(0, 0, "")  # an empty text is one, too

    def __str__(self) -> str:
        return self.value

    def __len__(self) -> int:
        return len(self.value)

    def __bool__(self) -> bool:
        return len(self) > 0

    def __getitem__(self, at: int | slice) -> str:
        return self.value[at]

    def __contains__(self, part: str) -> bool:
        return part in self.value

    def __repr__(self) -> str:
        return f"<text {self.path}>"


class TextHandle(EditableText):
    """A text that several edit inside a line at once; a merge has the edits of all of them.

    It stays valid when others' edits are merged in, and after a rollback or discard: it shows the
    text that is there now. On a snapshot it only reads.
    """

    def __init__(self, state: StateReader, documents: OpenDocuments, path: Path) -> None:
        """Make a handle; `documents` are those of the state.

        Raises:
            BadPath: something else is at the path.
            MissingExtra: the library of documents is not installed.
        """
        self._state = state  # its documents do not hold it
        self._documents = documents
        self._path = path
        self.lock = state.lock
        self._editor()

    @property
    def path(self) -> str:
        """The path as text."""
        return format_path(self._path)

    def _editor(self) -> TextEditor | None:
        with self.lock:
            return self._documents.editor(self._path)

    @property
    def value(self) -> str:
        """The text; empty if nothing was written yet."""
        with self.lock:
            editor = self._documents.editor(self._path)
            return "" if editor is None else editor.value

    def __len__(self) -> int:
        with self.lock:
            editor = self._documents.editor(self._path)
            return 0 if editor is None else editor.length

    def __getitem__(self, at: int | slice) -> str:
        with self.lock:
            editor = self._documents.editor(self._path)
            if editor is not None and isinstance(at, slice) and at.step in (None, 1):
                start, stop, _ = at.indices(editor.length)
                return editor.slice(start, stop)
            return self.value[at]

    def insert(self, index: int, text: str) -> None:
        """Put text in before a position.

        Raises:
            BadValue: it is not a str, or has lone surrogates.
            Invalid: the position is not a whole number.
            ReadOnly: this is the text of a snapshot.
        """
        if type(text) is not str or not text.isascii():
            _check(self.path, text)
        if type(index) is not int:
            _check_position(self.path, index)
        with self.lock:
            self._documents.writable_editor(self._path).insert(index, text)

    def delete(self, start: int, stop: int | None = None) -> None:
        """Take out the characters from `start` up to `stop`, or up to the end."""
        if type(start) is not int or type(stop) is not int:
            _check_range(self.path, start, stop)
        with self.lock:
            self._documents.writable_editor(self._path).delete(start, stop)

    def _replace(self, start: int, stop: int | None, text: str) -> None:
        _check(self.path, text)
        _check_range(self.path, start, stop)
        with self.lock:
            editor = self._documents.writable_editor(self._path)
            start, stop, _ = slice(start, stop).indices(editor.length)
            if text:
                editor.insert(max(start, stop), text)  # first: it may be refused
            editor.delete(start, stop)


class LiveText(EditableText):
    """A handle on a str in memory, of a state without history."""

    def __init__(self, state: Any, path: Path) -> None:
        self._state = state
        self._path = path
        self.lock = state.lock
        if type(self.value) is not str:
            kind = type(self.value).__name__
            raise BadPath(f"{self.path} is a {kind}, not a str", hint="choose another path")

    @property
    def path(self) -> str:
        """The path as text."""
        return format_path(self._path)

    @property
    def value(self) -> str:
        """The text; empty if nothing was written yet."""
        text: str = self._state.get(self._path, "")
        return text

    def _replace(self, start: int, stop: int | None, text: str) -> None:
        _check(self.path, text)
        _check_range(self.path, start, stop)
        with self.lock:
            old = self.value
            start, stop, _ = slice(start, stop).indices(len(old))
            self._state[self._path] = old[:start] + text + old[max(start, stop) :]


def _check(path: str, text: object) -> None:
    """Refuse what cannot be part of a text."""
    if not isinstance(text, str):
        raise BadValue(f"{path}: a text is edited by str, got {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadValue(
            f"{path}: a text cannot hold lone surrogates",
            hint="decode it with errors='replace', or assign a str",
        ) from None


def _check_range(path: str, start: object, stop: object) -> None:
    """Refuse what does not name a range of a text, as slices do; None is its start or end."""
    for end in (start, stop):
        if end is not None:
            _check_position(path, end)


def _check_position(path: str, at: object) -> None:
    """Refuse what does not name a place in a text."""
    if not hasattr(at, "__index__"):
        raise Invalid(
            f"{path}: a position must be a whole number, got {at!r}",
            hint="count characters from 0",
        )
