"""Attachments as addresses that hold their own bytes, and JSON that calls are given."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from otolith.agent.conversation.message import Attachment, ToolCall
from otolith.agent.lifecycle.values import freeze, thaw
from otolith.errors import BadValue

_DATA = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,", re.ASCII)


def data_url(attachment: Attachment) -> str:
    """Return an address that holds the bytes, or the one that the attachment has."""
    if attachment.data is None:
        return attachment.url
    return f"data:{attachment.media_type};base64,{base64.b64encode(attachment.data).decode()}"


def attached(url: str, media_type: str, **more: Any) -> Attachment:
    """Return the attachment at an address; one that holds its own bytes is opened."""
    begun = _DATA.match(url)
    data = None if begun is None else unpacked(url[begun.end() :])
    if begun is None or data is None:
        return Attachment(media_type, url=url, **more)
    return Attachment(begun[1], data=data, **more)


def unpacked(text: str) -> bytes | None:
    """Return the bytes of base64; None if it is not."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def call_of(id: str, name: str, given: str, extra: Mapping[str, Any] | None = None) -> ToolCall:
    """Return a call whose arguments came as text: JSON of an object, or something else."""
    more = {} if extra is None else dict(extra)
    try:
        arguments = freeze(json.loads(given, parse_constant=_refuse)) if given else {}
    except (ValueError, RecursionError, BadValue):
        arguments = None
    if not isinstance(arguments, dict):
        return ToolCall(id, name, raw=given, extra=more)
    return ToolCall(id, name, arguments, extra=more)


def arguments_text(call: ToolCall) -> str:
    """Return the arguments of a call as text."""
    if call.raw:
        return call.raw
    return compact(thaw(call.arguments))


def compact(value: Any) -> str:
    """Return JSON in which the same value is always the same text."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)
