"""The default run draws the same examples each time, whatever ran before in the same process."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import is_random


def _drawn() -> list[list[int]]:
    drawn: list[list[int]] = []

    @settings(max_examples=60, database=None)
    @given(st.lists(st.integers(), min_size=5))
    def draw(numbers: list[int]) -> None:
        drawn.append(numbers)

    draw()
    return drawn


def test_a_module_that_was_imported_meanwhile_changes_no_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if is_random(request.config):
        pytest.skip("a random run is to differ")
    before = _drawn()
    place = tmp_path / "imported_meanwhile.py"
    place.write_text(f"NUMBERS = {[7_000_003 + 11 * number for number in range(300)]}\n")
    spec = importlib.util.spec_from_file_location(place.stem, place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, place.stem, module)
    spec.loader.exec_module(module)

    assert _drawn() == before
