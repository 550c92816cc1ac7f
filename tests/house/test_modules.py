"""Every module says what it is, and shows all it imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.source import PACKAGE, ROOT, Function, exceptions, modules

# These use what a user can use. Others may look inside: contracts name each implementation.
THROUGH_THE_DOOR = ["bench", "tests/compat", "tests/fault", "tests/journey"]


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.name)
def test_the_first_line_of_a_module_is_one_sentence(module):
    docstring = ast.get_docstring(module.tree) or ""
    first = docstring.partition("\n")[0]

    assert first, f"{module.name} has no docstring"
    assert first.endswith("."), f"{module.name}: {first!r} does not end as a sentence"
    assert not re.search(r"[.!?] [A-Z]", first), f"{module.name}: {first!r} is more than one"


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.name)
def test_the_first_line_of_a_module_says_what_it_is(module):
    first = (ast.get_docstring(module.tree) or "").partition("\n")[0]

    assert not re.match(r"(What|Who|Where|When|Why|How|Whether)\b", first), first


def test_every_public_name_has_a_docstring():
    """A method that another class documents under the same name does the same there."""
    public = [each for module in modules() for each in _public(module.tree, module.name)]
    methods = [(name, node) for name, node in public if _is_method(name)]
    documented = {node.name for _, node in methods if ast.get_docstring(node) is not None}
    missing = {
        name
        for name, node in public
        if ast.get_docstring(node) is None and not (_is_method(name) and node.name in documented)
    }

    assert missing == set(exceptions("no_docstring"))


def test_no_message_speaks_in_riddles():
    """An error says what it got and what it wants: "is no X" says neither."""
    riddle = re.compile(r"(?<!there )\b(?:is no|are no|at hand|by leave)\b (?!longer|more)")
    found = {
        f"{module.name}:{node.lineno}: {node.value}"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if riddle.search(node.value)
    }

    assert found == set()


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


@pytest.mark.parametrize("folder", THROUGH_THE_DOOR)
def test_tests_of_promises_come_in_through_the_door(folder):
    assert _windows(folder, r"otolith\.\w+\.\w+") == set()


def test_shipped_suites_are_used_the_way_users_use_them():
    assert _windows("tests", r"otolith\.testing\.\w+") == set()


def test_the_package_ships_its_types():
    assert (PACKAGE / "py.typed").exists()


def _public(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.ClassDef | Function]]:
    """Yield public classes, functions and methods; the name of a shipped test is its sentence."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | Function) and not child.name.startswith(("_", "test_")):
            if not any("overload" in ast.unparse(each) for each in child.decorator_list):
                yield f"{prefix}.{child.name}", child
            if isinstance(child, ast.ClassDef):
                yield from _public(child, f"{prefix}.{child.name}")


def _is_method(name: str) -> bool:
    return name.rpartition(".")[0].rpartition(".")[2][0].isupper()


def _windows(folder: str, forbidden: str) -> set[str]:
    return {
        f"{path.name}: {name}"
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in _imported(node)
        if re.match(forbidden, name)
    }


def _imports_our_own(node: ast.AST) -> bool:
    return any(name.partition(".")[0] in {"", "otolith"} for name in _imported(node))


def _imported(node: ast.AST) -> list[str]:
    """Return the modules an import statement names; a relative one starts with a dot."""
    if isinstance(node, ast.ImportFrom):
        return ["." * node.level + (node.module or "")]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
