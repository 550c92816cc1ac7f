"""The import contracts name every room, and catch what they are there to catch."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source import PACKAGE, ROOT, SOURCE, project
from tests.patience import HANG_SECONDS

CONTRACTS = project()["tool"]["importlinter"]["contracts"]
LINTER = Path(sys.executable).with_name("lint-imports")

# Where something is planted, what it is, and which contract must say no.
PLANTS = {
    "a store that knows how it is kept well": (
        "stores/base.py",
        "import otolith.care",
        "Floors",
    ),
    "a room that is on no floor": ("helpers.py", "", "Floors"),
    "a room that climbs through a window": (
        "care/__init__.py",
        "import otolith.core.trees",
        "Doors: core",
    ),
    "core reading a clock": ("core/paths.py", "import time", "Core is pure"),
    "core reading a clock inside a function": (
        "core/paths.py",
        "def now():\n    import time\n    return time.time()",
        "Core is pure",
    ),
    "a codec that knows where values go": (
        "codecs/base.py",
        "from otolith.stores import Store",
        "Codecs know values",
    ),
    "a room that loads pickles": ("care/__init__.py", "import pickle", "One file unpickles"),
    "a codec that looks at the machine": (
        "codecs/base.py",
        "from otolith.environment import secret",
        "Codecs know values",
    ),
    "two files that need each other": (
        "stores/base.py",
        "import otolith.stores.memory",
        "No cycles",
    ),
    "an arrow for type checkers only": (
        "types.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import otolith.core",
        "Floors",
    ),
}


@pytest.fixture
def copy(tmp_path):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(SOURCE, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_every_room_is_on_a_floor():
    floors = next(contract for contract in CONTRACTS if contract["type"] == "layers")
    named = {re.sub(r"[() ]", "", room) for row in floors["layers"] for room in row.split("|")}

    assert _rooms() <= named


def test_every_room_with_furniture_has_its_door_guarded():
    guarded = {
        module.removesuffix(".*")
        for contract in CONTRACTS
        if contract["type"] == "protected"
        for module in contract["protected_modules"]
    }

    assert {f"otolith.{room}" for room in _rooms() if (PACKAGE / room).is_dir()} <= guarded


def test_the_house_as_it_stands_keeps_its_contracts(copy):
    assert _broken(copy) == []


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_violation_is_caught(plant, copy):
    place, line, contract = PLANTS[plant]
    planted = copy / "src" / "otolith" / place
    planted.write_text(f"{planted.read_text() if planted.exists() else ''}\n{line}\n")

    assert [name for name in _broken(copy) if name.startswith(contract)]


def _rooms() -> set[str]:
    found = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    return found | {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def _broken(project_root: Path) -> list[str]:
    done = subprocess.run(
        [LINTER, "--no-cache"],
        cwd=project_root,
        env=os.environ | {"PYTHONPATH": str(project_root / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    broken = re.findall(r"^(.*) BROKEN", done.stdout, flags=re.MULTILINE)
    assert bool(broken) == bool(done.returncode), done.stdout + done.stderr
    return broken
