"""A step at a time, each in a process of its own: what is there afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from otolith import Disk, Versioned
from otolith.errors import Denied, KeyNotFound, NotKept
from otolith.workspace import Runner, Step, Workspace

Run = Callable[[str], Step]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Versioned]:
    with Versioned(Disk(tmp_path / "agent.db", durability="fast")) as state:
        yield state


@pytest.fixture(params=["cold", "warm"])
def workspace(request: pytest.FixtureRequest, state: Versioned, tmp_path: Path) -> Any:
    runner = Runner(sandbox="limits", mode=request.param)
    with state.workspace(runner=runner, folder=tmp_path / "work") as workspace:
        yield workspace


@pytest.fixture
def run(workspace: Workspace) -> Run:
    """Run a step that must succeed."""

    def run(code: str) -> Step:
        step = workspace.run(code)
        assert step.ok, step.error and step.error.traceback
        return step

    return run


def test_variables_are_there_in_the_next_step(run: Run) -> None:
    step = run("x = 41\ny = [1, {'a': (2, 3)}]")
    assert step.created == ("x", "y")
    assert run("x + 1").value == 42
    assert run("y[1]['a']").value == (2, 3)


def test_every_step_is_a_commit(run: Run, state: Versioned) -> None:
    first = run("x = 1")
    second = run("x = 2")
    assert second.commit is not None
    assert first.commit is not None
    assert [commit.id for commit in state.log(limit=2)] == [second.commit.id, first.commit.id]


def test_the_value_of_a_step_is_that_of_its_last_expression(run: Run) -> None:
    assert run("1 + 1").value == 2
    assert run("x = 5").value is None
    assert run("x;").value is None
    step = run("object()")
    assert step.value is None
    assert step.shown is not None
    assert "object" in step.shown


def test_what_is_printed_is_kept_and_passed_on(workspace: Workspace) -> None:
    heard: list[tuple[str, str]] = []
    code = "import sys\nprint('out')\nprint('err', file=sys.stderr)"
    step = workspace.run(code, on_output=lambda stream, text: heard.append((stream, text)))
    assert (step.stdout, step.stderr) == ("out\n", "err\n")
    assert ("stdout", "out\n") in heard


def test_a_change_in_place_is_found(run: Run) -> None:
    run("rows = [{'n': 1}]; other = 'same'")
    step = run("rows[0]['n'] = 2; other")
    assert (step.changed, step.created) == (("rows",), ())
    assert run("rows").value == [{"n": 2}]


def test_reading_changes_nothing(run: Run) -> None:
    run("rows = [1]; words = {'b', 'a', 'c'}; f = lambda: rows\nclass C: pass\nc = C()")
    step = run("rows, words, f(), c")
    assert (step.created, step.changed, step.deleted) == ((), (), ())


def test_what_is_deleted_is_gone(workspace: Workspace, run: Run) -> None:
    run("x = 1; y = [2]")
    assert run("del x").deleted == ("x",)
    assert list(workspace) == ["y"]
    step = workspace.run("x")
    assert step.error is not None
    assert step.error.type == "NameError"


def test_a_function_can_delete_what_was_not_touched(run: Run) -> None:
    run("x = 1\ndef drop():\n    global x\n    del x")
    assert run("drop()").deleted == ("x",)


def test_names_of_one_object_stay_one(run: Run) -> None:
    run("a = [1]; b = a; c = {'a': a}; d = [a, a]")
    assert run("a is b, c['a'] is a, d[0] is d[1] is a").value == (True, True, True)
    run("b.append(2)")
    assert run("a, c, d").value == ([1, 2], {"a": [1, 2]}, [[1, 2], [1, 2]])


def test_rebinding_one_of_two_names_leaves_the_other(run: Run) -> None:
    run("class C: pass\na = C(); a.n = 1; b = a; c = [a]")
    run("a = None")
    assert run("a, b.n, c[0] is b").value == (None, 1, True)
    run("del c")
    assert run("b.n").value == 1


def test_views_of_arrays_stay_views(run: Run) -> None:
    run("import numpy as np\nv = np.arange(10.0); w = v[2:5]\nclass H: pass\nh = H(); h.v = v[1:3]")
    run("w[0] = 99")
    assert run("v[2], h.v[1], w[0]").value == (99.0, 99.0, 99.0)
    run("h.v[0] = -1")
    assert run("float(v[1])").value == -1.0


def test_objects_share_with_data(run: Run) -> None:
    run(
        "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]}); rows = [[1], [2]]\n"
        "class H: pass\nh = H(); h.df = df; h.row = rows[1]"
    )
    assert run("h.df is df, h.row is rows[1]").value == (True, True)
    run("df['b'] = 3; rows[1].append(9); rows.insert(0, [0])")
    assert run("list(h.df.columns), h.row, h.row is rows[2]").value == (["a", "b"], [2, 9], True)
    run("df = None")
    assert run("list(h.df.columns)").value == ["a", "b"]


def test_unrelated_variables_are_never_glued(run: Run) -> None:
    run(
        "import pandas as pd, collections\n"
        "class A: pass\na, b = A(), A()\nc, d = collections.OrderedDict(), collections.deque()\n"
        "e = pd.DataFrame({'x': [1]}).groupby('x')\nf = pd.DataFrame({'x': [1]}).groupby('x')\n"
        "def g(): pass\ndef h(): pass"
    )
    assert run("b.n = 1").changed == ("b",)
    assert run("c['k'] = 1").changed == ("c",)
    assert run("d.append(1)").changed == ("d",)
    assert run("e.flag = 1; g.flag = 2").changed == ("e", "g")


def test_functions_use_the_live_namespace(run: Run) -> None:
    run("x = 1\ndef add(n):\n    global x\n    x += n\n    return x")
    assert run("add(5)").value == 6
    run("x = 100")
    assert run("add(1), x").value == (101, 101)


def test_closures_share_their_cells(run: Run) -> None:
    run(
        "def counter():\n    n = 0\n    def inc():\n        nonlocal n\n        n += 1\n"
        "    def get():\n        return n\n    return inc, get\ninc, get = counter()"
    )
    run("inc()")
    run("inc()")
    assert run("get()").value == 2


def test_classes_keep_their_identity_and_their_state(run: Run) -> None:
    run("class C:\n    count = 0\n    def up(self): C.count += 1; return C.count\na, b = C(), C()")
    assert run("type(a) is type(b) is C, isinstance(a, C)").value == (True, True)
    run("C.count = 10")
    assert run("b.up()").value == 11
    assert run("a.up(), C.count").value == (12, 12)


def test_a_class_that_is_defined_again_is_another_one(run: Run) -> None:
    run("class C:\n    n = 1\nold = C()")
    run("class C:\n    n = 2\nnew = C()")
    assert run("old.n, new.n, isinstance(old, C), isinstance(new, C)").value == (1, 2, False, True)


def test_a_subclass_and_super_survive(run: Run) -> None:
    run("class A:\n    def f(self): return 'A'")
    run("class B(A):\n    def f(self): return super().f() + 'B'")
    assert run("B().f(), B.__mro__[1] is A").value == ("AB", True)


def test_dataclasses_enums_and_named_tuples_of_a_session_survive(run: Run) -> None:
    run(
        "from dataclasses import dataclass, field\nfrom enum import Enum\n"
        "from collections import namedtuple\nfrom typing import NamedTuple\n"
        "@dataclass\nclass P:\n    x: int\n    tags: list[str] = field(default_factory=list)\n"
        "class Color(Enum):\n    RED = 1\n"
        "T = namedtuple('T', 'a b')\nclass N(NamedTuple):\n    a: int = 1\n"
        "p, c, t, n = P(1), Color.RED, T(1, 2), N()"
    )
    assert run("p.x, c is Color.RED, t.a, n == N(1), isinstance(p, P)").value == (
        1, True, 1, True, True,
    )  # fmt: skip
    assert run("P(2, ['a']).tags, p == P(1)").value == (["a"], True)


def test_source_is_there_after_a_restore(run: Run, workspace: Workspace) -> None:
    run("def f(n):\n    return 1 / n")
    assert run("import inspect; inspect.getsource(f)").value == "def f(n):\n    return 1 / n\n"
    step = workspace.run("f(0)")
    assert step.error is not None
    assert "return 1 / n" in step.error.traceback


def test_random_numbers_go_on_where_they_were(run: Run) -> None:
    import random

    import numpy as np

    run("import random, numpy as np\nrandom.seed(7); np.random.seed(7)")
    found = [run("random.random(), float(np.random.rand())").value for _ in range(3)]
    random.seed(7)
    np.random.seed(7)
    assert found == [(random.random(), float(np.random.rand())) for _ in range(3)]


def test_folder_environment_and_path_go_along(run: Run) -> None:
    run("import os, sys\nos.mkdir('sub'); os.chdir('sub'); os.environ['TOKEN'] = 'x'")
    run("sys.path.append('/somewhere')")
    step = run("os.path.basename(os.getcwd()), os.environ['TOKEN'], sys.path[-1]")
    assert step.value == ("sub", "x", "/somewhere")


def test_files_are_part_of_the_state(run: Run, workspace: Workspace) -> None:
    step = run("open('a.txt', 'w').write('one')")
    assert step.files.added == ("a.txt",)
    assert run("open('a.txt', 'a').write(' two')").files.changed == ("a.txt",)
    workspace.undo()
    assert (workspace.path / "a.txt").read_text() == "one"
    assert run("import os; os.remove('a.txt')").files.removed == ("a.txt",)


def test_a_module_in_the_folder_can_be_imported(run: Run) -> None:
    run("open('helper.py', 'w').write('def twice(n): return 2 * n')")
    run("import helper\nfrom helper import twice")
    assert run("helper.twice(2), twice(3)").value == (4, 6)


def test_a_failed_step_keeps_what_it_reached(workspace: Workspace, run: Run) -> None:
    run("before = 1")
    step = workspace.run("x = [1]\nx.append(2)\n1 / 0\nx.append(3)")
    assert not step.ok
    assert step.error is not None
    assert (step.error.type, step.error.line) == ("ZeroDivisionError", 3)
    assert step.commit is not None
    assert step.commit.meta["ok"] is False
    assert run("x").value == [1, 2]
    workspace.undo()
    workspace.undo()
    assert "x" not in workspace


def test_a_syntax_error_is_told_with_its_line(workspace: Workspace) -> None:
    step = workspace.run("x = 1\ny = = 2")
    assert step.error is not None
    assert (step.error.type, step.error.line) == ("SyntaxError", 2)
    assert "x" not in workspace


def test_undo_takes_a_step_back(workspace: Workspace, run: Run) -> None:
    run("x = [1]")
    run("x.append(2)")
    workspace.undo()
    assert run("x").value == [1]


def test_the_first_step_can_be_taken_back_too(workspace: Workspace, run: Run) -> None:
    run("x = 1; open('made', 'w').write('x')")
    workspace.undo()
    assert "x" not in workspace
    assert [*workspace.path.iterdir()] == []
    assert run("'x' in globals()").value is False
    workspace.undo()
    workspace.state.redo()
    assert run("y = 2").ok


def test_what_cannot_be_kept_says_what_it_was(workspace: Workspace, run: Run) -> None:
    step = run("g = (i for i in range(3)); rest = [1]")
    assert set(step.lost) == {"g"}
    with pytest.raises(NotKept, match="generator"):
        workspace["g"]
    assert run("rest").value == [1]


def test_using_what_was_lost_says_what_to_do(state: Versioned, tmp_path: Path) -> None:
    with state.workspace(runner=Runner(sandbox="limits"), folder=tmp_path / "work") as workspace:
        workspace.run("import re\nm = re.match('a', 'a')\nlock = __import__('threading').Lock()")
        step = workspace.run("m")
    assert step.error is not None
    assert step.error.type == "LostVariable"
    assert "step 1" in step.error.message
    assert "groups()" in step.error.message


def test_figures_are_kept_as_pictures(run: Run, state: Versioned) -> None:
    pytest.importorskip("matplotlib")
    step = run("import matplotlib.pyplot as plt\nplt.plot([1, 2]); data = [1]")
    assert len(step.figures) == 1
    assert step.figures[0].png.startswith(b"\x89PNG")
    assert run("data").figures == ()


def test_the_host_reads_data_and_no_pickles(workspace: Workspace, run: Run) -> None:
    run("import pandas as pd\ndf = pd.DataFrame({'a': [1]})\nclass C: pass\nc = C()")
    assert list(workspace["df"]["a"]) == [1]
    with pytest.raises(Denied, match="trusted"):
        workspace["c"]
    with pytest.raises(KeyNotFound):
        workspace["nothing"]


def test_variables_are_described_without_being_read(workspace: Workspace, run: Run) -> None:
    run("import numpy as np\na = np.zeros((2, 3)); class_ = type('T', (), {})(); n = 5")
    found = {variable.name: variable for variable in workspace.vars()}
    assert (found["a"].type, found["a"].shape, found["a"].bytes) == ("numpy.ndarray", (2, 3), 48)
    assert found["class_"].kind == "object"
    assert found["n"].preview == "5"
    assert found["np"].kind == "module"


def test_the_host_can_put_values(workspace: Workspace, run: Run) -> None:
    workspace.put(cfg={"k": 3}, rows=[1, 2])
    assert run("cfg['k'] + len(rows)").value == 5


def test_another_process_another_day(state: Versioned, tmp_path: Path) -> None:
    runner = Runner(sandbox="limits")
    with state.workspace(runner=runner, folder=tmp_path / "one") as workspace:
        workspace.run("x = [1]; y = x\nopen('f.txt', 'w').write('hi')")
    again = Versioned(state.repo)
    with again.workspace(runner=runner, folder=tmp_path / "two") as workspace:
        assert workspace.run("x is y, open('f.txt').read()").value == (True, "hi")


def test_recursive_and_deep_objects_survive(run: Run) -> None:
    run("a = []; a.append(a)\nclass N: pass\nn = N(); n.self = n")
    assert run("a[0] is a, n.self is n").value == (True, True)


def test_iterating_over_globals_sees_everything(run: Run) -> None:
    run("x = 1; y = 2")
    assert run("sorted(k for k in globals() if len(k) == 1)").value == ["x", "y"]
    assert run("'x' in globals(), globals()['y'], globals().get('z')").value == (True, 2, None)


def test_star_imports_and_builtins_are_not_kept(workspace: Workspace, run: Run) -> None:
    run("from math import *")
    assert run("sqrt(4.0)").value == 2.0
    workspace.run("import builtins\nbuiltins.len = lambda x: -1")
    assert run("len([1, 2])").value in (2, -1)
