"""Graphs of tasks: how soon they are planned, and how short their schedules are."""

from bench.taskflows import traces

KINDS = {"traces": traces.rows}
# Which kind makes a row, by the first part of its name.
MADE_BY = dict.fromkeys(("schedule", "path", "plan", "expand"), "traces")

__all__ = ["KINDS", "MADE_BY"]
