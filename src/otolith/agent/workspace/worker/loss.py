"""Why a variable could not be kept, and what to do instead."""

from __future__ import annotations


def why(error: Exception) -> str:
    """Return what went wrong, in one line."""
    first = str(error).strip().splitlines()
    return f"{type(error).__name__}: {first[0][:200]}" if first else type(error).__name__


def hint(value: object) -> str:
    """Return what to do instead of keeping a value."""
    name = type(value).__name__.lower()
    for word, hint in _HINTS.items():
        if word in name:
            return hint
    return "keep what it is made from, and make it again"


_HINTS = {
    "generator": "consume it, and keep the list",
    "iterator": "consume it, and keep the list",
    "textiowrapper": "keep the path, and open it again",
    "buffered": "keep the path, and open it again",
    "connection": 'register it: workspace.resource("name", factory="module:function")',
    "cursor": "fetch the rows, and keep them",
    "socket": 'register it: workspace.resource("name", factory="module:function")',
    "lock": "make a new one; nothing holds it after a restart",
    "thread": "join it, and keep the result",
    "match": "keep match.groups() or match.groupdict()",
    "coroutine": "await it, and keep the result",
}
