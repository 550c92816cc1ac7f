"""A work folder that others use too: nothing that is in no commit is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from otolith import Disk, Versioned
from otolith.errors import Invalid
from otolith.workspace import Runner, Workspace, sandbox_status

Open = Callable[..., AbstractContextManager[Workspace]]


@pytest.fixture(autouse=True)
def _notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of the user's, with a project in it."""
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "main.py").write_text("n = 1")
    (folder / "data.csv").write_text("a\n1\n")
    return folder


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """Open the workspace of a session, as another process would."""

    @contextmanager
    def opened(folder: Path, name: str = "agent") -> Iterator[Workspace]:
        with Versioned(Disk(tmp_path / f"{name}.db", durability="fast")) as state:
            runner = Runner(sandbox="limits")
            with state.workspace(runner=runner, folder=folder) as workspace:
                yield workspace

    return opened


def files(folder: Path) -> dict[str, str]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(found)}


PROJECT = {"data.csv": "a\n1\n", "src/main.py": "n = 1"}


def test_a_folder_with_files_is_adopted_as_it_is(opened: Open, folder: Path) -> None:
    with opened(folder) as workspace:
        assert workspace.run("open('data.csv').read()").value == "a\n1\n"
        kinds = [commit.kind for commit in workspace.log()]
    assert files(folder) == PROJECT
    assert kinds == ["run", "files"]


def test_undoing_the_first_step_leaves_what_was_adopted(opened: Open, folder: Path) -> None:
    with opened(folder) as workspace:
        workspace.run("open('data.csv', 'w').write('worse'); open('new', 'w').write('x')")
        workspace.undo()
    assert files(folder) == PROJECT


def test_untracked_files_in_a_folder_that_the_session_does_not_know_are_refused(
    opened: Open, folder: Path, tmp_path: Path
) -> None:
    with opened(tmp_path / "first") as workspace:
        workspace.run("open('data.csv', 'w').write('ours')")
    with opened(folder) as workspace:
        with pytest.raises(Invalid, match=r"in no commit.*data.csv, src/main.py") as raised:
            workspace.run("1")
        with pytest.raises(Invalid):
            workspace.undo()
    assert 'untracked="adopt"' in raised.value.hint
    assert files(folder) == PROJECT


def test_many_untracked_files_are_counted(opened: Open, folder: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "first") as workspace:
        workspace.run("open('f', 'w')")
    for number in range(20):
        (folder / f"{number}.txt").touch()
    with opened(folder) as workspace, pytest.raises(Invalid, match="and 17 more"):
        workspace.restore()


def test_untracked_files_can_be_adopted(opened: Open, folder: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "first") as workspace:
        workspace.run("open('data.csv', 'w').write('ours'); open('more', 'w').write('m')")
    with opened(folder) as workspace:
        workspace.restore(untracked="adopt")
        assert workspace.run("open('data.csv').read(), open('more').read()").value == (
            "a\n1\n", "m",
        )  # fmt: skip
        workspace.undo()
    assert files(folder) == PROJECT | {"more": "m"}


def test_untracked_files_can_be_discarded(opened: Open, folder: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "first") as workspace:
        workspace.run("open('data.csv', 'w').write('ours')")
    with opened(folder) as workspace:
        workspace.restore(untracked="discard")
    assert files(folder) == {"data.csv": "ours"}


def test_a_word_for_untracked_files_that_is_not_known_is_refused(
    opened: Open, folder: Path
) -> None:
    with opened(folder) as workspace, pytest.raises(Invalid, match="untracked='eat'"):
        workspace.restore(untracked="eat")  # type: ignore[arg-type]


def test_what_the_user_edits_between_sessions_is_taken_in(opened: Open, folder: Path) -> None:
    with opened(folder) as workspace:
        workspace.run("x = 1")
    (folder / "data.csv").write_text("edited")
    (folder / "new.csv").write_text("new")
    (folder / "src" / "main.py").unlink()
    with opened(folder) as workspace:
        assert workspace.run("open('data.csv').read()").value == "edited"
        workspace.undo()
        assert files(folder) == {"data.csv": "edited", "new.csv": "new", "src/main.py": "n = 1"}


def test_what_the_user_puts_there_between_steps_is_not_taken_back_with_a_step(
    opened: Open, folder: Path
) -> None:
    with opened(folder) as workspace:
        workspace.run("x = 1")
        (folder / "new.csv").write_text("new")
        step = workspace.run("open('made', 'w').write('m')")
        assert step.files.added == ("made",)
        workspace.undo()
        assert files(folder) == PROJECT | {"new.csv": "new"}


def test_what_the_user_puts_there_survives_a_step_that_dies(opened: Open, folder: Path) -> None:
    with opened(folder) as workspace:
        workspace.run("x = 1")
        (folder / "new.csv").write_text("new")
        workspace.run("open('new.csv', 'w').write('spoilt')\nimport os; os._exit(1)")
        assert files(folder) == PROJECT | {"new.csv": "new"}


def test_undo_leaves_what_was_put_there_since(opened: Open, folder: Path) -> None:
    with opened(folder) as workspace:
        workspace.run("open('made', 'w').write('m')")
        (folder / "new.csv").write_text("new")
        workspace.undo()
        assert files(folder) == PROJECT | {"new.csv": "new"}


