"""What was said: messages, threads of them, and what of them fits into a model.

    chat = state.conversation
    chat.user("Find me a flight to NYC")
    chat.assistant(tool_calls=[ToolCall("c1", "search", {"to": "NYC"})])
    chat.tool("c1", {"flights": 3})
    chat.context(8_000, for_="openai").messages

Read `message.py`, then `record.py` for how they are kept, `context/` for what a model is sent of
them, `formats/` for how others write them. Names are loaded when they are first asked for.

Glossary: a *thread* is a list of messages that only grows; a *part* is text, reasoning, a call, a
result or an attachment; a *turn* is what the user said and what followed; a *context* is what of a
thread is sent; a *unit* goes into a context or stays out of it as one; a *counter* counts tokens.
"""

from otolith.doors import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.agent.conversation.context import Context, Reason
    from otolith.agent.conversation.conversation import Conversation
    from otolith.agent.conversation.counting import Counter, tokenizer, vocabulary
    from otolith.agent.conversation.embedding import embeddings
    from otolith.agent.conversation.formats import read, write
    from otolith.agent.conversation.message import (
        Attachment,
        Extra,
        Message,
        Part,
        Reasoning,
        Role,
        Text,
        Tokens,
        ToolCall,
        ToolResult,
    )
    from otolith.agent.conversation.references import Candidate, entities_of, resolve
    from otolith.agent.conversation.searching import Hit
    from otolith.agent.conversation.summarising import Summary, extractive
    from otolith.agent.conversation.threads import Thread
    from otolith.agent.conversation.topics import Span, Topic, TopicStatus, topics_of
    from otolith.agent.conversation.turns import Turn

__all__ = [
    "Attachment",
    "Candidate",
    "Context",
    "Conversation",
    "Counter",
    "Extra",
    "Hit",
    "Message",
    "Part",
    "Reason",
    "Reasoning",
    "Role",
    "Span",
    "Summary",
    "Text",
    "Thread",
    "Tokens",
    "ToolCall",
    "ToolResult",
    "Topic",
    "TopicStatus",
    "Turn",
    "embeddings",
    "entities_of",
    "extractive",
    "read",
    "resolve",
    "tokenizer",
    "topics_of",
    "vocabulary",
    "write",
]

_HOME = {
    "Attachment": "message",
    "Candidate": "references",
    "Context": "context",
    "Conversation": "conversation",
    "Counter": "counting",
    "Extra": "message",
    "Hit": "searching",
    "Message": "message",
    "Part": "message",
    "Reason": "context",
    "Reasoning": "message",
    "Role": "message",
    "Span": "topics",
    "Summary": "summarising",
    "Text": "message",
    "Thread": "threads",
    "Tokens": "message",
    "ToolCall": "message",
    "ToolResult": "message",
    "Topic": "topics",
    "TopicStatus": "topics",
    "Turn": "turns",
    "embeddings": "embedding",
    "entities_of": "references",
    "extractive": "summarising",
    "read": "formats",
    "resolve": "references",
    "tokenizer": "counting",
    "topics_of": "topics",
    "vocabulary": "counting",
    "write": "formats",
}

__getattr__ = door(__name__, _HOME)
