"""Which sandbox steps get: the best that works here, and a word about it where that is less."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from otolith import Disk, Versioned
from otolith.workspace import Runner, sandbox_status
from otolith.workspace.sandbox import landlock, path_inside

# Without an installed bwrap there is nothing to fall back from.
NEEDS_BUBBLEWRAP = pytest.mark.skipif(
    dict(sandbox_status())["bubblewrap"] is not None, reason="bubblewrap does not work here"
)
STEP = """
import otolith, warnings
warnings.simplefilter("error")
with otolith.open("agent.db") as repo, repo.session("a").workspace() as workspace:
    step = workspace.run("40 + 2")
    print(step.sandbox, step.value)
"""
CHOICE = """
from otolith.workspace.sandbox import choose_sandbox
print(choose_sandbox().name)
"""


def said(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "XDG_STATE_HOME": str(folder / "xdg"), **environment}
    return subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, check=True
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "some" / "where"
    folder.mkdir(parents=True)
    return folder


@NEEDS_BUBBLEWRAP
def test_a_python_that_was_started_by_a_path_with_dots_gets_the_same(folder: Path) -> None:
    python = os.path.relpath(sys.executable, folder)
    assert python.startswith("..")
    assert said([python, "-c", STEP], folder).stdout == "bubblewrap 42\n"


@NEEDS_BUBBLEWRAP
def test_a_python_that_was_found_by_a_path_with_dots_gets_the_same(folder: Path) -> None:
    python = Path(os.path.relpath(sys.executable, folder))
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    shell = ["/bin/sh", "-c", f'exec {python.name} -c "$1"', "sh", STEP]
    assert said(shell, folder, PATH=path).stdout == "bubblewrap 42\n"


@NEEDS_BUBBLEWRAP
def test_a_sandbox_that_is_there_and_does_not_work_is_a_warning(folder: Path) -> None:
    program = folder / "bwrap"
    program.write_text("#!/bin/sh\necho no namespaces for you >&2\nexit 1\n")
    program.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    done = said([sys.executable, "-c", CHOICE], folder, PATH=path)
    assert done.stdout in ("landlock\n", "limits\n")
    assert "RuntimeWarning: steps run in the" in done.stderr
    assert "bubblewrap: no namespaces for you" in done.stderr


@NEEDS_BUBBLEWRAP
def test_what_works_is_no_warning(folder: Path) -> None:
    done = said([sys.executable, "-W", "error", "-c", CHOICE], folder)
    assert (done.stdout, done.stderr) == ("bubblewrap\n", "")


def test_a_path_is_made_plain_as_the_system_would_follow_it(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "deep")
    (tmp_path / "real" / "python").symlink_to("elsewhere")
    assert path_inside(tmp_path / "link" / ".." / "python") == tmp_path / "real" / "python"
    assert path_inside(tmp_path / "link" / "..") == tmp_path / "real"
    assert path_inside(tmp_path / "link" / "python") == tmp_path / "link" / "python"


@pytest.mark.parametrize("rung", ["bubblewrap", "landlock"])
def test_a_step_cannot_end_or_stop_the_process_that_forks_workers(
    tmp_path: Path, rung: str
) -> None:
    reason = dict(sandbox_status())[rung]
    if reason is None and rung == "landlock" and landlock.version() < 6:
        reason = "this Landlock does not know signals"
    if reason is not None:
        pytest.skip(f"{rung} does not work here: {reason}")
    with (
        Versioned(Disk(tmp_path / "agent.db", durability="fast")) as state,
        state.workspace(runner=Runner(sandbox=rung), folder=tmp_path / "work") as workspace,
    ):
        workspace.run("import os, signal")
        pool = workspace._steps.pool
        assert pool is not None
        first = pool._process
        for name in ("SIGKILL", "SIGSTOP"):
            workspace.run(f"os.kill(os.getppid(), signal.{name})")
            assert workspace.run("40 + 2").value == 42
        assert pool._process is first, "it was not started again"
