"""Code that loops, eats memory, dies, lies and tampers: a clear report, the last commit intact."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from otolith import Disk, Versioned
from otolith.errors import BadRef, Invalid
from otolith.workspace import Runner, Workspace
from tests.patience import HANG_SECONDS, seconds

WALL_SECONDS = seconds(2)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Versioned]:
    with Versioned(Disk(tmp_path / "agent.db", durability="fast")) as state:
        yield state


@pytest.fixture
def workspace(state: Versioned, tmp_path: Path) -> Iterator[Workspace]:
    runner = Runner(
        sandbox="limits", wall_seconds=WALL_SECONDS, grace_seconds=1, memory_bytes=512 << 20,
        file_bytes=1 << 20, output_bytes=10_000,
    )  # fmt: skip
    with state.workspace(runner=runner, folder=tmp_path / "work") as workspace:
        assert workspace.run("before = [1]\nopen('kept.txt', 'w').write('kept')").ok
        yield workspace


def is_as_before(workspace: Workspace) -> bool:
    step = workspace.run("before, open('kept.txt').read()")
    return step.ok and bool(step.value == ([1], "kept"))


@pytest.mark.parametrize("code", [5, None, b"x = 1", ["x = 1"]])
def test_code_that_is_not_text_is_refused(workspace: Workspace, code: object) -> None:
    with pytest.raises(Invalid, match=f"code must be a str, got {type(code).__name__}"):
        workspace.run(code)  # type: ignore[arg-type]
    with pytest.raises(BadRef):
        workspace.fork(code)  # type: ignore[arg-type]
    assert is_as_before(workspace)


def test_an_endless_loop_is_interrupted_and_what_it_reached_is_kept(workspace: Workspace) -> None:
    step = workspace.run("reached = 0\nwhile True:\n    reached += 1")
    assert not step.ok
    assert step.stopped == "timed out"
    assert step.error is not None
    assert (step.error.type, step.error.message) == (
        "KeyboardInterrupt",
        f"it took longer than {WALL_SECONDS:g} s",
    )
    assert workspace["reached"] > 0
    assert is_as_before(workspace)


def test_a_loop_that_does_not_listen_is_killed(workspace: Workspace, state: Versioned) -> None:
    head = state.head
    code = "import time\nwhile True:\n    try: time.sleep(9)\n    except BaseException: pass"
    step = workspace.run(code)
    assert not step.ok
    assert step.error is not None
    assert f"longer than {WALL_SECONDS:g} s" in step.error.message
    assert state.head == head
    assert is_as_before(workspace)


def test_memory_is_limited(workspace: Workspace) -> None:
    step = workspace.run("hoard = []\nwhile True: hoard.append(bytearray(64 << 20))")
    assert not step.ok
    assert step.error is not None
    assert step.error.type in ("MemoryError", "WorkerDied")
    assert is_as_before(workspace)


def test_a_long_file_is_refused(workspace: Workspace) -> None:
    step = workspace.run("open('big.bin', 'wb').write(bytes(10 << 20))")
    assert not step.ok
    assert is_as_before(workspace)


@pytest.mark.parametrize(
    ("code", "said"),
    {
        "import os; os._exit(3)": "exit code 3",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": "SIGKILL",
        "import ctypes; ctypes.string_at(0)": "SIGSEGV",
    }.items(),
)
def test_a_process_that_dies_leaves_the_last_commit(
    workspace: Workspace, state: Versioned, code: str, said: str
) -> None:
    head = state.head
    step = workspace.run(f"before.append(2)\nopen('kept.txt', 'w').write('lost')\n{code}")
    assert not step.ok
    assert step.error is not None
    assert said in step.error.message
    assert step.commit is None
    assert state.head == head
    assert is_as_before(workspace)


def test_leaving_is_a_failed_step(workspace: Workspace) -> None:
    step = workspace.run("x = 1\nimport sys; sys.exit(2)")
    assert step.error is not None
    assert step.error.type == "SystemExit"
    assert workspace["x"] == 1


def test_a_flood_of_output_is_cut(workspace: Workspace) -> None:
    step = workspace.run("for _ in range(100_000): print('x' * 100)")
    assert len(step.stdout) < 11_000
    assert "more bytes were printed" in step.stdout
    assert is_as_before(workspace)


def test_children_do_not_outlive_their_workspace(workspace: Workspace, tmp_path: Path) -> None:
    code = "import os, time\npid = os.fork()\nif pid == 0:\n    time.sleep(60)\n    os._exit(0)"
    assert workspace.run(code).ok
    pid = workspace["pid"]
    workspace.close()
    deadline = monotonic() + HANG_SECONDS
    while is_running(pid) and monotonic() < deadline:
        pass
    assert not is_running(pid)


def is_running(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def test_a_deleted_work_folder_comes_back(workspace: Workspace) -> None:
    step = workspace.run("import shutil, os; shutil.rmtree(os.getcwd())")
    assert "kept.txt" in step.files.removed
    assert workspace.run("x = 1").ok
    workspace.undo()
    workspace.undo()
    assert is_as_before(workspace)


def test_builtins_of_one_step_are_not_those_of_the_next(workspace: Workspace) -> None:
    workspace.run("import builtins\nbuiltins.len = builtins.isinstance = builtins.repr = None")
    assert is_as_before(workspace)
    assert workspace.run("len([1, 2])").value == 2


@pytest.mark.parametrize(
    "reduce",
    [
        "raise ValueError('no')",
        "return 5",
        "return (print,)",
        "return 'nothing'",
        "import sys; sys.setrecursionlimit(50); return self.__reduce__()",
    ],
)
def test_a_reduce_that_lies_loses_only_its_object(workspace: Workspace, reduce: str) -> None:
    code = f"class Bad:\n    def __reduce__(self):\n        {reduce}\nbad, good = Bad(), [2]"
    step = workspace.run(code)
    assert step.ok
    assert "bad" in step.lost
    assert workspace.run("good").value == [2]
    assert is_as_before(workspace)


def test_a_repr_that_raises_or_is_endless_does_no_harm(workspace: Workspace) -> None:
    code = "class Loud:\n    def __repr__(self): raise RuntimeError('no')\nloud = Loud()\nloud"
    step = workspace.run(code)
    assert step.ok
    assert step.shown is not None
    assert is_as_before(workspace)


def test_an_object_that_cannot_be_made_again_says_so(workspace: Workspace) -> None:
    code = (
        "class Once:\n    def __init__(self, n): self.n = n\n"
        "    def __reduce__(self): return (Once, ())\nonce = Once(1); other = 2"
    )
    assert workspace.run(code).ok
    step = workspace.run("once")
    assert not step.ok
    assert workspace.run("other").value == 2
    assert is_as_before(workspace)


def test_writing_to_the_line_loses_the_step_and_nothing_else(workspace: Workspace) -> None:
    code = (
        "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'\\xff' * 64)\n"
        "    except OSError: pass\nx = 1"
    )
    step = workspace.run(code)
    assert not step.ok
    assert "x" not in workspace
    assert is_as_before(workspace)


def test_a_missing_package_is_named(workspace: Workspace, tmp_path: Path) -> None:
    helper = tmp_path / "elsewhere" / "helper.py"
    helper.parent.mkdir()
    helper.write_text("n = 1")
    assert workspace.run(f"import sys; sys.path.append({str(helper.parent)!r})").ok
    assert workspace.run("import helper").ok
    helper.unlink()
    step = workspace.run("helper.n")
    assert step.error is not None
    assert "helper" in step.error.message
    assert "install" in step.error.message