def test_a_folder_left_by_the_session_follows_a_state_that_moved(
    opened: Open, folder: Path
) -> None:
    with opened(folder) as workspace:
        workspace.run("x = 1")
        workspace.run("open('made', 'w').write('m'); open('data.csv', 'w').write('b')")
        workspace.state.undo()  # as `otolith undo` does, which knows of no folder
    with opened(folder) as workspace:
        workspace.run("1")
    assert files(folder) == PROJECT


def test_an_edit_and_a_state_that_moved_are_not_mixed_up_in_silence(
    opened: Open, folder: Path
) -> None:
    with opened(folder) as workspace:
        workspace.run("x = 1")
        workspace.run("open('made', 'w').write('m')")
        workspace.state.undo()
    (folder / "made").write_text("edited")
    with opened(folder) as workspace, pytest.raises(Invalid, match=r"in no commit.*: made \("):
        workspace.run("1")
    assert files(folder) == PROJECT | {"made": "edited"}


def test_a_folder_left_by_another_session_is_not_ours(opened: Open, folder: Path) -> None:
    with opened(folder, "one") as workspace:
        workspace.run("open('made', 'w').write('m')")
    with opened(folder.parent / "elsewhere", "two") as workspace:
        workspace.run("open('made', 'w').write('t')")
    with opened(folder, "two") as workspace, pytest.raises(Invalid, match="in no commit"):
        workspace.run("1")


CUT_OFF = """
import sys
from otolith import Disk, Versioned
from otolith.workspace import Runner
with Versioned(Disk(sys.argv[1], durability="fast")) as state:
    with state.workspace(runner=Runner(sandbox="limits"), folder=sys.argv[2]) as workspace:
        workspace.run("x = 1")
        code = "import time\\nopen('made', 'w').write('m'); open('data.csv', 'w').write('b')\\n"
        code += "print('go', flush=True); time.sleep(60)"
        workspace.run(code, on_output=lambda *_: print("go", flush=True))
"""


def test_what_a_step_changed_before_its_host_was_killed_is_moved_aside(
    opened: Open, folder: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", CUT_OFF, str(tmp_path / "agent.db"), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == "go\n"
        host.send_signal(signal.SIGKILL)
    with opened(folder) as workspace:
        assert workspace.run("open('data.csv').read()").value == "a\n1\n"
    assert files(folder) == PROJECT
    assert files(folder.with_name("project@unfinished")) == {"data.csv": "b", "made": "m"}


def test_what_cannot_be_kept_is_left_where_it_is(opened: Open, folder: Path) -> None:
    with opened(folder) as workspace:
        step = workspace.run("import os; os.mkfifo('pipe')")
        assert set(step.files.skipped) == {"pipe"}
        workspace.undo()
    with opened(folder) as workspace:
        assert workspace.run("1").ok
        assert (folder / "pipe").is_fifo()


def test_a_folder_that_cannot_be_noted_loses_nothing_either(
    opened: Open, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "xdg").write_text("no folder")
    with opened(folder) as workspace:
        workspace.run("open('made', 'w').write('m')")
    (folder / "made").write_text("edited")
    with opened(folder) as workspace, pytest.raises(Invalid, match="in no commit"):
        workspace.run("1")
    assert files(folder) == PROJECT | {"made": "edited"}


def test_a_folder_that_holds_the_store_is_refused(opened: Open, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="the store is inside"), opened(tmp_path):
        pass


def test_notes_on_folders_that_are_gone_are_dropped(opened: Open, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        with opened(tmp_path / name) as workspace:
            workspace.run("x = 1")
        (tmp_path / name).rename(tmp_path / f"{name}-gone")
    assert len(list((tmp_path / "xdg" / "otolith" / "folders").iterdir())) < 3


def test_a_workspace_in_which_nothing_is_done_changes_no_folder(
    opened: Open, folder: Path, tmp_path: Path
) -> None:
    with opened(tmp_path / "first") as workspace:
        workspace.run("open('data.csv', 'w').write('ours')")
    with opened(folder) as workspace:
        assert list(workspace) == []
    assert files(folder) == PROJECT


def test_files_of_a_folder_that_cannot_be_read_are_skipped_and_not_removed(
    opened: Open, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = os.scandir

    def refused(path: str | os.PathLike[str]) -> Iterator[os.DirEntry[str]]:
        if Path(path).name == "src":
            raise PermissionError(13, "Permission denied")
        return scan(path)

    with opened(folder) as workspace:
        workspace.run("n = 1")
        with monkeypatch.context() as patch:
            patch.setattr(os, "scandir", refused)
            step = workspace.run("n = 2")

        assert step.ok
        assert step.files.skipped == {"src/main.py": "Permission denied"}
        assert step.files.removed == step.files.added == ()
        assert workspace.run("n = 3").files.skipped == {}
        assert workspace.state.cell_at((".workspace", "files", "src/main.py")) is not None


SANDBOXES = [
    name
    for name, reason in sandbox_status()
    if reason is None and name in ("bubblewrap", "landlock", "limits")
]


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_what_libraries_cache_is_neither_stored_nor_complained_about(
    tmp_path: Path, sandbox: str
) -> None:
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.title('x'); plt.close()"
    where = "import os; os.environ['MPLCONFIGDIR'].startswith(os.environ['HOME'])"
    with (
        Versioned(Disk(tmp_path / "agent.db", durability="fast")) as state,
        state.workspace(runner=Runner(sandbox=sandbox)) as workspace,
    ):
        step = workspace.run(code)
        assert step.ok, step.error
        assert (step.stderr, step.files.added) == ("", ())
        with workspace.fork("try") as other:
            assert other.run(where).value is True
