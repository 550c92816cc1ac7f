"""A host that is killed in a step: nothing of that step reaches whoever comes next.

The sandbox of a killed host ends a little later than the host. The step here starts a daemon that
has left its session and closed its descriptors; both write to the work folder as long as they can.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

from otolith import Disk, Versioned
from otolith.errors import Busy
from otolith.workspace import Runner, Workspace, ladder
from otolith.workspace import folder_ownership as ownership_module
from otolith.workspace.folder_ownership import Ownership
from otolith.workspace.sandbox import ProcessId, identify
from tests.patience import HANG_SECONDS
from tests.unit.workspace import container_image

RUNGS = ("bubblewrap", "landlock", "limits", "podman")

HOST = """
import sys
from otolith import Disk, Versioned
from otolith.workspace import Runner
path, work, sandbox, image, code = sys.argv[1:]
with Versioned(Disk(path, durability="fast")) as state:
    runner = Runner(sandbox=sandbox, image=image or None)
    with state.workspace(runner=runner, folder=work) as workspace:
        workspace.run("open('f', 'w').write('committed')")
        workspace.run(code, on_output=lambda _, text: print(text, end="", flush=True))
"""
WRITES = """
import os, time
def write(name):
    while True:
        with open(f'{name}-{os.getpid()}', 'w') as new: new.write('x')
        with open('f', 'a') as f: f.write('uncommitted')
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 100)
        write('daemon')
    os._exit(0)
os.wait()
print('go', flush=True)
write('step')
"""


@pytest.fixture(autouse=True)
def _notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))


@contextmanager
def host(path: Path, rung: str, image: str, code: str) -> Iterator[subprocess.Popen[str]]:
    """Start a host, wait until its step has begun, and kill it."""
    arguments = [str(path / "agent.db"), str(path / "work"), rung, image, code]
    command = [sys.executable, "-c", HOST, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "go\n"
            yield process
        finally:
            process.kill()


@contextmanager
def successor(path: Path, rung: str, image: str = "") -> Iterator[Workspace]:
    runner = Runner(sandbox=rung, image=image or None)
    with (
        Versioned(Disk(path / "agent.db", durability="fast")) as state,
        state.workspace(runner=runner, folder=path / "work") as workspace,
    ):
        yield workspace


def image_for(rung: str) -> str:
    if rung == "podman":
        try:
            return container_image.image("podman")
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"podman does not work here: {error}")
    reason = dict(ladder())[rung]
    if reason is not None:
        pytest.skip(f"{rung} does not work here: {reason}")
    return ""


@pytest.mark.parametrize("rung", RUNGS)
def test_the_next_step_finds_what_was_committed(
    tmp_path: Path, rung: str, rounds: Callable[[int, int], int]
) -> None:
    image, chance = image_for(rung), random.Random(rung)
    for number in range(rounds(2, 60)):
        path = tmp_path / str(number)
        path.mkdir()
        with host(path, rung, image, WRITES) as process:
            sleep(chance.random() / 100)  # so that the kill falls anywhere inside a write
            process.kill()
            process.wait()
        with successor(path, rung, image) as workspace:
            step = workspace.run("import os\nos.listdir(), open('f').read()")
            assert step.value == (["f"], "committed")
            assert workspace.run("os.listdir(), open('f').read()").value == (["f"], "committed")
            kinds = [commit.kind for commit in workspace.log()]
            assert "files" not in kinds, "something of the old step was taken for the user's"


def test_a_step_that_runs_in_another_process_is_not_disturbed(tmp_path: Path) -> None:
    code = "import time\nopen('g', 'w').write('mine')\nprint('go', flush=True)\ntime.sleep(600)"
    with host(tmp_path, "limits", "", code) as process, successor(tmp_path, "limits") as workspace:
        with pytest.raises(Busy, match=f"process {process.pid} runs a step"):
            workspace.run("1")
        assert (tmp_path / "work" / "g").read_text() == "mine"
        process.kill()
        process.wait()
        assert workspace.run("open('f').read()").value == "committed"


def dead() -> ProcessId:
    """Return a process that has ended."""
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        named = identify(process.pid)
        process.kill()
    assert named is not None
    return named


def note(ownership: Ownership, host: ProcessId, sandbox: list[ProcessId]) -> None:
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
        below = identify(int(left.stdout.readline()))
        above = identify(left.pid)
        assert above is not None
        assert below is not None
        note(Ownership(tmp_path, state), dead(), [above])

        Ownership(tmp_path, state).wait_for_predecessor(patience_seconds=0.05)

        assert not above.is_alive
        assert not below.is_alive


def test_a_sandbox_that_cannot_be_ended_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership_module, "end_processes", lambda *_, **__: False)
    with Versioned(Disk(tmp_path / "agent.db")) as state, sleeping() as left:
        note(Ownership(tmp_path, state), dead(), [left])
        with pytest.raises(Busy, match=f"still runs in .*: {left.pid}"):
            Ownership(tmp_path, state).wait_for_predecessor()


def test_a_number_that_another_process_has_now_means_nobody(tmp_path: Path) -> None:
    with Versioned(Disk(tmp_path / "agent.db")) as state, sleeping() as other:
        stranger = ProcessId(other.pid, "born at another time")
        note(Ownership(tmp_path, state), dead(), [stranger])
        Ownership(tmp_path, state).wait_for_predecessor(patience_seconds=0.05)
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
    with successor(tmp_path, "limits") as workspace:
        stays = "import os\nif os.fork() == 0:\n    os.setsid()\n    while True: pass"
        stopped = f"{stays}\nimport signal; os.kill(os.getppid(), signal.SIGSTOP)"
        assert workspace.run(stopped).ok
        crew = workspace._foreman.crew
        assert crew is not None
        left = [identify(pid) for pid in crew.processes()]
        assert left
    deadline = monotonic() + HANG_SECONDS
    while any(each is not None and each.is_alive for each in left):
        assert monotonic() < deadline
        sleep(0.02)
