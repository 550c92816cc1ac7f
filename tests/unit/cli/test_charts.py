"""`otolith chart`: charts in files, from a terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from otolith import Disk, Versioned
from otolith.cli import program
from otolith.statecharts import AGENT, Chart

ORDER = {
    "id": "order",
    "initial": "open",
    "states": {
        "open": {"on": {"pay": {"target": "paid", "guard": {"@expr": "_event.data.amount > 0"}}}},
        "paid": {"after": {"1000": "sent"}},
        "sent": {"type": "final"},
    },
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "order.json"
    path.write_text(json.dumps(ORDER))
    return path


def chart(*words: object) -> Result:
    return CliRunner().invoke(program, ["chart", *map(str, words)])


def test_a_sound_chart_is_said_to_be(file: Path) -> None:
    result = chart("validate", file)
    assert result.exit_code == 0
    assert "order: 3 states" in result.output


def test_what_is_wrong_is_said_and_is_an_exit_code(tmp_path: Path) -> None:
    states = {"a": {"always": "b"}, "b": {"always": "a"}, "c": {}}
    path = tmp_path / "loop.json"
    path.write_text(json.dumps({"id": "loop", "initial": "a", "states": states}))
    result = chart("validate", path)
    assert result.exit_code == 1
    found = json.loads(chart("validate", "--json", path).output)["findings"]
    assert {"endless", "unreachable"} <= {each["kind"] for each in found}


def test_warnings_count_if_asked(tmp_path: Path) -> None:
    path = tmp_path / "lost.json"
    states = {"a": {"type": "final"}, "lost": {"type": "final"}}
    path.write_text(json.dumps({"id": "x", "initial": "a", "states": states}))
    assert chart("validate", path).exit_code == 0
    assert chart("validate", "--strict", path).exit_code == 1


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"id": "x", "initial": "nowhere", "states": {"a": {}}}',
        '{"id": "x", "initial": "a", "states": {"a": {"on": {"go": "b"}}}}',
    ],
)
def test_a_file_that_is_no_chart_is_an_error_that_names_the_place(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    result = subprocess.run(
        [sys.executable, "-m", "otolith.cli", "chart", "validate", path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr


def test_a_script_is_played_with_data_and_time(file: Path) -> None:
    result = chart("simulate", file, 'pay:{"amount": 3}', "+500ms", "+0.5s")
    assert result.exit_code == 0
    phases = [line.split()[-1] for line in result.output.splitlines()[1:]]
    assert phases == ["open", "paid", "paid", "sent"]


def test_an_event_that_is_refused_is_said_and_is_an_exit_code(file: Path) -> None:
    result = chart("simulate", file, 'pay:{"amount": 0}')
    assert result.exit_code == 1
    assert "open does not accept pay" in result.output
    told = json.loads(chart("simulate", "--json", file, 'pay:{"amount": 0}').output)
    assert told["accepted"] is False
    assert told["refusal"]["allowed"] == ["pay"]


def test_data_that_is_no_json_is_refused(file: Path) -> None:
    result = chart("simulate", file, "pay:{amount}")
    assert result.exit_code != 0
    assert chart("simulate", file, "--data", "[1]").exit_code != 0


def test_paths_can_be_saved_as_tests_that_pass(file: Path, tmp_path: Path) -> None:
    event = 'pay:{"amount": 3}'
    listed = chart("paths", file, "--event", event)
    assert "sent" in listed.output
    source = chart("paths", file, "--event", event, "--tests").output
    (tmp_path / "test_order.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout


def test_what_is_exported_does_the_same(file: Path, tmp_path: Path) -> None:
    for form, name in (("scxml", "order.scxml"), ("xstate", "again.json")):
        result = chart("export", file, "--to", form, "-o", tmp_path / name)
        assert result.exit_code == 0
        again = Chart.load(tmp_path / name)
        run = again.simulate([("pay", {"amount": 3}), ("after", 1)])
        assert run.phase == "sent"


def test_a_drawing_marks_where_a_machine_is(file: Path, tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    with Versioned(Disk(store)) as state:
        machine = state.lifecycle(Chart.load(file))
        machine.send("pay", amount=1)
        state.lifecycle(AGENT, name="agent")
        state.commit("paid")
    runner = CliRunner()
    plain = chart("render", file).output
    arguments = ["--store", str(store), "chart", "render", str(file), "--machine", "main"]
    marked = runner.invoke(program, arguments)
    assert marked.exit_code == 0, marked.output
    assert marked.output != plain
    listed = runner.invoke(program, ["--store", str(store), "chart", "ls"])
    assert [line.split()[:2] for line in listed.output.splitlines()[1:]] == [
        ["agent", "idle"],
        ["main", "paid"],
    ]
    assert "digraph" in chart("render", "--as", "dot", file).output
    unknown = runner.invoke(program, [*arguments[:-1], "other"])
    assert unknown.exit_code != 0
