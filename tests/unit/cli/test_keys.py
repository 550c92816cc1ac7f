"""`otolith key`: rotates the keys that sign pickles."""

from __future__ import annotations

from fractions import Fraction

import pytest

import otolith
from otolith.errors import Untrusted
from tests.unit.cli.terminal import data, run


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OTOLITH_KEY", raising=False)
    monkeypatch.setenv("OTOLITH_KEY_FILE", str(tmp_path / "key"))
    with otolith.open("a.db") as repo:
        state = repo.session("trip")
        state["share"] = Fraction(1, 3)
        state.commit("stored")
    return tmp_path


def share() -> Fraction:
    with otolith.open("a.db") as repo:
        found: Fraction = repo.session("trip")["share"]
        return found


def test_a_key_is_rotated_in_three_commands():
    [first] = data("key")["keys"]
    rotated = run("key", "rotate")
    assert rotated.output.splitlines()[1] == f"{first['id']}  only read"
    assert share() == Fraction(1, 3)
    assert "would sign 1 pickle anew" in run("key", "sign", "--dry-run").output
    assert "sign 1 pickle anew" in run("key", "sign").output
    assert "Nothing to sign" in run("key", "sign").output
    forgotten = run("key", "forget")
    assert len(forgotten.output.splitlines()) == 1
    assert share() == Fraction(1, 3)


def test_a_key_is_never_printed(place):
    run("key", "rotate")
    shown = run("key").output + run("key", "show", "--json").output
    for line in (place / "key").read_text().split():
        assert line not in shown
        assert line[:12] not in shown


def test_what_was_not_signed_anew_is_lost_with_its_key():
    run("key", "rotate")
    run("key", "forget")
    with pytest.raises(Untrusted):
        share()
    told = run("key", "sign")
    assert told.exit_code == 7
    assert "share stays as it is" in told.output
