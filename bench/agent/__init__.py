"""What an agent's own state costs: conversations, what a model is sent, and steps."""

from bench.agent import contexts, conversing, stepping

KINDS = {"conversing": conversing.rows, "contexts": contexts.rows, "stepping": stepping.rows}
# Which kind makes a row, by the first part of its name.
MADE_BY = {"say": "conversing", "stored": "conversing"}
MADE_BY |= {"context": "contexts", "last": "contexts", "search": "contexts", "step": "stepping"}

__all__ = ["KINDS", "MADE_BY"]
