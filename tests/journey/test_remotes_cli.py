"""Two people and three copies of a store, in a terminal."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys

import pytest

from tests.servers import redis
from tests.servers.postgres import fresh


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


def test_a_clone_that_fails_leaves_nothing_behind(otolith, tmp_path):
    otolith("", "clone", "postgresql://127.0.0.1:1/db?connect_timeout=2", "copy", code=6)
    otolith("", "clone", "missing.db", "copy", code=3)
    assert [*tmp_path.iterdir()] == []


def test_a_clone_of_a_url_with_a_password_says_how_to_remember_it(otolith, postgres_url):
    url = fresh(postgres_url)
    otolith("ann", "init", url, "-s", "trip")
    otolith("ann", "set", "budget", "500")
    otolith("ann", "commit", "-m", "asked")

    said = otolith("", "clone", url.replace("postgres@", "postgres:hunter2@"), "bob")

    assert "has no remote origin" in said
    assert "hunter2" not in said
    command = said.partition("`")[2].partition("`")[0]
    assert command.startswith("otolith -C bob remote add origin")
    otolith("", *shlex.split(command)[1:])
    assert "up to date" in otolith("bob", "pull")


def test_a_clone_into_a_url_goes_into_that_store(otolith, tmp_path, postgres_url):
    otolith("ann", "init", "-s", "trip")
    otolith("ann", "set", "budget", "500")
    otolith("ann", "commit", "-m", "asked")
    url = fresh(postgres_url).replace("postgres@", "postgres:hunter2@")

    said = otolith("ann", "clone", ".otolith/store.db", url)
    otolith("ann", "clone", ".otolith/store.db", f"sqlite:///{tmp_path}/copy.db")

    assert "hunter2" not in said
    assert "new           session/trip/main" in said
    for copy in (url, str(tmp_path / "copy.db")):
        assert otolith("", "--store", copy, "-s", "trip", "cat", "budget").strip() == "500"
    assert [each.name for each in tmp_path.iterdir() if each.is_dir()] == ["ann"]
    assert [each.name for each in (tmp_path / "ann").iterdir()] == [".otolith"]


def test_a_clone_takes_no_store_beside_the_two_it_names(otolith, tmp_path):
    otolith("ann", "init", "-s", "trip")
    said = otolith("", "--store", "ann/.otolith/store.db", "clone", "x.db", "bob", code=2)
    assert "otolith clone URL DIRECTORY" in said
    assert not (tmp_path / "bob").exists()


def test_what_a_pull_by_path_could_not_merge_has_a_name_that_can_be_typed(otolith, tmp_path):
    otolith("ann", "init", "-s", "trip")
    otolith("ann", "set", "budget", "500")
    otolith("ann", "commit", "-m", "asked")
    otolith("", "clone", "ann/.otolith/store.db", "bob")
    otolith("bob", "remote", "remove", "origin")
    for who, budget in (("ann", "400"), ("bob", "900")):
        otolith(who, "set", "budget", budget)
        otolith(who, "commit", "-m", "changed")

    pulled = otolith("bob", "pull", str(tmp_path / "ann/.otolith/store.db"), code=1)

    command = re.search("`otolith (.*)`", pulled)
    assert command is not None
    assert re.fullmatch(r"merge remote/[\w.-]+/session/trip/main", command[1])
    otolith("bob", *command[1].split(), code=1)
    assert "budget" in otolith("bob", "status")


def test_a_remote_that_is_missing_is_answered_by_a_command(otolith):
    otolith("ann", "init")
    said = otolith("ann", "remote", "remove", "nope", code=3)
    assert "`otolith remote list` lists them" in said


def test_a_warning_of_a_store_is_one_line(otolith, redis_url):
    url = redis.fresh(redis_url).replace("failover=accepted&", "")
    said = otolith("ann", "init", url)
    warned = [line for line in said.splitlines() if "failover" in line]
    assert len(warned) == 1
    assert warned[0].startswith("warning: redis://")
    assert "warnings.warn" not in said
