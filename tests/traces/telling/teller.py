"""Walks through what one variable holds; equal texts, equal content.

Rules
- A text depends only on what can be reached from the variable, never on what was told before it.
- A part that is met twice is told twice (from memory), so a lost alias does not show here.
- A part that leads back to itself is told once; each way back is `<back n>`, n being how many
  parts of the circle were opened since. These are the components of Tarjan's algorithm: a part
  is remembered as soon as nothing inside of it points above it.
- Classes of the session are parts too: an instance carries a hash of its class, so an instance
  of an older definition differs from one of the newer.
- What a library defines is told by name: its classes, and functions that can be looked up.
- What cannot live in a store (generators, iterators, files, locks, matches) is told by type.
- How long a fit took is not content, nor is an address or scratch memory that a library keeps:
  the keys in VARYING are told as `<varies>`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from tests.traces.telling.atoms import PLAIN, atom, digest, folded

DEPTH = 120
PARTS = 200_000
VARYING = re.compile(r"(mean|std)_(fit|score)_time|refit_time_|_stop_words_id|_tmp_like_exog")
UNTOLD = frozenset({"__doc__", "_deprecated_key_to_warnings"})
"""Attributes of instances without content: pages of text, and what a library itself forgets."""

_HEAP_TYPE = 1 << 9
_SHORT = PLAIN - {str, bytes}

Telling: TypeAlias = Callable[["Teller", Any], str]


class Teller:
    """Tells one variable, once.

    `parts` tells a value with parts, `home` are the module names of the session, and a text longer
    than `fold` is cut and hashed.
    """

    def __init__(self, parts: Telling, *, home: frozenset[str], fold: int) -> None:
        self.home = home
        self._parts = parts
        self._fold = fold
        self._depth = 0
        self._alive: list[object] = []  # no id may be reused while we remember it
        self._told: dict[int, str] = {}
        self._stack: list[int] = []
        self._place: dict[int, int] = {}
        self._lows: dict[int, int] = {}
        self._low = sys.maxsize

    def tell(self, value: object) -> str:
        """Return the text of any value."""
        text = atom(value)
        if text is not None:
            return folded(text, self._fold)
        key = id(value)
        if key in self._told:
            return self._told[key]
        if key in self._place:
            self._low = min(self._low, self._lows[key])
            return f"<back {len(self._stack) - self._place[key]}>"
        if self._depth >= DEPTH:
            return f"<deeper than {DEPTH}>"
        if len(self._alive) >= PARTS:
            return f"<more than {PARTS} parts>"
        return self._open(value, key)

    def _open(self, value: object, key: int) -> str:
        place, outer = len(self._stack), self._low
        self._alive.append(value)
        self._stack.append(key)
        self._place[key] = self._lows[key] = self._low = place
        self._depth += 1
        text = folded(self._parts(self, value), self._fold)
        self._depth -= 1
        low = self._lows[key] = self._low
        if low >= place:
            for closed in self._stack[place:]:
                del self._place[closed]
            del self._stack[place:]
            self._told[key] = text
        self._low = min(outer, low)
        return text

    # ------------------------------------------------------------ what the others share

    def kind(self, value: object) -> str:
        """Return the name of a value's class, and which definition of it if it is the session's."""
        cls = type(value)
        if not self.is_ours(cls):
            return cls.__qualname__ if cls.__module__ == "builtins" else name_of(cls)
        text = self.tell(cls)
        return cls.__qualname__ + (text if text.startswith("<back") else f"#{digest(text)[:8]}")

    def is_ours(self, value: Any) -> bool:
        """Whether a class or function was made in the session and not by a library."""
        return is_made_in(self.home, value)

    def many(self, values: Iterable[object]) -> str:
        return ", ".join([repr(v) if type(v) in _SHORT else self.tell(v) for v in values])

    def pairs(self, mapping: Mapping[Any, object]) -> str:
        return ", ".join(
            f"{self.tell(key)}: {'<varies>' if _is_varying(key) else self.tell(value)}"
            for key, value in mapping.items()
        )

    def named(self, mapping: Mapping[str, object]) -> str:
        """Return attributes, which have no order worth keeping."""
        return self.pairs(dict(sorted(mapping.items(), key=lambda pair: str(pair[0]))))


def _is_varying(key: object) -> bool:
    return isinstance(key, str) and VARYING.fullmatch(key) is not None


def name_of(value: Any) -> str:
    """Return the full name of a class or function."""
    return f"{value.__module__}.{value.__qualname__}"


def looked_up(value: Any) -> object:
    """Return what is now found under the full name of a class or function."""
    found: object = sys.modules.get(value.__module__ or "")
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found


def is_made_in(home: frozenset[str], value: Any) -> bool:
    """Whether a class or function is the session's: of one of its modules, or of no module now."""
    if isinstance(value, type) and not value.__flags__ & _HEAP_TYPE:
        return False
    return value.__module__ in home or looked_up(value) is not value
