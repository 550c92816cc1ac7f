"""`otolith effects`: what was done to the world is listed, and what nobody knows is decided."""

from __future__ import annotations

import pytest

from tests.unit.cli.terminal import data, run


def test_what_was_done_to_the_world_is_listed(unsure):
    shown = data("effects", "--unknown")["effects"]
    assert [(each["tool"], each["status"]) for each in shown] == [("pay", "begun")]
    assert "begun" in run("effects").output


@pytest.mark.parametrize("happened", [True, False])
def test_what_nobody_knows_is_decided(unsure, happened):
    cut_off = run("resume", "trip", "--with", "bot.py:agent")
    assert cut_off.exit_code != 0
    key = data("effects")["effects"][0]["key"]
    settle = f"otolith --store a.db effects trip --settle {key[:10]} --happened"
    assert f"find out, then `{settle}`, or --not-happened" in cut_off.stderr

    word = "--happened" if happened else "--not-happened"
    result = ["--result", '"receipt"'] if happened else []
    assert run("effects", "--settle", key[:6], word, *result).exit_code == 0
    assert data("effects", "--unknown")["effects"] == []
    assert run("resume", "trip", "--with", "bot.py:agent").exit_code == 0
    assert (unsure / "paid").exists() is not happened


@pytest.mark.parametrize(
    "words",
    [
        ["--settle", "ab"],
        ["--happened"],
        ["--settle", "zz", "--happened"],
        ["--settle", "", "--happened", "--result", "{"],
        ["--settle", "", "--happened", "--not-happened"],
        ["--settle", "", "--not-happened", "--result", "1"],
    ],
)
def test_a_decision_about_nothing_is_refused(unsure, words):
    assert run("effects", *words).exit_code in (2, 3)
    assert len(data("effects", "--unknown")["effects"]) == 1


def test_open_calls_are_listed_with_the_run(unsure):
    shown = run("resume", "trip").output
    key = data("effects")["effects"][0]["key"]
    assert "1 call may or may not have happened." in shown
    assert "pay {amount: 5}" in shown
    assert f"effects trip --settle {key[:10]} --happened" in shown
    assert data("resume", "trip")["open"] == [key]


def test_a_run_without_open_calls_lists_none(said):
    assert "may have happened" not in run("resume", "trip").output
    assert data("resume", "trip")["open"] == []


def test_what_a_rollback_has_left_behind_is_listed_and_marked(unsure):
    key = data("effects")["effects"][0]["key"]
    run("effects", "--settle", key, "--happened", "--result", '"receipt"')
    assert run("resume", "trip", "--with", "bot.py:agent").exit_code == 0
    first = data("log")["commits"][-1]["id"]
    assert run("rollback", first).exit_code == 0
    (left,) = data("effects")["effects"]
    assert (left["key"], left["status"], left["rolled_back"]) == (key, "done", True)
    assert "done, rolled back" in run("effects").output
