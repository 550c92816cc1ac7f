"""Plain transcripts: `user: …` and what follows, up to the next line that begins with a speaker.

A line of what was said that looks like the beginning of a message has a backslash before it. Calls,
results and attachments are said in words, and read back as words; reasoning is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from otolith.conversation.formats.parts import part_text
from otolith.conversation.message import Message, Role, Text
from otolith.errors import BadValue

NAME = "plain"
_HEAD = r"(system|user|human|assistant|ai|tool)(?: \(([^)\n]*)\))?:"
_BEGIN = re.compile(rf"^{_HEAD}[ \t]?", re.IGNORECASE | re.MULTILINE)
_HIDDEN = re.compile(rf"^\\(?=\\*{_HEAD})", re.IGNORECASE | re.MULTILINE)
_OPEN = re.compile(rf"^(?=\\*{_HEAD})", re.IGNORECASE | re.MULTILINE)
_ROLES = {"human": Role.USER, "ai": Role.ASSISTANT}


def chunks(document: Any) -> Iterator[list[Any]]:
    """Yield what each message is made from: the text of it, with its head."""
    if not isinstance(document, str):
        raise BadValue("a plain transcript is text", hint="give a str")
    starts = [found.start() for found in _BEGIN.finditer(document)]
    if document and (not starts or starts[0] > 0):
        starts.insert(0, 0)
    for start, stop in pairwise([*starts, len(document)]):
        yield [document[start:stop]]


def document(pieces: Sequence[list[Any]]) -> str:
    """Return the transcript that these pieces make up."""
    return "".join(text for piece in pieces for text in piece)


def read(chunk: list[Any]) -> Message:
    """Return the message that was made into a chunk; without a speaker it is the user's."""
    (text,) = chunk
    head = _BEGIN.match(text)
    if head is None:
        return Message(Role.USER, (Text(_HIDDEN.sub("", text.removesuffix("\n"))),))
    speaker = head[1].lower()
    role = _ROLES.get(speaker) or Role(speaker)
    body = _HIDDEN.sub("", text[head.end() :].removesuffix("\n"))
    # A result needs its call, and a transcript has none to offer.
    role = Role.USER if role is Role.TOOL else role
    return Message(role, (Text(body),), name=head[2] or ("tool" if speaker == "tool" else ""))


def write(message: Message) -> list[str]:
    """Return a message as text."""
    said = "\n".join(filter(None, map(part_text, message.parts)))
    name = f" ({message.name})" if message.name and ")" not in message.name else ""
    name = name.replace("\n", " ")
    first, newline, rest = said.partition("\n")
    return [f"{message.role}{name}: {first}{newline}{_OPEN.sub(_slash, rest)}\n"]


def _slash(_: re.Match[str]) -> str:
    return "\\"


def as_dicts(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages as roles and texts."""
    said = [
        (str(each.role), "\n".join(filter(None, map(part_text, each.parts)))) for each in messages
    ]
    return [{"role": role, "content": text} for role, text in said if text.strip()]
