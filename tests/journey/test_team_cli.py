"""A team in several terminals: one watches while others work, on a file and on a server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import otolith
from tests.journey.warm_program import WarmProgram
from tests.patience import HANG_SECONDS
from tests.servers.postgres import fresh

STORES = ["file", "postgres"]


class Terminal:
    """Runs `otolith` on one store, a process for each command."""

    def __init__(self, url: str, place: Path, program: WarmProgram) -> None:
        self.url = url
        self.place = place
        self._program = program
        self._env = {key: value for key, value in os.environ.items() if "OTOLITH" not in key}

    def __call__(self, *words: str, member: str = "", code: int = 0) -> str:
        env = self._env | ({"OTOLITH_MEMBER": member} if member else {})
        before = ["--store", self.url]
        done = self._program.run([*before, *words], cwd=self.place, env=env)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    @contextmanager
    def watch(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Run the program itself, which Control-C reaches, until it has ended."""
        command = [sys.executable, "-m", "otolith.cli", "--store", self.url, "team", "watch"]
        with subprocess.Popen(
            [*command, *words],
            cwd=self.place,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture(params=STORES)
def run(request: pytest.FixtureRequest, tmp_path: Path, program: WarmProgram) -> Terminal:
    """A terminal on a store with a team of two."""
    url = str(tmp_path / "a.db")
    if request.param == "postgres":
        url = fresh(request.getfixturevalue("postgres_url"))
    with otolith.open(url) as repo:
        repo.team("research", member="ann").add("bob")
    return Terminal(url, tmp_path, program)


def change(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the next change that a watch prints; wait for it."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr and process.stderr.read()
    found: dict[str, Any] = json.loads(line)
    return found


def set_and_commit(run: Terminal, path: str, value: str, member: str) -> None:
    run("--team", "research", "set", path, value, member=member)
    run("--team", "research", "commit", "-m", f"{path} is {value}", member=member)


def test_a_terminal_watches_what_others_commit_as_it_comes(run):
    start = json.loads(run("--team", "research", "log", "--json"))["commits"][0]["id"]
    with run.watch("--since", start, "--json") as watching:
        set_and_commit(run, "plan", "A", "ann")
        first = change(watching)
        assert (first["path"], first["new"], first["by"]) == ("plan", "A", "ann")
        run("team", "propose", "B", "--set", "plan=B", "--quorum", "all", member="ann")
        run("team", "approve", "B", member="ann")
        run("team", "approve", "B", member="bob")
        second = change(watching)
        assert (second["old"], second["new"], second["by"]) == ("A", "B", "bob")

        watching.send_signal(signal.SIGINT)
        rest, error = watching.communicate(timeout=HANG_SECONDS)
        assert (watching.returncode, rest, error.strip()) == (130, "", "")

    set_and_commit(run, "plan", "C", "ann")
    with run.watch("--since", second["cursor"], "--limit", "1", "--json") as again:
        assert change(again)["new"] == "C"
        assert again.wait(HANG_SECONDS) == 0


def test_work_on_a_branch_is_merged_decided_and_handed_over(run):
    set_and_commit(run, "plan", "A", "ann")
    run("--team", "research", "branch", "idea", member="bob")
    for branch, value, member in (("idea", "B", "bob"), ("main", "C", "ann")):
        run("--team", "research", "-b", branch, "set", "plan", value, member=member)
        run("--team", "research", "-b", branch, "commit", "-m", value, member=member)
    assert "1 conflict for the inbox" in run("team", "merge", "idea", member="ann")
    assert "plan is decided; none is left" in run(
        "team", "resolve", "plan", "--take", "theirs", member="ann"
    )
    assert run("--team", "research", "cat", "plan") == "B\n"

    run("-s", "trip", "set", "to", "Oslo")
    given = run("team", "handoff", "trip", "--to", "bob", "--note", "book it", member="ann")
    assert "its staged edits come along" in given
    assert "book it" in run("team", "messages", member="bob")
    with otolith.open(run.url) as repo:
        assert repo.team("research", member="bob").session("trip")["to"] == "Oslo"
    page = run("team", "show")
    assert "Team research: 2 members, 0 present" in page


def test_a_terminal_sees_who_is_present_and_uses_what(run):
    with otolith.open(run.url) as repo:
        ann = repo.team("research", member="ann")
        with ann, ann.lease("browser"), ann.queue("gpu", slots=2):
            page = run("team", "show")
            assert "2 members, 1 present" in page
            assert "browser  ann" in page
            assert "1 of 2  ann" in page
            assert "slot 0  ann" in run("team", "queue", "gpu")
    assert run("team", "leases") == "Nobody has a lease.\n"


def test_terminals_that_vote_at_once_land_a_proposal_once(run):
    for name in ("cy", "dan", "eve"):
        run("team", "add", name, member="ann")
    run("team", "propose", "B", "--set", "plan=B", "--quorum", "3", member="ann")
    command = [sys.executable, "-m", "otolith.cli", "--store", run.url, "team", "approve", "B"]
    voters = [
        subprocess.Popen([*command, "--as", name], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for name in ("ann", "bob", "cy", "dan", "eve")
    ]
    codes = [(voter.communicate(timeout=HANG_SECONDS), voter.returncode)[1] for voter in voters]
    found = json.loads(run("team", "proposal", "B", "--json"))
    assert (found["status"], found["approvals"]) == ("landed", 3)
    assert sorted(codes) == [0, 0, 0, 2, 2]
