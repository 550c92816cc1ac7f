"""The front door: what it says is there is there, and it costs nothing to stand in it."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys

import pytest

import otolith
from tests.house.source import modules
from tests.patience import HANG_SECONDS

HOME = otolith._HOME
MODULES = otolith._MODULES
MOST_NAMES = 53

# Never needed to open a store and read from it.
OPTIONAL = {
    "asyncio",
    "attr",
    "hypothesis",
    "loro",
    "numpy",
    "pandas",
    "pydantic",
    "pytest",
    "click",
}


@pytest.mark.parametrize("name", HOME)
def test_a_name_is_the_very_thing_in_its_home(name):
    assert getattr(otolith, name) is getattr(importlib.import_module(HOME[name]), name)


@pytest.mark.parametrize("name", HOME)
def test_a_name_is_defined_inside_its_home(name):
    defined = getattr(otolith, name).__module__

    assert f"{defined}.".startswith(f"{HOME[name]}.")


def test_type_checkers_are_told_what_the_table_says():
    assert _told_to_type_checkers() == HOME | dict.fromkeys(MODULES, "otolith")


def test_all_is_the_table_the_modules_and_the_version_and_so_is_dir():
    assert set(otolith.__all__) == {*HOME, *MODULES, "__version__"}
    assert dir(otolith) == sorted(otolith.__all__)


def test_the_docstring_names_everything_but_single_errors():
    words = set(re.findall(r"\w+", otolith.__doc__ or ""))

    assert {name for name in HOME if HOME[name] != "otolith.errors"} <= words


@pytest.mark.parametrize("name", MODULES)
def test_a_module_of_the_front_door_needs_no_import(name):
    assert getattr(otolith, name) is importlib.import_module(f"otolith.{name}")


def test_the_front_door_stays_small():
    assert len(otolith.__all__) <= MOST_NAMES


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        otolith.nonsense  # noqa: B018 - asking is the test


def test_importing_otolith_imports_nothing_else():
    assert _loaded_by("import otolith") == {"otolith"}


def test_opening_a_store_loads_nothing_optional():
    loaded = _loaded_by("import otolith; otolith.open('memory:').close()")

    assert not {name.partition(".")[0] for name in loaded} & OPTIONAL


def test_a_commit_and_a_read_load_nothing_that_knows_words():
    loaded = _loaded_by(
        "import otolith\n"
        "state = otolith.open('memory:').session('a')\n"
        "state['x'] = 1\n"
        "state.commit('x')\n"
        "state['x']"
    )

    assert sorted(name for name in loaded if name.startswith("otolith.text.")) == []


def _told_to_type_checkers() -> dict[str, str]:
    front_door = next(module for module in modules() if module.name == "otolith")
    guarded = next(node for node in front_door.tree.body if isinstance(node, ast.If))
    return {
        alias.asname or alias.name: node.module or ""
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _loaded_by(statement: str) -> set[str]:
    program = (
        "import sys, json; before = set(sys.modules)\n"
        f"{statement}\n"
        "json.dump(sorted(set(sys.modules) - before), sys.stdout)"
    )
    # json is loaded first, so that what it needs is not counted; then it does the reporting
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    return set(json.loads(done.stdout))


def test_an_error_that_is_not_at_the_front_door_is_found_by_the_message():
    with pytest.raises(AttributeError, match=r"'Fenced': it is in otolith\.errors"):
        _ = otolith.Fenced
    with pytest.raises(AttributeError, match=r"has no attribute 'Nothing'$"):
        _ = otolith.Nothing
