"""What one variable holds, as a text: each kind of value is told by the part that knows it."""

from __future__ import annotations

from typing import Any

from tests.traces.telling import containers, instances, makings
from tests.traces.telling.tables import table
from tests.traces.telling.teller import Teller

_KINDS = (*makings.KINDS, *containers.KINDS, *instances.KINDS)


def tell(value: object, *, home: frozenset[str], fold: int) -> str:
    """Return the text of a variable."""
    return Teller(_parts, home=home, fold=fold).tell(value)


def _parts(teller: Teller, value: Any) -> str:
    told = table(value, teller.tell)
    if told is not None:
        return told
    for kinds, telling in _KINDS:
        if isinstance(value, kinds):
            return telling(teller, value)
    return instances.library(teller, value) or instances.instance(teller, value)
