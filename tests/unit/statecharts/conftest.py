"""What tests of statecharts share: charts that go round in circles are given up early."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from otolith.statecharts.engine import microstep


@pytest.fixture(autouse=True, scope="module")
def _short_circles(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give a random chart 100 microsteps to come to rest in, where a thousand tell no more.

    An analysis tries whatever a chart may do, and most of its time would go to the circles of a
    few charts. That there is a limit, and what is said then, is tested with the engine.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.module.__name__.rpartition(".")[2].startswith("test_analysis_"):
            patch.setattr(microstep, "MAX_MICROSTEPS", 100)
        yield
