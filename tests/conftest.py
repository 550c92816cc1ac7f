"""What every test can ask for: `--long`, `rounds`, and Hypothesis at the matching size.

The default run is the same each time: the same examples, the same counts, the same salts. What is
random is searched by `--long` and by `python3 dev.py fuzz`, which runs the laws alone (`--laws`)
with one seed after the other.
"""

from __future__ import annotations

import gc
import os
import random
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from time import monotonic

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from otolith import environment
from tests.servers.bucket import azure_server, bucket_place, bucket_server, little_room
from tests.servers.dask import dask_cluster
from tests.servers.etcd import etcd_cluster
from tests.servers.pgbouncer import pooler_url
from tests.servers.postgres import postgres_url
from tests.servers.redis import redis_url, valkey_url

# Fixtures: servers that are started once, when the first test asks for them.
__all__ = [
    "azure_server", "bucket_place", "bucket_server", "dask_cluster", "etcd_cluster", "little_room",
    "pooler_url", "postgres_url", "redis_url", "valkey_url",
]  # fmt: skip

pytest.register_assert_rewrite("tests.reference")  # so that its assertions explain themselves

_BEGAN = monotonic()
_CHOSEN: list[int] = []  # the counts that `rounds` has chosen for the test that runs
LONG_TIMEOUT_SECONDS = 6 * 3600

# Tests share two cores with each other, so how long one example takes says nothing about the code.
CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile(
    "same", CALM, max_examples=40, stateful_step_count=30, derandomize=True, database=None
)
settings.register_profile("long", CALM, max_examples=1000, stateful_step_count=100)
settings.register_profile("laws", CALM, max_examples=200, stateful_step_count=50)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the large counts: hours, not minutes")
    parser.addoption(
        "--laws",
        type=float,
        metavar="SECONDS",
        help="run only laws, on random examples, for so long",
    )


# Signing must not make a key in the home of whoever runs the tests.
os.environ.setdefault("OTOLITH_KEY", "07" * 32)


@pytest.hookimpl(tryfirst=True)  # before pytest-timeout reads its option
def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile(_profile(config))
    if not is_random(config):
        _draw_no_constants_of_ours()
    if is_random(config) and config.option.timeout is None:
        config.option.timeout = LONG_TIMEOUT_SECONDS


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage, and never look through what was collected.

    Ten thousand tests are some million objects that stay: each full search among them takes a
    second, and finds nothing.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _profile(config: pytest.Config) -> str:
    return next((name for name in ("long", "laws") if config.getoption(f"--{name}")), "same")


def _draw_no_constants_of_ours() -> None:
    """Keep Hypothesis from drawing constants that stand in our modules.

    Which modules are imported depends on the tests that ran before in the same process: an example
    would be another one in another worker, or in a run of one file.
    """
    if hasattr(providers, "_get_local_constants"):
        providers._get_local_constants = lambda: providers._local_constants


def is_random(config: pytest.Config) -> bool:
    """Return whether this run searches at random."""
    return _profile(config) != "same"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if " at 0x" in item.nodeid:  # two workers would collect different tests
            raise pytest.UsageError(f"the id of a test has an address in it: {item.nodeid}")
    if config.getoption("--laws"):
        items[:] = [item for item in items if _is_law(item)]
        # Another order each time: where the time is over early, other laws have had their turn.
        random.Random(config.getoption("--hypothesis-seed")).shuffle(items)
    if not config.getoption("--long"):
        _skip_long(items)


def _is_law(item: pytest.Item) -> bool:
    return getattr(getattr(item, "obj", None), "is_hypothesis_test", False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    limit_seconds = item.config.getoption("--laws")
    if limit_seconds and monotonic() - _BEGAN > limit_seconds:
        pytest.skip("the time is over")


def _skip_long(items: Iterable[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="needs --long"))


@pytest.fixture(autouse=True)
def _same_salts(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give repos salts that the seed of this run decides, so that trees have the same nodes again.

    Hypothesis seeds `random` before each example, so an example that failed fails when repeated.
    """
    seed = request.config.getoption("--hypothesis-seed") if is_random(request.config) else None
    random.seed(request.node.nodeid)

    def entropy(size: int) -> bytes:
        return random.Random(f"{seed} {random.getrandbits(64)}").randbytes(size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "entropy", entropy)
        yield


@pytest.fixture(scope="session")
def rounds(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """Choose a count: `rounds(200, 2_000)` is the second with --long, else the first."""
    is_long = request.config.getoption("--long")

    def choose(short: int, long: int) -> int:
        _CHOSEN.append(long if is_long else short)
        return _CHOSEN[-1]

    return choose


# ---------------------------------------------------------------- counts of a long run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Let the report of a test have its count; a test may add others with `record_property`."""
    _CHOSEN.clear()
    found = yield
    if _CHOSEN:
        item.user_properties.append(("rounds", sum(_CHOSEN)))
    if _is_law(item):
        limit = getattr(getattr(item, "obj", None), "_hypothesis_internal_use_settings", settings())
        item.user_properties.append(("examples at most", limit.max_examples))
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """State the counts of a long run, by test: what was not counted out is not claimed."""
    if not terminalreporter.config.getoption("--long"):
        return
    counts: dict[str, Counter[str]] = {}
    for report in terminalreporter.getreports("passed"):
        found = counts.setdefault(report.nodeid.partition("[")[0], Counter())
        for name, count in report.user_properties if report.when == "call" else ():
            found[name] += count
    terminalreporter.section("counts of tests that passed")
    for test, found in sorted(counts.items()):
        if found:
            stated = ", ".join(f"{count:,} {name}" for name, count in found.items())
            terminalreporter.line(f"{test}: {stated}")
