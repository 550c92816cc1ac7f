"""What a step starts and leaves behind: bombs, daemons, orphans; none outlives the step.

Bounded: each bomb stops by itself after a few forks, and what it starts ends by itself.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

import pytest

from otolith import Disk, Versioned
from otolith.workspace import Runner, Workspace, sandbox_status
from tests.patience import HANG_SECONDS, seconds

MOST = 20

# What is started says who it is by its arguments, and sleeps for less than a minute.
TOOLS = """
import os, time
def sleep():
    os.execv("/bin/sleep", ["{mark}", "50"])
def daemon(then):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            then()
        os._exit(0)
    os.wait()
"""
BOMBS = {
    "that doubles": "for _ in range(6): os.fork()\ntime.sleep(600)",
    "that goes on": "for _ in range(60):\n    if os.fork() == 0: sleep()\ntime.sleep(600)",
    "of daemons": "for _ in range(60): daemon(sleep)\ntime.sleep(600)",
}


@pytest.fixture
def mark() -> str:
    return f"otolith-{uuid.uuid4().hex[:12]}"


PLACES = [
    pytest.param(("bubblewrap", "cold"), id="bubblewrap-cold"),
    pytest.param(("bubblewrap", "warm"), id="bubblewrap-warm", marks=pytest.mark.long),
    pytest.param(("landlock", "cold"), id="landlock-cold", marks=pytest.mark.long),
    pytest.param(("landlock", "warm"), id="landlock-warm"),
    pytest.param(("limits", "cold"), id="limits-cold"),
    pytest.param(("limits", "warm"), id="limits-warm"),
]
"""Each rung and each mode; the nursery that ends what is left behind is the same in all."""


@pytest.fixture(params=PLACES)
def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workspace]:
    rung, mode = request.param
    reason = dict(sandbox_status())[rung]
    if reason is not None:
        pytest.skip(f"{rung} does not work here: {reason}")
    runner = Runner(sandbox=rung, mode=mode, wall_seconds=seconds(10), processes=MOST)
    with (
        Versioned(Disk(tmp_path / "agent.db", durability="fast")) as state,
        state.workspace(runner=runner, folder=tmp_path / "work") as workspace,
    ):
        assert workspace.run("before = [1]").ok
        yield workspace


def left(mark: str) -> list[int]:
    """Return the processes that have a word on their command line, in whatever namespace."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            said = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in said and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def is_gone(mark: str, *, most: int = 0) -> bool:
    deadline = monotonic() + HANG_SECONDS
    while len(left(mark)) > most:
        if monotonic() > deadline:
            return False
        sleep(0.02)
    return True


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_fork_bomb_ends_with_its_step_and_leaves_nobody(
    workspace: Workspace, mark: str, bomb: str
) -> None:
    step = workspace.run(TOOLS.format(mark=mark) + BOMBS[bomb])
    assert not step.ok
    assert is_gone(mark)
    # The nursery, a worker, and one that was made ready for the next step.
    assert is_gone(f"{workspace.path}\0", most=6)
    assert workspace.run("before").value == [1]


def test_what_has_died_without_a_word_is_started_again(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = workspace._steps.pool
    assert pool is not None
    assert pool._process is not None
    workspace._steps.dismiss_worker()
    pool._drop_prepared()
    died, line = pool._process, pool.control
    assert line is not None
    died.kill()
    died.wait()
    line.settimeout(HANG_SECONDS)
    with suppress(ConnectionResetError):
        while line.recv(4096):  # whoever is inside a sandbox dies a little later than the sandbox
            pass
    monkeypatch.setattr(died, "poll", lambda: None)  # as if nobody had noticed yet

    assert workspace.run("before").value == [1]


@pytest.mark.skipif(os.getuid() != 0, reason="the kernel counts the processes of all but root")
def test_a_fork_bomb_of_root_is_counted(workspace: Workspace, mark: str) -> None:
    step = workspace.run(TOOLS.format(mark=mark) + BOMBS["that goes on"])
    assert step.error is not None
    assert step.error.message == f"it started more than {MOST} processes"
    assert step.commit is None


def test_a_few_processes_are_no_bomb(workspace: Workspace) -> None:
    code = "import subprocess\n[subprocess.run(['/bin/true']).returncode for _ in range(30)]"
    assert workspace.run(code).value == [0] * 30


def test_a_daemon_does_not_outlive_its_step(workspace: Workspace, mark: str) -> None:
    step = workspace.run(TOOLS.format(mark=mark) + "daemon(sleep); x = 1")
    assert step.ok
    assert is_gone(mark)
    assert workspace.run("x").value == 1


def test_a_daemon_of_a_step_that_is_killed_ends_with_it(workspace: Workspace, mark: str) -> None:
    code = TOOLS.format(mark=mark) + "daemon(sleep); os.kill(os.getpid(), 9)"
    assert not workspace.run(code).ok
    assert is_gone(mark)


def test_closing_ends_daemons_and_children(workspace: Workspace, mark: str) -> None:
    code = "daemon(sleep)\nimport subprocess\np = subprocess.Popen(['{mark}', '50'], executable="
    step = workspace.run((TOOLS + code + "'/bin/sleep')\n0").format(mark=mark))
    assert step.ok, step.error
    workspace.close()
    assert is_gone(mark)
    assert is_gone(str(workspace.path))


def test_a_child_of_a_warm_worker_stays_for_the_next_step(tmp_path: Path, mark: str) -> None:
    runner = Runner(sandbox="limits", mode="warm")
    with (
        Versioned(Disk(tmp_path / "agent.db", durability="fast")) as state,
        state.workspace(runner=runner, folder=tmp_path / "work") as workspace,
    ):
        code = f"import subprocess\np = subprocess.Popen(['{mark}', '50'], executable='/bin/sleep')"
        workspace.run(code)
        assert len(left(mark)) == 1
        assert workspace.run("p.poll()").value is None
    assert is_gone(mark)


def test_a_process_that_comes_out_of_the_code_twice_is_one_step(workspace: Workspace) -> None:
    step = workspace.run("import os\nchild = os.fork()\nx = 1\nbool(child)")
    assert (step.ok, step.value) == (True, True)
    assert workspace.run("x").value == 1
