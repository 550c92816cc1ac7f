"""A profile in several terminals: learned at once, explained, exported, erased for everybody."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import otolith
from otolith.errors import Erased
from tests.journey.warm_program import WarmProgram
from tests.patience import HANG_SECONDS
from tests.servers.postgres import fresh


class Terminal:
    """Runs `otolith` on one store, a process for each command."""

    def __init__(self, url: str, place: Path, program: WarmProgram) -> None:
        self.url = url
        self.place = place
        self.env = {key: value for key, value in os.environ.items() if "OTOLITH" not in key}
        self._program = program

    def __call__(self, *words: str, code: int = 0) -> str:
        done = self._program.run(["--store", self.url, *words], cwd=self.place, env=self.env)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def data(self, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self(*words, "--json"))
        return found

    def process(self, *words: str, **streams: Any) -> subprocess.Popen[str]:
        """Start the program itself."""
        command = [sys.executable, "-m", "otolith.cli", "--store", self.url, *words]
        return subprocess.Popen(command, cwd=self.place, env=self.env, text=True, **streams)


@pytest.fixture(params=["file", "postgres"])
def run(request: pytest.FixtureRequest, tmp_path: Path, program: WarmProgram) -> Terminal:
    """A terminal on an empty store."""
    url = str(tmp_path / "a.db")
    if request.param == "postgres":
        url = fresh(request.getfixturevalue("postgres_url"))
    otolith.open(url).close()
    return Terminal(url, tmp_path, program)


def test_terminals_that_learn_at_once_lose_nothing(run):
    run("profile", "set", "ann", "seat", "aisle")
    words = ["profile", "observe", "ann", "seat", "window", "--source"]
    terminals = [run.process(*words, f"booking {number}") for number in range(4)]
    assert [each.wait(HANG_SECONDS) for each in terminals] == [0] * 4

    why = run.data("profile", "why", "ann", "seat")
    assert sorted(each["source"] for each in why["evidence"]) == [
        "",
        *map("booking {}".format, range(4)),
    ]
    assert len({each["commit"] for each in why["evidence"]}) == 5
    assert why["preference"]["value"] == "aisle"


def test_a_program_and_a_terminal_share_a_profile(run):
    with otolith.open(run.url) as repo:
        trip = repo.session("trip", user="ann")
        trip.conversation.user("I always want a vegetarian meal.")
        trip.commit("said")
        assert "1 statement from 1 message" in run("profile", "learn", "ann", "trip")
        ann = repo.user("ann").profile
        assert ann.prefer("meal").value == "vegetarian"
        ann.set("meal", "vegan")
        ann.commit("asked")
    assert run("profile", "show", "ann", "meal").startswith('meal: "vegan", set; then "vegetarian"')
    run("profile", "export", "ann", "ann.json")
    run("profile", "import", "bob", "ann.json")
    assert run.data("profile", "show", "bob", "meal")["preference"]["value"] == "vegan"


def test_a_user_who_is_erased_in_a_terminal_is_erased_for_a_program(run):
    run("profile", "set", "ann", "seat", "aisle")
    with otolith.open(run.url) as repo:
        ann = repo.user("ann").profile
        ann.observe("seat", "window")
        assert "ann is erased, and stays erased" in run("profile", "erase", "ann", "--yes")
        with pytest.raises(Erased):
            ann.commit("learned")
    run("profile", "show", "ann", code=9)
    run("profile", "set", "ann", "seat", "aisle", code=9)
    assert run.data("users")["users"] == []


def test_a_person_types_the_name_and_sees_how_far_the_rebuild_is(run):
    run("profile", "set", "ann", "seat", "aisle")
    ours, theirs = pty.openpty()
    streams = {"stdin": theirs, "stdout": subprocess.PIPE, "stderr": theirs}
    with run.process("profile", "erase", "ann", **streams) as process:
        os.close(theirs)
        typed = os.write(ours, b"ann\n")
        out, _ = process.communicate(timeout=HANG_SECONDS)
        shown = b""
        while chunk := _read(ours):
            shown += chunk
    os.close(ours)
    assert (typed, process.returncode) == (4, 0), shown
    assert b"Type ann to erase all of this user: " in shown
    assert b" of " in shown.partition(b"this user: ")[2]  # phases, and how much of each is done
    assert "ann is erased, and stays erased: 1 branch, stash or tag removed." in out


def _read(terminal: int) -> bytes:
    """Return what a terminal was shown; nothing once the program has left it."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""
