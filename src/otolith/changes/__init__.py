"""Changes: what differs between two states in the rooms of an agent, each told in a line.

`room_changes(state, old, new)` is the part of `Versioned.diff` that is not about values: messages,
plan, notes, runs, variables and files. Names are loaded on first use: a commit needs none of them.
"""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.changes.report import (
        AgentChange,
        ChangeLine,
        WorkspaceChange,
        change_report,
        message_line,
        room_changes,
    )

__all__ = [
    "AgentChange",
    "ChangeLine",
    "WorkspaceChange",
    "change_report",
    "message_line",
    "room_changes",
]

_HOME = dict.fromkeys(__all__, "report")

__getattr__ = door(__name__, _HOME)
