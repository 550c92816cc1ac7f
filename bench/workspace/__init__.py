"""What code costs that runs in steps, each with the variables of the last one and each kept."""

from bench.workspace import frames, loops, programs, restoring, steps

KINDS = {
    "frames": frames.rows,
    "restoring": restoring.rows,
    "steps": steps.rows,
    "programs": programs.rows,
    "loops": loops.rows,
}
# Which kind makes a row, by the first part of its name.
MADE_BY = {"frame": "frames", "restore": "restoring", "cold": "steps"}
MADE_BY |= {"programs": "programs", "loop": "loops"}

__all__ = ["KINDS", "MADE_BY"]
