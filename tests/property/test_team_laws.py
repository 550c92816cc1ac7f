"""Random programs of three members, on every store: each step and its end are as the model says."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

import otolith
from otolith.stores import MemoryStore
from tests.reference.team_programs import STEPS, run_program
from tests.servers import postgres, redis

FEW = settings(
    max_examples=max(settings().max_examples // 4, 10),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

OpenRepo = Callable[[], otolith.Repo]
"""Opens a repo, of the same store each time."""


@given(STEPS)
def test_members_of_one_process_do_what_the_model_says(steps):
    store = MemoryStore()
    run_program(lambda: otolith.Repo(store), steps)


@pytest.fixture(params=["sqlite", "postgres", "redis", "bucket", "etcd"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], OpenRepo]:
    """Return what makes an empty store, and returns what opens it."""
    numbers = count()

    def url() -> str:
        match request.param:
            case "postgres":
                return postgres.fresh(request.getfixturevalue("postgres_url"))
            case "redis":
                return redis.fresh(request.getfixturevalue("redis_url"))
            case "bucket":
                found: str = request.getfixturevalue("bucket_place").url()
                return found
            case "etcd":
                cluster = request.getfixturevalue("etcd_cluster")
                place: str = cluster.url(tmp_path / f"objects-{next(numbers)}.db")
                return place
        return str(tmp_path / f"{next(numbers)}.db")

    def make() -> OpenRepo:
        place = url()
        return lambda: otolith.open(place)

    return make


@FEW
@given(steps=STEPS)
def test_members_of_several_processes_do_what_the_model_says(fresh, steps):
    run_program(fresh(), steps)
