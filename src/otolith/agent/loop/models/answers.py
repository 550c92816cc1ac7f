"""What the bytes of an endpoint say: JSON, events of a stream, refusals, and when to come again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any

from otolith.errors import BadReply

_SHOWN_LETTERS = 300


def data_lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the data of each event of a stream; its lines are joined, as the standard says."""
    held, event = b"", []
    for piece in pieces:
        held += piece
        *lines, held = held.replace(b"\r\n", b"\n").split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                event.append(line[5:].removeprefix(b" "))
            elif not line and event:
                yield b"\n".join(event)
                event = []
    if held.startswith(b"data:"):
        event.append(held[5:].removeprefix(b" "))
    if event:
        yield b"\n".join(event)


def parsed(data: bytes) -> Any:
    """Return what JSON says.

    Raises:
        BadReply: it is none.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadReply(f"the answer is not JSON: {shown(data)}", hint="try again") from error


def told(answer: dict[str, Any]) -> str:
    """Return what an answer says that is no answer."""
    error = answer.get("error", answer)
    text = error.get("message") if isinstance(error, dict) else error
    return str(text if isinstance(text, str) else error)[:_SHOWN_LETTERS]


def shown(data: bytes) -> str:
    """Return the beginning of bytes as a person can read it."""
    return repr(data[:_SHOWN_LETTERS].decode("utf-8", "replace"))


def seconds_of(text: str | None, *, most: float) -> float | None:
    """Return how long to wait, given as seconds or as a date; None if neither is."""
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except ValueError:
            return None
    return min(max(0.0, seconds), most)
