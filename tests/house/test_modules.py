"""Every module says what it is, and shows all it imports."""

from __future__ import annotations

import ast
import re

import pytest

from tests.house.source import PACKAGE, exceptions, modules


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.name)
def test_the_first_line_of_a_module_is_one_sentence(module):
    docstring = ast.get_docstring(module.tree) or ""
    first = docstring.partition("\n")[0]

    assert first, f"{module.name} has no docstring"
    assert first.endswith("."), f"{module.name}: {first!r} does not end as a sentence"
    assert not re.search(r"[.!?] [A-Z]", first), f"{module.name}: {first!r} is more than one"


def test_every_room_has_a_door():
    rooms = [path for path in PACKAGE.rglob("*") if path.is_dir() and any(path.glob("*.py"))]

    assert [str(room) for room in rooms if not (room / "__init__.py").exists()] == []


def test_no_import_of_our_own_hides_in_a_function():
    hidden = {
        name
        for module in modules()
        for name, function in module.functions()
        if any(map(_imports_our_own, ast.walk(function)))
    }

    assert hidden == set(exceptions("hidden_import"))


def test_the_package_ships_its_types():
    assert (PACKAGE / "py.typed").exists()


def _imports_our_own(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.level > 0 or (node.module or "").split(".")[0] == "otolith"
    return isinstance(node, ast.Import) and any(
        alias.name.split(".")[0] == "otolith" for alias in node.names
    )
