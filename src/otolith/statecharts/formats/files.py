"""Charts read from files, by their suffix, and from flat tables of transitions.

Files may come from anywhere: an SCXML document can read only files beside it, and YAML is loaded
without tags, aliases or its many spellings of true and false (`on` is a key of XState).

A step opens no files. So where an SCXML document computes which file it invokes (`srcexpr`), the
texts of all SCXML files beside it are read when it is loaded, and the one it names is among them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Any

from otolith.errors import BadChart, MissingExtra, NotFound
from otolith.shapes import check_argument
from otolith.statecharts.definition import (
    Datum,
    Definition,
    Expression,
    Invoke,
    Literal,
    State,
    Transition,
    walk,
)
from otolith.statecharts.formats.scxml_reader import read_scxml
from otolith.statecharts.formats.xstate_reader import read_xstate

SUFFIXES = (".json", ".scxml", ".xml", ".yaml", ".yml")
_SCXML = (".scxml", ".xml")
_MAX_FILES = 1_000
_MAX_BYTES = 16 << 20
"""How many files beside a document are read, and how large they may be together."""


def read_file(path: str | Path) -> Definition:
    """Return the definition in a file: .json (XState), .scxml or .xml, .yaml or .yml (XState).

    An SCXML document may name files beside it; nothing outside its folder is read.

    Raises:
        NotFound: there is no such file.
        BadChart: it is not a chart.
        MissingExtra: it is YAML, and PyYAML is not installed.
    """
    file = Path(path)
    if file.suffix not in SUFFIXES:
        raise BadChart(f"charts end in {', '.join(SUFFIXES)}", place=str(path))
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {path}", hint="check the path") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadChart(f"cannot be read: {error}", place=str(path)) from error
    if file.suffix in _SCXML:
        return read_scxml(text, resolve=files_of(file.parent), name=file.name)
    if file.suffix != ".json":
        return read_xstate(_yaml(text, str(path)))
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadChart(f"not JSON: {error}", place=str(path)) from error
    return read_xstate(data)


def files_of(folder: Path) -> Callable[[str], str | None]:
    """Return a function that reads files of a folder, and refuses paths outside it."""

    def resolve(name: str) -> str | None:
        """Return the text of a file in the folder, or None if there is none."""
        relative = PurePosixPath(name.removeprefix("file:"))
        if relative.is_absolute() or ".." in relative.parts or "\\" in name:
            return None
        file = (folder / relative).resolve()
        if not file.is_relative_to(folder.resolve()) or not file.is_file():
            return None
        return file.read_text("utf-8", "replace")

    return resolve


def texts_beside(path: str | Path, definition: Definition) -> dict[str, str]:
    """Return the SCXML files beside a document that it may invoke by a name that it computes.

    None are read if it computes no name. Of more than a thousand files, or 16 MB, the rest are not
    read, in the order of their names.
    """
    file = Path(path)
    if file.suffix not in _SCXML or not any(map(_is_found_later, _invokes(definition.root))):
        return {}
    resolve = files_of(file.parent)
    found: dict[str, str] = {}
    left = _MAX_BYTES
    names = sorted(each.name for each in file.parent.iterdir() if each.suffix in _SCXML)
    for name in names[:_MAX_FILES]:
        left -= (file.parent / name).stat().st_size
        text = resolve(name) if left >= 0 else None
        if text is not None:
            found[name] = text
    return found


def _invokes(root: State) -> Iterator[Invoke]:
    """Yield the invokes of a chart and of the charts inside it."""
    for state, _ in walk(root):
        for invoke in state.invokes:
            yield invoke
            if isinstance(invoke.content, Definition):
                yield from _invokes(invoke.content.root)


def _is_found_later(invoke: Invoke) -> bool:
    """Return whether the name of an invoked file is computed, or is that of a file around it."""
    if invoke.content is not None or invoke.source is None:
        return False
    name = invoke.source.value if isinstance(invoke.source, Literal) else ""
    return isinstance(invoke.source, Expression) or str(name).endswith(_SCXML)


def _yaml(text: str, place: str) -> Any:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtra(
            f"{place} is YAML, and PyYAML is not installed", hint="pip install 'otolith[yaml]'"
        ) from error
    try:
        return yaml.load(text, _yaml_loader(yaml))  # noqa: S506 - a subclass of the safe loader
    except yaml.YAMLError as error:
        raise BadChart(f"not YAML: {error}", place=place) from error
    except RecursionError as error:
        raise BadChart("nested too deep", place=place) from error


def _yaml_loader(yaml: Any) -> Any:
    """Return a safe loader that reads `on` as a word, not as true, and refuses aliases."""

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """The safe loader with fewer words for booleans, and without aliases."""

        yaml_implicit_resolvers = {  # noqa: RUF012 - overrides a table of the library
            first: [pair for pair in pairs if first in "tTfF" or not pair[0].endswith(":bool")]
            for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def compose_node(self, parent: Any, index: Any) -> Any:
            """Refuse aliases."""
            if self.check_event(yaml.events.AliasEvent):
                raise yaml.YAMLError("aliases are refused: a few can expand to millions of nodes")
            return super().compose_node(parent, index)

    return Loader


ANY_STATE = "*"


def read_table(
    table: Mapping[tuple[Any, str], Any],
    *,
    initial: Any,
    final: Collection[Any] | None = None,
    name: str = "table",
    data: Mapping[str, Any] | None = None,
    version: str = "",
) -> Definition:
    """Return the definition of `{(state, event): next state}`.

    The state `*` stands for every state that is not final: its transitions belong to the root,
    where those of a state come first. States are strings, or members of an enum whose values are
    strings. Without `final`, the states that no row leads out of are final; with it, those that it
    names, and no others.

        read_table({("draft", "submit"): "review", ("*", "drop"): "gone"}, initial="draft")

    Raises:
        BadChart: a key is not a pair, or the initial state does not occur.
    """
    check_argument(table, "table", Mapping, "a mapping of (state, event) to states")
    ends = {_name_of(state) for state in final or ()}
    # The order of states is part of the hash: the initial one comes first, wherever it occurs.
    transitions: dict[str, list[Transition]] = {_name_of(initial): []}
    named = dict.fromkeys(ends)
    anywhere: list[Transition] = []
    rows: Mapping[Any, Any] = table
    for key, target in rows.items():
        if not isinstance(key, tuple) or len(key) != 2:
            raise BadChart(f"{key!r} is not a pair of a state and an event", place="the table")
        source, event, goal = _name_of(key[0]), _name_of(key[1]), _name_of(target)
        place = f"({source}, {event})"
        transition = Transition((event,), (goal,), is_internal=False, place=place)
        transitions.setdefault(goal, [])
        named |= {source: None, goal: None}
        (anywhere if source == ANY_STATE else transitions.setdefault(source, [])).append(transition)
    for end in ends:
        transitions.setdefault(end, [])
    _check_initial(_name_of(initial), named)
    if final is None and not anywhere:
        ends = {state for state, found in transitions.items() if not found}
    children = [
        State(
            id=state,
            kind="final" if state in ends else "atomic",
            transitions=tuple(found),
            place=f"state {state}",
        )
        for state, found in transitions.items()
    ]
    first = Transition((), (_name_of(initial),), is_internal=False, place=name)
    root = State(
        id=f"#{name}",
        kind="compound",
        children=tuple(children),
        initial=first,
        transitions=tuple(anywhere),
        data=tuple(Datum(key, Literal(value)) for key, value in (data or {}).items()),
        place=name,
    )
    return Definition(name=name, root=root, version=version)


def _check_initial(initial: str, named: Collection[str]) -> None:
    if initial not in named:
        known = ", ".join(list(named)[:12]) or "none"
        why = f"the initial state {initial!r} does not occur in it"
        raise BadChart(why, place="the table", hint=f"its states are {known}")


def _name_of(value: Any) -> str:
    found = value.value if isinstance(value, Enum) else value
    if not isinstance(found, str) or not found:
        raise BadChart(f"{value!r} is not a name", place="the table")
    return found
