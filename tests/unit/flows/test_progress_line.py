"""The line of a terminal: how far a run is, when it ends, and what that hangs on."""

from __future__ import annotations

import re

import pytest

from otolith.flows import Flow, FlowTask, ProgressLine, path_text, seconds_text
from otolith.flows.run_views import RunProgress


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def test_the_line_has_a_bar_tasks_path_and_time_that_is_left(state, wide, capsys, monkeypatch):
    monkeypatch.setattr("otolith.flows.progress_line._PAUSE_SECONDS", 0)
    monkeypatch.setattr("otolith.flows.progress_line._LOOK_SECONDS", 0)
    monkeypatch.setattr("otolith.flows.progress_line._LOOK_SHARE", 0)
    flow = Flow("trip")
    flow.task(lambda: 1, name="search")
    flow.task(lambda: 1, name="choose", after="search")
    flow.task(lambda: 1, name="book", after="choose")
    flow.add(FlowTask("other", call="search"))
    state.flow(flow).work(progress=True)
    lines = capsys.readouterr().err.split("\r")

    begun = r"trip \[\.*\] 0 of 4 running \([0-9.]+ m?s left, search > choose > book\) *"
    assert re.fullmatch(begun, lines[1])
    assert any(
        re.search(r"\[#+\.+\] [123] of 4 running \(.* left, .*book\)", line) for line in lines
    )
    assert lines[-1].rstrip() == f"trip [{24 * '#'}] 4 of 4 done"


def test_a_line_is_one_line_whatever_a_run_is_called(wide, capsys):
    progress = RunProgress("a\x1b[31m\nb", "f", "running", 2, {"done": 1}, 50.0)
    ProgressLine(lambda: progress, more=lambda: "(\x07)").end()

    assert (
        capsys.readouterr().err.rstrip(" \n")
        == f"\ra?[31m?b [{12 * '#'}{12 * '.'}] 1 of 2 running (?)"
    )


def test_a_long_path_shows_both_ends():
    assert path_text(list("abc")) == "a > b > c"
    assert path_text(list("abcdefghij")) == "a > b > c > d > … 2 more … > g > h > i > j"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.0001, "< 1 ms"), (0.42, "0.42 s"), (12.3, "12 s"), (200, "3 m 20 s"),
     (7500, "2 h 5 m")],
)  # fmt: skip
def test_a_span_of_time_is_short(seconds, text):
    assert seconds_text(seconds) == text
