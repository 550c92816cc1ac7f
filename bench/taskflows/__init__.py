"""Flows: how soon they are planned, how short their schedules are, and what durable steps cost."""

from bench.taskflows import crowd, fork, large, steps, traces

KINDS = {
    "traces": traces.rows,
    "steps": steps.rows,
    "crowd": crowd.rows,
    "large": large.rows,
    "fork": fork.rows,
}
# Which kind makes a row, by the first part of its name.
MADE_BY = dict.fromkeys(("schedule", "path", "plan", "expand"), "traces")
MADE_BY |= {"step": "steps"} | {name: name for name in ("crowd", "large", "fork")}

__all__ = ["KINDS", "MADE_BY"]
