"""A session that another minor version of Python goes on with: what works, and what says why not.

There is one Python here. So a worker is told that it is another one: what it can still read is what
does not depend on bytecode. That this holds was tried by hand from 3.11 to 3.13 and back.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from otolith import Disk, Versioned
from otolith.workspace import Runner, Workspace

SAY_SO = """
from otolith.workspace.worker import capture_objects, variables
capture_objects.python = variables.python = lambda: "3.99"
"""
MADE = """
from dataclasses import dataclass
import enum
data = {"a": [1]}
def f(n): return n + data["a"][0]
class C:
    def total(self): return f(1)
c = C()
class Color(enum.Enum):
    RED = 1
red = Color.RED
bare = eval("lambda n: n + 5")
@dataclass
class P:
    x: int
p = P(1)
"""


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Versioned]:
    with Versioned(Disk(tmp_path / "agent.db", durability="fast")) as state:
        with state.workspace(runner=Runner(sandbox="limits"), folder=tmp_path / "work") as first:
            step = first.run(MADE)
            assert (step.ok, step.lost) == (True, {})
        yield state


@pytest.fixture
def later(state: Versioned, tmp_path: Path) -> Iterator[Workspace]:
    """The workspace, with workers of another Python."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SAY_SO)
    runner = Runner(sandbox="limits", environment={"PYTHONPATH": str(tmp_path / "site")})
    with state.workspace(runner=runner, folder=tmp_path / "work") as workspace:
        yield workspace


@pytest.mark.parametrize(
    ("code", "value"),
    {
        "data": {"a": [1]},
        "f(2)": 3,
        "c.total()": 2,
        "C().total()": 2,
        "isinstance(c, C)": True,
        "red is Color.RED": True,
    }.items(),
)
def test_data_and_what_has_a_source_go_on(later: Workspace, code: str, value: object) -> None:
    step = later.run(code)
    assert step.ok, step.error
    assert step.value == value


@pytest.mark.parametrize("code", ["bare(1)", "p.x", "P(2)"])
def test_what_is_only_bytecode_says_which_python_it_needs(later: Workspace, code: str) -> None:
    step = later.run(code)
    assert step.error is not None
    assert step.error.type == "LostVariable"
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"has code of Python {here}, and this is 3.99" in step.error.message
    assert "run the step that defined it again" in step.error.message


def test_what_another_python_could_not_load_is_there_for_the_first_one(
    later: Workspace, state: Versioned, tmp_path: Path
) -> None:
    assert not later.run("bare(1)").ok
    assert later.run("data['a'].append(2); c.n = 1").changed == ("c", "data")
    later.close()
    with state.workspace(runner=Runner(sandbox="limits"), folder=tmp_path / "work") as again:
        assert again.run("bare(1), p.x, c.n, data").value == (6, 1, 1, {"a": [1, 2]})


def test_what_is_defined_again_is_there_again(later: Workspace) -> None:
    assert later.run("bare = lambda n: n + 5").ok
    assert later.run("bare(1)").value == 6
