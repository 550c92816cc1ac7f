"""What a worker may ask for in one question: no answer is larger than a limit."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from otolith import Memory, Versioned
from otolith.core import cell_claims
from otolith.workspace.worker_requests import RequestHandler


@pytest.fixture
def state() -> Iterator[Versioned]:
    with Versioned(Memory()) as state:
        yield state


def test_an_answer_has_a_limit_whatever_is_asked_for(state: Versioned) -> None:
    state["a"] = [random.Random(number).randbytes(20_000) for number in range(50)]
    state.commit("a")
    answers = RequestHandler(state, lambda *_: [b""])
    cell = state.cell_at(("a",))
    assert cell is not None
    hashes = [bytes(claim.hash) for claim in cell_claims(cell)]
    size = len(answers.read_within(hashes)[0] or b"")

    found = answers.read_within(hashes * 10_000, limit_bytes=10 * size)

    assert found == answers.read_within(hashes[:1] * 10)
    assert sum(len(each) for each in answers.read_below(found * 10_000)) < 8 << 20
    assert len(answers.read_within(hashes * 1_000_000)) <= 1 << 16
    answers.close()


def test_an_answer_has_at_least_one_object(state: Versioned) -> None:
    state["a"] = random.Random(1).randbytes(100_000)
    state.commit("a")
    answers = RequestHandler(state, lambda *_: [b""])
    cell = state.cell_at(("a",))
    assert cell is not None
    hashes = [bytes(claim.hash) for claim in cell_claims(cell)]
    assert len(answers.read_within(hashes * 3, limit_bytes=1)) == 1
    assert answers.read_within([bytes(32)] * 3, limit_bytes=1) == [None] * 3
    answers.close()
