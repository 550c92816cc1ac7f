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
from time import sleep

import pytest

from otolith import Disk, Versioned
from otolith.errors import Busy
from otolith.workspace import Runner, Workspace, sandbox_status
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
    reason = dict(sandbox_status())[rung]
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
