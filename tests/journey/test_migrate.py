"""A journey through a migration: a program changes its classes, its store is brought along."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import NamedTuple

import pytest

import otolith
from tests.patience import HANG_SECONDS

OLD = """
from dataclasses import dataclass

@dataclass
class Order:
    item: str
    price: float
"""

NEW = """
from dataclasses import dataclass
from otolith import migration

@dataclass
class Order:
    __otolith_version__ = 2
    item: str
    cents: int

@migration(Order, 1, 2)
def in_cents(fields):
    return {"item": fields["item"], "cents": round(fields["price"] * 100)}
"""

WRITE = """
import otolith, shop
with otolith.open("store.db") as repo:
    for session in ("a", "b"):
        state = repo.session(session)
        state["orders"] = [shop.Order("tea", 2.5), shop.Order("jam", 4.0)]
        state["note"] = "x"
        state.commit("ordered")
"""

SPOIL = """
import otolith, shop
with otolith.open("store.db") as repo:
    state = repo.session("a")
    state["bad"] = shop.Order("tea", "dear")
    state.commit("spoilt")
"""


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(tmp_path, program):
    """A terminal beside a program whose classes have changed since it stored something."""
    clean = {name: value for name, value in os.environ.items() if "OTOLITH" not in name}

    def python(*words):
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=clean | {"PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def run(*words):
        done = program.run(["--store", "store.db", *words], cwd=tmp_path, env=clean)
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    shop = tmp_path / "shop.py"
    shop.write_text(OLD)
    python("-c", WRITE)
    run.spoil = lambda: (shop.write_text(OLD), python("-c", SPOIL), shop.write_text(NEW))  # type: ignore[attr-defined]
    run.store = tmp_path / "store.db"  # type: ignore[attr-defined]
    run.shop = shop  # type: ignore[attr-defined]
    shop.write_text(NEW)
    return run


def test_a_plan_lists_what_is_stale_and_writes_nothing(run):
    done = run("migrate", "plan", "a", "--module", "shop")

    assert done.code == 0
    assert done.out.splitlines() == [
        "a/main",
        "  shop:Order  1 -> 2  2 values  orders/0, orders/1",
        "2 values to migrate on 1 branch. `otolith migrate apply --dry-run` tries it.",
    ]
    assert run("-s", "a", "log", "--oneline").out.count("\n") == 1


def test_what_is_applied_is_one_commit_for_each_branch(run):
    done = run("migrate", "apply", "--all", "--module", "shop")

    assert done.code == 0
    with otolith.open(run.store, codecs=otolith.Codecs(opaque=True)) as repo:
        for session in ("a", "b"):
            state = repo.at(f"{session}/main")
            assert [order.version for order in state["orders"]] == [2, 2]
            assert state["orders"][0].fields == {"item": "tea", "cents": 250}
            assert (state.commit.kind, state.commit.message) == ("migrate", "migrate 2 values")
    assert "Nothing to migrate" in run("migrate", "plan", "--all", "--module", "shop").out


def test_a_dry_run_shows_what_would_fail_and_touches_nothing(run):
    run.spoil()

    plan = run("migrate", "plan", "a", "--module", "shop")
    tried = run("migrate", "apply", "--all", "--module", "shop", "--dry-run", "--json")

    found = json.loads(tried.out)
    assert (plan.code, tried.code) == (0, 7)
    assert not found["ok"]
    assert [branch["commit"] for branch in found["branches"]] == [None, None]
    why = {value["path"]: value["why"] for value in found["branches"][0]["values"]}
    assert "in_cents" in why["bad"]
    assert why["orders/0"] == ""


def test_a_branch_with_a_failure_stays_untouched_and_others_go_on(run):
    run.spoil()

    done = run("migrate", "apply", "--all", "--module", "shop")

    assert done.code == 7
    assert "cannot: the migration shop.in_cents of shop:Order" in done.out
    assert "1 branch stays unchanged" in done.out
    assert "migrate 2 values" in done.out
    assert "spoilt" in run("-s", "a", "log", "-n", "1").out


def test_a_class_without_a_migration_is_named(run):
    run.shop.write_text(NEW.partition("@migration")[0])

    done = run("migrate", "plan", "a", "--module", "shop")

    assert done.code == 7
    assert "no migration from version 1" in done.out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["plan", "a"], 2, "--module"),
        (["plan", "a", "--all", "--module", "shop"], 2, "name a session, or use --all"),
        (["plan", "a", "--module", "nowhere"], 2, "the module nowhere cannot be imported"),
        (["plan", "none", "--module", "shop"], 3, "no session none"),
        (["look", "--module", "shop"], 2, "'look' is not one of"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(words, code, said, run):
    done = run("migrate", *words)

    assert done.code == code
    assert said in done.err


def test_a_module_that_fails_is_no_traceback(run):
    run.shop.write_text("1 / 0")

    done = run("migrate", "plan", "a", "--module", "shop")

    assert done.code == 2
    assert "ZeroDivisionError" in done.err
