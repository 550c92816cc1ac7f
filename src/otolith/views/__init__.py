"""What an agent knows, shown as text within a budget of tokens."""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.views.changes import ChangeLine, change_report, words_of
    from otolith.views.render import view

__all__ = [
    "ChangeLine",
    "change_report",
    "view",
    "words_of",
]

_HOME = {
    "ChangeLine": "changes",
    "change_report": "changes",
    "view": "render",
    "words_of": "changes",
}

__getattr__ = door(__name__, _HOME)
