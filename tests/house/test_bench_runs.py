"""The benchmarks run; how fast anything is, is for a quiet machine to say."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.house.source import ROOT

PROMISED = {"commit", "append", "open", "past", "diff", "gc", "threads", "import"}


def test_a_quick_run_has_a_figure_for_every_promise(tmp_path):
    report = tmp_path / "bench.json"

    done = _bench("core", "--quick", "--json", str(report))

    rows = json.loads(report.read_text())["rows"]
    assert {row["name"].partition("-")[0] for row in rows if row["budget"]} == PROMISED
    assert all(row["work"] in done.stdout for row in rows)


def test_rows_can_be_chosen_by_name():
    done = _bench("core", "diff", "--quick")

    assert "diff" in done.stdout
    assert "commit," not in done.stdout


def test_a_name_that_is_no_benchmark_is_refused():
    with pytest.raises(subprocess.CalledProcessError) as refused:
        _bench("core", "nonsense", "--quick")

    assert "no such benchmark: nonsense" in refused.value.stderr


def test_a_profile_shows_where_the_time_goes():
    done = _bench("profile", "commit-100", "--quick")

    assert "commit" in done.stdout


def _bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.run", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
