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


CODE = """
from shop_prices import LIMIT
from otolith.statecharts import Chart, ChartClass, to

shop = Chart.from_data({
    "id": "shop",
    "initial": "open",
    "states": {
        "open": {"on": {"pay": {"target": "paid", "guard": "enough"}}},
        "paid": {"after": {"1000": "sent"}},
        "sent": {"type": "final"},
        "lost": {},
    },
})

@shop.guard
def enough(data, event):
    return event.data["amount"] >= LIMIT

class Door(ChartClass):
    initial = "closed"
    class closed:
        open = to("opened")
    class opened:
        close = to("closed")
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "shop_prices.py").write_text("LIMIT = 5")
    (tmp_path / "shops.py").write_text(CODE)
    return "shops.py"


def test_a_chart_in_a_python_file_is_played_with_its_guards(code: str) -> None:
    taken = chart("simulate", f"{code}:shop", 'pay:{"amount": 5}', "+1s")
    assert taken.exit_code == 0, taken.output
    assert "sent" in taken.output
    refused = chart("simulate", f"{code}:shop", 'pay:{"amount": 4}')
    assert refused.exit_code == 1
    assert "the guard of pay returned false" in refused.output


def test_a_chart_in_a_python_file_is_checked_with_its_guards(code: str) -> None:
    found = json.loads(chart("validate", "--json", f"{code}:shop").output)["findings"]
    assert {each["kind"] for each in found} == {"unreachable"}
    assert "closed" in chart("render", f"{code}:Door").output


def test_paths_say_what_failed_and_what_was_never_reached(code: str) -> None:
    result = chart("paths", f"{code}:shop")
    assert "failed: pay in open failed" in result.output
    assert "never reached: paid, sent, lost" in result.output
    found = json.loads(
        chart("paths", "--json", "--event", 'pay:{"amount": 9}', f"{code}:shop").output
    )
    assert (found["problems"], found["unreached"]) == ([], ["lost"])
    assert "from shops import shop" in chart("paths", "--tests", f"{code}:shop").output


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("shops.py", "which chart"),
        ("shops.py:nothing", "its charts are shop"),
        ("shops.py:LIMIT", "LIMIT is not a chart"),
        ("missing.py:shop", "does not exist"),
    ],
)
def test_a_python_file_without_such_a_chart_is_refused(code: str, name: str, message: str) -> None:
    result = chart("validate", name)
    assert result.exit_code == 2
    assert message in result.output


def test_an_error_of_the_python_file_is_that_of_the_user(code: str) -> None:
    Path("broken.py").write_text("1 / 0")
    result = chart("validate", "broken.py:shop")
    assert result.exit_code == 1
    assert "ZeroDivisionError" in result.output


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_paths_respects_its_limit(code: str, limit: int) -> None:
    found = json.loads(chart("paths", "--json", "--limit", limit, f"{code}:Door").output)
    assert len(found["paths"]) == limit


@pytest.mark.parametrize("wait", ["+1s", "+1000ms", "+1000000us", "+1", "after:1", 'after:"1s"'])
def test_times_are_written_as_in_python(code: str, wait: str) -> None:
    found = json.loads(
        chart("simulate", "--json", f"{code}:shop", 'pay:{"amount": 5}', wait).output
    )
    assert (found["phase"], found["steps"][-1]["time"]) == ("sent", 1_000_000)
    assert found["steps"][-1]["event"] == "+1s"
