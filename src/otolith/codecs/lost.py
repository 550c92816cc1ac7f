"""What stands where a value could not be kept: its type, why, and what to do instead.

The form is seen by hashes and never changes (`docs/reference/format-v1.md`):

    LOST  [type name, why, hint]    three texts; the hint may be empty
"""

from __future__ import annotations

from dataclasses import dataclass

from otolith.codecs.base import Lowering
from otolith.codecs.exact import parts
from otolith.errors import BadValue
from otolith.types import Tag, Tagged


@dataclass(frozen=True, slots=True)
class Lost:
    """A value that was skipped when its state was committed; only this is left of it."""

    type_name: str
    why: str
    hint: str = ""

    @classmethod
    def of(cls, value: object, error: BadValue) -> Lost:
        """Return what stands for a value that was refused."""
        kind = type(value)
        return cls(f"{kind.__module__}:{kind.__qualname__}", error.message, error.hint)

    def __repr__(self) -> str:
        return f"<lost: {self.type_name.replace(':', '.')}, {self.why}>"


class Losses:
    """Lowers and lifts what stands for lost values."""

    @property
    def codes(self) -> frozenset[int]:
        return frozenset({Tag.LOST})

    def lowering(self, kind: type) -> Lowering | None:
        return _lower if kind is Lost else None

    def lift(self, code: int, data: object) -> object:
        return Lost(*parts(data, "a lost value", str, str, str))


def _lower(value: Lost) -> Tagged:
    return Tagged(Tag.LOST, [value.type_name, value.why, value.hint])
