"""Conversations: messages in threads, and what of them fits into a model.

    chat = state.conversation
    chat.user("Find me a flight to NYC")
    chat.assistant(tool_calls=[ToolCall("c1", "search", {"to": "NYC"})])
    chat.tool("c1", {"flights": 3})
    chat.context(8_000, for_="openai").messages

Read `message.py` first, then `storage.py` for the stored form, `context/` for what a model is sent,
`formats/` for the documents of providers, and `discourse/` for topics and references. Modules are
loaded when one of their names is first used.

Glossary: a *thread* is a list of messages that only grows; a *part* is text, reasoning, a call, a
result or an attachment; a *turn* is a message of the user with its replies; a *context* is the part
of a thread that is sent; a *unit* is a group of messages that a context holds as a whole or not at
all; a *permanent* message is in every context; a *counter* counts tokens.
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
    name: module
    for module, names in {
        "context": "Context Reason",
        "conversation": "Conversation",
        "discourse": "Candidate Span Topic TopicStatus entities_of resolve topics_of",
        "formats": "read write",
        "message": "Attachment Extra Message Part Reasoning Role Text Tokens ToolCall ToolResult",
        "search": "Hit embeddings",
        "summaries": "Summary extractive",
        "threads": "Thread Turn",
        "token_counts": "TokenCounter tokenizer vocabulary",
    }.items()
    for name in names.split()
}

__getattr__ = door(__name__, _HOME)
