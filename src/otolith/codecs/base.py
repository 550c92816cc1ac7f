"""The Codec contract: values of one family, lowered to plainer data and lifted back.

The core keeps *plain data* by itself: None, bool, int of 64 bits, float, str, bytes, list, and
dict with any plain hashable key. Everything else is lowered one step at a time to a `Tagged`:
a code and data that is plainer than the value. The parts of that data may need lowering again;
whoever asked does the walking, and lifts bottom up, so that a codec sees parts already lifted.

Which codec a value belongs to is decided by its exact type and once per type: `lowering` gives
the function that lowers all values of a type, and whoever asks keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from otolith.types import Tagged

Lowering: TypeAlias = Callable[[Any], Tagged]
"""Lowers a value of the one type it was made for. Raises BadValue if that value cannot be kept."""


class Codec(Protocol):
    """Lowers and lifts the values of one family."""

    @property
    def codes(self) -> frozenset[int]:
        """The codes this codec lowers to and lifts from; no two codecs share one."""
        ...

    def lowering(self, kind: type) -> Lowering | None:
        """Return what lowers values of exactly this type, or None if it is another codec's.

        Lowering is canonical: equal values of one type give the same data, whatever their history.

        Raises:
            BadValue: the type is of this family but its values cannot be kept; says why.
        """
        ...

    def lift(self, code: int, data: object) -> object:
        """Return the value that was lowered to this. `data` has been lifted already.

        Raises:
            UnknownType: the type it names is not known here, or has changed.
            Corrupt: the data is not what this code needs.
        """
        ...
