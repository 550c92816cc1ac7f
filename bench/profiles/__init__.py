"""What is known about a user: how well, what a question finds of it, and what users say."""

from bench.profiles import recall, simulated_users, statements

KINDS = {"users": simulated_users.rows, "recall": recall.rows, "statements": statements.rows}
# Which kind makes a row, by the first part of its name.
MADE_BY = {
    **dict.fromkeys(("dialogue", "preference", "search"), "recall"),
    "user": "users",
    "statement": "statements",
}

__all__ = ["KINDS", "MADE_BY"]
