"""A state that goes back, forward or is merged while its workspace is open: files go with it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import otolith
from otolith.errors import Invalid, MergeConflict
from otolith.workspace import Runner

PATH = "__import__('pathlib').Path"
LOOK = "v, open('f').read()"


@pytest.fixture
def repo(tmp_path):
    with otolith.open(tmp_path / "a.db") as repo:
        yield repo


@pytest.fixture
def work(repo):
    work = repo.session("s").workspace(runner=Runner(sandbox="limits"))
    for number in (1, 2, 3):
        assert work.run(f"v = {number}; _ = open('f', 'w').write('{number}')").ok
    yield work
    work.close()


def in_another_process(repo, code):
    command = [sys.executable, "-c", code, str(repo.store.path)]
    subprocess.run(command, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("move", "seen"),
    [
        (lambda work: work.state.rollback("@~1"), (2, "2")),
        (lambda work: work.state.undo(), (2, "2")),
        (lambda work: (work.undo(), work.state.redo()), (3, "3")),
        (lambda work: (work.undo(), work.undo(), work.state.redo()), (2, "2")),
        (lambda work: (work.state.undo(), work.restore()), (2, "2")),
    ],
    ids=["rollback", "undo", "redo", "one of two", "restored"],
)
def test_files_go_where_variables_go(work, move, seen):
    move(work)

    assert work.run(LOOK).value == seen
    assert not [commit for commit in work.log() if commit.kind == "files"]


def test_files_come_with_a_merge_of_the_state(work):
    with work.fork("other") as other:
        assert other.run("v = 9; _ = open('f', 'w').write('9')").ok

    work.state.merge("other")

    assert work.run(LOOK).value == (9, "9")


def test_a_step_runs_on_what_another_process_went_back_to(repo, work):
    code = "import otolith, sys; otolith.open(sys.argv[1]).session('s').rollback('@~2')"
    in_another_process(repo, code)

    assert work.run(LOOK).value == (1, "1")


def test_an_edit_of_the_user_is_not_lost_when_the_state_goes_back(work):
    (work.path / "f").write_text("mine")
    work.state.undo()

    with pytest.raises(Invalid, match="files that are in no commit"):
        work.run(LOOK)

    assert (work.path / "f").read_text() == "mine"


def test_what_another_process_committed_during_a_step_comes_into_the_folder(repo, work):
    code = (
        "import otolith, sys; r = otolith.open(sys.argv[1]); s = r.session('s'); "
        "s.write_reserved(('.workspace', 'files', 'g'), s.cells.put({'data': b'g', 'mode': 0})); "
        "s.commit('a file')"
    )
    step = "v = 4; _ = open('f', 'w').write('4'); print('go', flush=True)"
    assert work.run(step, on_output=lambda stream, text: in_another_process(repo, code)).ok

    assert (work.path / "g").read_text() == "g"
    assert work.run("open('g').read()").value == "g"
    assert work.run(LOOK).value == (4, "4")


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_a_link_in_the_place_of_a_work_folder_is_not_followed(repo, tmp_path, depth):
    outside = tmp_path / "outside"
    outside.mkdir()
    parts = ["a.db.work", "session", "s", "main"][: depth + 1]
    link = tmp_path.joinpath(*parts)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)

    with pytest.raises(Invalid, match="not a folder"):
        repo.session("s").workspace()

    assert list(outside.iterdir()) == []


def test_a_link_in_the_place_of_a_forks_folder_is_not_followed(work, tmp_path):
    (work.path.parent / "other").symlink_to(tmp_path)

    with pytest.raises(Invalid, match="not a folder"):
        work.fork("other")


def test_a_file_and_a_folder_of_one_name_are_a_conflict(work):
    with work.fork("other") as other:
        assert other.run(f"{PATH}('a').mkdir(); {PATH}('a/x').write_text('their x')").ok
    assert work.run(f"{PATH}('a').write_text('our file')").ok
    head = work.state.head

    with pytest.raises(MergeConflict, match="a is a file on one branch and a folder"):
        work.merge("other")

    assert work.state.head == head
    assert work.run("open('a').read()").value == "our file"


def test_a_step_does_not_run_where_a_file_is_also_a_folder(work):
    with work.fork("other") as other:
        assert other.run(f"{PATH}('a').mkdir(); {PATH}('a/x').write_text('their x')").ok
    assert work.run(f"{PATH}('a').write_text('our file')").ok
    assert work.state.merge("other").ok

    with pytest.raises(Invalid, match="a is a file on one branch and a folder"):
        work.run("1")

    assert (work.path / "a").read_text() == "our file"
    work.state.undo()
    assert work.run("open('a').read()").value == "our file"
