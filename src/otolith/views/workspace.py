"""The variables and files of a workspace, described in the words of a view.

A variable that is data is described like any stored value. Of other variables their summary is
shown, which is stored beside them: nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from otolith import workspace
from otolith.core import WORKSPACE, Cells, StateReader
from otolith.text.lines import bracketed, counted, key_text, printable, size_text
from otolith.views.describe import CellDescriber, NamedValue, NamedValues
from otolith.workspace import Variable


def describe_workspace(state: StateReader, describer: CellDescriber) -> Iterator[NamedValue]:
    """Yield the variables, and the files, of a state that has some."""
    if state.cell_at((WORKSPACE,)) is None:
        return  # without loading the workspace
    variables = [
        _variable(each, state.cell_at((WORKSPACE, "data", each.name)), describer)
        for each in workspace.variables_in(state)
    ]
    if variables:
        yield _group("(variables)", lambda: variables, len(variables), "variables")
    files = state.cell_at((WORKSPACE, "files"))
    if files is not None and (count := state.cells.length(files)):
        yield _group("(files)", partial(_files, files, state.cells), count, "files")


def _group(
    name: str, items: Callable[[], Iterable[NamedValue]], count: int, noun: str
) -> NamedValue:
    """Return values as the parts of one, which lists them on a line if it is short."""
    return NamedValue(
        name,
        counted(count, noun),
        lambda: bracketed("{", "}", map(_entry, items())),
        lambda: NamedValues(items(), count, noun),
    )


def _entry(item: NamedValue) -> Iterator[str]:
    """Yield a name with its value; what has no text is shown by its outline."""
    yield f"{key_text(item.name)}: "
    is_empty = True
    for piece in item.pieces():
        is_empty = False
        yield piece
    if is_empty:
        yield f"<{item.outline}>"


def _variable(one: Variable, cell: bytes | None, describer: CellDescriber) -> NamedValue:
    name = printable(one.name)
    if one.kind == "data" and cell is not None:
        return describer.named(name, cell)
    if one.kind == "lost":
        return NamedValue(name, printable(f"{one.type}, lost: {one.why}"))
    if one.kind == "resource":
        return NamedValue(name, printable(f"resource: {one.hint}"))
    preview = printable(" ".join(one.preview.split()))
    return NamedValue(name, printable(one.type), lambda: iter([preview] if preview else []))


def _files(table: bytes, cells: Cells) -> Iterator[NamedValue]:
    """Yield the files of a table, each with its size; of a long one, nothing is read."""
    for key, cell in cells.entries(table):
        parts = {cells.encoding.unkey(part): each for part, each in cells.entries(cell)}
        data, link = parts.get("data"), parts.get("link")
        if data is not None:
            blob, content = cells.blob(data), b""
            if blob is None and isinstance(held := cells.load(data), bytes):
                content = held
            words = size_text(len(content) if blob is None else blob.length)
        else:
            words = "an empty folder" if link is None else f"a link to {cells.load(link)}"
        yield NamedValue(printable(str(cells.encoding.unkey(key))), printable(words))
