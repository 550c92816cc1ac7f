"""What a statechart costs: its steps in memory, its commits, its snapshots and its exploration."""

from bench.lifecycle import committing, exploring, racing, snapshots

KINDS = {
    "racing": racing.rows,
    "counting": racing.counting_rows,
    "committing": committing.rows,
    "snapshots": snapshots.rows,
    "exploring": exploring.rows,
}
# Which kind makes a row, by the first part of its name.
MADE_BY = {"events": "racing", "counted": "counting", "commit": "committing"}
MADE_BY |= {"stored": "committing", "snapshot": "snapshots", "explore": "exploring"}

__all__ = ["KINDS", "MADE_BY"]
