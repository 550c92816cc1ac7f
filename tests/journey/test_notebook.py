"""In IPython: a real shell in a process of its own, where every cell is a commit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import NamedTuple

import pytest

import otolith
from tests.patience import HANG_SECONDS

pytest.importorskip("IPython")

KERNEL = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

shell = InteractiveShell.instance()
told = []
for cell in json.load(sys.stdin):
    with capture_output() as caught:
        done = shell.run_cell(cell)
    told.append([done.success, caught.stdout, caught.stderr])
json.dump(told, sys.stdout)
"""

OPEN = ["%load_ext otolith", "%otolith open agent.db trip"]


class Told(NamedTuple):
    """What came of one cell."""

    ok: bool
    out: str
    err: str


class Kernels:
    """Runs cells in a kernel, a new one for each call."""

    def __init__(self, place):
        self.place = place

    def __call__(self, *cells):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", KERNEL],
            cwd=self.place,
            env=os.environ | {"IPYTHONDIR": str(self.place / "ipython"), "NO_COLOR": "1"},
            input=json.dumps(cells),
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [Told(*told) for told in json.loads(done.stdout)]

    def session(self, *cells):
        """Run cells after those that open a session; return what came of the last one."""
        return self(*OPEN, *cells)[-1]

    def messages(self, branch="main"):
        with otolith.open(self.place / "agent.db") as repo:
            return [commit.message for commit in repo.session("trip", branch=branch).log()]

    def state(self, branch="main"):
        with otolith.open(self.place / "agent.db") as repo:
            return repo.session("trip", branch=branch).to_dict()


@pytest.fixture
def kernel(tmp_path):
    return Kernels(tmp_path)


def test_every_cell_that_changes_something_is_a_commit(kernel):
    kernel.session("rows = [1]", "rows.append(2)", "rows")

    assert kernel.messages() == ["rows.append(2)", "rows = [1]", OPEN[1]]
    assert kernel.state() == {"rows": [1, 2]}


def test_only_variables_that_are_data_are_kept(kernel):
    kernel.session("import os\ndef f(): pass\nclass C: pass\n_private = 1\nx = 1", "x")

    assert kernel.state() == {"x": 1}


def test_a_variable_that_is_deleted_is_gone(kernel):
    kernel.session("x = 1; y = 2", "del x")

    assert kernel.state() == {"y": 2}


def test_a_cell_that_fails_is_committed_with_what_it_did(kernel):
    kernel.session("x = 1\n1 / 0")

    with otolith.open(kernel.place / "agent.db") as repo:
        head = repo.session("trip").head
        assert head is not None
        assert (head.message, head.meta["ok"]) == ("x = 1", False)


def test_what_cannot_be_kept_is_named_once_and_stays_in_the_kernel(kernel):
    told = kernel(*OPEN, "g = (n for n in [7]); x = 1", "x = 2", "print(next(g))")

    assert "not stored: g" in told[2].out
    assert told[3].out == ""
    assert told[4].out == "7\n"
    assert "Not stored: g" in kernel.session("g = open('/dev/null'); 0", "%otolith status").out


def test_undo_puts_variables_back_and_takes_new_ones_away(kernel):
    last = kernel.session(
        "rows = [1]; alias = rows",
        "rows.append(2); new = 1",
        "%otolith undo",
        "print(rows, alias is rows, 'new' in globals())",
    )

    assert last.out == "[1] True False\n"
    assert kernel.state() == {"alias": [1], "rows": [1]}


def test_undo_in_the_cell_that_made_the_change_takes_it_back(kernel):
    last = kernel.session("x = 1", "x = 2\n%otolith undo", "print(x)")

    assert last.out == "1\n"


def test_what_could_not_be_kept_survives_an_undo(kernel):
    last = kernel.session("g = (n for n in [7])", "x = 1", "%otolith undo", "print(next(g))")

    assert last.out == "7\n"


