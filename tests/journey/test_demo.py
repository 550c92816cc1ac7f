"""The demo tells its story with real processes, and all it claims holds."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

import otolith
from tests.patience import HANG_SECONDS


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    place = tmp_path_factory.mktemp("demo")
    done = subprocess.run(
        [sys.executable, "-m", "otolith.cli", "demo", "--keep", "trip"],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    return place / "trip", done


def test_the_demo_ends_well(told):
    _, done = told

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""


def test_every_check_of_the_demo_held(told):
    _, done = told
    counts = re.findall(r"(\d+) of (\d+) checks passed", done.stdout)
    passed, total = map(int, counts[0])

    assert passed == total == len(re.findall(r"^   ok  ", done.stdout, re.MULTILINE))
    assert total >= 12


def test_the_kept_store_is_as_the_story_says(told):
    place, _ = told
    with otolith.open(place / ".otolith" / "store.db", create=False) as repo:
        state = repo.session("trip-42")

        assert [event["step"] for event in state.list("events")][:24] == list(range(1, 25))
        assert state["hotel"] == "Hostel Luna"
        assert set(repo.branches("trip-42")) == {"main", "cheaper", "hostel"}


def test_the_commands_it_ends_with_work(told, program):
    place, done = told
    suggested = [line.strip() for line in done.stdout.splitlines() if line.startswith("  otolith")]

    assert len(suggested) >= 5
    environment = os.environ | {"PATH": f"{program.folder}{os.pathsep}{os.environ['PATH']}"}
    for line in suggested:
        subprocess.run(
            line, shell=True, cwd=place, env=environment, check=True, timeout=HANG_SECONDS,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip


def test_the_demo_does_not_write_over_what_is_there(told):
    place, _ = told
    done = subprocess.run(
        [sys.executable, "-m", "otolith.cli", "demo", "--keep", place],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )

    assert done.returncode == 2
    assert "already exists" in done.stderr
