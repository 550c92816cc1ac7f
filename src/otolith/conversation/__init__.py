"""What was said: messages, threads of them, and what of them fits into a model.

    chat = state.conversation
    chat.user("Find me a flight to NYC")
    chat.assistant(tool_calls=[ToolCall("c1", "search", {"to": "NYC"})])
    chat.tool("c1", {"flights": 3})
    chat.context(8_000, for_="openai").messages

Read `message.py`, then `storage.py` for how they are kept, `context/` for what a model is sent of
them, `formats/` for how others write them. Names are loaded when they are first asked for.

Glossary: a *thread* is a list of messages that only grows; a *part* is text, reasoning, a call, a
result or an attachment; a *turn* is what the user said and what followed; a *context* is what of a
thread is sent; a *unit* goes into a context or stays out of it as one; a *counter* counts tokens.
"""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.conversation.context import Context, Reason
    from otolith.conversation.conversation import Conversation
    from otolith.conversation.discourse import (
        Candidate,
        Span,
        Topic,
        TopicStatus,
        entities_of,
        resolve,
        topics_of,
    )
    from otolith.conversation.formats import read, write
    from otolith.conversation.message import (
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
    from otolith.conversation.search import Hit, embeddings
    from otolith.conversation.summaries import Summary, extractive
    from otolith.conversation.threads import Thread, Turn
    from otolith.conversation.token_counts import TokenCounter, tokenizer, vocabulary

__all__ = [
    "Attachment",
    "Candidate",
    "Context",
    "Conversation",
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
    "TokenCounter",
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
    "Candidate": "discourse",
    "Context": "context",
    "Conversation": "conversation",
    "TokenCounter": "token_counts",
    "Extra": "message",
    "Hit": "search",
    "Message": "message",
    "Part": "message",
    "Reason": "context",
    "Reasoning": "message",
    "Role": "message",
    "Span": "discourse",
    "Summary": "summaries",
    "Text": "message",
    "Thread": "threads",
    "Tokens": "message",
    "ToolCall": "message",
    "ToolResult": "message",
    "Topic": "discourse",
    "TopicStatus": "discourse",
    "Turn": "threads",
    "embeddings": "search",
    "entities_of": "discourse",
    "extractive": "summaries",
    "read": "formats",
    "resolve": "discourse",
    "tokenizer": "token_counts",
    "topics_of": "discourse",
    "vocabulary": "token_counts",
    "write": "formats",
}

__getattr__ = door(__name__, _HOME)