def test_rollback_makes_variables_what_they_were_by_a_new_commit(kernel):
    last = kernel.session(
        "x = 1", "x = 2; y = 3", "%otolith rollback @~1", "print(x, dir().count('y'))"
    )

    assert last.out == "1 0\n"
    assert len(kernel.messages()) == 4
    assert kernel.state() == {"x": 1}


def test_rollbacks_without_a_commit_go_back_cell_by_cell(kernel):
    back = "%otolith rollback"
    last = kernel.session("x = 1", "x = 2", "x = 3", back, back, "print(x)")

    assert last.out == "1\n"


def test_a_fork_goes_on_where_it_is(kernel):
    last = kernel.session("rows = [1]", "%otolith fork other", "rows.append(2)", "%otolith status")

    assert "branch other" in last.out
    assert (kernel.state(), kernel.state("other")) == ({"rows": [1]}, {"rows": [1, 2]})


def test_another_kernel_goes_on_with_what_is_there(kernel):
    kernel.session("rows = [1]")

    last = kernel.session("rows.append(2)", "print(rows)")

    assert last.out == "[1, 2]\n"
    assert kernel.state() == {"rows": [1, 2]}


def test_what_a_kernel_has_already_is_not_overwritten(kernel):
    kernel.session("x = 1; y = 2")

    told = kernel("x = 5", *OPEN, "print(x, y)")

    assert "already has x" in told[2].out
    assert told[3].out == "5 2\n"
    assert kernel.state() == {"x": 5, "y": 2}


def test_a_value_whose_class_is_not_there_is_named_and_left_alone(kernel):
    define = "from dataclasses import dataclass\n@dataclass\nclass Point:\n    x: int"
    kernel.session(define, "p = Point(1)", "y = 2")

    opened = kernel(*OPEN, "print(y)")
    again = kernel(define, *OPEN, "print(p)")

    assert "not loaded" in opened[1].out
    assert opened[2].out == "2\n"
    assert again[-1].out == "Point(x=1)\n"


def test_frames_and_arrays_come_back(kernel):
    last = kernel.session(
        "import numpy as np, pandas as pd\na = np.arange(3); df = pd.DataFrame({'n': [1]})",
        "a[0] = 9; df['m'] = 2",
        "%otolith undo",
        "print(a.tolist(), list(df.columns))",
    )

    assert last.out == "[0, 1, 2] ['n']\n"


def test_log_diff_and_vars_say_what_happened(kernel):
    told = kernel(
        *OPEN, "x = 1", "x = 2; y = 1", "%otolith diff", "%otolith log x", "%otolith vars"
    )
    diff, log, variables = (one.out for one in told[-3:])

    assert [line for line in diff.splitlines() if line[0] in "+~"] == ["~ x", "+ y"]
    assert [line.split(maxsplit=1)[1] for line in log.splitlines()] == ["x = 2; y = 1", "x = 1"]
    assert [line.split() for line in variables.splitlines()] == [
        ["x", "int", "2"],
        ["y", "int", "1"],
    ]


@pytest.mark.parametrize("line", ["status", "undo"])
def test_before_a_store_is_open_it_says_how_to_open_one(kernel, line):
    told = kernel("%load_ext otolith", f"%otolith {line}", "x = 1")

    assert "%otolith open PATH SESSION" in told[1].err
    assert told[2].ok


@pytest.mark.parametrize(
    "line", ["nope", "open", "undo now", "checkout @", "rollback nope", "fork '"]
)
def test_a_mistake_is_said_and_the_kernel_goes_on(kernel, line):
    told = kernel(*OPEN, f"%otolith {line}", "x = 1")

    assert "error: " in told[2].err
    assert kernel.state() == {"x": 1}


def test_unloading_closes_the_store_and_takes_the_magic_away(kernel):
    told = kernel(*OPEN, "x = 1", "%unload_ext otolith", "x = 2", "%otolith status")

    assert not told[-1].ok
    assert kernel.state() == {"x": 1}


def test_the_magic_explains_itself(kernel):
    assert "%otolith open PATH SESSION" in kernel("%load_ext otolith", "%otolith")[1].out
