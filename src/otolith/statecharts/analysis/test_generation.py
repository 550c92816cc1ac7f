"""Test generation: paths of a chart as the source of pytest cases, to be saved, read and run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pprint import pformat
from typing import Any

from otolith.errors import BadValue
from otolith.frozen import thaw
from otolith.statecharts.analysis.inputs import AFTER, ScriptItem, parse_item
from otolith.statecharts.analysis.paths import Path
from otolith.statecharts.engine.compiled_chart import CompiledChart
from otolith.statecharts.snapshot import ChartEvent

_MAX_NAME = 80
_MAX_WIDTH = 88
_CHART_FILE = re.compile(r".+\.(json|scxml|xml|yaml|yml)")
_CHART_NAME = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)(\.\w+)*")

_REPLAY = '''\
def replay(chart, script):
    """Return where a script leads; the chart raises if it does not accept an event."""
    snapshot = chart.start(DATA).snapshot
    for item in script:
        if isinstance(item, tuple) and item[0] == "after":
            due = snapshot.time + round(item[1] * 1_000_000)
            snapshot = chart.advance(snapshot, due).snapshot
        elif isinstance(item, tuple):
            snapshot = chart.step(snapshot, item[0], item[1]).snapshot
        else:
            snapshot = chart.step(snapshot, item).snapshot
    return snapshot
'''


def pytest_cases(
    chart: CompiledChart | str, paths: Iterable[Path], *, data: dict[str, Any] | None = None
) -> str:
    """Return the source of one test for each path.

    Args:
        chart: Where the tests find the chart: `package.module:NAME`, or the file of a chart. Given
            a chart, they ask for a fixture `chart`, which is yours to write.
        paths: From `shortest_paths` or `simple_paths` of this chart.
        data: What the chart is started with; the same as for the paths.

    Raises:
        BadValue: the name is neither of the two.
    """
    cases = [_case(name, path) for name, path in _named(paths)]
    head = ['"""' + _title(chart) + '"""', "", *_imports(chart), ""]
    parts = [
        "\n".join(head),
        f"DATA = {_literal(thaw(data), 7, depth=0)}\n",
        _fixture(chart),
        _REPLAY,
    ]
    body = "\n\n".join(part for part in [*parts[2:], *cases] if part)
    return f"{parts[0]}\n{parts[1]}\n\n{body}"


def _title(chart: CompiledChart | str) -> str:
    """Return the docstring of the generated module."""
    if isinstance(chart, CompiledChart):
        name, digits = chart.definition.name or "a chart", chart.hash[:12]
        return f"Paths of {name} ({digits}); the fixture `chart` is the chart itself."
    return f"Paths of {chart}."


def _imports(chart: CompiledChart | str) -> list[str]:
    """Return the import lines that the fixture needs."""
    if isinstance(chart, CompiledChart):
        return []
    if _CHART_FILE.fullmatch(chart):
        return ["import pytest", "", "from otolith.statecharts import Chart"]
    found = _CHART_NAME.fullmatch(chart)
    if found is None:
        raise BadValue(
            f"{chart!r} does not say where the chart is",
            hint="write package.module:NAME, or the path of a chart's file",
        )
    return ["import pytest", "", f"from {found[1]} import {found[2]}"]


def _fixture(chart: CompiledChart | str) -> str:
    """Return the source of the fixture `chart`; "" if the user writes it."""
    if isinstance(chart, CompiledChart):
        return ""
    made = chart.partition(":")[2]
    if _CHART_FILE.fullmatch(chart):
        made = f"Chart.load({_quoted(chart)})"
    return f'@pytest.fixture(name="chart", scope="module")\ndef the_chart():\n    return {made}\n'


def _case(name: str, path: Path) -> str:
    """Return the source of one test."""
    script = _literal([_plain(item) for item in path.script], 9)
    states = _literal(tuple(path.configuration), 33)
    lines = [
        f"def {name}(chart):",
        f"    script = {script}",
        "",
        "    snapshot = replay(chart, script)",
        "",
        f"    assert snapshot.configuration == {states}",
        f"    assert snapshot.status == {_quoted(path.status)}",
    ]
    return "\n".join(lines) + "\n"


def _plain(item: ScriptItem) -> Any:
    """Return an item as a literal that the test can contain."""
    if isinstance(item, ChartEvent):
        raise BadValue(f"{item.name} cannot be item_of_event into a test", hint="rename the event")
    parsed = parse_item(item)
    if parsed.event is None or isinstance(item, str):
        return item
    return parsed.event.name, thaw(parsed.event.data)


def _named(paths: Iterable[Path]) -> list[tuple[str, Path]]:
    """Return paths with names for their tests, each name once."""
    taken: set[str] = set()
    found: list[tuple[str, Path]] = []
    for path in paths:
        stem = name = _name(path)
        number = 1
        while name in taken:
            number += 1
            name = f"{stem}_{number}"
        taken.add(name)
        found.append((name, path))
    return found


def _name(path: Path) -> str:
    """Return the name of a test: its events, and where they lead."""
    words = [_word(item) for item in path.script]
    end = f"leads_to_{_identifier('_and_'.join(path.configuration))}"
    name = f"test_{'_then_'.join(words) or 'the_start'}_{end}"
    if len(name) <= _MAX_NAME or len(words) < 3:
        return name
    return f"test_{words[0]}_then_{len(words) - 2}_more_then_{words[-1]}_{end}"


def _word(item: ScriptItem) -> str:
    """Return an item as a part of a name."""
    if isinstance(item, tuple) and not isinstance(item, ChartEvent) and item[0] == AFTER:
        return _identifier(f"after_{item[1]}_s")
    event = parse_item(item).event
    return _identifier("" if event is None else event.name)


def _identifier(text: str) -> str:
    return re.sub(r"\W+", "_", text).strip("_") or "something"


# ---------------------------------------------------------------- literals


def _literal(value: Any, used: int, depth: int = 4) -> str:
    """Return a value as Python source, on several lines if it does not fit beside what is there."""
    line = _flat(value)
    return line if depth + used + len(line) <= _MAX_WIDTH else _spread(value, depth)


def _spread(value: Any, depth: int) -> str:
    line = _flat(value)
    if (
        depth + len(line) + 1 <= _MAX_WIDTH
        or not isinstance(value, list | tuple | dict)
        or not value
    ):
        return line
    pad = " " * (depth + 4)
    if isinstance(value, dict):
        inner = [f"{_flat(key)}: {_spread(item, depth + 4)}" for key, item in value.items()]
    else:
        inner = [_spread(item, depth + 4) for item in value]
    opening, closing = {list: ("[", "]"), tuple: ("(", ")"), dict: ("{", "}")}[type(value)]
    lines = "".join(f"{pad}{each},\n" for each in inner)
    return f"{opening}\n{lines}{' ' * depth}{closing}"


def _flat(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_flat, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_flat, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_flat(key)}: {_flat(item)}' for key, item in value.items())}}}"
    return pformat(value)


def _quoted(text: str) -> str:
    """Return a text in double quotes, as formatters have it."""
    found = repr(text)
    if '"' in text or "\\" in found:
        return found
    return f'"{found[1:-1]}"'
