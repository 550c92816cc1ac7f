"""The state has moved: objects that were handed out take on what is there now.

Dicts, lists, sets and bytearrays are changed in place, and whoever has one sees it. What cannot be
is kept if it is the same as before, and otherwise replaced. An object that is in several places
takes on what is at the first of them, and no more: places may have come to differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from otolith.agent.tracking.fixed import is_fixed
from otolith.agent.tracking.sharing import met
from otolith.agent.tracking.views import identity
from otolith.errors import BadValue


class Adoption:
    """One move of the state.

    `live` are the values that may be changed, `fixed` those of other places that stay as they are.
    `keeps` tells whether an object in several places stays there where they are still the same.
    """

    def __init__(
        self,
        live: Iterable[object],
        *,
        fixed: Iterable[object] = (),
        print: Callable[[object], int | None],
        keeps: bool = False,
    ) -> None:
        stay = list(fixed)
        _, self._shared = met([*live, *stay])
        self._taken = self._shared & met(stay)[0] if self._shared and stay else set()
        self._print = print
        self._keeps = keeps

    def __call__(self, live: Any, fresh: Any) -> Any:
        """Return what a place holds from now on: the object that was there, if it can."""
        if type(live) is not type(fresh) or live is fresh or is_fixed(type(live)):
            return fresh
        own = identity(live)
        if own in self._taken:
            return live if self._keeps and self._is_same(live, fresh) else fresh
        if own in self._shared:
            self._taken.add(own)
        return self._adopted(live, fresh)

    def _adopted(self, live: Any, fresh: Any) -> Any:
        if type(live) is dict:
            new = {key: self(live.get(key), part) for key, part in fresh.items()}
            live.clear()
            live.update(new)
        elif type(live) is list:
            kept = [self(mine, part) for mine, part in zip(live, fresh, strict=False)]
            live[:] = [*kept, *fresh[len(kept) :]]
        elif type(live) is tuple and len(live) == len(fresh):
            new_parts = tuple(self(mine, part) for mine, part in zip(live, fresh, strict=True))
            is_same = all(mine is part for mine, part in zip(live, new_parts, strict=True))
            return live if is_same else new_parts
        elif type(live) is set:
            live.clear()
            live.update(fresh)
        elif type(live) is bytearray:
            live[:] = fresh
        else:
            return live if self._is_same(live, fresh) else fresh
        return live

    def _is_same(self, live: object, fresh: object) -> bool:
        try:
            mark = self._print(live)
        except BadValue:  # it was changed into something that cannot be kept
            return False
        return mark is not None and mark == self._print(fresh)
