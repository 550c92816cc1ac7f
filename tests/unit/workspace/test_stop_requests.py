"""Steps that are stopped: by the user, by their time, before they began and after they ended."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import pytest

from otolith import Disk, Versioned
from otolith.errors import Closed
from otolith.workspace import Runner, Step, Workspace
from tests.patience import HANG_SECONDS

WAITS = "import time\nreached = [1]\nprint('go', flush=True)\ntime.sleep(600)\nreached.append(2)"
DEAF = (
    "import time\nwhile True:\n    try:\n        print('go', flush=True); time.sleep(600)\n"
    "    except BaseException: pass"
)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Versioned]:
    with Versioned(Disk(tmp_path / "agent.db", durability="fast")) as state:
        yield state


@pytest.fixture(params=["cold", "warm"])
def workspace(
    request: pytest.FixtureRequest, state: Versioned, tmp_path: Path
) -> Iterator[Workspace]:
    runner = Runner(sandbox="limits", mode=request.param, wall_seconds=HANG_SECONDS)
    with state.workspace(runner=runner, folder=tmp_path / "work") as workspace:
        assert workspace.run("before = [1]\nopen('kept.txt', 'w').write('kept')").ok
        yield workspace


def run(workspace: Workspace, code: str, *stops: Callable[[], bool]) -> Step:
    """Run code; each time that it says go, another thread does the next of these."""
    waiting = list(stops)

    def heard(stream: str, text: str) -> None:
        if "go" in text and waiting:
            threading.Thread(target=waiting.pop(0)).start()

    return workspace.run(code, on_output=heard)


def test_an_interrupted_step_is_committed_as_failed_with_what_it_reached(
    workspace: Workspace,
) -> None:
    step = run(workspace, WAITS, workspace.interrupt)
    assert (step.ok, step.stopped) == (False, "interrupted")
    assert step.error is not None
    assert (step.error.type, step.error.message) == ("KeyboardInterrupt", "it was interrupted")
    assert step.commit is not None
    assert step.commit.meta["stopped"] == "interrupted"
    assert workspace["reached"] == [1]
    assert workspace.run("before.append(2); before").value == [1, 2]


def test_a_killed_step_leaves_nothing(workspace: Workspace, state: Versioned) -> None:
    head = state.head
    step = run(workspace, f"before.append(2); open('kept.txt', 'w')\n{WAITS}", workspace.kill)
    assert (step.ok, step.stopped, step.commit) == (False, "killed", None)
    assert step.error is not None
    assert step.error.message == "it was killed"
    assert state.head == head
    assert workspace.run("before, open('kept.txt').read()").value == ([1], "kept")


def test_a_step_that_does_not_listen_can_be_killed(workspace: Workspace) -> None:
    step = run(workspace, DEAF, workspace.interrupt, workspace.kill)
    assert (step.stopped, step.commit) == ("killed", None)
    assert workspace.run("before").value == [1]


def test_time_that_is_over_is_no_interrupt_of_the_user(state: Versioned, tmp_path: Path) -> None:
    runner = Runner(sandbox="limits", wall_seconds=0.3, grace_seconds=0.3)
    with state.workspace(runner=runner, folder=tmp_path / "work") as workspace:
        soft = workspace.run("x = 1\nwhile True: pass")
        hard = workspace.run(DEAF)
    assert (soft.stopped, soft.commit is None) == ("timed out", False)
    assert soft.error is not None
    assert soft.error.message == "it took longer than 0.3 s"
    assert (hard.stopped, hard.commit) == ("timed out", None)


def test_a_step_that_nobody_stopped_says_nothing_of_it(workspace: Workspace) -> None:
    assert workspace.run("x = 1").stopped is None
    assert workspace.run("raise KeyboardInterrupt").stopped is None
    assert workspace.run("import os; os._exit(1)").stopped is None


def test_a_step_that_handles_its_interrupt_goes_on(workspace: Workspace) -> None:
    code = (
        "import time\ntry:\n    print('go', flush=True); time.sleep(600)\n"
        "except KeyboardInterrupt: handled = True"
    )
    step = run(workspace, code, workspace.interrupt)
    assert (step.ok, step.stopped) == (True, None)
    assert workspace.run("handled").value is True


def test_an_interrupt_that_comes_before_the_code_is_not_lost(
    state: Versioned, tmp_path: Path
) -> None:
    """As a signal handler would, while the first worker of all is being made."""
    with state.workspace(runner=Runner(sandbox="limits"), folder=tmp_path / "work") as workspace:
        steps = workspace._steps  # to be there between its first move and its second
        make, asked = steps._pool_for_folder, list[bool]()

        def pool_for_folder() -> object:
            asked.append(workspace.interrupt())
            return make()

        steps._pool_for_folder = pool_for_folder  # type: ignore[method-assign, assignment]
        step = workspace.run("import time\ntime.sleep(600)\nx = 1")
    assert asked == [True]
    assert (step.stopped, "x" in workspace) == ("interrupted", False)


def test_without_a_step_there_is_nothing_to_stop(workspace: Workspace) -> None:
    assert (workspace.interrupt(), workspace.kill()) == (False, False)
    assert workspace.run("before").value == [1]


def test_a_late_interrupt_does_not_hit_the_next_step(workspace: Workspace) -> None:
    step = run(workspace, "print('go', flush=True)", workspace.interrupt)
    assert step.stopped in (None, "interrupted")
    assert workspace.run("import time; time.sleep(0.3); before").value == [1]


def ring_soon(stream: str, text: str) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.05)


def test_a_signal_handler_may_interrupt(workspace: Workspace) -> None:
    before = signal.signal(signal.SIGALRM, lambda *_: workspace.interrupt())
    try:
        step = workspace.run(WAITS, on_output=ring_soon)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert step.stopped == "interrupted"


def test_what_raises_in_the_host_leaves_nothing_of_the_step(
    workspace: Workspace, state: Versioned
) -> None:
    def listener(stream: str, text: str) -> None:
        raise KeyboardInterrupt

    head = state.head
    with pytest.raises(KeyboardInterrupt):
        workspace.run(f"open('kept.txt', 'w').write('lost')\n{WAITS}", on_output=listener)
    assert state.head == head
    assert workspace.run("before, open('kept.txt').read()").value == ([1], "kept")


def test_a_warm_worker_that_died_meanwhile_is_replaced(state: Versioned, tmp_path: Path) -> None:
    runner = Runner(sandbox="limits", mode="warm")
    with state.workspace(runner=runner, folder=tmp_path / "work") as workspace:
        pid = workspace.run("import os; x = [1]; os.getpid()").value
        os.kill(pid, signal.SIGKILL)
        deadline = monotonic() + HANG_SECONDS
        while Path(f"/proc/{pid}").exists() and monotonic() < deadline:
            pass
        assert workspace.run("x").value == [1]


def test_a_step_of_a_closed_workspace_is_refused(workspace: Workspace) -> None:
    workspace.close()
    with pytest.raises(Closed, match="the workspace is closed"):
        workspace.run("after = 1")
