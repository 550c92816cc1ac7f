"""Generators of random numbers: where in its sequence each of them stands.

PCG64, MT19937, …   state, seed (a SeedSequence, or None)
Generator           bits
RandomState         state
SeedSequence        state
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import random

from otolith.codecs.exact import identical
from otolith.codecs.forms import Form, Forming, Reading, check, demand

_BITS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (random.MT19937, random.PCG64, random.PCG64DXSM, random.Philox, random.SFC64)
}
# Where a state says it stands in a buffer, and how long that is: numpy itself does not look.
_BUFFERS = {"pos": 624, "buffer_pos": 4}


def _lower_bits(bits: Any) -> Form:
    seed = bits._seed_seq  # noqa: SLF001  # older numpy has no other name for it
    return {"type": type(bits).__name__, "state": bits.state, "seed": seed}


def _lift_bits(form: Form) -> object:
    state, seed = check(form, state=dict, seed=(random.SeedSequence, type(None)))
    demand(state.get("bit_generator") == form["type"], "the state of another generator")
    bits = _BITS[form["type"]](0 if seed is None else seed)
    if seed is None:
        bits._seed_seq = None  # noqa: SLF001
    _place(state, bits)
    return bits


def _place(state: dict[Any, Any], bits: Any) -> None:
    for name, limit in _BUFFERS.items():
        for part in (state, state.get("state")):
            within = not isinstance(part, dict) or 0 <= part.get(name, 0) <= limit
            demand(within, "a random generator stands outside its buffer")
    bits.state = state
    demand(_same(bits.state, state), "the state of a random generator is not one")


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[k], right[k]) for k in left)
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    return identical(left, right)


def _lower_generator(generator: random.Generator) -> Form:
    return {"type": "Generator", "bits": generator.bit_generator}


def _lift_generator(form: Form) -> random.Generator:
    (bits,) = check(form, bits=tuple(_BITS.values()))
    return random.Generator(bits)


def _lower_state(generator: random.RandomState) -> Form:
    return {"type": "RandomState", "state": generator.get_state(legacy=False)}


def _lift_state(form: Form) -> random.RandomState:
    (state,) = check(form, state=dict)
    name = state.get("bit_generator")
    demand(type(name) is str and name in _BITS, "there is no such generator")
    generator = random.RandomState(_BITS[name](0))
    _place({k: part for k, part in state.items() if k not in _GAUSS}, _BITS[name](0))
    generator.set_state(state)
    demand(_same(generator.get_state(legacy=False), state), "not the state of a RandomState")
    return generator


_GAUSS = {"has_gauss", "gauss"}


def _lower_seed(seed: random.SeedSequence) -> Form:
    return {"type": "SeedSequence", "state": seed.state}


def _lift_seed(form: Form) -> random.SeedSequence:
    (state,) = check(form, state=dict)
    seed = random.SeedSequence(**state)
    demand(_same(seed.state, state), "the state of a SeedSequence is not one")
    return seed


LOWER: dict[type, Forming] = {
    **dict.fromkeys(_BITS.values(), _lower_bits),
    random.Generator: _lower_generator,
    random.RandomState: _lower_state,
    random.SeedSequence: _lower_seed,
}

LIFT: dict[str, Reading] = {
    **dict.fromkeys(_BITS, _lift_bits),
    "Generator": _lift_generator,
    "RandomState": _lift_state,
    "SeedSequence": _lift_seed,
}
