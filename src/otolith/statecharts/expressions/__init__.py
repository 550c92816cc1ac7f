"""The expression language of charts: parsed, checked against a closed list, compiled to closures.

No code of a document is executed, by `eval`, `exec` or a code object: a text is cut into tokens,
read by a small parser, and becomes closures over a fixed set of operations on plain data. Names
that start with two underscores are refused, a call must be to a function or method of a closed
list, and numbers, texts, lists and nesting are bounded.

A *dialect* is the meaning of the operators: `PYTHON` (the default) or `ECMASCRIPT` (documents that
ask for it). Both spellings can be read in either; they differ in truth, equality, `+`, and the
value of a missing name or member. `null` and `undefined` are both None, because snapshots are JSON.

A *scope* is what an expression sees: the data, the system variables and which states are active.
"""

from otolith.statecharts.expressions.compile import (
    Location,
    Statement,
    compile_expression,
    compile_location,
    compile_script,
)
from otolith.statecharts.expressions.dialects import (
    DIALECTS,
    ECMASCRIPT,
    PYTHON,
    Dialect,
    EvaluationError,
    ExpressionError,
    Scope,
)
from otolith.statecharts.expressions.parser import Evaluate, ExpressionReferences, Parser

__all__ = [
    "DIALECTS",
    "ECMASCRIPT",
    "PYTHON",
    "Dialect",
    "Evaluate",
    "EvaluationError",
    "ExpressionError",
    "ExpressionReferences",
    "Location",
    "Parser",
    "Scope",
    "Statement",
    "compile_expression",
    "compile_location",
    "compile_script",
]
