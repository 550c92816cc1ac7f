"""How a plain object is mirrored: each verb of it as a coroutine that runs in a lane."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from time import monotonic
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from otolith.aio.lanes import Lane
from otolith.errors import Error

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
P = ParamSpec("P")
R = TypeVar("R")

_PATIENCE_SECONDS = 0.002
"""How long a thread goes on reading ahead for a loop over many things."""


class Mirror(Generic[S_co]):
    """Something whose verbs are awaited. `reach` gives the plain thing, inside a thread."""

    def __init__(self, reach: Callable[[], S_co], lane: Lane) -> None:
        self._reach = reach
        self._lane = lane

    async def run(
        self, function: Callable[Concatenate[S_co, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call a function with the plain object, in a thread, with no other call in between."""
        return await self._lane.run(lambda: function(self._reach(), *args, **kwargs))

    async def _walk(self, begin: Callable[[S_co], Iterator[R]]) -> AsyncIterator[R]:
        """Yield what an iterator yields; it is run in the thread, and a little ahead."""
        iterator = await self.run(begin)
        end: Exception | None = None
        while end is None:
            found, end = await self._lane.run(lambda: _some(iterator))
            for each in found:
                yield each
        if isinstance(end, Error):
            raise end


class Owner:
    """What a mirror of something with a store has: it is closed when the calls on it are done."""

    plain: Any
    _lane: Lane

    async def close(self) -> None:
        """Wait for the calls that were made, and close the store."""
        await self._lane.threads.close(self.plain.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def awaited(
    verb: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[Mirror[S], P], Coroutine[Any, Any, R]]:
    """Return a verb as a coroutine with the same signature."""

    @wraps(verb)
    async def run(self: Mirror[S], /, *args: P.args, **kwargs: P.kwargs) -> R:
        def call(plain: S) -> R:
            own: Callable[P, R] = getattr(plain, verb.__name__)  # a subclass may have its own
            return own(*args, **kwargs)

        return await self.run(call)

    return run


def _some(iterator: Iterator[R]) -> tuple[list[R], Exception | None]:
    """Return at least one thing, and all that can be had in a moment; and how it ended, if so."""
    found: list[R] = []
    until = monotonic() + _PATIENCE_SECONDS
    while not found or monotonic() < until:
        try:
            found.append(next(iterator))
        except (StopIteration, Error) as end:
            return found, end
    return found, None
