"""What an agent's own state costs: conversations that grow, and what of them a model is sent."""

from bench.agent import contexts, conversing

KINDS = {"conversing": conversing.rows, "contexts": contexts.rows}
# Which kind makes a row, by the first part of its name.
MADE_BY = {"say": "conversing", "stored": "conversing"}
MADE_BY |= {"context": "contexts", "last": "contexts", "search": "contexts"}

__all__ = ["KINDS", "MADE_BY"]
