"""A whole session in a terminal, with every command, on every kind of store that has a URL."""

from __future__ import annotations

import gc
import json
import re
import runpy
import tempfile
from pathlib import Path
from typing import Protocol

import click
import pytest
from click.testing import CliRunner

from otolith import open as open_repo
from otolith.cli import program
from otolith.stores import without_secrets
from tests.servers import postgres, redis

BOT = """
from otolith.agent import Agent, AgentState, Orchestrator, ScriptedModel

agent = Agent(ScriptedModel([{"call": "pay", "amount": 5}, "Paid 5."]))

@agent.tool(effects="once")
def pay(amount: int) -> str:
    "Pay."
    with open("paid", "a") as file:
        file.write(f"{amount}\\n")
    return "receipt"

class Asker(Orchestrator):
    def step(self, s: AgentState) -> AgentState:
        if s.phase == "planning":
            return s.to_executing().ask("Which seat?")
        return s.to_done("ok")
"""

FLOW = """
from otolith.flows import Flow

trip = Flow("trip")

@trip.task
def search(dest: str) -> list[str]:
    return [f"{dest} 7:40"]

@trip.task(after=search)
def choose(search) -> str:
    return search[0]
"""

CELLS = """
# %%
prices = [3, 4]
# %%
total = sum(prices)
print("total", total)
"""

CHART = (
    '{"id": "door", "initial": "shut", "states": {"shut": {"on": {"OPEN": "open"}}, "open": {}}}'
)


class Terminal(Protocol):
    """Runs a command on the store and returns what it prints."""

    def __call__(self, *words: str, code: int = 0, input: str | None = None) -> str: ...


