"""Handlers of logs: made again without their lock, on the stream or file that they wrote to."""

from __future__ import annotations

import logging
import sys
from typing import Any

_STREAMS = ("stderr", "stdout")


def is_handler(thing: object) -> bool:
    """Tell whether this is a handler that the standard library knows how to make."""
    return isinstance(thing, logging.Handler) and type(thing).__module__.startswith("logging")


def reduced(handler: Any) -> Any:
    """Return how a handler is made again, as a pickler wants to be told."""
    state = {name: value for name, value in vars(handler).items() if name not in ("lock", "stream")}
    stream = getattr(handler, "stream", None)
    if isinstance(handler, logging.FileHandler):
        state["mode"] = handler.mode.replace("w", "a")
        return handler_made, (type(handler), None), state, None, None, handler_filled
    names = [
        name for name in _STREAMS if stream in (getattr(sys, name), getattr(sys, f"__{name}__"))
    ]
    if stream is not None and not names:
        state["stream"] = stream
    return handler_made, (type(handler), *names[:1]), state, None, None, handler_filled


# What pickles call. The names are in stored pickles and never change.


def handler_made(kind: type[logging.Handler], stream: str | None = None) -> Any:
    """Return a handler without its state; one of a file opens it when it first writes."""
    made: Any = kind.__new__(kind)
    made.createLock()
    if issubclass(kind, logging.StreamHandler):
        made.stream = None if stream is None else getattr(sys, stream)
    return made


def handler_filled(made: Any, state: dict[str, Any]) -> None:
    """Give a handler its state, and let the library know of it as of any other."""
    vars(made).update(state)
    logging._addHandlerRef(made)  # type: ignore[attr-defined]  # noqa: SLF001  # as its __init__ does
