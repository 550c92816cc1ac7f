"""XML read into a small tree with line numbers, and written with escapes.

Entity bombs and external entities need a document type, so a document that declares one is refused
before any of it is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn
from xml.parsers import expat

from otolith.errors import BadChart

MAX_DEPTH = 200
MAX_BYTES = 16 << 20
SCXML = "http://www.w3.org/2005/07/scxml"
EXTENSION = "https://otolith.dev/scxml"
_SEPARATOR = "\x1f"


@dataclass(slots=True)
class Element:
    """An element: its name, attributes, content and position in the document."""

    tag: str
    namespace: str
    attributes: dict[str, str]
    line: int
    start: int
    children: list[Element] = field(default_factory=list)
    text: str = ""
    inner: str = ""
    """The markup between its tags, unchanged."""

    @property
    def place(self) -> str:
        """The line, name and id of the element, for errors."""
        name = self.attributes.get("id", "")
        return f"line {self.line}, <{self.tag}{f' {name}' if name else ''}>"

    def get(self, name: str) -> str | None:
        """Return an attribute, or None; ours are named `otolith:<name>`."""
        return self.attributes.get(name)

    def required(self, name: str) -> str:
        """Return an attribute.

        Raises:
            BadChart: it is absent.
        """
        found = self.attributes.get(name)
        return self.lacks(name) if found is None else found

    def lacks(self, name: str) -> NoReturn:
        """Raise that an attribute is absent."""
        raise BadChart(f"it has no {name}", place=self.place)

    def json(self, name: str, *, unit: str = "") -> Any:
        """Return the JSON of an attribute, without the unit at its end; None if it is absent.

        Raises:
            BadChart: it is not JSON.
        """
        text = self.attributes.get(name)
        try:
            return None if text is None else json.loads(text.removesuffix(unit))
        except (ValueError, RecursionError) as error:
            raise BadChart(f"{name} is not JSON", place=self.place) from error

    def all(self, *tags: str) -> list[Element]:
        """Return the SCXML children with one of these names."""
        return [child for child in self.children if child.tag in tags and child.is_scxml]

    def first(self, tag: str) -> Element | None:
        """Return the first SCXML child with this name, or None."""
        found = self.all(tag)
        return found[0] if found else None

    def extension(self, tag: str) -> Element | None:
        """Return the first child of our namespace with this name, or None."""
        named = (child for child in self.children if child.tag == tag)
        return next((child for child in named if child.namespace == EXTENSION), None)

    @property
    def is_scxml(self) -> bool:
        """Whether the element is in the SCXML namespace, or in none."""
        return self.namespace in {"", SCXML}


def read_xml(text: str) -> Element:
    """Return the outermost element of a document.

    Raises:
        BadChart: it is not XML, is too large or too deep, or declares a document type.
    """
    source = text.encode("utf-8", "replace")
    if len(source) > MAX_BYTES:
        raise BadChart(f"the document has more than {MAX_BYTES:,} bytes", place="line 1")
    builder = _TreeBuilder(source)
    try:
        builder.parser.Parse(source, True)  # noqa: FBT003 - expat takes it by position
    except expat.ExpatError as error:
        raise BadChart(
            f"not well-formed XML: {expat.ErrorString(error.code)}", place=f"line {error.lineno}"
        ) from error
    if builder.outermost is None:
        raise BadChart("the document has no element", place="line 1")
    return builder.outermost


class _TreeBuilder:
    def __init__(self, source: bytes) -> None:
        self._source = source
        self._open: list[Element] = []
        self.outermost: Element | None = None
        self.parser: Any = expat.ParserCreate("utf-8", _SEPARATOR)
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.EntityDeclHandler = self._refuse
        self.parser.ExternalEntityRefHandler = self._refuse

    def _refuse(self, *_: object) -> NoReturn:
        raise BadChart(
            "the document declares a document type or an entity",
            place=f"line {self.parser.CurrentLineNumber}",
            hint="remove it: charts need neither, and both can be used to attack a reader",
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        namespace, _, tag = name.rpartition(_SEPARATOR)
        near = {key.replace(f"{EXTENSION}{_SEPARATOR}", "otolith:"): key for key in attributes}
        own = {name: attributes[key] for name, key in near.items() if _SEPARATOR not in name}
        line, start = self.parser.CurrentLineNumber, self.parser.CurrentByteIndex
        element = Element(tag, namespace, own, line, start)
        if len(self._open) >= MAX_DEPTH:
            raise BadChart(f"elements are nested more than {MAX_DEPTH} deep", place=element.place)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.outermost = element
        self._open.append(element)

    def _end(self, _: str) -> None:
        element = self._open.pop()
        end = self.parser.CurrentByteIndex
        start = self._source.find(b">", element.start) + 1
        element.inner = self._source[start:end].decode("utf-8", "replace") if start <= end else ""

    def _text(self, text: str) -> None:
        if self._open:
            self._open[-1].text += text


_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TEXT = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
_ATTRIBUTE = {**_TEXT, '"': "&quot;", "\n": "&#10;", "\t": "&#9;"}


@dataclass(slots=True)
class XmlTag:
    """An element to write; it contains other elements, or a text."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[XmlTag] = field(default_factory=list)
    text: str = ""

    def lines(self, depth: int = 0) -> Iterator[str]:
        """Yield the lines of the element; a text is not indented, since its blanks count."""
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

    def put(self, name: str, text: str | None) -> None:
        """Set an attribute, unless the text is None."""
        if text is not None:
            self.attributes[name] = text

    def walk(self) -> Iterator[XmlTag]:
        """Yield the element and all elements inside it."""
        yield self
        for child in self.children:
            yield from child.walk()


def json_text(value: Any, place: str) -> str:
    """Return a value as JSON that XML can contain.

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
            f"{text[:60]!r} has a character that XML cannot contain",
            place=place,
            hint="rename it, or write the chart as XState JSON",
        )
    return "".join(table.get(char, char) for char in text)
