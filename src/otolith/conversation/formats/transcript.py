"""Plain transcripts: `user: …` and its text, up to the next line that begins with a role.

A line of a text that looks like the beginning of a message gets a backslash before it. Calls,
results and attachments are written in words, and read back as text; reasoning is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from otolith.conversation.formats.parts import content_text
from otolith.conversation.message import Message, Role, Text
from otolith.errors import BadValue

NAME = "plain"
_HEAD = r"(system|user|human|assistant|ai|tool)(?: \(([^)\n]*)\))?:"
_BEGIN = re.compile(rf"^{_HEAD}[ \t]?", re.IGNORECASE | re.MULTILINE)
_ESCAPED = re.compile(rf"^\\(?=\\*{_HEAD})", re.IGNORECASE | re.MULTILINE)
_TO_ESCAPE = re.compile(rf"^(?=\\*{_HEAD})", re.IGNORECASE | re.MULTILINE)
_ROLES = {"human": Role.USER, "ai": Role.ASSISTANT}


def chunks(document: Any) -> Iterator[list[Any]]:
    """Yield the chunk of each message: its text, with its head.

    Raises:
        BadValue: the document is not a text.
    """
    if not isinstance(document, str):
        raise BadValue("a plain transcript is text", hint="give a str")
    starts = [found.start() for found in _BEGIN.finditer(document)]
    if document and (not starts or starts[0] > 0):
        starts.insert(0, 0)
    for start, stop in pairwise([*starts, len(document)]):
        yield [document[start:stop]]


def document(chunks: Sequence[list[Any]]) -> str:
    """Return the transcript made of chunks."""
    return "".join(text for chunk in chunks for text in chunk)


def read(chunk: list[Any]) -> Message:
    """Return the message in a chunk; one without a role is the user's."""
    (text,) = chunk
    head = _BEGIN.match(text)
    body = _ESCAPED.sub("", text[head.end() if head else 0 :].removesuffix("\n"))
    if head is None:
        return Message(Role.USER, (Text(body),))
    speaker = head[1].lower()
    if speaker == "tool":  # a result needs its call, and a transcript has no calls
        return Message(Role.USER, (Text(body),), name=head[2] or "tool")
    return Message(_ROLES.get(speaker) or Role(speaker), (Text(body),), name=head[2] or "")


def write(message: Message) -> list[str]:
    """Return the chunk of a message: one text."""
    name = f" ({message.name})" if message.name and ")" not in message.name else ""
    name = name.replace("\n", " ")
    first, newline, rest = content_text(message.parts).partition("\n")
    escaped = _TO_ESCAPE.sub(lambda _: "\\", rest)
    return [f"{message.role}{name}: {first}{newline}{escaped}\n"]


def as_dicts(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages as dicts of a role and a text; empty ones are left out."""
    texts = [(str(message.role), content_text(message.parts)) for message in messages]
    return [{"role": role, "content": text} for role, text in texts if text.strip()]
