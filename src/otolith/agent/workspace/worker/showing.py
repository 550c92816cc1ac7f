"""The value of a step in words: as a notebook would show it, up to a limit."""

from __future__ import annotations

from collections.abc import Iterable
from pprint import pformat
from reprlib import Repr
from typing import Any

from otolith.agent.workspace.worker.describing import type_name

_WIDTH = 100
_MOST_PARTS = 2000
_CONTAINERS = (dict, list, tuple, set, frozenset)


def show(value: object, *, most: int) -> str:
    """Return what a value looks like; what is left out is said. Nothing that it raises gets out."""
    try:
        text = _text(value, most)
    except Exception as error:  # noqa: BLE001  # a repr is the user's, and may raise anything
        text = f"<{type_name(value)}, whose repr raised {type(error).__name__}>"
    text = text.encode("utf-8", "replace").decode()
    rest = len(text) - most
    return text if rest <= 0 else f"{text[:most]}\n… {rest:,} more characters"


def _text(value: object, most: int) -> str:
    if _is_longer(value, most):
        return _bounded(most).repr(value)
    if isinstance(value, _CONTAINERS):
        return pformat(value, width=_WIDTH, sort_dicts=False, compact=True)
    return repr(value)


def _is_longer(value: Any, most: int) -> bool:
    """Tell whether a value has so many parts that it must not be put into words as a whole."""
    waiting: list[Iterable[Any]] = [[value]]
    left, seen = _MOST_PARTS, 0
    while waiting:
        for part in waiting.pop():
            left -= 1
            seen += len(part) if isinstance(part, str | bytes | bytearray) else 0
            if left < 0 or seen > most:
                return True
            if isinstance(part, dict):
                waiting += [part.keys(), part.values()]
            elif isinstance(part, _CONTAINERS):
                waiting.append(part)
    return False


def _bounded(most: int) -> Repr:
    """Return what shows the beginning of everything, with dots where something is left out."""
    short = Repr()
    short.maxlist = short.maxtuple = short.maxset = short.maxfrozenset = 100
    short.maxdict = short.maxdeque = short.maxarray = 100
    short.maxstring = short.maxother = most
    short.maxlong = 1000
    short.maxlevel = 4
    return short
