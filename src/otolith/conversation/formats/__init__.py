"""Conversations as others write them: OpenAI (chat, responses), Anthropic, and plain transcripts.

    messages = read(document, "anthropic")
    document = write(messages, "openai")

Writing gives back what was read, all of it, if the format is the same: what has no place in a
message is kept beside it (`unknown_fields.py`). Another format gets what it can hold; the head of
each module says what it cannot. What is no part of a conversation (model, tools …) is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from otolith.conversation.formats import anthropic, openai_chat, openai_responses, transcript
from otolith.conversation.formats.unknown_fields import (
    OF,
    checksum,
    is_meta_key,
    meta_key,
    restore_fields,
    unknown_fields,
)
from otolith.conversation.message import Message
from otolith.errors import BadValue, Invalid


class Format(Protocol):
    """A way to write conversations."""

    NAME: str

    def chunks(self, document: Any) -> Iterable[list[Any]]:
        """Yield what each message is made from."""

    def read(self, chunk: list[Any]) -> Message:
        """Return the message that was made into a chunk."""

    def write(self, message: Message) -> Sequence[Any]:
        """Return what a message is made into."""

    def document(self, pieces: Sequence[list[Any]]) -> Any:
        """Return the document that pieces make up."""


FORMATS: dict[str, Any] = {
    each.NAME: each for each in (openai_chat, openai_responses, anthropic, transcript)
}
__all__ = ["FORMATS", "Format", "read", "without_unknown_fields", "write", "write_message"]


def read(document: Any, format: str) -> list[Message]:
    """Return the messages of a document: that of the request, or the list of messages in it.

    Raises:
        Invalid: no format has this name.
        BadValue: it is not a document of this format; it says which message is not.
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


def write(messages: Iterable[Message], format: str) -> Any:
    """Return messages as a document of a format.

    Raises:
        Invalid: no format has this name.
    """
    form = _format(format)
    return form.document([write_message(message, form) for message in messages])


def write_message(message: Message, form: Format) -> list[Any]:
    """Return what a message is made into, with what was beyond it when it was read."""
    made = list(form.write(message))
    left = message.meta.get(meta_key(form.NAME)) if message.meta else None
    if not isinstance(left, Mapping) or left.get(OF, checksum(made)) != checksum(made):
        return made  # somebody has changed the message since, and this belongs to what it was
    try:
        found: list[Any] = restore_fields(made, left)
    except (LookupError, TypeError, AttributeError):
        return made  # as before, of a message that was kept without a mark
    return found


def without_unknown_fields(message: Message) -> Message:
    """Return a message that is about to be changed without what it was beside its parts."""
    if not any(map(is_meta_key, message.meta)):
        return message
    meta = {key: value for key, value in message.meta.items() if not is_meta_key(key)}
    return replace(message, meta=meta)


def _read(form: Format, chunk: list[Any]) -> Message:
    message = form.read(chunk)
    made = list(form.write(message))
    left = unknown_fields(made, chunk)
    if left is None:
        return message
    return replace(message, meta={meta_key(form.NAME): left | {OF: checksum(made)}})


def _format(name: str) -> Format:
    form: Format | None = FORMATS.get(name)
    if form is None:
        raise Invalid(f"{name!r} is no format", hint=f"use one of {', '.join(FORMATS)}")
    return form
