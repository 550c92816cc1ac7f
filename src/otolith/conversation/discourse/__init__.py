"""What "it", "the second one" and "that file" mean in a conversation, with reasons.

    resolve(messages, "the cheapest one")[0].entity.label

Read `resolving.py`, then `phrases.py` for what is understood, then `pronouns.py`, `nouns.py` and
`picking.py` for how candidates are ranked. Nothing is ever named that the conversation did not
speak of. Names are loaded when they are first asked for.
"""

from otolith.doors import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.agent.conversation.references.resolving import (
        Candidate,
        Judge,
        entities_of,
        resolve,
        resolve_next,
    )
    from otolith.agent.conversation.references.tracking import Tracker

__all__ = ["Candidate", "Judge", "Tracker", "entities_of", "resolve", "resolve_next"]

_HOME = {
    "Candidate": "resolving",
    "Judge": "resolving",
    "Tracker": "tracking",
    "entities_of": "resolving",
    "resolve": "resolving",
    "resolve_next": "resolving",
}

__getattr__ = door(__name__, _HOME)
