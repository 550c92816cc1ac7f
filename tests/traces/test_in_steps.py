"""A program run a cell at a time ends where it ends in one process, killed in between or not."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.traces.alone import Outcome, run_alone
from tests.traces.corpus import Program, is_runnable, programs
from tests.traces.likeness import differences
from tests.traces.stepwise import run_in_steps, run_with_kills

# What is known to end up otherwise, and why. Whoever makes one of these come out right removes it.
KNOWN = {
    "ambient_settings": {
        # Options of libraries, the decimal context, warnings and patches of modules are not kept.
        "extra", "limit", "outcome", "ratio", "rows", "second_ratio", "shown", "strict", "text",
    },
    "closures_and_decorators": {"calls"},  # the cache of lru_cache starts empty
    # Views of memory whose owner is no variable, and which none of them covers.
    "digits_clusters": {"digits", "flat", "rows", "<identity>"},
    # The annotations of a named tuple and of its __new__ are one object.
    "language_corners": {"<identity>"},
    # Functions of a module are kept by name: the ones of the file before it was edited are gone.
    "module_kept_after_edit": {"corner", "old_area", "shout", "voices", "whole"},
    "plotting_figures": {"<identity>"},  # pyplot's own list of figures is not kept
    # A frame of several types whose numbers lay row by row: sums come out in another order.
    "sklearn_pipelines": {
        "cancer", "clinic", "frame", "models", "proba", "transformer", "worst",
    },
    "symbols_and_optima": {"laplace"},  # what a sparse array remembers of its own order
}  # fmt: skip

PROGRAMS = [program for program in programs() if is_runnable(program)]


@cache
def reference(name: str) -> Outcome:
    program = next(each for each in PROGRAMS if each.name == name)
    with TemporaryDirectory() as folder:
        return run_alone(program, Path(folder))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_process_for_each_cell_ends_in_the_same_state(program: Program, tmp_path: Path) -> None:
    outcome = run_in_steps(program, tmp_path)
    _assert_alike(program, outcome)


KILLED = ("agent_session", "aliasing_maze", "event_ledger", "global_chance", "messy_csv_cleaning",
          "queue_simulation", "text_and_tfidf", "time_series", "training_by_hand",
          "wide_frame_in_place", "classes_redefined", "errors_midway")  # fmt: skip


@pytest.mark.parametrize(
    "program", [each for each in PROGRAMS if each.name in KILLED], ids=lambda program: program.name
)
def test_a_kill_between_cells_changes_nothing(program: Program, tmp_path: Path) -> None:
    outcome = run_with_kills(program, tmp_path)
    _assert_alike(program, outcome)


def _assert_alike(program: Program, outcome: Outcome) -> None:
    alone = reference(program.name)
    assert [number for number, _ in outcome.errors] == [number for number, _ in alone.errors]
    found = differences(alone.description, outcome.description, lost=program.lost)
    known = KNOWN.get(program.name, set())
    assert {name: pair for name, pair in found.items() if name not in known} == {}
    assert known <= found.keys(), "this comes out right now: remove it from KNOWN"
