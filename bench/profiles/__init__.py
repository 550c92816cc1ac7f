"""What is known about a user: whether a question finds what was said, and what a user prefers."""

from bench.profiles import recall

KINDS = {"recall": recall.rows}
# Which kind makes a row, by the first part of its name.
MADE_BY = dict.fromkeys(("dialogue", "preference", "search"), "recall")

__all__ = ["KINDS", "MADE_BY"]
