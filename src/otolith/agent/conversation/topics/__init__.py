"""What a conversation is about, and when it turns to something else or comes back.

    for topic in topics_of(messages):
        print(topic.label, topic.status, topic.spans)

Read `segmenting.py`, then `cues.py` and `fields.py`. No model is asked, unless you give one. Names
are loaded when they are first asked for.
"""

from otolith.doors import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.agent.conversation.topics.segmenting import Judge, Segmenter, topics_of
    from otolith.agent.conversation.topics.topic import Span, Topic, TopicStatus

__all__ = ["Judge", "Segmenter", "Span", "Topic", "TopicStatus", "topics_of"]

_HOME = {
    "Judge": "segmenting",
    "Segmenter": "segmenting",
    "Span": "topic",
    "Topic": "topic",
    "TopicStatus": "topic",
    "topics_of": "segmenting",
}

__getattr__ = door(__name__, _HOME)
