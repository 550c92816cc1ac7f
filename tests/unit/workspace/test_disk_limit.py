"""How much a step may write to its work folder: held while it runs and at its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from otolith import Disk, Versioned
from otolith.errors import Invalid
from otolith.workspace import Runner, Workspace, sandbox_status
from otolith.workspace.disk_watch import DiskWatch
from tests.patience import HANG_SECONDS

LIMIT = 4 << 20
WHY = "it wrote more than 4,194,304 bytes to its work folder (Runner.disk_bytes)"
# None of these writes more than a few times the limit, whatever the host does about it.
TOOLS = f"""
import os, time
LIMIT = {LIMIT}
def wait():
    time.sleep({HANG_SECONDS})
"""
WRITERS = {
    "one long file": "f = open('f', 'wb')\nfor _ in range(16): f.write(bytes(1 << 20)); f.flush()",
    "many files": "for n in range(16): open(f'f{n}', 'wb').write(bytes(1 << 20))",
    "many empty files": "for n in range(5_000): open(f'f{n}', 'wb')",
    "many folders": "for n in range(1_200): os.mkdir(f'd{n}')",
    "files in a folder that is never kept":
        "os.makedirs('p/__pycache__')\n"
        "for n in range(16): open(f'p/__pycache__/f{n}', 'wb').write(bytes(1 << 20))",
    "a file that is removed and still open":
        "f = open('f', 'wb')\nos.remove('f')\n"
        "for _ in range(16): f.write(bytes(1 << 20)); f.flush()",
    "a file that was there": "f = open('kept', 'ab'); f.write(bytes(4 * LIMIT)); f.flush()",
}  # fmt: skip


@pytest.fixture(params=["cold", "warm"], scope="module")
def workspace(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workspace]:
    path = tmp_path_factory.mktemp("disk")
    runner = Runner(
        sandbox="limits", mode=request.param, disk_bytes=LIMIT, wall_seconds=HANG_SECONDS
    )
    with (
        Versioned(Disk(path / "agent.db", durability="fast")) as state,
        state.workspace(runner=runner, folder=path / "work") as workspace,
    ):
        assert workspace.run("open('kept', 'w').write('kept')").ok
        yield workspace


def files(workspace: Workspace) -> dict[str, int]:
    found = (path for path in workspace.path.rglob("*") if path.is_file())
    return {path.relative_to(workspace.path).as_posix(): path.stat().st_size for path in found}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_step_that_writes_too_much_is_stopped_while_it_runs(
    workspace: Workspace, writer: str
) -> None:
    head = workspace.state.head
    step = workspace.run(f"{TOOLS}{WRITERS[writer]}\nwait()")
    assert (step.ok, step.stopped, step.commit) == (False, "over disk limit", None)
    assert step.error is not None
    assert step.error.message == WHY
    assert workspace.state.head == head
    assert files(workspace) == {"kept": 4}
    assert workspace.run("open('kept').read()").value == "kept"


def test_a_step_that_is_over_before_anybody_looks_is_not_kept(workspace: Workspace) -> None:
    head = workspace.state.head
    step = workspace.run(f"{TOOLS}x = 1\nopen('f', 'wb').write(bytes(2 * LIMIT))")
    assert (step.ok, step.stopped, step.commit) == (False, "over disk limit", None)
    assert workspace.state.head == head
    assert "x" not in workspace
    assert files(workspace) == {"kept": 4}
    assert workspace.run("open('kept').read()").value == "kept"


def test_what_was_there_before_does_not_count(workspace: Workspace) -> None:
    write = f"open('f', 'ab').write(bytes({LIMIT * 3 // 4}))"
    for _ in range(3):  # in the end it is longer than the limit of one step
        step = workspace.run(f"{write}\nimport time; time.sleep(0.3)")
        assert step.ok
    assert workspace.run("import os; os.remove('f')").ok


def test_holes_of_a_file_that_is_too_long_to_keep_do_not_count(workspace: Workspace) -> None:
    step = workspace.run("f = open('sparse', 'wb'); f.truncate(1 << 40); f.close()")
    assert step.ok
    assert set(step.files.skipped) == {"sparse"}
    assert workspace.run("import os; os.remove('sparse')").ok


@pytest.mark.parametrize("value", [0, -1, "2G", 1.5, True])
@pytest.mark.parametrize("name", ["memory_bytes", "disk_bytes", "processes", "output_bytes"])
def test_a_limit_that_is_no_whole_number_above_nothing_is_refused(name: str, value: Any) -> None:
    with pytest.raises(Invalid) as caught:
        Runner(**{name: value})
    assert f"{name} must be a whole number of at least 1, got {value!r}" in str(caught.value)


@pytest.mark.parametrize("value", [0, float("nan"), "60", None])
def test_seconds_that_are_no_number_above_nothing_are_refused(value: Any) -> None:
    with pytest.raises(Invalid, match="wall_seconds must be a number of seconds above 0"):
        Runner(wall_seconds=value)


def test_no_limit_is_no_limit(tmp_path: Path) -> None:
    runner = Runner(sandbox="limits", disk_bytes=None)
    with (
        Versioned(Disk(tmp_path / "agent.db", durability="fast")) as state,
        state.workspace(runner=runner, folder=tmp_path / "work") as workspace,
    ):
        assert workspace.run("open('f', 'wb').write(bytes(1 << 20))").ok


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
def test_memory_that_looks_like_a_disk_has_the_same_limit(tmp_path: Path, place: str) -> None:
    reason = dict(sandbox_status())["bubblewrap"]
    if reason is not None:
        pytest.skip(f"bubblewrap does not work here: {reason}")
    runner = Runner(sandbox="bubblewrap", disk_bytes=LIMIT)
    with (
        Versioned(Disk(tmp_path / "agent.db", durability="fast")) as state,
        state.workspace(runner=runner, folder=tmp_path / "work") as workspace,
    ):
        step = workspace.run(f"open('{place}/f', 'wb').write(bytes({2 * LIMIT}))")
        assert step.error is not None
        assert "No space left on device" in step.error.message
        assert workspace.run(f"open('{place}/g', 'wb').write(bytes(1000))").value == 1000


def test_a_folder_is_not_walked_unless_the_disk_has_lost_as_much(tmp_path: Path) -> None:
    watch = DiskWatch(tmp_path, before_bytes=0, limit_bytes=1 << 50, processes=list)
    for _ in range(3):
        watch.next_look = 0
        assert not watch.is_over()
    assert watch._walk is None
    assert watch._walked == 0
