"""What differs between two states of a workspace: by variable, by column, by file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from otolith.codecs import labels
from otolith.core import WORKSPACE, Branch, Cells, Target
from otolith.errors import Error
from otolith.types import Tag

How = Literal["created", "changed", "deleted"]


@dataclass(frozen=True)
class Columns:
    """Columns of a frame that were added, removed or changed."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """One variable or file that is not what it was."""

    name: str
    how: How
    what: Literal["variable", "file"] = "variable"
    before: str = ""
    after: str = ""
    columns: Columns | None = None

    def __str__(self) -> str:
        sign = {"created": "+", "changed": "~", "deleted": "-"}[self.how]
        if self.what == "file":
            return f"{sign} {self.name} (file)"
        both = f"{self.before} -> {self.after}"
        said = both if self.how == "changed" else self.after or self.before
        return f"{sign} {self.name}: {said}"


def workspace_diff(
    state: Branch, old: Target | None = None, new: Target | None = None
) -> list[Difference]:
    """Return what differs between two commits of a workspace, by variable, column and file.

    By default: what the last commit did, or what `new` did. Nothing is unpickled, and no frame is
    read.
    """
    after = state.resolve("@" if new is None else new)
    if old is not None:
        before: bytes | None = state.resolve(old).cell
    else:
        parent = after.parents[0] if after.parents else None
        before = None if parent is None else state.resolve(parent).cell
    return list(differences(state.cells, before, after.cell))


def differences(cells: Cells, old: bytes | None, new: bytes | None) -> Iterator[Difference]:
    """Yield what differs between two states, each given by its root; big values are not read."""
    before, after = _tables(cells, old), _tables(cells, new)
    yield from _variables(cells, before, after)
    for name, mine, yours in _pairs(cells, before.get("files"), after.get("files")):
        yield Difference(name, _how(mine, yours), "file")


def _variables(
    cells: Cells, before: Mapping[str, bytes], after: Mapping[str, bytes]
) -> Iterator[Difference]:
    changed = {name: pair for name, *pair in _pairs(cells, before.get("vars"), after.get("vars"))}
    for name, (mine, yours) in sorted(changed.items()):
        was = cells.load(mine) if mine is not None else None
        now = cells.load(yours) if yours is not None else None
        if _is_untouched(was, now):
            continue
        columns = _columns(cells, before, after, name)
        yield Difference(name, _how(mine, yours), "variable", _shown(was), _shown(now), columns)


def _is_untouched(was: Any, now: Any) -> bool:
    """Tell whether only what refers to a variable is different."""
    return was is not None and now is not None and was.get("step") == now.get("step")


def _shown(entry: Any) -> str:
    if not isinstance(entry, dict):
        return ""
    kind, shape = entry.get("type", "?"), entry.get("shape")
    if entry.get("kind") == "lost":
        return f"{kind}, lost: {entry.get('why')}"
    if entry.get("columns") and isinstance(shape, list):
        return f"{kind} {' x '.join(map(str, shape))}"
    preview = " ".join(str(entry.get("preview", "")).split())[:60]
    return f"{kind} {preview}".strip()


def _columns(
    cells: Cells, before: Mapping[str, bytes], after: Mapping[str, bytes], name: str
) -> Columns | None:
    try:
        mine, yours = (_frame(cells, side.get("data"), name) for side in (before, after))
    except (Error, ImportError):
        return None
    if mine is None or yours is None:
        return None
    common = [label for label in yours if label in mine]
    return Columns(
        tuple(label for label in yours if label not in mine),
        tuple(label for label in mine if label not in yours),
        tuple(label for label in common if not cells.same(mine[label], yours[label])),
    )


def _frame(cells: Cells, data: bytes | None, name: str) -> dict[str, bytes] | None:
    """Return the cells of the columns of a frame, by label."""
    cell = None if data is None else cells.entry(data, cells.encoding.key(name))
    tag = None if cell is None else cells.tag(cell)
    if tag is None or tag.code != Tag.FRAME or not isinstance(tag.data, bytes):
        return None
    form = {str(cells.encoding.unkey(key)): part for key, part in cells.entries(tag.data)}
    if "columns" not in form or "labels" not in form:
        return None
    names = labels(tag.code, {"labels": cells.load(form["labels"])})
    return dict(zip(map(str, names), cells.elements(form["columns"]), strict=True))


def _tables(cells: Cells, root: bytes | None) -> dict[str, bytes]:
    place = None if root is None else cells.entry(root, cells.encoding.key(WORKSPACE))
    if place is None:
        return {}
    return {str(cells.encoding.unkey(key)): cell for key, cell in cells.entries(place)}


def _pairs(
    cells: Cells, old: bytes | None, new: bytes | None
) -> Iterator[tuple[str, bytes | None, bytes | None]]:
    mine = {} if old is None else dict(cells.entries(old))
    yours = {} if new is None else dict(cells.entries(new))
    for key in sorted({*mine, *yours}):
        if not cells.same(mine.get(key), yours.get(key)):
            yield str(cells.encoding.unkey(key)), mine.get(key), yours.get(key)


def _how(mine: bytes | None, yours: bytes | None) -> How:
    if mine is None:
        return "created"
    return "deleted" if yours is None else "changed"
