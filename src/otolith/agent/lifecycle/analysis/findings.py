"""Findings: what checking a chart says about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

FindingKind: TypeAlias = Literal[
    "unreachable",
    "dead_end",
    "no_final",
    "endless",
    "never_taken",
    "shadowed",
    "nondeterminism",
    "after_never",
    "history_default",
    "missing_guard",
    "missing_action",
    "missing_service",
    "unreadable",
    "unknown_state",
    "undeclared",
    "never_raised",
    "never_handled",
    "cut",
]
Severity: TypeAlias = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about a chart: errors go wrong, warnings are likely not meant, notes are told.

    What a message says without "may" is proven: it holds for any data and any answer of the guards.
    """

    kind: FindingKind
    severity: Severity
    state: str
    """The state it is about; several are joined by a comma."""
    message: str
    hint: str = ""
    place: str = ""
    """Where in the document, if that is known."""

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.severity}: {self.message}{hint}"
