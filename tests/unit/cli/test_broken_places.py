"""A store or a place that is gone or broken: every hint leads to a command that helps."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from otolith.cli import program


def typed(*words: object) -> Result:
    return CliRunner().invoke(program, list(map(str, words)))


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a store and one commit, and a backup of it."""
    monkeypatch.chdir(tmp_path)
    for words in (["init"], ["set", "a", "1"], ["commit", "-m", "one"]):
        assert typed(*words).exit_code == 0
    shutil.copytree(".otolith", "backup")
    return tmp_path / ".otolith"


def test_a_store_that_was_deleted_can_be_made_again(made):
    (made / "store.db").unlink()
    status = typed("status")
    assert (status.exit_code, "`otolith init` makes a store" in status.stderr) == (3, True)

    assert typed("init").exit_code == 0
    assert typed("status").exit_code == 0


def test_a_place_that_cannot_be_read_is_written_anew_for_its_store(made):
    (made / "place.json").write_text("{broken")
    status = typed("status")
    assert (status.exit_code, "`otolith init` writes it anew" in status.stderr) == (5, True)

    assert typed("init").exit_code == 0
    assert "one" in typed("log").output


def test_a_store_that_is_there_is_not_made_again(made):
    again = typed("init")
    assert (again.exit_code, "already exists" in again.stderr) == (2, True)


@pytest.mark.parametrize("words", [["fsck"], ["fsck", "--repair-from", "backup/store.db"]])
def test_fsck_of_a_store_that_cannot_be_opened_says_how_to_restore_it(made, words):
    os.truncate(made / "store.db", 3000)
    assert "run `otolith fsck`" in typed("log").stderr
    found = typed(*words)
    assert found.exit_code == 5
    assert "run `otolith fsck`" not in found.stderr
    assert "put a backup in its place" in found.stderr
    assert typed("init").exit_code == 2  # damaged is not gone

    shutil.copy("backup/store.db", made / "store.db")
    assert typed("fsck").exit_code == 0


def test_a_replica_that_is_damaged_is_named(made):
    os.truncate("backup/store.db", 3000)
    found = typed("fsck", "--repair-from", "backup/store.db")
    assert found.exit_code == 5
    assert "backup/store.db is damaged" in found.stderr
    assert "name another one" in found.stderr


def test_an_empty_file_is_said_to_be_empty(made):
    os.truncate(made / "store.db", 0)
    for words in (["status"], ["fsck"]):
        found = typed(*words)
        assert found.exit_code == 2
        assert "store.db is empty" in found.stderr
        assert "restore it from a backup, or delete it" in found.stderr
    (made / "store.db").unlink()
    assert typed("init").exit_code == 0


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PermissionError(13, "Permission denied", "x"), 4),
        (OSError(30, "Read-only file system", "x"), 4),
        (FileNotFoundError(2, "No such file or directory", "x"), 2),
        (IsADirectoryError(21, "Is a directory", "x"), 2),
        (OSError(28, "No space left on device", "x"), 6),
    ],
)
def test_an_output_file_that_cannot_be_written_has_the_code_of_its_reason(
    made, monkeypatch, error, code
):
    Path("chart.json").write_text('{"id": "c", "initial": "a", "states": {"a": {}}}')

    def refuse(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(Path, "write_text", refuse)
    assert typed("chart", "export", "chart.json", "--to", "scxml", "-o", "x").exit_code == code
