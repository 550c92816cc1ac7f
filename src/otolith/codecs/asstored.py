"""Values as they are stored, for whoever checks a store: no class is looked up, no code is run.

What is made of plain data alone (tuples, sets, dates and the like) is lifted, so that it can be
lowered again and compared. Everything else is an Opaque of which only the outline is looked at:
a model may be migrated, an array copied and a pickle loaded when they are read, and none of this
has a place in a check.
"""

from __future__ import annotations

from otolith.codecs.exact import VERIFY
from otolith.codecs.opaque import Opaque, lower_opaque
from otolith.codecs.plain import Plain
from otolith.codecs.refusal import refuse
from otolith.errors import Corrupt
from otolith.types import Tag, Tagged

# What the list that these are kept as begins with.
_OUTLINES: dict[int, tuple[type, ...]] = {
    Tag.ENUM: (str,),
    Tag.MODEL: (str, int, dict),
    Tag.CUSTOM: (str, int, object),
    Tag.PICKLE: (str, bytes, list, list),
    Tag.LOST: (str, str, str),
}


class AsStored:
    """Lifts what is stored to something that is lowered to exactly that again, or refuses it."""

    def __init__(self) -> None:
        self._plain = Plain()

    def lower(self, value: object) -> Tagged:
        """Return the value one step plainer."""
        if isinstance(value, Opaque):
            return lower_opaque(value)
        lowering = self._plain.lowering(type(value))
        if lowering is None:
            raise refuse(type(value))
        return lowering(value)

    def lift(self, code: int, data: object) -> object:
        """Return what stands for the value.

        Raises:
            Corrupt: no value is kept like this.
        """
        if code in self._plain.codes:
            return self._plain.lift(code, data)
        _check_outline(code, data)
        return Opaque(Tagged(code, data))


def _check_outline(code: int, data: object) -> None:
    outline = _OUTLINES.get(code, ())
    if not outline:
        return
    if type(data) is not list or len(data) < len(outline) or not all(map(_is_a, data, outline)):
        raise Corrupt(f"the data of a {Tag(code).name.lower()} is not whole", hint=VERIFY)


def _is_a(part: object, kind: type) -> bool:
    return kind is object or type(part) is kind
