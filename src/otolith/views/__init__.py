"""Views: what an agent knows, and what changed, as text for a prompt or a person.

`view(state)` describes a state within a budget of tokens; `change_report(state)` lists what the
last commit changed of a conversation, the memory and the runs. Names are loaded on first use.
"""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.changes import ChangeLine, change_report, message_line
    from otolith.views.render import view

__all__ = [
    "ChangeLine",
    "change_report",
    "message_line",
    "view",
]

_HOME = {
    **dict.fromkeys(["ChangeLine", "change_report", "message_line"], "otolith.changes"),
    "view": "render",
}

__getattr__ = door(__name__, _HOME)
