"""No verb of the command line ever loads a pickle, whatever it is asked to do with one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import otolith
from otolith.care import verify
from otolith.cli import program
from otolith.codecs import Codecs, Lost

KEY = "5e" * 32
STORE = "traps.db"
CODES = {0, 1}  # 1 is a conflict, or a difference

READING = """\
status
log
log --graph --all
log --path short
show
show main~1
show main:short
show main:long
show other
diff
diff main other
diff main...other
diff --stat main~1 main
cat short
cat long
cat deep
cat keyed
cat deep/list/0
ls
ls -l
ls -l deep/list
ls short
blame
blame short
sessions
stats
branch
tag
fsck --quick
fsck --full
fsck --deep""".splitlines()

WRITING = """\
set deep/plain 5
status
diff
commit -m edited
set deep/list/0 6
restore --all
tag now
merge other
status
merge --abort
merge other
merge --take theirs --all
merge --continue -m merged
undo
redo
rollback main~1
gc --expire now
fsck --deep
cat short""".splitlines()


class Trap:
    """Leaves a file behind where it is loaded."""

    def __init__(self, number: int, *, weight: int = 10) -> None:
        self.number = number
        self.weight = b"x" * weight

    def __reduce__(self) -> Any:
        return spring, (self.number, self.weight)


def spring(*_arguments: object) -> None:
    Path(os.environ["TRAP"]).touch()


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """A store of traps at hand, with the key: only the program itself is in the way of loading.

    Two branches disagree about a pickle; there are short ones and long ones, in lists and in dicts.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OTOLITH_KEY", KEY)
    monkeypatch.setenv("TRAP", str(tmp_path / "loaded"))
    with otolith.open(STORE, pickle="signed") as repo:
        state = repo.session("a")
        state["short"] = Trap(1)
        state["long"] = Trap(1, weight=200_000)
        state["deep"] = {"list": [Trap(1), 2], "plain": 1}
        state["keyed"] = {1: Trap(1)}
        state["lost"] = Lost("builtins:generator", "cannot store a generator", "store the result")
        state.commit("one")
        other = state.fork("other")
        state["short"] = Trap(2)
        state["deep/list"] = [Trap(2)]
        state.commit("two")
        other["short"] = Trap(3)
        other["long"] = Trap(3, weight=300_000)
        other.commit("three")
    return tmp_path / "loaded"


def run(words: str) -> str:
    done = CliRunner().invoke(program, ["--store", STORE, *words.split()])
    assert done.exit_code in CODES, (words, done.output)
    return done.stdout


def test_the_trap_works_where_it_may_be_loaded(trap):
    with otolith.open(STORE, pickle="signed") as repo:
        repo.session("a")["short"]

    assert trap.exists()


def test_no_verb_that_reads_loads_anything(trap):
    for words in READING:
        run(words)
        assert not trap.exists(), words


def test_no_verb_that_answers_programs_loads_anything(trap):
    for words in READING:
        json.loads(run(f"{words} --json"))
        assert not trap.exists(), words


def test_no_verb_that_writes_loads_anything_and_pickles_stay_as_they_were(trap):
    kept = _stored("main", "long")
    for words in WRITING:
        run(words)
        assert not trap.exists(), words

    assert _stored("main", "long") == kept
    with otolith.open(STORE, pickle="signed") as repo:
        repo.session("a")["long"]
    assert trap.exists()


def test_checking_a_store_loads_nothing_even_where_it_may(trap):
    with otolith.open(STORE, pickle="signed") as repo:
        assert verify(repo, level="deep").ok

    assert not trap.exists()


def test_type_and_size_are_shown_instead(trap):
    shown = json.loads(run("cat short"))

    assert (shown["$type"], shown["value"]) == ("pickle", f"{__name__}:Trap")
    assert shown["bytes"] > 50
    assert f"<pickled {__name__}.Trap, " in run("diff main other")
    assert "Trap, 200," in run("show main~1")
    assert "pickle" in run("ls -l")


def test_what_was_lost_is_shown_as_such(trap):
    assert "<lost: generator, cannot store a generator>" in run("show main~1")


def _stored(ref: str, path: str) -> object:
    with otolith.open(STORE, codecs=Codecs(opaque=True)) as repo:
        branch = repo.session("a")
        return branch.at(branch.resolve(ref))[path]
