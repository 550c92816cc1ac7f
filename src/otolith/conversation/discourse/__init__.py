"""Topics, entities and references of a conversation, found by rules and without a model.

    for topic in topics_of(messages):
        print(topic.label, topic.status, topic.spans)
    resolve(messages, "the cheapest one")[0].entity.label

Read `tracker.py` first: it has the public functions. `mentions.py` finds what a text mentions,
`entities.py` stores it, `references.py` parses what is asked and ranks the answers, `topics.py`
finds the topics. The word lists are in `words.toml`. Nothing here is stored, and nothing is named
that the conversation did not mention. Names are loaded on first use.
"""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.conversation.discourse.entities import Entity, Mention
    from otolith.conversation.discourse.topics import (
        Segmenter,
        Span,
        Topic,
        TopicJudge,
        TopicProposal,
        TopicStatus,
    )
    from otolith.conversation.discourse.tracker import (
        Candidate,
        ReferenceJudge,
        Tracker,
        entities_of,
        resolve,
        topics_of,
    )

__all__ = [
    "Candidate",
    "Entity",
    "Mention",
    "ReferenceJudge",
    "Segmenter",
    "Span",
    "Topic",
    "TopicJudge",
    "TopicProposal",
    "TopicStatus",
    "Tracker",
    "entities_of",
    "resolve",
    "topics_of",
]  # fmt: skip

_HOME = {
    **dict.fromkeys(__all__, "tracker"),
    **dict.fromkeys(["Entity", "Mention"], "entities"),
    **dict.fromkeys(["TopicProposal", "Segmenter", "Span"], "topics"),
    **dict.fromkeys(["Topic", "TopicJudge", "TopicStatus"], "topics"),
}
__getattr__ = door(__name__, _HOME)
