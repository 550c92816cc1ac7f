"""What a step tells, and what is told of variables and commits afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from otolith import Disk, Versioned
from otolith.errors import BadValue, Invalid
from otolith.workspace import Runner, Variable, Workspace, variables_in, workspace_diff

MOST = 3000


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    runner = Runner(sandbox="limits", mode="warm", shown_chars=MOST)
    with (
        Versioned(Disk(tmp_path / "agent.db", durability="fast")) as state,
        state.workspace(runner=runner, folder=tmp_path / "work") as workspace,
    ):
        yield workspace


def shown(workspace: Workspace, code: str) -> str:
    step = workspace.run(code)
    assert step.ok, step.error
    assert step.shown is not None
    return step.shown


# ---------------------------------------------------------------- shown


def test_a_frame_is_shown_as_a_notebook_would(workspace: Workspace) -> None:
    said = shown(workspace, "import pandas as pd\npd.DataFrame({'a': range(50), 'b': 'x'})")
    assert said.splitlines()[0].split() == ["a", "b"]
    assert len(said.splitlines()) == 51


def test_a_dict_is_shown_whole_and_over_lines(workspace: Workspace) -> None:
    said = shown(workspace, "{f'key {n}': list(range(n)) for n in range(20)}")
    assert len(said) > 500
    assert "'key 19': [0, 1, 2," in said
    assert max(map(len, said.splitlines())) <= 100


def test_what_is_too_long_is_cut_and_says_so(workspace: Workspace) -> None:
    said = shown(workspace, "class Long:\n    def __repr__(self): return 'x' * 10_000\nLong()")
    assert said == "x" * MOST + "\n… 7,000 more characters"


@pytest.mark.parametrize(
    "code", ["list(range(10**6))", "{'a': {n: n for n in range(10**5)}}", "'x' * 10**8"]
)
def test_of_a_huge_value_the_beginning_is_shown(workspace: Workspace, code: str) -> None:
    said = shown(workspace, code)
    assert len(said) < MOST + 50
    assert "..." in said or "more characters" in said


def test_a_repr_that_raises_is_told(workspace: Workspace) -> None:
    said = shown(workspace, "class Bad:\n    def __repr__(self): return 1 / 0\nBad()")
    assert said == "<Bad, whose repr raised ZeroDivisionError>"


# ---------------------------------------------------------------- lost


def test_what_is_lost_is_neither_created_nor_changed(workspace: Workspace) -> None:
    first = workspace.run("g = (n for n in [1]); x = 1")
    assert (first.created, set(first.lost)) == (("x",), {"g"})
    second = workspace.run("x = (n for n in [1])")
    assert (second.created, second.changed, set(second.lost)) == ((), (), {"x", "g"})


# ---------------------------------------------------------------- meta


def test_what_a_caller_says_of_a_step_is_in_its_commit(workspace: Workspace) -> None:
    step = workspace.run("x = 1", meta={"cost": 0.2, "tags": ["a"]})
    assert step.commit is not None
    assert step.commit.meta == {"cost": 0.2, "tags": ["a"], "ok": True, "sandbox": "limits"}


@pytest.mark.parametrize("word", ["ok", "sandbox", "stopped"])
def test_a_word_of_ours_is_refused_before_anything_runs(workspace: Workspace, word: str) -> None:
    with pytest.raises(Invalid, match=f"{word!r} in the meta"):
        workspace.run("x = 1", meta={word: 1})
    assert "x" not in workspace


@pytest.mark.parametrize("meta", [{"a": object()}, {"a": (1, 2)}, {1: 2}])
def test_meta_that_cannot_be_kept_is_refused_before_anything_runs(
    workspace: Workspace, meta: dict[str, object]
) -> None:
    with pytest.raises(BadValue, match="plain data"):
        workspace.run("x = 1", meta=meta)
    assert "x" not in workspace


def test_code_that_is_no_text_is_refused(workspace: Workspace) -> None:
    with pytest.raises(Invalid, match="line 2 of the code"):
        workspace.run("x = 1\ny = '\udcff'")
    assert workspace.run("1").value == 1


# ---------------------------------------------------------------- variables


def known(workspace: Workspace) -> dict[str, Variable]:
    return {each.name: each for each in workspace.vars()}


def test_what_has_a_length_tells_it(workspace: Workspace) -> None:
    workspace.run("rows = [1, 2]; word = 'abc'; d = {}; n = 5\nimport numpy as np\na = np.zeros(3)")
    found = {name: (each.length, each.shape) for name, each in known(workspace).items()}
    assert found["rows"] == (2, None)
    assert found["word"] == (3, None)
    assert found["d"] == (0, None)
    assert found["n"] == (None, None)
    assert found["a"] == (None, (3,))


def test_a_variable_that_needs_something_says_what(workspace: Workspace) -> None:
    code = "g = (n for n in [1]); n = 1\nimport json\nclass C: pass\nc = C()"
    workspace.run(code)
    workspace.resource("db", factory="json:loads")
    hints = {name: each.hint for name, each in known(workspace).items()}
    assert hints["g"] == "consume g, and store the list"
    assert hints["n"] == ""
    assert "json" in hints["json"]
    assert "trusted=True" in hints["c"]
    assert "json:loads" in hints["db"]


def test_variables_of_a_state_that_was_can_be_told(workspace: Workspace) -> None:
    first = workspace.run("x = 1").commit
    assert first is not None
    workspace.run("x = 2; y = 3")
    then = variables_in(workspace.state.at(first))
    assert [(each.name, each.preview) for each in then] == [("x", "1")]


def test_a_difference_says_what_was_lost_and_the_shape_of_frames(workspace: Workspace) -> None:
    workspace.run("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]}); g = (n for n in [1])")
    workspace.run("df['b'] = 1")
    first = {each.name: str(each) for each in workspace_diff(workspace.state, new="@~1")}
    assert "lost: " in first["g"]
    assert [str(each) for each in workspace.diff()] == [
        "~ df: pandas.DataFrame 2 x 1 -> pandas.DataFrame 2 x 2"
    ]


def test_a_traceback_is_of_the_code_and_not_of_ours(workspace: Workspace) -> None:
    workspace.run("g = (n for n in [1])")
    with workspace.fork("fresh") as fresh:
        step = fresh.run("next(g)")
    assert step.error is not None
    assert step.error.type == "LostVariable"
    assert "otolith/workspace" not in step.error.traceback
