"""XML, written: elements with their attributes, indented, and escaped so that they read back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from otolith.errors import BadChart

_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TEXT = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
_ATTRIBUTE = {**_TEXT, '"': "&quot;", "\n": "&#10;", "\t": "&#9;"}


@dataclass(slots=True)
class Tag:
    """An element to be written: it holds other elements, or a text."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Tag] = field(default_factory=list)
    text: str = ""

    def lines(self, depth: int = 0) -> Iterator[str]:
        """Yield the lines of the element; a text is not indented, because blanks belong to it."""
        start = "  " * depth + f"<{self.name}"
        for name, value in self.attributes.items():
            start += f' {name}="{_escaped(value, _ATTRIBUTE, f"<{self.name} {name}>")}"'
        if self.children:
            yield f"{start}>"
            for child in self.children:
                yield from child.lines(depth + 1)
            yield "  " * depth + f"</{self.name}>"
        elif self.text:
            yield f"{start}>{_escaped(self.text, _TEXT, f'<{self.name}>')}</{self.name}>"
        else:
            yield f"{start}/>"

    def walk(self) -> Iterator[Tag]:
        """Yield the element and all inside of it."""
        yield self
        for child in self.children:
            yield from child.walk()


def json_text(value: Any, place: str) -> str:
    """Return a value as JSON that XML can hold.

    Raises:
        BadChart: it is not plain data.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        return json.dumps(value) if _FORBIDDEN.search(text) else text
    except (TypeError, ValueError) as error:
        raise BadChart(f"{value!r} cannot be written: {error}", place=place) from error


def _escaped(text: str, table: dict[str, str], place: str) -> str:
    found = _FORBIDDEN.search(text)
    if found is not None:
        raise BadChart(
            f"{text[:60]!r} has a character that XML cannot hold",
            place=place,
            hint="name it otherwise, or write the chart as XState's JSON",
        )
    return "".join(table.get(char, char) for char in text)
