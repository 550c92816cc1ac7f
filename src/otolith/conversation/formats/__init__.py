"""Document formats: OpenAI (chat, responses), Anthropic, and plain transcripts.

    messages = read(document, "anthropic")
    document = write(messages, "openai")

Writing a document in the format it was read from gives back all of it: fields that have no place in
a message are stored beside it (`unknown_fields.py`). Another format gets what it can hold; the head
of each module says what it cannot. What is not part of a conversation (model, tools …) is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from otolith.conversation.formats import anthropic, openai_chat, openai_responses, transcript
from otolith.conversation.formats.unknown_fields import (
    CHECKSUM,
    checksum,
    is_meta_key,
    meta_key,
    restore_fields,
    unknown_fields,
)
from otolith.conversation.message import Message
from otolith.errors import BadValue, Invalid


class DocumentFormat(Protocol):
    """A way to write conversations; a message is written as a chunk of raw messages."""

    NAME: str

    def chunks(self, document: Any) -> Iterable[list[Any]]:
        """Yield the chunk of each message of a document."""

    def read(self, chunk: list[Any]) -> Message:
        """Return the message in a chunk."""

    def write(self, message: Message) -> Sequence[Any]:
        """Return the chunk of a message; empty if nothing of it can be written."""

    def document(self, chunks: Sequence[list[Any]]) -> Any:
        """Return the document made of chunks."""


FORMATS: dict[str, Any] = {
    each.NAME: each for each in (openai_chat, openai_responses, anthropic, transcript)
}
__all__ = ["FORMATS", "DocumentFormat", "read", "without_unknown_fields", "write", "write_message"]


def read(document: Any, format: str) -> list[Message]:
    """Return the messages of a document: that of the request, or the list of messages in it.

    Raises:
        Invalid: the format is unknown.
        BadValue: the document is not of this format; the error names the message.
    """
    form = _format(format)
    messages: list[Message] = []
    try:
        messages.extend(_read(form, chunk) for chunk in form.chunks(document))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        why = error.message if isinstance(error, BadValue) else repr(error)
        raise BadValue(
            f"message {len(messages)} is not of the format {format}: {why}",
            hint="give what the API was sent, as Python or parsed JSON",
        ) from error
    return messages


def _read(form: DocumentFormat, chunk: list[Any]) -> Message:
    """Return the message in a chunk, with its unknown fields."""
    message = form.read(chunk)
    written = list(form.write(message))
    unknown = unknown_fields(written, chunk)
    if unknown is None:
        return message
    return replace(message, meta={meta_key(form.NAME): unknown | {CHECKSUM: checksum(written)}})


def write(messages: Iterable[Message], format: str) -> Any:
    """Return messages as a document of a format.

    Raises:
        Invalid: the format is unknown.
    """
    form = _format(format)
    return form.document([write_message(message, form) for message in messages])


def write_message(message: Message, form: DocumentFormat) -> list[Any]:
    """Return the chunk of a message, with the unknown fields it was read with."""
    written = list(form.write(message))
    unknown = message.meta.get(meta_key(form.NAME)) if message.meta else None
    if not isinstance(unknown, Mapping):
        return written
    if unknown.get(CHECKSUM, checksum(written)) != checksum(written):
        return written  # the message was changed since: its unknown fields belong to the old one
    try:
        restored: list[Any] = restore_fields(written, unknown)
    except (LookupError, TypeError, AttributeError):
        return written  # as before, in a message that was stored without a checksum
    return restored


def without_unknown_fields(message: Message) -> Message:
    """Return a message that is about to be changed without its unknown fields."""
    if not any(map(is_meta_key, message.meta)):
        return message
    meta = {key: value for key, value in message.meta.items() if not is_meta_key(key)}
    return replace(message, meta=meta)


def _format(name: object) -> DocumentFormat:
    form: DocumentFormat | None = FORMATS.get(name) if isinstance(name, str) else None
    if form is None:
        raise Invalid(f"unknown format {name!r}", hint=f"use one of {', '.join(FORMATS)}")
    return form
