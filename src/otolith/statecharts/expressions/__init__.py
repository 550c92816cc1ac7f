"""The expression language of charts: parsed, allow-listed, compiled to closures.

Nothing here runs code of a document. There is no `eval`, no `exec` and no code object: a text is
cut into *tokens*, read by a small parser, and becomes closures over a fixed set of operations on
plain data. Names starting with two underscores are refused, a call is to a function or method of
a closed list, and numbers, texts, lists and nesting are bounded.

A *dialect* is the meaning of the operators: `PYTHON` (the default) or `ECMASCRIPT` (documents
that say so). Both spellings are read in either; what differs is truth, equality, `+`, and what a
missing name or member is. `null` and `undefined` are both None, because snapshots are JSON.

A *scope* is what an expression sees: the data, the system's variables and which states are active.
"""

from otolith.statecharts.expressions.compile import (
    Location,
    Statement,
    compile_expression,
    compile_location,
    compile_script,
)
from otolith.statecharts.expressions.operations import (
    DIALECTS,
    ECMASCRIPT,
    PYTHON,
    Dialect,
    Evaluate,
    EvaluationError,
    ExpressionError,
    Scope,
)

__all__ = [
    "DIALECTS",
    "ECMASCRIPT",
    "PYTHON",
    "Dialect",
    "Evaluate",
    "EvaluationError",
    "ExpressionError",
    "Location",
    "Scope",
    "Statement",
    "compile_expression",
    "compile_location",
    "compile_script",
]
