"""Charts in files, read by their suffix."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

from otolith.agent.lifecycle.definition import Definition
from otolith.agent.lifecycle.formats.scxml_reading import read_scxml
from otolith.agent.lifecycle.formats.xstate_reading import read_xstate
from otolith.errors import BadChart, MissingExtra, NotFound

SUFFIXES = (".json", ".scxml", ".xml", ".yaml", ".yml")


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
    if file.suffix in {".scxml", ".xml"}:
        return read_scxml(text, resolve=beside(file.parent))
    return read_xstate(_json(text, str(path)) if file.suffix == ".json" else _yaml(text, str(path)))


def beside(folder: Path) -> Callable[[str], str | None]:
    """Return what reads the files of a folder, and nothing outside it."""

    def resolve(name: str) -> str | None:
        relative = PurePosixPath(name.removeprefix("file:"))
        if relative.is_absolute() or ".." in relative.parts or "\\" in name:
            return None
        file = (folder / relative).resolve()
        if not file.is_relative_to(folder.resolve()) or not file.is_file():
            return None
        return file.read_text("utf-8", "replace")

    return resolve


def _json(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadChart(f"not JSON: {error}", place=place) from error


def _yaml(text: str, place: str) -> Any:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtra(
            f"{place} is YAML, and PyYAML is not installed", hint="pip install 'otolith[yaml]'"
        ) from error
    try:
        return yaml.load(text, _yaml_loader(yaml))  # noqa: S506 - made of the safe loader
    except yaml.YAMLError as error:
        raise BadChart(f"not YAML: {error}", place=place) from error
    except RecursionError as error:
        raise BadChart("nested too deep", place=place) from error


def _yaml_loader(yaml: Any) -> Any:
    """Return a loader for which `on` is a word, not a truth, and that knows no aliases."""

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        yaml_implicit_resolvers = {  # noqa: RUF012 - a table of the library's, made anew here
            first: [pair for pair in pairs if first in "tTfF" or not pair[0].endswith(":bool")]
            for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.events.AliasEvent):
                raise yaml.YAMLError("aliases are not read: a few of them can stand for millions")
            return super().compose_node(parent, index)

    return Loader
