"""Strings that Arrow holds: told apart by the Arrow array alone, and never wrongly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from otolith import Disk, Versioned

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def state(tmp_path: Path) -> Versioned:
    state = Versioned(Disk(tmp_path / "a.db"))
    words = pd.array([f"word {number}" for number in range(60_000)], dtype="string[pyarrow]")
    state["df"] = pd.DataFrame({"words": words, "n": range(60_000)})
    state.commit("made")
    return state


def fresh(state: Any) -> Any:
    return state.at(state.head)["df"]["words"].tolist()


def test_a_string_that_is_set_in_place_is_found(state: Versioned) -> None:
    state["df"].loc[40_000, "words"] = "changed"
    commit = state.commit("set")
    assert commit is not None
    assert fresh(state)[40_000] == "changed"
    assert fresh(state)[40_001] == "word 40001"


def test_setting_a_string_back_is_found(state: Versioned) -> None:
    state["df"].loc[7, "words"] = "changed"
    state.commit("set")
    state["df"].loc[7, "words"] = "word 7"
    state.commit("set back")
    assert fresh(state)[7] == "word 7"


def test_another_array_with_the_same_strings_changes_nothing(state: Versioned) -> None:
    head = state.head
    state["df"]["words"] = state["df"]["words"].array.copy()
    again = pd.array(state["df"]["words"].tolist(), dtype="string[pyarrow]")
    state["df"]["words"] = again
    assert state.is_clean
    assert state.head == head


def test_a_missing_string_is_found(state: Versioned) -> None:
    state["df"].loc[3, "words"] = None
    state.commit("gone")
    assert pd.isna(fresh(state)[3])


def test_after_reopening_a_change_stores_what_changed_only(tmp_path: Path) -> None:
    state = Versioned(Disk(tmp_path / "b.db"))
    words = pd.array([f"word {number}" for number in range(200_000)], dtype="string[pyarrow]")
    state["df"] = pd.DataFrame({"words": words})
    state.commit("made")
    state.close()
    state = Versioned(Disk(tmp_path / "b.db"))
    state["df"].loc[5, "words"] = "changed"
    commit: Any = state.commit("set")
    assert commit.stats.bytes < 400_000  # of 2 MB: the chunks of lengths and strings that it is in
    state.close()
