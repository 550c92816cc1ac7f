"""Conflicts of a workspace, by variable and by file, and how one is resolved by a side.

A merge reports conflicts by path, and a variable is more than one path: its value or pickle, the
signature of the pickle, its description. Parts of two sides do not fit together: a pickle with the
signature of the other side would never be loaded. So what a conflict is about is taken as a whole:

    a value, a file     path by path, as in any state: what both sides agree on stays merged
    an object           from one side, with all variables that share objects with it there
    a class             from one side
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from otolith.core import WORKSPACE, Branch, Path, PathConflict, StateReader, parse_path
from otolith.errors import Invalid, KeyNotFound
from otolith.types import short_repr
from otolith.workspace.variables import VariableEntries, WorkspaceTables, describe_entry

Subject = Literal["variable", "file", "class", "record"]

_CLASS, _SETTING = "class ", "setting "  # how pickles name what is not a variable
_RELATIONS = ("leaning_on", "leaning_in")


@short_repr("name", "what", "ours", "theirs")
@dataclass(frozen=True)
class WorkspaceConflict:
    """A variable, file or class that both sides of a merge changed in different ways.

    `paths` are the conflicts that it consists of; `ours` and `theirs` describe a variable.
    """

    what: Subject
    name: str
    paths: tuple[PathConflict, ...]
    ours: str = ""
    theirs: str = ""

    def __str__(self) -> str:
        sides = f": {self.ours or 'absent'} or {self.theirs or 'absent'}" * bool(self.is_whole)
        return f"{self.what} {self.name}{sides}"

    @property
    def is_whole(self) -> bool:
        """Whether a side can only be taken as a whole, and is not a value that can be shown."""
        return bool(self.ours or self.theirs)


class WorkspaceConflicts:
    """The conflicts of the merge in progress on a branch, as far as they are in its workspace."""

    def __init__(self, state: Branch) -> None:
        self._state = state
        self._sides: dict[str, StateReader] = {}
        if state.merging is not None and state.head is not None:
            self._sides = {"ours": state.at(state.head), "theirs": state.at(state.merging)}
        self._entries = {
            side: VariableEntries(each.cells, each.cell_at((WORKSPACE,)))
            for side, each in self._sides.items()
        }

    def __iter__(self) -> Iterator[WorkspaceConflict]:
        """Yield the conflicts by variable, file and class."""
        found: dict[tuple[Subject, str], list[PathConflict]] = {}
        for conflict in self._state.conflicts:
            keys = parse_path(conflict.path)
            if keys[0] == WORKSPACE:
                found.setdefault(self._subject(keys), []).append(conflict)
        for (what, name), paths in found.items():
            yield WorkspaceConflict(what, name, tuple(paths), *self._descriptions(what, name))

    def _subject(self, keys: Path) -> tuple[Subject, str]:
        """Return what a path in a workspace belongs to."""
        table, name = str(keys[1]), str(keys[2]) if len(keys) > 2 else ""
        if table in ("data", "resources", "vars"):
            return "variable", name
        if table == "files":
            return "file", name
        if table == "objects":
            nodes = [*self._nodes(name), name]
            is_class = nodes[0].startswith(_CLASS)
            return ("class" if is_class else "variable"), nodes[0].removeprefix(_CLASS)
        if table == "classes":
            return "class", name
        return "record", "/".join(map(str, keys[1:]))

    def _nodes(self, group: str) -> list[str]:
        """Return what a pickle contains on either side, variables first."""
        found: set[str] = set()
        for side in self._sides.values():
            names = WorkspaceTables(side).entry("objects", group, "names")
            found.update(map(str, names or ()))
        return sorted(found, key=lambda node: (node.startswith((_CLASS, _SETTING)), node))

    def _descriptions(self, what: Subject, name: str) -> list[str]:
        """Return how both sides describe a variable that is taken as a whole, else nothing."""
        if what != "variable" or self._is_value(name):
            return []
        return [describe_entry(entries.current(name)) for entries in self._entries.values()]

    def _is_value(self, name: str) -> bool:
        """Tell whether a variable is data on both sides, so that its parts can be merged."""
        return all(each.current(name).get("kind") == "data" for each in self._entries.values())

    def find(self, name: str, *, is_file: bool | None = None) -> WorkspaceConflict:
        """Return the conflict of a variable, class or file; with `is_file`, only of one of them.

        Raises:
            KeyNotFound: there is none.
        """
        known = list(self)
        for each in known:
            if each.name == name and is_file in (None, each.what == "file"):
                return each
        listed = ", ".join(f"{each.what} {each.name}" for each in known) or "none"
        kind = {True: "file", False: "variable", None: "variable or file"}[is_file]
        raise KeyNotFound(
            f"there is no conflict of a {kind} {name}",
            hint=f"conflicts of the workspace: {listed}",
        )

    def take(self, conflict: WorkspaceConflict, side: str) -> None:
        """Resolve a conflict with one side.

        Raises:
            Invalid: the side is unknown, or is "base" for what can only be taken as a whole.
        """
        is_by_path = not self._sides or not (conflict.is_whole or conflict.what == "class")
        if not is_by_path and side not in self._sides:
            raise Invalid(
                f"{conflict.what} {conflict.name} cannot be taken from {side!r}",
                hint="take 'ours' or 'theirs'",
            )
        left = {each.path for each in self._state.conflicts}  # some may be taken with others
        for each in conflict.paths:
            if each.path in left:
                self._state.resolve_conflict(parse_path(each.path), take=side)
        if not is_by_path:
            name = conflict.name
            self._take_whole(_CLASS + name if conflict.what == "class" else name, side)

    def _take_whole(self, node: str, side: str) -> None:
        """Copy a variable or class from one side, with all that is in one pickle with it."""
        nodes, groups = self._connected(node)
        for each in nodes:
            if each.startswith(_CLASS):
                self._copy(side, "classes", each.removeprefix(_CLASS))
            elif not each.startswith(_SETTING):
                for table in ("vars", "data", "resources"):
                    self._copy(side, table, each)
        for group in groups:
            self._copy(side, "objects", group)
            self._copy(side, "signatures", f"objects/{group}")
        self._copy_relations(side, {f"objects/{group}" for group in groups})

    def _connected(self, node: str) -> tuple[set[str], set[str]]:
        """Return everything that shares a pickle with a node on either side, and the pickles."""
        nodes, groups, waiting = set[str](), set[str](), [node]
        while waiting:
            each = waiting.pop()
            if each in nodes:
                continue
            nodes.add(each)
            for group in self._groups_of(each):
                groups.add(group)
                waiting += self._nodes(group)
        return nodes, groups

    def _groups_of(self, node: str) -> Iterator[str]:
        """Yield the pickles that have a variable or class, on either side."""
        for side, entries in self._entries.items():
            if node.startswith(_CLASS):
                tables = WorkspaceTables(self._sides[side])
                group = tables.entry("classes", node.removeprefix(_CLASS))
            else:
                group = entries.current(node).get("group")
            if isinstance(group, str):
                yield group

    def _copy(self, side: str, table: str, key: str) -> None:
        """Make an entry of a table what it is on one side."""
        path = (WORKSPACE, table, key)
        cell = self._sides[side].cell_at(path)
        if cell is not None or self._state.cell_at(path) is not None:
            loose = None if cell is None else self._state.cells.loosen(cell)
            self._state.write_reserved(path, loose)

    def _copy_relations(self, side: str, places: set[str]) -> None:
        """Note at the data that pickles refer to which of those that were copied do."""
        ours, theirs = WorkspaceTables(self._state), self._entries[side]
        for name in theirs.names:
            entry, wanted = ours.entry("vars", name), theirs.current(name)
            if not isinstance(entry, dict):
                continue
            relations = {
                how: sorted({*entry.get(how, ()), *_common(wanted.get(how, ()), places)})
                for how in _RELATIONS
            }
            known = {how: each for how, each in relations.items() if each}
            if {**entry, **known} != entry:
                cell = self._state.cells.put({**entry, **known})
                self._state.write_reserved((WORKSPACE, "vars", name), cell)


def _common(places: Iterable[str], wanted: set[str]) -> set[str]:
    return wanted.intersection(places)
