"""Texts that several edit inside a line at once, as values.

A `Document` is what is stored: all edits that were ever made to a text, by whom and on what, in
runs (`edit_runs.py`). Two that were edited apart are merged by having the edits of both. Which
characters these leave, and in which order, only the library loro knows: `text_editor.py` gives it
the edits, and is imported when a text is read or edited. Without the library, documents are stored,
merged and copied all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module

from otolith.codecs.base import Lowering
from otolith.codecs.edit_runs import StoredRun, check_runs
from otolith.errors import Corrupt, MissingExtra
from otolith.types import RunKey, Tag, Tagged, cut_line

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.codecs.text_editor import TextEditor


class Document:
    """A text that several edit at once, as it is stored; `str(document)` is the text.

    It never changes: `state.text(path)` edits. Documents are equal if they have the same edits.
    """

    __slots__ = ("__weakref__", "runs")

    def __init__(self, runs: Mapping[RunKey, StoredRun]) -> None:
        self.runs = dict(runs)

    @classmethod
    def of(cls, data: object) -> Document:
        """Return the document of stored data.

        Raises:
            Corrupt: it is not made of runs of edits.
        """
        return cls(check_runs(data))

    def editor(self, *, new_writer: Callable[[], int]) -> TextEditor:
        """Return an editor that starts from this text, and is another writer.

        `new_writer` returns a random number for it.

        Raises:
            MissingExtra: the library is not installed.
            Corrupt: the edits do not make a text.
        """
        found: type[TextEditor] = import_module("otolith.codecs.text_editor").TextEditor
        return found(self.runs, new_writer=new_writer)

    @property
    def value(self) -> str:
        """The text.

        Raises:
            MissingExtra: the library is not installed.
            Corrupt: the edits do not make a text.
        """
        return _text_of(self)

    @property
    def readable(self) -> str | None:
        """The text; None where it cannot be read, and `repr` says why."""
        try:
            return self.value
        except (Corrupt, MissingExtra):
            return None

    def __str__(self) -> str:
        return self.value

    def __len__(self) -> int:
        return len(self.value)

    def __eq__(self, other: object) -> bool:
        return self.runs == other.runs if isinstance(other, Document) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self.runs))

    def __repr__(self) -> str:
        try:
            return f"<Document {cut_line(repr(self.value), 60)}>"
        except (Corrupt, MissingExtra) as error:
            edits = sum(key.stop - key.start for key in self.runs)
            return f"<Document of {edits:,} edits, not readable: {error.hint}>"


@lru_cache(maxsize=16)
def _text_of(document: Document) -> str:
    return document.editor(new_writer=lambda: 0).value


class DocumentCodec:
    """The codec of documents: a dict of runs by their keys."""

    codes: frozenset[int] = frozenset({Tag.DOCUMENT})

    def lowering(self, kind: type) -> Lowering | None:
        """Return the function that lowers documents."""
        return _lower if kind is Document else None

    def lift(self, code: int, data: object) -> Document:
        """Return the document of some runs."""
        return Document.of(data)


def _lower(value: Document) -> Tagged:
    return Tagged(Tag.DOCUMENT, {key.dump(): run for key, run in value.runs.items()})