@pytest.fixture(params=["sqlite", "postgres", "redis", "bucket", "etcd"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "postgres":
            return postgres.fresh(request.getfixturevalue("postgres_url"))
        case "redis":
            return redis.fresh(request.getfixturevalue("redis_url"))
        case "bucket":
            found: str = request.getfixturevalue("bucket_place").url()
            return found
        case "etcd":
            cluster = request.getfixturevalue("etcd_cluster")
            place: str = cluster.url(tmp_path / "objects.db")
            return place
    return str(tmp_path / "plain.db")


@pytest.fixture
def verbs() -> set[str]:
    """The commands that a test has run."""
    return set()


@pytest.fixture
def otolith(tmp_path: Path, url: str, verbs: set[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))  # what is left there is found below
    for name, text in {
        "clerk.py": BOT,
        "cells.py": CELLS,
        "door.json": CHART,
        "flow.py": FLOW,
    }.items():
        (folder / name).write_text(text)

    def run(*words: str, code: int = 0, input: str | None = None) -> str:
        verbs.add(next(word for word in words if word in NAMES))
        done = CliRunner().invoke(program, ["--store", url, *words], input=input)
        assert done.exit_code == code, (words, done.output, done.exception)
        assert "Traceback" not in done.output
        return done.output

    return run


NAMES = set(program.list_commands(click.Context(program)))
QUICK = ("--sandbox", "limits")  # the confinement of steps is tested elsewhere


def test_every_command_works_on_every_store(
    otolith: Terminal, verbs: set[str], url: str, tmp_path: Path
) -> None:
    (tmp_path / "place").mkdir()
    otolith("-C", str(tmp_path / "place"), "init")
    _edit_and_look(otolith)
    _branch_and_merge(otolith, tmp_path / "place")
    _run_code(otolith)
    _run_agents(otolith)
    _work_as_a_team(otolith)
    _work_on_a_flow(otolith, url)
    _know_a_user(otolith)
    _copy(otolith, tmp_path)
    _maintain(otolith, url)
    otolith("help", "log")
    assert NAMES - verbs == {"demo"}, "it makes a store of its own"


def _work_as_a_team(otolith: Terminal) -> None:
    otolith("team", "add", "bob", "--as", "ann", "--team", "crew")
    otolith("team", "propose", "plan B", "--set", "plan=B", "--as", "ann", "--team", "crew")
    otolith("team", "approve", "plan B", "--as", "ann", "--team", "crew")
    assert "landed" in otolith("team", "approve", "plan B", "--as", "bob", "--team", "crew")
    otolith("team", "send", "bob", "hi", "--as", "ann", "--team", "crew")
    assert "hi" in otolith("team", "messages", "--as", "bob", "--team", "crew")
    assert "plan" in otolith("team", "show", "--team", "crew")
    assert "crew" in otolith("teams")


def _work_on_a_flow(otolith: Terminal, url: str) -> None:
    code = runpy.run_path("flow.py")
    with open_repo(url) as repo:
        repo.session("lab").flow(code["trip"], dest="NYC")
    assert "2 of 2" in otolith("worker", "--code", "flow.py:trip", "--once")
    assert "done" in otolith("-s", "lab", "flow", "list")


def _know_a_user(otolith: Terminal) -> None:
    otolith("profile", "set", "eve", "seat", "aisle")
    otolith("profile", "observe", "eve", "drink", "tea")
    assert "aisle" in otolith("profile", "why", "eve", "seat")
    assert "tea" in otolith("profile", "show", "eve")
    assert "is erased" in otolith("profile", "erase", "eve", "--yes")
    assert "erased" in otolith("profile", "show", "eve", code=9)


def _edit_and_look(otolith: Terminal) -> None:
    trip = ("-s", "trip")
    otolith(*trip, "set", "plan/city", "Rome")
    assert "Rome" in otolith(*trip, "diff")
    assert "plan" in otolith(*trip, "status")
    otolith(*trip, "commit", "-m", "chose a city")
    otolith(*trip, "set", "budget", "500")
    otolith(*trip, "rm", "plan/city")
    otolith(*trip, "restore", "plan/city")
    otolith(*trip, "commit", "-m", "asked")
    assert "asked" in otolith(*trip, "log")
    assert "budget" in otolith(*trip, "show")
    assert otolith(*trip, "cat", "plan/city").strip() == "Rome"
    assert "plan" in otolith(*trip, "ls")
    assert "budget" in otolith(*trip, "blame")
    assert "trip" in otolith("sessions")
    otolith("--user", "ann", "set", "seat", "aisle")
    otolith("--user", "ann", "commit", "-m", "prefers")
    assert "ann" in otolith("users")
    otolith("apps")
    otolith(*trip, "undo")
    otolith(*trip, "redo")
    otolith(*trip, "rollback", "@~1")
    otolith(*trip, "undo")
    assert otolith(*trip, "cat", "budget").strip() == "500"


def _branch_and_merge(otolith: Terminal, place: Path) -> None:
    trip = ("-s", "trip")
    otolith(*trip, "branch", "idea")
    otolith(*trip, "-b", "idea", "set", "seat", "window")
    otolith(*trip, "-b", "idea", "commit", "-m", "chose a seat")
    otolith(*trip, "tag", "v1")
    otolith(*trip, "merge", "idea")
    assert otolith(*trip, "cat", "seat").strip() == "window"
    assert "idea" in otolith(*trip, "branch")
    assert "--store" in otolith("switch", "idea", code=2), "there is no place to remember it in"
    said = []
    for words in (["switch", "-s", "trip"], ["switch", "idea"], ["status"]):
        done = CliRunner().invoke(program, ["-C", str(place), *words])
        assert done.exit_code == 0, done.output
        said.append(done.output)
    assert "idea" in said[-1]


def _run_code(otolith: Terminal) -> None:
    assert otolith("exec", "lab", *QUICK, "-c", "x = 6\nx * 7").startswith("42")
    assert "x" in otolith("vars", "lab")
    assert "total 7" in otolith("-s", "lab", "run", "cells.py", *QUICK)
    otolith("shell", "lab", *QUICK, input="y = x + 1\n")
    assert otolith("exec", "lab", *QUICK, "-c", "y + total").startswith("14")
    gc.collect()  # the states of the commands above
    assert [*Path(tempfile.gettempdir()).glob("otolith-*")] == []
    otolith("chart", "validate", "door.json")
    otolith("-s", "trip", "chart", "ls")


def _run_agents(otolith: Terminal) -> None:
    paid = Path("paid")
    otolith("-s", "agent", "run", "clerk.py:agent", "Pay for the flight")
    assert paid.read_text() == "5\n"
    assert "Paid 5" in otolith("-s", "agent", "chat", "show")
    assert "pay" in otolith("effects", "agent")
    otolith("-s", "agent", "events")
    otolith("-s", "agent", "memory")
    report = json.loads(otolith("replay", "agent", "--with", "clerk.py:agent", "--json"))
    assert (report["ended"], report["asked"]) == ("done", 0)
    assert paid.read_text() == "5\n", "a replay has no effects"
    assert "Which seat?" in otolith("-s", "asker", "run", "clerk.py:Asker", "Fly", code=8)
    otolith("resume", "asker", "--with", "clerk.py:Asker", "--answer", "aisle")
    assert "done" in otolith("resume", "asker")


def _copy(otolith: Terminal, folder: Path) -> None:
    otolith("push", str(folder / "copy.db"))
    assert "up to date" in otolith("pull", str(folder / "copy.db"))
    otolith("fetch", str(folder / "copy.db"))
    otolith("mirror", str(folder / "mirror.db"))
    otolith("remote", "add", "spare", str(folder / "copy.db"))
    assert "spare" in otolith("remote", "list")
    otolith("push", "spare")
    otolith("remote", "remove", "spare")


def _maintain(otolith: Terminal, url: str) -> None:
    assert "clone" in otolith("clone", url, "clone")
    assert json.loads(otolith("-s", "trip", "fsck", "--json"))["ok"]
    otolith("-s", "trip", "migrate", "plan", "--module", "json")
    otolith("key", "sign", "--all")
    stats = json.loads(otolith("-s", "trip", "stats", "--json"))
    assert stats["sessions"] == 4
    otolith("-s", "trip", "set", "secret", "xyzzy-1234")
    otolith("-s", "trip", "commit", "-m", "by mistake")
    otolith("-s", "trip", "undo")
    assert "objects" in otolith("gc", "--dry-run")
    erased = otolith("gc", "--expire", "now")
    assert ("Erased" in erased) == ("://" not in url)
    assert "Run it again" not in erased
    assert json.loads(otolith("-s", "trip", "fsck", "--json"))["ok"]
    assert otolith("-s", "trip", "cat", "budget").strip() == "500"
    said = otolith("doctor")
    assert re.search(r"store", said)
    assert without_secrets(url).partition("?")[0] in said
