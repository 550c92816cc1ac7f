"""Who and what a conversation speaks of: read from messages, kept in a register.

Read `entities.py`, then `nouns.py` and `lists.py`, then `entities.py`. No model is asked, and no
file is opened: all that is known of words is in `text/lexicon.py` and `noun_kinds.py`.

What "it", "the second one" and "that file" mean in a conversation, with reasons.

    resolve(messages, "the cheapest one")[0].entity.label

Read `references.py`, then `phrases.py` for what is understood, then `candidates.py`,
`candidates.py` and `list_choice.py` for how candidates are ranked. Nothing is ever named that the
conversation did not speak of. Names are loaded when they are first asked for.

What a conversation is about, and when it turns to something else or comes back.

    for topic in topics_of(messages):
        print(topic.label, topic.status, topic.spans)

Read `topics.py`, then `topics.py` and `cohesion.py`. No model is asked, unless you give one. Names
are loaded when they are first asked for.
"""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.conversation.discourse.entities import (
        Known,
        Moment,
        Read,
        Register,
        ShownList,
        read,
        said,
        texts_of,
    )
    from otolith.conversation.discourse.mentions import Entity, Found, Mention
    from otolith.conversation.discourse.references import (
        Candidate,
        ReferenceJudge,
        entities_of,
        resolve,
        resolve_next,
    )
    from otolith.conversation.discourse.topics import (
        Segmenter,
        Span,
        Topic,
        TopicJudge,
        TopicStatus,
        topics_of,
    )
    from otolith.conversation.discourse.tracker import Tracker

__all__ = [
    "Candidate",
    "Entity",
    "Found",
    "Known",
    "Mention",
    "Moment",
    "Read",
    "ReferenceJudge",
    "Register",
    "Segmenter",
    "ShownList",
    "Span",
    "Topic",
    "TopicJudge",
    "TopicStatus",
    "Tracker",
    "entities_of",
    "read",
    "resolve",
    "resolve_next",
    "said",
    "texts_of",
    "topics_of",
]

_HOME = {
    "Candidate": "references",
    "Entity": "mentions",
    "Found": "mentions",
    "Known": "entities",
    "Mention": "mentions",
    "Moment": "entities",
    "Read": "entities",
    "ReferenceJudge": "references",
    "Register": "entities",
    "Segmenter": "topics",
    "ShownList": "entities",
    "Span": "topics",
    "Topic": "topics",
    "TopicJudge": "topics",
    "TopicStatus": "topics",
    "Tracker": "tracker",
    "entities_of": "references",
    "read": "entities",
    "resolve": "references",
    "resolve_next": "references",
    "said": "entities",
    "texts_of": "entities",
    "topics_of": "topics",
}

__getattr__ = door(__name__, _HOME)
