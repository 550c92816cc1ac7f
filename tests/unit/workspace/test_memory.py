"""Arrays that look at one memory, and how things lie in it, are the same in the next process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from otolith import Disk, Versioned
from otolith.workspace import Runner, Step, Workspace

Run = Callable[[str], Step]


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with (
        Versioned(Disk(tmp_path / "agent.db", durability="fast")) as state,
        state.workspace(runner=Runner(sandbox="limits"), folder=tmp_path / "work") as workspace,
    ):
        yield workspace


@pytest.fixture
def run(workspace: Workspace) -> Run:
    """Run a step that must succeed."""

    def run(code: str) -> Step:
        step = workspace.run(code)
        assert step.ok, step.error and step.error.traceback
        return step

    return run


def test_views_of_memory_that_has_no_name_overlap_again(run: Run) -> None:
    run(
        "import numpy as np\nwhole = np.zeros((6, 5))\na, b = whole[:, :4], whole[:, 1:]\ndel whole"
    )
    assert run("bool(np.shares_memory(a, b))").value is True
    run("a[0, 2] = 7.0")
    assert run("b[0, 1]").value == 7.0
    assert run("a, b").changed == ()


def test_a_view_inside_of_an_object_overlaps_with_a_variable(run: Run) -> None:
    run("import numpy as np\nclass Box: pass\nbox = Box()\nwhole = np.arange(1000.0)")
    run("near, box.far = whole[:600], whole[400:]\ndel whole")
    run("box.far[0] = -1.0")
    assert run("near[400]").value == -1.0


def test_only_the_memory_that_is_looked_at_is_kept(workspace: Workspace, run: Run) -> None:
    code = "import numpy as np\nwhole = np.random.random(2_000_000)\n"
    run(code + "a, b = whole[500_000:500_020], whole[500_010:500_030]\ndel whole")
    assert run("bool(a[10] == b[0])").value is True
    assert (workspace.path.parent / "agent.db").stat().st_size < 1_000_000


def test_views_that_do_not_overlap_stay_data(workspace: Workspace, run: Run) -> None:
    run("import numpy as np\nleft, right = np.split(np.arange(10.0), 2)")
    assert workspace["left"].tolist() == [0, 1, 2, 3, 4]
    run("right[0] = 9")
    assert workspace["right"].tolist() == [9, 6, 7, 8, 9]


def test_views_are_data_again_when_they_are_copied(workspace: Workspace, run: Run) -> None:
    run("import numpy as np\nwhole = np.zeros(9)\na, b = whole[:6], whole[3:]\ndel whole")
    run("b = b.copy()")
    run("a[0] = 1")
    assert (workspace["a"][0], workspace["b"].tolist()) == (1.0, [0.0] * 6)


def test_what_an_object_shared_with_a_deleted_variable_is_its_own(run: Run) -> None:
    run("class Box: pass\nbox = Box()\nrows = [1, [2]]")
    run("box.rows = rows\ndel rows")
    assert run("box.rows").value == [1, [2]]


def test_an_object_may_have_several_long_arrays(run: Run) -> None:
    run("import numpy as np\nclass Box: pass\nbox = Box()\nbox.a = np.arange(300_000.0)")
    run("box.b = np.ones(300_000)\nbox.c = np.ones(10)")
    run("box.a[1] = 5")
    assert run("box.a[:3].tolist(), box.b.sum(), box.c.sum()").value == ([0, 5, 2], 300_000, 10)


def test_a_view_that_cannot_be_written_to_stays_so(run: Run) -> None:
    run("import numpy as np\nwhole = np.zeros(9)\npart = whole[2:]\npart.flags.writeable = False")
    run("whole[3] = 4")
    assert run("part[1], part.flags.writeable").value == (4.0, False)


def test_windows_look_at_what_they_slide_over(run: Run) -> None:
    run("import numpy as np\na = np.zeros(9)\nw = np.lib.stride_tricks.sliding_window_view(a, 3)")
    run("a[3] = 4")
    assert run("w[1:4, :].sum(), w.flags.writeable").value == (12.0, False)


def test_views_of_objects_stay_views(run: Run) -> None:
    code = "import numpy as np\nclass C: pass\ngrid = np.array([[C(), C()], [C(), C()]])\n"
    run(code + "flat, column = grid.ravel(), grid[:, 1]")
    run("flat[1] = None")
    assert run("grid[0, 1] is None, column[0] is None, flat[3] is column[1]").value == (True,) * 3


def test_numbers_that_lie_by_rows_do_so_again(run: Run) -> None:
    code = "import numpy as np, pandas as pd\nclass Box: pass\nbox = Box()\n"
    code += "frame = pd.DataFrame(np.random.random((50, 3)), columns=list('abc'), copy=False)\n"
    run(code + "frame.insert(1, 'name', 'x'); frame['n'] = 1; box.frame = frame.copy(deep=False)")
    layout = "[(list(b.mgr_locs), b.values.strides) for b in {}._mgr.blocks if b.dtype == float]"
    for name in ("frame", "box.frame"):
        assert run(layout.format(name)).value == [([0, 2, 3], (8, 24))]
    assert run("frame.columns.tolist()").value == ["a", "name", "b", "c", "n"]
    assert run("frame.equals(box.frame)").value is True


def test_a_sparse_array_knows_its_order(run: Run) -> None:
    run("import scipy.sparse as sp\nm = sp.random(9, 9, 0.3, format='csr'); n = {'m': m.copy()}")
    run("m.has_sorted_indices, n['m'].has_canonical_format")
    assert run("'_has_sorted_indices' in vars(m)").value is True
    assert run("'_has_canonical_format' in vars(n['m'])").value is True


def test_dicts_have_their_order_in_the_next_process(run: Run) -> None:
    run("small = {'z': 1, 'a': {'y': 1, 'b': 2}}")
    run("big = {f'k{n % 997}': n for n in range(0, 9970, 7)}")
    run("import collections\nother = collections.OrderedDict(small)\nwas = list(big)")
    assert run("list(small), list(small['a']), list(other)").value == (
        ["z", "a"], ["y", "b"], ["z", "a"],
    )  # fmt: skip
    assert run("list(big) == was").value is True
    assert run("small['z'] = small.pop('z')").changed == ("small",)
    assert run("list(small)").value == ["a", "z"]
    assert run("list(small)").changed == ()


def test_an_order_that_was_noted_beside_a_variable_is_read_and_stored_with_it(
    workspace: Workspace, run: Run
) -> None:
    run("d = {'a': {'b': 2, 'y': 1}, 'z': 1}\nlong = {'a': 'x' * 40_000, 'z': {'b': 1, 'y': 2}}")
    state = workspace.state
    usual = {"keys": [["z", "a"], ["y", "b"]], "places": []}
    for name in ("d", "long"):
        entry = state[(".workspace", "vars", name)] | {"order": usual}
        state.write_reserved((".workspace", "vars", name), state.cells.put(entry))
    state.commit("as it was written before dicts had an order")
    assert run("list(d), list(d['a'])").value == (["z", "a"], ["y", "b"])
    assert run("list(long), list(long['z'])").value == (["z", "a"], ["y", "b"])
    assert "order" not in state[(".workspace", "vars", "d")]
    assert list(state[(".workspace", "data", "d")]) == ["z", "a"]
    assert list(state[(".workspace", "data", "long", "z")]) == ["y", "b"]
    assert run("long['z'], d").changed == ()
    assert run("list(long), list(long['z'])").value == (["z", "a"], ["y", "b"])
