"""Tests that are generated are run for real, and so are random walks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from otolith.errors import BadValue
from otolith.statecharts import AGENT, Chart
from otolith.statecharts.analysis import pytest_cases, shortest_paths, simple_paths
from tests.patience import HANG_SECONDS

SHOP = {
    "id": "shop",
    "initial": "open",
    "context": {"sum": 0, "note": ""},
    "states": {
        "open": {
            "on": {
                "item.added": {
                    "actions": {
                        "type": "xstate.assign",
                        "context": {"sum": {"@expr": "context.sum + event.price"}},
                    }
                },
                "pay": {"target": "paid", "guard": {"@expr": "context.sum >= 7"}},
                "class": "left",
            },
            "after": {"1500": "left"},
        },
        "paid": {"type": "final"},
        "left": {"type": "final"},
    },
}
ITEMS: list[Any] = [
    ("item.added", {"price": 5, "label": 'a "quoted" thing', "tags": ["x" * 40, "y" * 40]}),
    "pay",
    "class",
]


def run_pytest(folder, *arguments):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=HANG_SECONDS, check=False
    )


# ---------------------------------------------------------------- cases


def test_cases_of_a_chart_in_a_module_run_green(tmp_path):
    source = pytest_cases("otolith.statecharts:AGENT", shortest_paths(AGENT.compiled))
    (tmp_path / "test_agent.py").write_text(source)

    done = run_pytest(tmp_path, "test_agent.py")

    assert "7 passed" in done.stdout, done.stdout + done.stderr


def test_cases_of_a_chart_in_a_file_run_green(tmp_path):
    (tmp_path / "shop.json").write_text(json.dumps(SHOP))
    model = Chart.load(tmp_path / "shop.json").compiled
    paths = shortest_paths(model, events=ITEMS, max_configurations=50)
    (tmp_path / "test_shop.py").write_text(pytest_cases("shop.json", paths))

    done = run_pytest(tmp_path, "test_shop.py")

    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_cases_of_a_model_take_a_fixture_that_is_the_users(tmp_path):
    source = pytest_cases(AGENT.compiled, simple_paths(AGENT.compiled, "done"))
    (tmp_path / "test_agent.py").write_text(source)
    (tmp_path / "conftest.py").write_text(
        "import pytest\nfrom otolith.statecharts import AGENT\n"
        "@pytest.fixture\ndef chart():\n    return AGENT\n"
    )

    done = run_pytest(tmp_path, "test_agent.py")

    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_cases_fail_when_the_chart_does_something_else(tmp_path):
    (tmp_path / "shop.json").write_text(json.dumps(SHOP))
    model = Chart.load(tmp_path / "shop.json").compiled
    paths = shortest_paths(model, events=ITEMS, max_configurations=50)
    (tmp_path / "test_shop.py").write_text(pytest_cases("shop.json", paths))
    changed = json.loads(json.dumps(SHOP).replace("sum >= 7", "sum >= 70"))
    (tmp_path / "shop.json").write_text(json.dumps(changed))

    done = run_pytest(tmp_path, "test_shop.py")

    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr


def test_cases_are_formatted_and_named_by_their_events(tmp_path):
    model = Chart.from_data(SHOP).compiled
    paths = shortest_paths(model, events=ITEMS, max_configurations=50)
    source = pytest_cases("shop.json", paths, data={"sum": 0, "note": "x" * 90})
    (tmp_path / "test_shop.py").write_text(source)
    ruff = Path(sys.executable).with_name("ruff")

    done = subprocess.run(
        [str(ruff), "format", "--isolated", "--diff", "test_shop.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert "def test_class_leads_to_left(chart):" in source
    assert "def test_item_added_then_item_added_then_pay_leads_to_paid(chart):" in source


def test_cases_are_the_same_every_time():
    paths = simple_paths(AGENT.compiled)

    assert pytest_cases(AGENT.compiled, paths) == pytest_cases(
        AGENT.compiled, simple_paths(AGENT.compiled)
    )


def test_two_paths_never_share_a_name():
    paths = list(simple_paths(AGENT.compiled)) * 2
    names = [
        line for line in pytest_cases(AGENT.compiled, paths).splitlines() if "def test_" in line
    ]

    assert len(names) == len(set(names)) == len(paths)


@pytest.mark.parametrize("name", ["AGENT", "module:", "a b:c", "x.txt", "os:system('x')"])
def test_a_name_says_where_the_chart_is(name):
    with pytest.raises(BadValue, match="where the chart is"):
        pytest_cases(name, [])


# ---------------------------------------------------------------- walks


CALM = settings(max_examples=20, stateful_step_count=25, deadline=None, database=None)
