"""The differences between two commits of a workspace: by variable, by column, by file.

Nothing is unpickled, and frames are compared by the cells of their columns, which are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from otolith.codecs import labels
from otolith.core import WORKSPACE, Branch, Cells, Target
from otolith.errors import Error
from otolith.types import Tag, short_repr
from otolith.workspace.variables import VariableEntries, describe_entry

ChangeKind = Literal["created", "changed", "deleted"]


@dataclass(frozen=True)
class ColumnChanges:
    """Columns of a frame that were added, removed or changed."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


@short_repr("name", "how", "what", "before", "after")
@dataclass(frozen=True)
class Difference:
    """One variable or file that differs: `how`, and the short descriptions of both sides.

    Its text is one line, such as `~ x: int 1 -> int 2`.
    """

    name: str
    how: ChangeKind
    what: Literal["variable", "file"] = "variable"
    before: str = ""
    after: str = ""
    columns: ColumnChanges | None = None

    def __str__(self) -> str:
        sign = {"created": "+", "changed": "~", "deleted": "-"}[self.how]
        if self.what == "file":
            return f"{sign} {self.name} (file)"
        both = f"{self.before} -> {self.after}"
        return f"{sign} {self.name}: {both if self.how == 'changed' else self.after or self.before}"


def workspace_diff(
    state: Branch, old: Target | None = None, new: Target | None = None
) -> list[Difference]:
    """Return the differences between two commits of a workspace.

    By default: what the last commit did, or what `new` did.
    """
    after = state.resolve("@" if new is None else new)
    if old is None and after.parents:
        old = after.parents[0]
    before = None if old is None else state.resolve(old).cell
    sides = (_workspace_cell(state.cells, root) for root in (before, after.cell))
    return list(table_differences(state.cells, *sides))


def table_differences(cells: Cells, old: bytes | None, new: bytes | None) -> Iterator[Difference]:
    """Yield the differences between two workspaces, each given by its cell."""
    if cells.same(old, new):
        return
    before, after = (VariableEntries(cells, cell) for cell in (old, new))
    for name in sorted({*before.names, *after.names}):
        was, now = before.content(name), after.content(name)
        if was != now:
            texts = describe_entry(before.current(name)), describe_entry(after.current(name))
            columns = _column_changes(cells, before.tables, after.tables, name)
            yield Difference(name, _change_kind(was, now), "variable", *texts, columns)
    files = before.tables.get("files"), after.tables.get("files")
    for name, mine, yours in _changed_entries(cells, *files):
        yield Difference(name, _change_kind(mine, yours), "file")


def _workspace_cell(cells: Cells, root: bytes | None) -> bytes | None:
    return None if root is None else cells.entry(root, cells.encoding.key(WORKSPACE))


def _column_changes(
    cells: Cells, before: Mapping[str, bytes], after: Mapping[str, bytes], name: str
) -> ColumnChanges | None:
    """Compare two frames by the cells of their columns; None for what is not a frame."""
    try:
        mine, yours = (_column_cells(cells, side.get("data"), name) for side in (before, after))
    except (Error, ImportError):
        return None
    if mine is None or yours is None:
        return None
    common = [label for label in yours if label in mine]
    return ColumnChanges(
        tuple(label for label in yours if label not in mine),
        tuple(label for label in mine if label not in yours),
        tuple(label for label in common if not cells.same(mine[label], yours[label])),
    )


def _column_cells(cells: Cells, data: bytes | None, name: str) -> dict[str, bytes] | None:
    """Return the cells of the columns of a frame, by label; None for what is not a frame."""
    cell = None if data is None else cells.entry(data, cells.encoding.key(name))
    tag = None if cell is None else cells.tag(cell)
    if tag is None or tag.code != Tag.FRAME or not isinstance(tag.data, bytes):
        return None
    fields = {str(cells.encoding.unkey(key)): part for key, part in cells.entries(tag.data)}
    if "columns" not in fields or "labels" not in fields:
        return None
    names = labels(tag.code, {"labels": cells.load(fields["labels"])})
    return dict(zip(map(str, names), cells.elements(fields["columns"]), strict=True))


def _changed_entries(
    cells: Cells, old: bytes | None, new: bytes | None
) -> Iterator[tuple[str, bytes | None, bytes | None]]:
    """Yield the entries that differ between two tables, sorted by their names."""
    mine = {} if old is None else dict(cells.entries(old))
    yours = {} if new is None else dict(cells.entries(new))
    for name, key in sorted((str(cells.encoding.unkey(key)), key) for key in {*mine, *yours}):
        if not cells.same(mine.get(key), yours.get(key)):
            yield name, mine.get(key), yours.get(key)


def _change_kind(mine: object, yours: object) -> ChangeKind:
    if mine is None:
        return "created"
    return "deleted" if yours is None else "changed"
