"""A file fits in the head and a function on a screen; enough of both is prose."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.house.source import code_lines, exceptions, modules

FILE_LINES = 700
FUNCTION_LINES = 50
SMALL_FILE_LINES = 60
LEAST_PROSE = 0.18


def test_enough_of_it_is_docstrings_and_comments():
    lines = sum(module.lines for module in modules())
    prose = sum(module.prose_lines() for module in modules())

    assert prose / lines >= LEAST_PROSE


def test_no_file_is_longer_than_the_limit():
    sizes = {module.name: module.lines for module in modules()}

    assert _too_long(sizes, FILE_LINES, exceptions("file")) == {}


def test_no_function_is_longer_than_a_screen():
    sizes = {name: code_lines(function) for m in modules() for name, function in m.functions()}

    assert _too_long(sizes, FUNCTION_LINES, exceptions("function")) == {}


def test_a_small_file_is_a_door_or_has_a_reason():
    small = {
        module.name
        for module in modules()
        if module.lines < SMALL_FILE_LINES and not module.is_door and module.path.stem != "__main__"
    }

    assert small == set(exceptions("small_file"))


def test_a_module_with_one_importer_in_its_own_folder_has_a_reason():
    importers = _importers()
    single = {
        module.name
        for module in modules()
        if not module.is_door and _has_one_importer_beside_it(module.name, importers)
    }

    assert single == set(exceptions("single_importer"))


def test_every_exception_is_still_needed_and_says_why():
    files = {module.name: module.lines for module in modules()}
    functions = {name: code_lines(node) for m in modules() for name, node in m.functions()}

    for name, entry in exceptions("file").items():
        assert files.get(name, 0) > FILE_LINES, f"{name} is short enough now: remove its entry"
        assert entry["reason"]
    for name, entry in exceptions("function").items():
        assert functions.get(name, 0) > FUNCTION_LINES, f"{name} is short now: remove its entry"
        assert entry["reason"]
    for kind in ("small_file", "single_importer"):
        assert [name for name, entry in exceptions(kind).items() if not entry["reason"]] == []


def _importers():
    """Return, for each module, the modules that import it or a name of it; doors left out."""
    names = {module.name for module in modules()}
    found = defaultdict(set)
    arrows = (
        (module, name)
        for module in modules()
        for node in ast.walk(module.tree)
        for name in _imported(node) & names - {module.name}
    )
    for module, name in arrows:
        if not (module.is_door and name.startswith(f"{module.name}.")):
            found[name].add(module.name)
    return found


def _imported(node):
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom) and node.module:
        return {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return set()


def _has_one_importer_beside_it(name, importers):
    found = importers[name]
    return len(found) == 1 and next(iter(found)).rpartition(".")[0] == name.rpartition(".")[0]


def _too_long(sizes, limit, allowed):
    ceiling = {name: entry["lines"] for name, entry in allowed.items()}
    return {name: lines for name, lines in sizes.items() if lines > ceiling.get(name, limit)}
