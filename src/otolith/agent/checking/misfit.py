"""A value that does not fit its type: where, what was expected, what was found."""

from __future__ import annotations

_SHORT = (bool, int, float, complex, str, bytes)
_SHOWN_CHARACTERS = 40


class Misfit(Exception):
    """Raised by a check. `path` is gathered by the checks around it, innermost key first."""

    def __init__(self, expected: str, found: object, *, said: str = "") -> None:
        super().__init__(expected)
        self.expected = expected
        self.found = found
        self.said = said
        self.path: list[object] = []

    def below(self, key: object) -> Misfit:
        """Note under which key of a container it was found."""
        self.path.append(key)
        return self

    def __str__(self) -> str:
        return f"{self.said or f'expected {self.expected}'}, found {shown(self.found)}"


def shown(value: object) -> str:
    """Return the type of a value, and the value if it is short by nature."""
    if value is None:
        return "None"
    name = named(type(value))
    if type(value) not in _SHORT:
        return name
    text = repr(value)
    cut = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
    return f"{name} {cut}"


def named(kind: type) -> str:
    """Return the name of a type as people write it."""
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"
