"""A store from elsewhere reaches nothing on this machine but the work folder of its session."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

import otolith
from otolith.errors import Corrupt
from otolith.workspace import Runner
from otolith.workspace.folder_files import FolderFiles
from otolith.workspace.work_folder import folder_name

PLAIN = {"data": b"from elsewhere", "mode": 0o644}
NAMES = [
    "../escaped",
    "../../escaped",
    "a/../../escaped",
    "a/../../../escaped",
    "/etc/escaped",
    "//escaped",
    "a//b",
    "./a",
    "a/.",
    "a/..",
    "..",
    ".",
    "",
    "a/",
    "nul\0byte",
    ("tuple",),
    7,
    None,
    b"bytes",
]


@pytest.fixture
def state(tmp_path):
    with otolith.open(_store(tmp_path)) as repo:
        yield repo.session("s")


def _store(tmp_path: Path) -> Path:
    (tmp_path / "host").mkdir()
    return tmp_path / "host" / "a.db"


def forged(state, files):
    """Put files into a state as nobody but an attacker would."""
    for name, content in files.items():
        cell = state.cells.settle(state.cells.put(content))
        state.write_reserved((".workspace", "files", name), cell)
    state.commit("forged")
    return state


def everything(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in place.rglob("*")}


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_name_that_leads_elsewhere_is_refused_and_nothing_is_written(state, tmp_path, name):
    work = tmp_path / "deep" / "work"
    work.mkdir(parents=True)
    forged(state, {name: PLAIN, "fine.txt": PLAIN})
    before = everything(tmp_path)

    with pytest.raises(Corrupt, match="outside of the work folder"):
        FolderFiles(work).restore(state)

    assert everything(tmp_path) == before


def test_a_step_is_refused_as_well_and_files_beside_the_folder_stay(state, tmp_path):
    home = tmp_path / "home"
    (home / "photos").mkdir(parents=True)
    (home / "keys").write_text("owner")
    (home / "photos" / "a.jpg").write_text("jpg")
    up = "../" * 6
    for name in (f"{up}{tmp_path}/home/keys", "../../../../home/keys", "../../../../home/photos"):
        forged(state, {name: PLAIN})
    with (
        state.workspace(runner=Runner(sandbox="limits")) as work,
        pytest.raises(Corrupt, match="outside of the work folder"),
    ):
        work.run("1")

    assert (home / "keys").read_text() == "owner"
    assert (home / "photos" / "a.jpg").read_text() == "jpg"


@pytest.mark.parametrize("mode", [0o4755, 0o6777, 0o2750, 0o777, 0o100755, -1, 0o644, 0o000])
def test_of_a_mode_only_whether_it_can_be_run_is_taken_over(state, tmp_path, mode):
    forged(state, {"f": {"data": b"x", "mode": mode}})
    FolderFiles(tmp_path).restore(state)

    found = stat.S_IMODE(os.lstat(tmp_path / "f").st_mode)
    assert found & ~0o755 == 0
    assert bool(found & 0o100) == bool(mode & 0o100)


@pytest.mark.parametrize(
    ("name", "target", "is_made"),
    [
        ("link", "/etc/passwd", False),
        ("link", "../outside", False),
        ("a/link", "../../outside", False),
        ("a/link", "../inside", True),
        ("link", "a/../b", True),
        ("link", "a/../../b", False),
        ("link", "inside", True),
        ("link", "nul\0", False),
    ],
)
def test_a_link_that_leaves_is_not_made_and_stays_in_the_state(
    state, tmp_path, name, target, is_made
):
    work = tmp_path / "work"
    work.mkdir()
    forged(state, {name: {"link": target}, "other": PLAIN})
    folder = FolderFiles(work)
    folder.restore(state)

    assert (work / name).is_symlink() is is_made
    assert (work / "other").read_bytes() == b"from elsewhere"
    assert folder.compare(state).changes.removed == ()


def test_a_link_in_the_folder_is_never_followed_when_files_are_put_back(state, tmp_path):
    outside, work = tmp_path / "outside", tmp_path / "work"
    outside.mkdir()
    work.mkdir()
    (outside / "f").write_text("mine")
    (work / "a").symlink_to(outside)
    forged(state, {"a/f": PLAIN})
    FolderFiles(work).restore(state)

    assert (outside / "f").read_text() == "mine"
    assert (work / "a" / "f").read_bytes() == b"from elsewhere"


@pytest.mark.parametrize(
    "content", [7, "text", {}, {"data": "text", "mode": 1}, {"data": b"x"}, {"link": 3}, [PLAIN]]
)
def test_what_is_no_file_is_refused(state, tmp_path, content):
    forged(state, {"f": content})
    with pytest.raises(Corrupt, match="is not a file"):
        FolderFiles(tmp_path / "work").restore(state)


# ---------------------------------------------------------------- sessions and branches


SESSIONS = [
    ".",
    "..",
    "...",
    "../../escaped",
    "/abs",
    "a/../b",
    "n\0ul",
    "x" * 300,
    "é",
    "con",
    "a:b",
]


@pytest.mark.parametrize("name", SESSIONS, ids=ascii)
def test_the_folder_of_a_session_is_below_that_of_its_store(tmp_path, name):
    base = tmp_path / "base"
    found = base / folder_name(name)

    assert Path(os.path.normpath(found)).parent == base
    assert len(folder_name(name)) <= 200


def test_sessions_of_different_names_have_different_folders():
    names = [*SESSIONS, "%2E", "%2E%2E", "x" * 299, "x" * 301, "a"]

    assert len({folder_name(name) for name in names}) == len(names)


def test_no_session_reaches_the_files_of_another(tmp_path):
    with otolith.open(tmp_path / "a.db") as repo:
        with repo.session("secret").workspace(runner=Runner(sandbox="limits")) as work:
            work.run("open('key.txt', 'w').write('secret')")
        for name in (".", ".."):
            with repo.session(name).workspace(runner=Runner(sandbox="limits")) as work:
                step = work.run("import os; [f for _, _, fs in os.walk('.') for f in fs]")
                assert step.value == []
