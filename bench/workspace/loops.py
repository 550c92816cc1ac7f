"""A loop that does nothing but read a global variable: the worst case for a namespace of ours."""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time
from typing import Any

from bench.ground import Ground, tell
from bench.peers import attempt
from bench.table import Absent, Budget, Row, compared, time_of
from bench.timing import Samples
from bench.workspace import ours

LIMIT = Budget(2.0, "x", of="ratio")
SPIN = """
one = 1
def spin(times):
    total = 0
    for _ in range(times):
        total += one
    return total
"""
# A function knows the namespace that it was made in: here that of the session, and a plain dict.
MEASURE = """
from time import process_time

def took(spin):
    began = process_time()
    spin({turns})
    return process_time() - began

plain = {{}}
exec({spin!r}, plain)
[[took(spin), took(plain["spin"])] for _ in range({blocks})]
"""


def rows(ground: Ground) -> Iterator[Row]:
    turns, blocks = ground.sizes.loop_turns, ground.sizes.loop_blocks
    tell("a loop over a global variable")
    with ours.opened(ground.place("loop"), mode="warm") as here:
        ours.run(here, SPIN)
        step, _ = ours.run(here, MEASURE.format(turns=turns, blocks=blocks, spin=SPIN))
    mine, plain = Samples(), Samples()
    for ours_took, plain_took in step.value:
        mine.blocks.append([ours_took])
        plain.blocks.append([plain_took])
    work = f"a loop that reads a global variable {turns:,} times"
    yield compared("loop", work, mine, "a plain dict", plain, budget=LIMIT)
    theirs = attempt(_kishu, turns, blocks)
    if isinstance(theirs, Absent):
        yield Row("loop-kishu", work, time_of(mine), "Kishu", theirs)
    else:
        yield compared("loop-kishu", work, mine, "Kishu", theirs)


def _kishu(turns: int, blocks: int) -> Samples:
    from bench.workspace.kishu import TrackedNamespace

    namespace: dict[str, Any] = TrackedNamespace()
    exec(SPIN, namespace)
    samples = Samples()
    for _ in range(blocks):
        began = process_time()
        namespace["spin"](turns)
        samples.blocks.append([process_time() - began])
    return samples
