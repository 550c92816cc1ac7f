"""What the state that an agent holds costs: frames, values and lists that change in place."""

from bench.state import columns, frames, lists, values

KINDS = {
    "frames": frames.rows,
    "values": values.rows,
    "lists": lists.rows,
    "columns": columns.rows,
}
# Which kind makes a row, by the first part of its name.
MADE_BY = {"frame": "frames", "read": "frames", "values": "values", "small": "values"}
MADE_BY |= {"list": "lists", "column": "columns"}

__all__ = ["KINDS", "MADE_BY"]
