"""Who used a work folder last: processes that are waited for, ended, or left alone."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

from otolith import Disk, Versioned
from otolith.errors import Busy
from otolith.workspace import Runner, work_folder
from otolith.workspace.sandbox import ProcessId, identify
from otolith.workspace.work_folder import FolderOwnership
from tests.patience import HANG_SECONDS


@pytest.fixture(autouse=True)
def _notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))


def dead() -> ProcessId:
    """Return a process that has ended."""
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        named = identify(process.pid)
        process.kill()
    assert named is not None
    return named


def note(ownership: FolderOwnership, host: ProcessId, sandbox: list[ProcessId]) -> None:
    """Note processes as a host does that runs a step and is killed."""
    ownership._processes = lambda: [host, *sandbox]  # type: ignore[method-assign]
    ownership.note(is_running=True)


def test_a_sandbox_that_does_not_end_by_itself_is_ended(tmp_path: Path) -> None:
    with (
        Versioned(Disk(tmp_path / "agent.db")) as state,
        subprocess.Popen(
            ["/bin/sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE
        ) as left,
    ):
        assert left.stdout is not None
        descendants = identify(int(left.stdout.readline()))
        above = identify(left.pid)
        assert above is not None
        assert descendants is not None
        note(FolderOwnership(tmp_path, state), dead(), [above])

        FolderOwnership(tmp_path, state).wait_for_predecessor(patience_seconds=0.05)

        assert not above.is_alive
        assert not descendants.is_alive


def test_a_sandbox_that_cannot_be_ended_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_folder, "end_processes", lambda *_, **__: False)
    with Versioned(Disk(tmp_path / "agent.db")) as state, sleeping() as left:
        note(FolderOwnership(tmp_path, state), dead(), [left])
        with pytest.raises(Busy, match=f"still runs in .*: {left.pid}"):
            FolderOwnership(tmp_path, state).wait_for_predecessor()


def test_a_number_that_another_process_has_now_means_nobody(tmp_path: Path) -> None:
    with Versioned(Disk(tmp_path / "agent.db")) as state, sleeping() as other:
        stranger = ProcessId(other.pid, "born at another time")
        note(FolderOwnership(tmp_path, state), dead(), [stranger])
        FolderOwnership(tmp_path, state).wait_for_predecessor(patience_seconds=0.05)
        assert other.is_alive


@contextmanager
def sleeping() -> Iterator[ProcessId]:
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        named = identify(process.pid)
        assert named is not None
        try:
            yield named
        finally:
            process.kill()


def test_nobody_is_left_when_a_workspace_is_closed_whose_fork_server_was_stopped(
    tmp_path: Path,
) -> None:
    runner = Runner(sandbox="limits")
    with (
        Versioned(Disk(tmp_path / "agent.db", durability="fast")) as state,
        state.workspace(runner=runner, folder=tmp_path / "work") as workspace,
    ):
        stays = "import os\nif os.fork() == 0:\n    os.setsid()\n    while True: pass"
        stopped = f"{stays}\nimport signal; os.kill(os.getppid(), signal.SIGSTOP)"
        assert workspace.run(stopped).ok
        pool = workspace._steps.pool
        assert pool is not None
        left = [identify(pid) for pid in pool.processes()]
        assert left
    deadline = monotonic() + HANG_SECONDS
    while any(each is not None and each.is_alive for each in left):
        assert monotonic() < deadline
        sleep(0.02)
