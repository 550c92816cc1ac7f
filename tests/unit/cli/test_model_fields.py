"""`otolith diff`, `blame`, `log`, `merge` and `set` name the fields of models."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from otolith import Disk, Versioned
from tests.unit.cli.terminal import data, run


@dataclass
class Config:
    retries: int = 3
    timeout: float = 1.0
    tags: list[str] = field(default_factory=list)


def opened():
    return Versioned(Disk("a.db"), session="trip")


@pytest.fixture
def torn(place):
    """Two branches that changed one field differently, and another one on one side."""
    with opened() as state:
        state["cfg"] = Config()
        state.commit("begin")
        other = state.fork("other")
        state["cfg"].retries = 5
        state.commit("five")
        other["cfg"].retries, other["cfg"].timeout = 7, 9.0
        other.commit("seven")
    return place


def test_a_diff_shows_the_fields_that_differ(torn):
    assert run("diff", "@~1", "@").output == "~ cfg/retries\n    - 3\n    + 5\n"
    assert run("diff", "--name-only", "main", "other").output == "cfg/retries\ncfg/timeout\n"


def test_blame_and_log_follow_a_field(torn):
    shown = {line["path"]: line["commit"]["message"] for line in data("blame", "cfg")["blame"]}
    assert shown == {"cfg/retries": "five", "cfg/tags": "begin", "cfg/timeout": "begin"}
    assert [line["commit"]["message"] for line in data("blame", "cfg/retries")["blame"]] == ["five"]

    found = data("log", "--path", "cfg/retries")["commits"]
    assert [commit["message"] for commit in found] == ["five", "begin"]
    assert [c["message"] for c in data("log", "--path", "cfg/timeout")["commits"]] == ["begin"]
    assert run("cat", "other:cfg/timeout").output == "9.0\n"


def test_a_conflict_about_a_field_is_decided_by_its_path(torn):
    merged = run("merge", "other")
    assert merged.exit_code == 1
    assert "! cfg/retries  edit/edit\n    base   3\n    ours   5\n    theirs 7\n" in merged.output

    assert run("merge", "--take", "theirs", "cfg/retries").exit_code == 0
    assert run("merge", "--continue").exit_code == 0
    with opened() as state:
        assert state["cfg"] == Config(7, 9.0)


def test_a_field_is_set_without_its_class(torn):
    assert run("set", "cfg/retries", "11").exit_code == 0
    assert run("set", "cfg/tags", '["a"]').exit_code == 0
    wrong = run("set", "cfg/retires", "11")
    gone = run("rm", "cfg/retries")
    assert (wrong.exit_code, gone.exit_code) != (0, 0)
    assert "nothing at cfg/retires" in wrong.output
    assert "cfg/retries is a field" in gone.output
    assert run("commit", "-m", "by hand").exit_code == 0

    with opened() as state:
        assert state["cfg"] == Config(11, 1.0, ["a"])
