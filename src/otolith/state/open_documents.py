"""The documents of a state that are open: their editors, and how edits become cells.

A document is edited in memory (`Document.editor`), and what was edited is staged when the state
is flushed, like any value that changed in place. Rules:

1. There is one editor for each path, so that all handles on a document see the same text.
2. When the staged state was replaced (commit, merge, rollback, discard), every editor is out of
   date until it is used again. Then it takes over the edits that it lacks. If it has edits that the
   state has not, the text went back: the editor is dropped, and the next one starts from the cell.
3. The value at the path decides. What the program assigned there, or removed, is not overwritten by
   edits that were made to the document before.
4. A process that was forked is another writer (`TextEditor.change_writer`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ParamSpec, TypeVar
from weakref import WeakMethod, WeakSet

from otolith.codecs import Document
from otolith.core import Cells, Path, format_path
from otolith.errors import BadPath, Closed, Corrupt, ReadOnly
from otolith.types import RunKey, Tag

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.codecs import TextEditor

P = ParamSpec("P")
R = TypeVar("R")

_EMPTY_FORM = b"\x80"
_FSCK = "run otolith fsck"


@dataclass(slots=True)
class _OpenDocument:
    """An editor, and the cell that has its staged edits."""

    editor: TextEditor
    cell: bytes
    is_current: bool = True


class OpenDocuments:
    """The open documents of one state, by path.

    `read` returns the cell at a path, `write` sets it; a state that is read-only has no `write`.
    Both are methods of the state, which is not held by its documents. `entropy` returns random
    bytes, of which writers are made.
    """

    def __init__(
        self,
        cells: Cells,
        *,
        read: Callable[[Path], bytes | None],
        write: Callable[[Path, bytes], None] | None = None,
        entropy: Callable[[int], bytes] = bytes,
    ) -> None:
        self._cells = cells
        self._read = _without_holding(read)
        self._write = None if write is None else _without_holding(write)
        self._entropy = entropy
        self._open: dict[Path, _OpenDocument] = {}
        _all.add(self)

    def editor(self, path: Path) -> TextEditor | None:
        """Return the editor of the document at a path; None if nothing is there.

        Raises:
            BadPath: something else is there.
            MissingExtra: the library of documents is not installed.
            Corrupt: the document cannot be read.
        """
        found = self._open.get(path)
        if found is None or not found.is_current:
            found = self._brought_up(path)
        return None if found is None else found.editor

    def writable_editor(self, path: Path) -> TextEditor:
        """Return the editor of the document at a path; a new one is staged there.

        Raises:
            ReadOnly: the state cannot be changed.
        """
        found = self._open.get(path)
        if found is not None and found.is_current and self._write is not None:
            return found.editor
        return self._editor_to_write(path)

    def _editor_to_write(self, path: Path) -> TextEditor:
        if self._write is None:
            raise ReadOnly(
                f"{format_path(path)}: a snapshot cannot be changed",
                hint="write to a branch: repo.session(id), or fork() from this commit",
            )
        editor = self.editor(path)
        if editor is None:
            editor = Document({}).editor(new_writer=self._new_writer)
            cell = self._cells.tagged_cell(Tag.DOCUMENT, _EMPTY_FORM)
            self._write(path, cell)
            self._open[path] = _OpenDocument(editor, cell)
        return editor

    def _new_writer(self) -> int:
        return int.from_bytes(self._entropy(8), "big") >> 1  # the library reserves the highest

    def _brought_up(self, path: Path) -> _OpenDocument | None:
        """Return the document at a path as it is staged now; open it if need be."""
        cell = self._read(path)
        found = self._open.pop(path, None)  # it stays closed if it cannot be read
        if cell is None:
            return None
        form = self._form(path, cell)
        try:
            if found is None or not self._is_taken_over(found, cell, form):
                document = self._cells.load(cell)
                if not isinstance(document, Document):
                    raise Corrupt("a document is not stored as runs of edits", hint=_FSCK)
                found = _OpenDocument(document.editor(new_writer=self._new_writer), cell)
        except Corrupt as error:
            raise Corrupt(f"{format_path(path)}: {error.message}", hint=error.hint) from None
        self._open[path] = found
        return found

    def _form(self, path: Path, cell: bytes) -> bytes:
        """Return the cell of the runs of a document."""
        tagged = self._cells.tag(cell)
        if tagged is not None and tagged.code == Tag.DOCUMENT and isinstance(tagged.data, bytes):
            return tagged.data
        kind = self._cells.kind(cell) if tagged is None else Tag(tagged.code).name.lower()
        raise BadPath(
            f"{format_path(path)} is a {kind}, not a document",
            hint="choose another path, or remove it and edit() its text into a new document",
        )

    def _is_taken_over(self, found: _OpenDocument, cell: bytes, form: bytes) -> bool:
        """Let an editor have the edits of a cell; return False if it has others as well."""
        if not self._cells.same(found.cell, cell):
            runs = self._runs(form)
            load = lambda keys: self._loaded({key: runs[key] for key in keys})  # noqa: E731
            if not found.editor.take_over(runs, load):
                return False
        found.editor.seal(lambda key: self._size(form, key))
        found.cell, found.is_current = cell, True
        return True

    def _size(self, form: bytes, key: RunKey) -> int:
        """Return how many bytes a run takes."""
        cell = self._cells.entry(form, self._cells.encoding.key(key.dump()))
        return 0 if cell is None else self._cells.full_size(cell)

    def _runs(self, form: bytes) -> dict[RunKey, bytes]:
        """Return the cells of runs by their keys."""
        found: dict[RunKey, bytes] = {}
        if self._cells.kind(form) != "map":
            raise Corrupt("a document is not stored as runs of edits", hint=_FSCK)
        for name, part in self._cells.all_entries(form).items():
            key = RunKey.load(self._cells.encoding.unkey(name))
            if key is None:
                raise Corrupt("a document is not stored as runs of edits", hint=_FSCK)
            found[key] = part
        return found

    def _loaded(self, runs: Mapping[RunKey, bytes]) -> dict[RunKey, object]:
        return dict(zip(runs, self._cells.load_all(runs.values()), strict=True))

    # Staging

    def flush(self, path: Path = ()) -> None:
        """Stage what was edited at a path, and below."""
        for each, found in list(self._open.items()):
            if found.editor.is_edited and each[: len(path)] == path:
                self._stage(each, found)

    def _stage(self, path: Path, found: _OpenDocument) -> None:
        """Stage the edits of a document, unless something else is at its place (rule 3)."""
        cell = self._read(path)
        if not found.is_current or not self._cells.same(cell, found.cell):
            try:
                brought_up = self._brought_up(path)
            except BadPath:
                return
            if brought_up is not found:
                return
        key, put = self._cells.encoding.key, self._cells.put
        new = found.editor.new_runs().items()
        edits = {key(name.dump()): None if run is None else put(run) for name, run in new}
        form = self._cells.edit_map(self._form(path, found.cell), edits, is_table=True)
        found.cell = self._cells.tagged_cell(Tag.DOCUMENT, form)
        if self._write is not None:
            self._write(path, found.cell)

    def drop(self, path: Path) -> None:
        """Close the documents at a path, and below: something else is there."""
        for each in list(self._open):
            if each[: len(path)] == path:
                del self._open[each]

    def expire(self) -> None:
        """Note that the staged state was replaced."""
        for found in self._open.values():
            found.is_current = False

    def forget_edits(self) -> None:
        """Close the documents with edits that were not staged."""
        for path, found in list(self._open.items()):
            if found.editor.is_edited:
                del self._open[path]

    def change_writers(self) -> None:
        """Let further edits be those of other writers (rule 4)."""
        for found in self._open.values():
            found.editor.change_writer()


def _without_holding(method: Callable[P, R]) -> Callable[P, R]:
    """Return a function that calls a method of an object, which others hold."""
    weak = WeakMethod(method)

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        found = weak()
        if found is None:
            raise Closed("the state of a document is gone", hint="hold the state while you edit")
        return found(*args, **kwargs)

    return call


_all: WeakSet[OpenDocuments] = WeakSet()


def _after_fork() -> None:
    for documents in _all:
        documents.change_writers()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_after_fork)
