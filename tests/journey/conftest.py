"""What journeys share: one process that has imported `otolith`, and forks for each command."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.journey.warm_program import WarmProgram, warm_program


@pytest.fixture(scope="session")
def program() -> Iterator[WarmProgram]:
    """Run `otolith` in a process of its own for each command, without importing it again."""
    with warm_program() as program:
        yield program
