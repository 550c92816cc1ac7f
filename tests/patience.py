"""How long tests wait, so that a busy machine makes them slower and never red.

A test waits for an event, and `HANG_SECONDS` only ends a test that would wait for ever. Where time
itself is tested, what must not be reached takes for ever, and what must end in time is given
`seconds(quiet)`: as much as on a quiet machine, times how busy this one is.
"""

from __future__ import annotations

import os

HANG_SECONDS = 600


def seconds(quiet: float) -> float:
    """Return how long something takes here that takes `quiet` seconds on a machine at rest."""
    cores = os.cpu_count() or 1
    return quiet * max(1, round(os.getloadavg()[0] / cores))
