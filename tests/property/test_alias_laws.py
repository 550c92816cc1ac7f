"""Objects that are shared in a state are those that one pickle of all of it would share."""

from __future__ import annotations

import pytest

from tests.property.alias_programs import (
    ARRAYS,
    MODELS,
    PICKLED,
    PLAIN,
    generate,
    play,
    shrink,
)

CASES = {
    "plain data": (PLAIN, False),
    "models and arrays": (PLAIN | MODELS | ARRAYS, False),
    "cycles": (PLAIN | MODELS | ARRAYS, True),
    "pickled objects": (PLAIN | MODELS | ARRAYS | PICKLED, True),
}


@pytest.mark.parametrize("case", CASES)
def test_a_state_shares_what_one_pickle_of_it_shares(case, rounds):
    kinds, cycles = CASES[case]
    for seed in range(rounds(150, 2_500)):
        steps = generate(seed, kinds)
        wrong = play(steps, kinds, cycles=cycles)
        if wrong is not None:
            fewer = shrink(steps, wrong, lambda each: play(each, kinds, cycles=cycles))
            pytest.fail(f"seed {seed}: {wrong}, after {fewer}")
