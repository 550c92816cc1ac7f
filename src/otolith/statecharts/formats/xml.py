"""XML as a small tree, with line numbers, and without document types and entities.

A document type is where entity bombs and external entities are declared, so there is none: a
document that has one is refused before anything of it is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn
from xml.parsers import expat

from otolith.errors import BadChart

DEEPEST = 200
LARGEST_BYTES = 16 << 20
SCXML = "http://www.w3.org/2005/07/scxml"
OWN = "https://otolith.dev/scxml"
_BETWEEN = "\x1f"


@dataclass(slots=True)
class Element:
    """An element: its name, its attributes, what is inside, and where it stood."""

    tag: str
    namespace: str
    attributes: dict[str, str]
    line: int
    start: int
    children: list[Element] = field(default_factory=list)
    text: str = ""
    inner: str = ""
    """What stands between its tags, as it was written."""

    @property
    def place(self) -> str:
        name = self.attributes.get("id", "")
        return f"line {self.line}, <{self.tag}{f' {name}' if name else ''}>"

    def get(self, name: str) -> str | None:
        return self.attributes.get(name)

    def all(self, *tags: str) -> list[Element]:
        """Return the children of SCXML's own that have one of these names."""
        return [child for child in self.children if child.tag in tags and child.is_scxml]

    def first(self, tag: str) -> Element | None:
        found = self.all(tag)
        return found[0] if found else None

    @property
    def is_scxml(self) -> bool:
        return self.namespace in {"", SCXML}


def read_xml(text: str) -> Element:
    """Return the outermost element of a document.

    Raises:
        BadChart: it is not XML, is too large or too deep, or declares a document type.
    """
    source = text.encode("utf-8", "replace")
    if len(source) > LARGEST_BYTES:
        raise BadChart("the document is too large", place="line 1")
    builder = _Builder(source)
    try:
        builder.parser.Parse(source, True)  # noqa: FBT003 - expat takes it by position
    except expat.ExpatError as error:
        raise BadChart(
            f"not well-formed XML: {expat.ErrorString(error.code)}", place=f"line {error.lineno}"
        ) from error
    if builder.outermost is None:
        raise BadChart("there is no element", place="line 1")
    return builder.outermost


class _Builder:
    def __init__(self, source: bytes) -> None:
        self._source = source
        self._open: list[Element] = []
        self.outermost: Element | None = None
        self.parser: Any = expat.ParserCreate("utf-8", _BETWEEN)
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
            hint="charts need neither, and both can be used to attack a reader: remove them",
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        namespace, _, tag = name.rpartition(_BETWEEN)
        near = {key.replace(f"{OWN}{_BETWEEN}", "otolith:"): key for key in attributes}
        own = {name: attributes[key] for name, key in near.items() if _BETWEEN not in name}
        line, start = self.parser.CurrentLineNumber, self.parser.CurrentByteIndex
        element = Element(tag, namespace, own, line, start)
        if len(self._open) >= DEEPEST:
            raise BadChart(f"elements are nested more than {DEEPEST} deep", place=element.place)
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
