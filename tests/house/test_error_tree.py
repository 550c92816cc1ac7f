"""The error tree is drawn as it is, its codes never change, and its errors travel."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from typing import Any

import pytest

from otolith import errors
from tests.house.source import ROOT

# Programs compare with these. Add to the end; never change or remove one.
KINDS = [
    "error",
    "not_found",
    "key_not_found",
    "commit_not_found",
    "ref_not_found",
    "store_not_found",
    "exists",
    "ref_exists",
    "conflict",
    "stale_ref",
    "contention",
    "diverged",
    "fenced",
    "merge_conflict",
    "chart_mismatch",
    "invalid",
    "bad_path",
    "bad_ref",
    "bad_value",
    "bad_policy",
    "not_a_store",
    "uncommitted",
    "denied",
    "read_only",
    "closed",
    "unavailable",
    "busy",
    "full",
    "quota_exceeded",
    "corrupt",
    "unsupported",
    "format_too_new",
    "missing_extra",
    "unknown_type",
    "too_large",
    "not_kept",
    "unstorable",
    "schema_mismatch",
    "untrusted",
    "bad_chart",
    "illegal_transition",
    "step_failed",
    "bad_message",
    "over_budget",
    "effect_unknown",
    "timed_out",
    "model_failed",
    "bad_reply",
    "already_committed",
    "code_edited",
    "no_consent",
    "erased",
]

ALL = [
    found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, errors.Error)
]

# Python 3.13 takes the indentation out of docstrings; older ones leave it to us.
DRAWING = inspect.cleandoc(errors.__doc__ or "")

# One value for each argument that any error takes.
ARGUMENTS: dict[str, Any] = {
    "commit": "00" * 32,
    "names": ("session/trip/main",),
    "message": "it broke",
    "hint": "mend it",
    "name": "session/a/main",
    "expected": b"\x01" * 32,
    "actual": None,
    "paths": ("plan", "budget"),
    "tasks": ("search",),
    "path": "plan/budget",
    "values": {"rows": "a generator"},
    "place": "line 3, <state a>",
    "state": "planning",
    "key": "9f86d081884c7d65",
    "status": 503,
    "event": "go",
    "allowed": ("plan_ready",),
    "problem": "empty",
    "cycle": ("a", "b"),
    "budget": 100,
    "needed": 250,
    "purpose": "learning",
}


def test_kinds_are_unique_and_none_was_lost_or_left_unlisted():
    assert sorted(error.kind for error in ALL) == sorted(KINDS)


@pytest.mark.parametrize("error", ALL, ids=lambda error: error.__name__)
def test_a_kind_is_the_name_in_small_letters(error):
    assert error.kind == re.sub(r"(?<!^)(?=[A-Z])", "_", error.__name__).lower()


def test_the_drawing_is_the_real_tree():
    real = {group: _below(group) for group in errors.Error.__subclasses__()}

    assert _drawn() == {g.__name__: {e.__name__ for e in below} for g, below in real.items()}


def test_the_drawing_names_the_built_in_errors_too():
    drawn = re.findall(r"(\w+) .*\(also an? (\w+)\)", DRAWING)
    real = {
        (group.__name__, base.__name__)
        for group in errors.Error.__subclasses__()
        for base in group.__bases__
        if base is not errors.Error
    }

    assert set(drawn) == real


@pytest.mark.parametrize("error", ALL, ids=lambda error: error.__name__)
@pytest.mark.parametrize("travel", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))])
def test_an_error_arrives_as_it_left(error, travel):
    left = _example(error)
    left.add_note("while committing")

    arrived = travel(left)

    assert type(arrived) is error
    assert (str(arrived), arrived.args, vars(arrived)) == (str(left), left.args, vars(left))


@pytest.mark.parametrize("error", ALL, ids=lambda error: error.__name__)
def test_an_error_reads_as_a_message_and_a_next_move(error):
    shown = _example(error)

    assert shown.message in str(shown)
    assert shown.hint
    assert str(shown).endswith(f"({shown.hint})")


@pytest.mark.parametrize("error", ALL, ids=lambda error: error.__name__)
def test_the_page_and_the_docstring_say_the_same(error):
    page = (ROOT / "docs/reference/errors.md").read_text()
    meaning = (inspect.getdoc(error) or "").partition("\n")[0]

    assert f"| `{error.__name__}` | `{error.kind}` | {meaning} |" in page


def _example(error: type[errors.Error]) -> errors.Error:
    wanted = inspect.signature(error).parameters.values()
    positional = [ARGUMENTS[p.name] for p in wanted if p.kind is not p.KEYWORD_ONLY]
    named = {p.name: ARGUMENTS[p.name] for p in wanted if p.kind is p.KEYWORD_ONLY}
    return error(*positional, **named)


def _below(group: type[errors.Error]) -> set[type[errors.Error]]:
    return {error for error in ALL if issubclass(error, group) and error is not group}


def _drawn() -> dict[str, set[str]]:
    tree: dict[str, set[str]] = {}
    group: set[str] = set()
    for line in DRAWING.splitlines():
        if branch := re.match(r"[|`]-- (\w+)", line):
            group = tree.setdefault(branch[1], set())
        elif twigs := re.match(r"[| ]   [|`]-- (.*)", line):
            group.update(re.split(r",\s*", twigs[1].strip()))
    return tree
