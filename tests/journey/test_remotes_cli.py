"""Two people and three copies of a store, in a terminal."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.fixture
def otolith(tmp_path):
    def run(folder, *words, code=0):
        (tmp_path / folder).mkdir(exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-m", "otolith.cli", *words],
            cwd=tmp_path / folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    return run


def test_commits_travel_and_conflicts_are_left_to_a_person(otolith, tmp_path):
    otolith("ann", "init", "-s", "trip")
    otolith("ann", "set", "budget", "500")
    otolith("ann", "commit", "-m", "asked")
    assert "new           session/trip/main" in otolith("", "clone", "ann/.otolith/store.db", "bob")

    otolith("bob", "set", "seat", "aisle")
    otolith("bob", "commit", "-m", "chose a seat")
    assert "fast-forward  session/trip/main" in otolith("bob", "push")
    assert otolith("ann", "cat", "seat").strip() == "aisle"

    otolith("ann", "set", "budget", "400")
    otolith("ann", "commit", "-m", "less")
    otolith("bob", "set", "budget", "900")
    otolith("bob", "commit", "-m", "more")
    assert "pull first" in otolith("bob", "push", code=1)
    pulled = otolith("bob", "pull", code=1)
    assert "otolith merge remote/origin/session/trip/main" in pulled
    otolith("bob", "merge", "remote/origin/session/trip/main", code=1)
    otolith("bob", "merge", "--take", "theirs", "budget")
    otolith("bob", "merge", "--continue")
    otolith("bob", "push")
    assert otolith("ann", "cat", "budget").strip() == "400"

    otolith("ann", "remote", "add", "spare", str(tmp_path / "spare.db"))
    report = json.loads(otolith("ann", "mirror", "spare", "--json"))
    assert [each["kind"] for each in report["refs"]] == ["new"]
    remotes = json.loads(otolith("ann", "remote", "list", "--json"))["remotes"]
    assert remotes == {"spare": str(tmp_path / "spare.db")}
    assert "up to date" in otolith("ann", "push", "spare")


def test_a_password_is_neither_stored_nor_shown(otolith):
    otolith("ann", "init")
    said = otolith("ann", "remote", "add", "db", "postgresql://ann:hunter2@host/db", code=2)
    assert "hunter2" not in said


def test_without_a_remote_the_next_move_is_named(otolith):
    otolith("ann", "init")
    assert "otolith remote add NAME URL" in otolith("ann", "push", code=3)
    assert "otolith remote list" in otolith("ann", "push", "nope", code=3)
