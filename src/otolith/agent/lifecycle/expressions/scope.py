"""What an expression sees, and the two ways in which one can fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class ExpressionError(Exception):
    """The text is not an expression of this language."""


class EvaluationError(Exception):
    """The expression was read, but has no value here."""


class Scope(Protocol):
    """The data, the variables of the system, and which states are active."""

    @property
    def data(self) -> Mapping[str, Any]:
        """The variables of the chart."""

    def system(self, name: str) -> Any:
        """Return a variable of the system, such as `_event`; a KeyError if it has none."""

    def is_active(self, state: str) -> bool:
        """Return whether a state is active now."""
