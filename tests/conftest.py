"""What every test can ask for: `--long`, `rounds`, and Hypothesis at the matching size."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import pytest
from hypothesis import HealthCheck, settings

LONG_TIMEOUT_SECONDS = 1800

# Tests share two cores with each other, so how long one example takes says nothing about the code.
CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("short", CALM, max_examples=40, stateful_step_count=30)
settings.register_profile("long", CALM, max_examples=1000, stateful_step_count=100)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the large counts: hours, not minutes")


# Signing must not make a key in the home of whoever runs the tests.
os.environ.setdefault("OTOLITH_KEY", "07" * 32)


@pytest.hookimpl(tryfirst=True)  # before pytest-timeout reads its option
def pytest_configure(config: pytest.Config) -> None:
    is_long = config.getoption("--long")
    settings.load_profile("long" if is_long else "short")
    if is_long and config.option.timeout is None:
        config.option.timeout = LONG_TIMEOUT_SECONDS


def pytest_collection_modifyitems(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="needs --long"))


@pytest.fixture(scope="session")
def rounds(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """Choose a count: `rounds(200, 2_000)` is the second with --long, else the first."""
    is_long = request.config.getoption("--long")
    return lambda short, long: long if is_long else short
