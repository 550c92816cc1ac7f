"""What an agent knows, shown as text within a budget of tokens."""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.views.changes import Told, recount, words_of
    from otolith.views.render import view

__all__ = [
    "Told",
    "recount",
    "view",
    "words_of",
]

_HOME = {
    "Told": "changes",
    "recount": "changes",
    "view": "render",
    "words_of": "changes",
}

__getattr__ = door(__name__, _HOME)
