"""Forks, differences, merges and resources of a workspace, and what may be loaded on the host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from otolith import Disk, Versioned
from otolith.errors import Invalid, KeyNotFound, Untrusted
from otolith.workspace import Difference, Runner, Workspace
from otolith.workspace.protocol import NewObject, WorkerResult
from otolith.workspace.result_check import verify_result


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Versioned]:
    with Versioned(Disk(tmp_path / "agent.db", durability="fast")) as state:
        yield state


@pytest.fixture
def workspace(state: Versioned, tmp_path: Path) -> Iterator[Workspace]:
    runner = Runner(sandbox="limits")
    with state.workspace(runner=runner, folder=tmp_path / "work" / "main") as workspace:
        yield workspace


FRAME = "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2], 'b': [3, 4]}); x = 1"


def test_a_fork_goes_its_own_way(workspace: Workspace) -> None:
    workspace.run("x = [1]\nopen('f.txt', 'w').write('main')")
    with workspace.fork("try") as other:
        other.run("x.append(2)\nopen('f.txt', 'w').write('try')")
        assert other["x"] == [1, 2]
    assert workspace.run("x, open('f.txt').read()").value == ([1], "main")


def test_a_difference_tells_variables_columns_and_files(workspace: Workspace) -> None:
    workspace.run(FRAME)
    workspace.run("df['b'] *= 2; df['c'] = 0; y = 5\ndel x\nopen('f.txt', 'w').write('hi')")
    found = {(each.what, each.name): each for each in workspace.diff()}
    assert {key: each.how for key, each in found.items()} == {
        ("variable", "df"): "changed",
        ("variable", "y"): "created",
        ("variable", "x"): "deleted",
        ("file", "f.txt"): "created",
    }
    columns = found["variable", "df"].columns
    assert columns is not None
    assert (columns.added, columns.changed, columns.removed) == (("c",), ("b",), ())


def test_branches_merge_by_variable_and_by_column(workspace: Workspace) -> None:
    workspace.run(FRAME)
    with workspace.fork("try") as other:
        other.run("df['a'] += 10; y = 'theirs'\ndef f(): return y")
    workspace.run("df['b'] += 100; z = 'ours'")
    merged = workspace.merge("try")
    assert merged.kind == "merged"
    assert workspace.run("list(df['a']), list(df['b']), f(), z").value == (
        [11, 12], [103, 104], "theirs", "ours",
    )  # fmt: skip


def test_what_both_changed_is_a_conflict_to_look_at(workspace: Workspace) -> None:
    workspace.run(FRAME)
    with workspace.fork("try") as other:
        other.run("df['a'] += 10")
    workspace.run("df['a'] += 20")
    merged = workspace.merge("try")
    assert merged.kind == "conflicted"
    assert [each.path for each in merged.conflicts] == [".workspace/data/df"]
    assert list(merged.conflicts[0].theirs["a"]) == [11, 12]


def test_a_conflict_of_an_object_is_resolved_with_what_shares_it(workspace: Workspace) -> None:
    workspace.run("class C: pass\nc = C(); c.n = 1; d = C(); d.twin = c; x = 1")
    with workspace.fork("try") as other:
        other.run("c.n = 2; x = 2")
    workspace.run("c.n = 3; x = 3")
    assert workspace.merge("try").kind == "conflicted"
    assert sorted((each.what, each.name) for each in workspace.conflicts) == [
        ("variable", "c"), ("variable", "x"),
    ]  # fmt: skip
    workspace.resolve_conflict("c", take="theirs")
    workspace.resolve_conflict("x", take="base")
    assert workspace.conflicts == []
    workspace.state.commit("merged")
    assert workspace.run("x, c.n, d.twin is c").value == (1, 2, True)


def test_a_change_in_a_class_is_resolved_by_a_side(workspace: Workspace) -> None:
    workspace.run("class C: n = 1\nc = C()")
    with workspace.fork("try") as other:
        other.run("C.n = 2")
    workspace.run("C.n = 3")
    merged = workspace.merge("try")
    for conflict in workspace.conflicts:
        workspace.resolve_conflict(conflict.name, take="theirs")
    assert merged.kind == "conflicted"
    workspace.state.commit("merged")
    step = workspace.run("c.n, C.n, isinstance(c, C)")
    assert step.value == (2, 2, True), step.error


def test_a_file_in_conflict_is_written_to_the_folder_when_it_is_resolved(
    workspace: Workspace,
) -> None:
    workspace.run("open('f.txt', 'w').write('base')")
    with workspace.fork("try") as other:
        other.run("open('f.txt', 'w').write('theirs')")
    workspace.run("open('f.txt', 'w').write('ours')")
    workspace.merge("try")
    (workspace.path / "mine.txt").write_text("not committed")
    workspace.resolve_conflict("f.txt", take="theirs")
    assert (workspace.path / "f.txt").read_text() == "theirs"
    assert (workspace.path / "mine.txt").read_text() == "not committed"


def test_a_conflict_that_is_not_there_names_those_that_are(workspace: Workspace) -> None:
    workspace.run("x = 1")
    with workspace.fork("try") as other:
        other.run("x = 2")
    workspace.run("x = 3")
    workspace.merge("try")
    with pytest.raises(KeyNotFound, match="variable or file y") as error:
        workspace.resolve_conflict("y", take="ours")
    assert "variable x" in error.value.hint


def texts(differences: list[Difference]) -> list[str]:
    return [str(each) for each in differences]


def previews(workspace: Workspace) -> dict[str, str]:
    return {each.name: each.preview for each in workspace.vars()}


def test_branches_are_compared_by_content_and_not_by_the_number_of_steps(
    workspace: Workspace,
) -> None:
    workspace.run("x = 1; y = 1; c = 1; same = 1")
    with workspace.fork("alt") as other:
        other.run("x = 2; same = 3\nclass C:\n    n = 2\nc = C()")
    workspace.run("x = 3; same = 3\nclass C:\n    n = 3\nc = C()")
    found = {each.name: each.how for each in workspace.diff("main", "alt")}
    assert found == {"C": "changed", "c": "changed", "x": "changed"}
    assert "~ x: int 3 -> int 2" in texts(workspace.diff("main", "alt"))


def test_what_is_equal_on_two_branches_is_no_difference(workspace: Workspace) -> None:
    workspace.run("x = 1")
    with workspace.fork("alt") as other:
        other.run("z = 0")
        other.run("x = [2]; del z\nimport json")
    workspace.run("x = [2]\nimport json")
    assert workspace.diff("main", "alt") == []


def test_what_only_refers_to_a_variable_does_not_change_it(workspace: Workspace) -> None:
    workspace.run("x = [1]\nclass C: pass")
    workspace.run("c = C(); c.part = x")
    assert [each.name for each in workspace.diff()] == ["c"]


def test_the_difference_of_a_merge_has_the_merged_values(workspace: Workspace) -> None:
    workspace.run("x = {'a': 1, 'b': 1}")
    with workspace.fork("try") as other:
        other.run("x['a'] = 2")
    workspace.run("x['b'] = 2")
    assert workspace.merge("try").kind == "merged"
    assert texts(workspace.diff()) == ["~ x: dict {'a': 1, 'b': 2} -> dict {'a': 2, 'b': 2}"]
    assert texts(workspace.diff("try", "main")) == [
        "~ x: dict {'a': 2, 'b': 1} -> dict {'a': 2, 'b': 2}"
    ]


def test_variables_are_described_as_they_are_after_a_merge(workspace: Workspace) -> None:
    workspace.run(FRAME + "; d = {'a': 1, 'b': 1}; z = 1")
    with workspace.fork("try") as other:
        other.run("df['c'] = 0; d['a'] = 2")
    workspace.run("df['b'] += 100; d['b'] = [2]")
    assert workspace.merge("try").kind == "merged"
    found = {each.name: each for each in workspace.vars()}
    assert found["d"].preview == "{'a': 2, 'b': [2]}"
    assert found["df"].shape == (2, 3)
    assert [name for name, _ in found["df"].columns] == ["a", "b", "c"]
    assert found["z"].preview == "1"


def test_a_step_that_reads_a_merged_variable_notes_how_it_is_now(workspace: Workspace) -> None:
    workspace.run("x = {'a': 1, 'b': 1}; y = 1")
    with workspace.fork("try") as other:
        other.run("x['a'] = 2")
    workspace.run("x['b'] = 2")
    workspace.merge("try")
    step = workspace.run("y = x['a']")
    assert step.changed == ("y",)
    entry = workspace.state.cells.load(cell_of(workspace, "vars", "x"))
    assert isinstance(entry, dict)
    assert (entry["preview"], entry["step"]) == ("{'a': 2, 'b': 2}", 2)
    assert texts(workspace.diff()) == ["~ y: int 1 -> int 2"]


def cell_of(workspace: Workspace, *path: str) -> bytes:
    cell = workspace.state.cell_at((".workspace", *path))
    assert cell is not None
    return cell


def test_a_rollback_and_an_undo_bring_the_descriptions_back(workspace: Workspace) -> None:
    first = workspace.run("x = {'a': 1, 'b': 1}").commit
    assert first is not None
    with workspace.fork("try") as other:
        other.run("x['a'] = 2")
    workspace.run("x['b'] = 2")
    merged = workspace.merge("try")
    assert previews(workspace) == {"x": "{'a': 2, 'b': 2}"}
    workspace.undo()
    assert previews(workspace) == {"x": "{'a': 1, 'b': 2}"}
    workspace.state.redo()
    assert previews(workspace) == {"x": "{'a': 2, 'b': 2}"}
    workspace.state.rollback(first)
    assert previews(workspace) == {"x": "{'a': 1, 'b': 1}"}
    assert merged.commit is not None
    assert texts(workspace.diff(merged.commit, "main")) == [
        "~ x: dict {'a': 2, 'b': 2} -> dict {'a': 1, 'b': 1}"
    ]


def test_a_merged_frame_is_not_laid_out_as_one_of_its_sides(workspace: Workspace) -> None:
    rows = "pd.DataFrame(np.ones((3, 3)), columns=[*'abc'], copy=False)"
    workspace.run(f"import numpy as np, pandas as pd\ndf = {rows}")
    with workspace.fork("try") as other:
        other.run("df['word'] = 'x'")
    workspace.run("df.iloc[0, 0] = 5")
    assert workspace.merge("try").kind == "merged"
    step = workspace.run("[str(each) for each in df.dtypes[:3]], df.iloc[0, 0]")
    assert step.value == (["float64"] * 3, 5.0)


def test_the_log_of_a_variable_has_what_changed_it(workspace: Workspace) -> None:
    first = workspace.run("x = [1]; y = 1")
    workspace.run("y = 2")
    third = workspace.run("x.append(2)")
    assert first.commit is not None
    assert third.commit is not None
    found = [commit.id for commit in workspace.log(var="x")]
    assert found == [third.commit.id, first.commit.id]


def test_a_resource_is_made_anew_in_each_process(workspace: Workspace) -> None:
    code = "import threading\ndef lock():\n    return threading.Lock()\n"
    (workspace.path / "making.py").write_text(code)
    workspace.resource("guard", factory="making:lock")
    assert workspace.run("with guard: x = 1").ok
    step = workspace.run("guard.locked()")
    assert step.value is False
    assert step.lost == {}


@pytest.mark.parametrize("factory", ["nothing", "a:b c", ":f", "os:system('x')"])
def test_a_factory_must_be_a_name(workspace: Workspace, factory: str) -> None:
    with pytest.raises(Invalid, match="does not name a function"):
        workspace.resource("x", factory=factory)


def test_the_host_loads_an_object_only_if_it_is_told_to(workspace: Workspace) -> None:
    workspace.run("class C:\n    def __init__(self): self.n = [1]\nc = C(); d = c.n")
    c = workspace.get("c", trusted=True)
    assert type(c).__name__ == "C"
    assert c.n == [1]
    assert workspace.get("nothing", 7) == 7


def test_an_object_signed_by_somebody_else_is_not_loaded(
    workspace: Workspace, state: Versioned, tmp_path: Path
) -> None:
    workspace.run("class C: pass\nc = C(); other = 1")
    stranger = Versioned(Disk(tmp_path / "agent.db"), secret=lambda: bytes(32))
    with stranger.workspace(runner=workspace.runner, folder=tmp_path / "two") as theirs:
        step = theirs.run("c")
        assert step.error is not None
        assert "not signed by this repo" in step.error.message
        assert theirs.run("other").value == 1
        with pytest.raises(Untrusted):
            theirs.get("c", trusted=True)


def done(cells: dict[str, bytes | None], objects: list[NewObject]) -> WorkerResult:
    return WorkerResult(
        ok=True, value=None, failure=None, was_interrupted=False, cells=cells,
        objects=objects, created=[], changed=[], deleted=[], lost={}, loaded=[], pickles=[],
        figures=[], modules=[], seconds={},
    )  # fmt: skip


FORGED = {
    "a table of its own": done({"config": b"\x80"}, []),
    "signatures": done({"signatures": b"\x80"}, []),
    "a table that is no map": done({"data": b"\x93\x01\x02\x03"}, []),
    "an object of no kind": done({}, [NewObject(b"Zrubbish")]),
    "an empty object": done({}, [NewObject(b"")]),
    "a node that is cut short": done({}, [NewObject(b"m\x00\x05")]),
    "a value that is not canonical": done({}, [NewObject(b"p\xd9\x01a")]),
    "a link to nothing": done({"data": b"\xc1\x01" + bytes(32) + b"\x01\xa0\x8d\x06"}, []),
    "a cell that is no cell": done({"data": b"\xc1"}, []),
    "no cell at all": done({"data": b""}, []),
}


@pytest.mark.parametrize("forged", FORGED)
def test_what_a_worker_forges_is_refused(
    workspace: Workspace, state: Versioned, forged: str
) -> None:
    workspace.run("x = 1")
    with pytest.raises(Invalid, match="was refused"):
        verify_result(state, FORGED[forged])
    state.discard()
    assert workspace.run("x").value == 1
