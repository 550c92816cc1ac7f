"""The benchmarks run; how fast anything is, is for a quiet machine to say."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bench.table import Figure, Row, text
from tests.house.source import ROOT

PROMISED = {
    "core": {"commit", "append", "open", "past", "diff", "gc", "threads", "writers", "import"},
    "state": {"frame", "read", "values", "list", "column"},
    "workspace": {"frame", "restore", "cold", "programs", "loop"},
    "lifecycle": {"events", "commit", "snapshot"},
    "agent": {"say", "stored", "context", "step"},
    "teams": {"crowd", "news", "lease", "proposal", "queue", "text"},
    "flows": {"schedule", "path", "plan", "step", "crowd", "large", "fork"},
    "profiles": {"dialogue", "preference", "search"},
    "remote": {"postgres", "redis", "bucket", "tiers", "pull"},
}


@pytest.mark.parametrize("name", PROMISED)
def test_a_quick_run_has_a_figure_for_every_promise(name, tmp_path):
    report = tmp_path / "bench.json"

    done = _bench(name, "--quick", "--json", str(report))

    rows = json.loads(report.read_text())["rows"]
    assert {row["name"].partition("-")[0] for row in rows if row["budget"]} == PROMISED[name]
    assert all(row["work"] in done.stdout for row in rows)


def test_a_note_is_told_once_for_all_rows_that_need_it():
    row = Row("name", "work", Figure(1, "s"), note="read this")

    assert text([row, row]).count("read this") == 1
    assert text([row, row]).count("work [1]") == 2


def test_rows_can_be_chosen_by_name():
    done = _bench("core", "diff", "--quick")

    assert "diff" in done.stdout
    assert "commit," not in done.stdout


def test_a_name_that_is_no_benchmark_is_refused():
    with pytest.raises(subprocess.CalledProcessError) as refused:
        _bench("core", "nonsense", "--quick")

    assert "no such benchmark: nonsense" in refused.value.stderr


def test_a_profile_shows_where_the_time_goes():
    done = _bench("profile", "commit-100", "small", "--quick")

    assert "commit" in done.stdout


def _bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.run", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
