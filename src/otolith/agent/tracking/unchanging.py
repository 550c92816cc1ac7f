"""The imprint of a value whose content lies in one object that never changes.

Taking it costs nothing. What the parts looked like is found out when the value turns out to have
another content, from a twin that still has the old one.
"""

from __future__ import annotations

from typing import Any

from otolith.agent.tracking.imprint import Imprint, Imprints, Lowered
from otolith.codecs import content_of


class Unchanging(Imprint):
    """The object with the content, and a twin of the value, which nobody else can change."""

    __slots__ = ("_content", "_twin")

    def __init__(self, cell: bytes, value: Any, content: object) -> None:
        super().__init__(cell)
        self._content = content
        self._twin = value.copy()

    @classmethod
    def of(cls, value: object, cell: bytes, how: Imprints) -> Imprint | None:
        content = content_of(value)
        if content is None or how.cells.tag(cell) is None:
            return None
        return cls(cell, value, content)

    def describes(self, value: object) -> bool:
        return type(value) is type(self._twin)

    def again(self, value: Any, how: Imprints) -> Imprint:
        content = content_of(value)
        if content is self._content and value.dtype == self._twin.dtype:
            return self
        old = Lowered.of(self._twin, self.cell, how)
        new = how.fresh(value) if old is None else how.again(value, old)
        if content is None or not how.cells.is_grown(new.cell):
            return new
        if how.cells.same(new.cell, self.cell):
            self._content, self._twin = content, value.copy()
            return self
        return Unchanging(new.cell, value, content)
