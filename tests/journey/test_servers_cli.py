"""A store on a server, in a terminal: by `--store URL`, by $OTOLITH_STORE, and after `init URL`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Protocol

import pytest
from click.testing import CliRunner

from otolith.cli import program
from tests.servers.postgres import fresh

PASSWORD = "hunter2"  # the server trusts this machine, and takes any


class Terminal(Protocol):
    """Runs a command and returns all that it prints."""

    def __call__(self, *words: str, code: int = 0, **environment: str) -> str: ...


@pytest.fixture
def otolith(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)

    def run(*words: str, code: int = 0, **environment: str) -> str:
        done = CliRunner().invoke(program, words, env=environment)
        assert done.exit_code == code, (words, done.output)
        assert PASSWORD not in done.output, words
        return done.output

    return run


@pytest.fixture
def url(postgres_url: str) -> str:
    return fresh(postgres_url)


def with_password(url: str) -> str:
    assert "postgres@" in url
    return url.replace("postgres@", f"postgres:{PASSWORD}@")


def test_a_place_can_be_on_a_server(otolith, url, tmp_path):
    assert f"Store at {url}" in otolith("init", url, "-s", "trip")
    otolith("set", "budget", "500")
    otolith("commit", "-m", "asked")
    otolith("branch", "idea")
    otolith("switch", "idea")
    otolith("set", "seat", "aisle")
    assert "seat" in otolith("diff")
    otolith("commit", "-m", "chose")
    otolith("switch", "main")
    otolith("merge", "idea")
    assert otolith("cat", "seat").strip() == "aisle"
    assert "chose" in otolith("log")
    assert json.loads(otolith("fsck", "--json"))["ok"]
    otolith("gc")
    stats = json.loads(otolith("stats", "--json"))
    assert (stats["sessions"], stats["branches"], stats["commits"]) == (1, 2, 2)
    assert json.loads(otolith("status", "--json"))["store"] == url
    assert not (tmp_path / ".otolith" / "store.db").exists()


VERBS = """set a 1, commit -m first, set b 2, status, restore --all, branch other, tag v1, log,
    show, diff v1 other, cat a, ls, blame, sessions, users, apps, teams, stats, set a 2, rm a,
    restore a, set a 3, commit -m second, undo, redo, rollback @~1, merge other,
    team add ann --team r --as ann, team propose x --set x=1 --as ann, team approve x --as ann,
    team show, team watch --since @~1 -n 1, team inbox, -s run exec -c x=1, vars run,
    events, memory, effects, fsck, gc --dry-run, gc, migrate plan --module json, remote list,
    doctor, key sign --all"""


@pytest.mark.parametrize("is_variable", [False, True], ids=["option", "variable"])
def test_every_command_takes_a_server_and_prints_no_password(otolith, url, is_variable):
    otolith("init", url, "-s", "trip")
    place = with_password(url)

    for verb in [verb.split() for verb in VERBS.split(",")]:
        session = [] if verb[0] in ("-s", "vars", "key", "team") else ["-s", "trip"]
        if is_variable:
            otolith(*session, *verb, OTOLITH_STORE=place)
        else:
            otolith("--store", place, *session, *verb)


def test_copies_are_made_without_printing_a_password(otolith, url):
    place = with_password(url)
    otolith("init", url, "-s", "trip")
    otolith("set", "a", "1")
    otolith("commit", "-m", "first")

    otolith("clone", place, "copy")
    for verb in ("push", "pull", "fetch", "mirror"):
        otolith("-C", "copy", verb, place)
        otolith("-C", "copy", verb, place, "--json")
    otolith("remote", "add", "other", place, code=2)


@pytest.mark.parametrize("words", [["init"], ["--store"]], ids=["argument", "option"])
def test_a_password_is_not_written_into_a_place(otolith, url, tmp_path, words):
    place = with_password(url)
    said = otolith(*words, place, *([] if words == ["init"] else ["init"]), code=2)

    assert "PGPASSWORD" in said
    assert not (tmp_path / ".otolith").exists()


def test_a_server_that_is_gone_is_an_error_without_a_password(otolith):
    place = f"postgresql://ann:{PASSWORD}@127.0.0.1:1/db?connect_timeout=2"

    for verb in ("log", "status", "fsck", "gc", "stats"):
        otolith("--store", place, "-s", "trip", verb, code=6)
