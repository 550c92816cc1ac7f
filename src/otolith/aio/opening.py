"""What is being opened: wait for it with `await`, or open and close it with `async with`."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial, wraps
from types import TracebackType
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from otolith.aio.lanes import Threads


class Plain(Protocol):
    """Something that is closed when it is done with."""

    def close(self) -> None: ...


class Awaitable(Protocol):
    """Its mirror."""

    async def close(self) -> None: ...


P = ParamSpec("P")
S = TypeVar("S", bound=Plain)
M = TypeVar("M", bound=Awaitable)


class Opening(Generic[M]):
    """A repo or state that is opened once it is awaited or entered, in a thread of its own."""

    def __init__(self, make: Callable[[], S], mirror: Callable[[S, Threads], M]) -> None:
        async def start() -> M:
            threads, made = Threads(), list[S]()
            try:
                await threads.do(lambda: made.append(make()))
                return mirror(made[0], threads)
            except BaseException:  # cancelled, too: nobody else could close it
                await threads.close(made[0].close if made else _nothing)
                raise

        self._start = start
        self._opened: M | None = None

    def __await__(self) -> Generator[Any, None, M]:
        return self._start().__await__()

    async def __aenter__(self) -> M:
        self._opened = await self
        return self._opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._opened is not None:
            await self._opened.close()


def opening(make: Callable[P, S], mirror: Callable[[S, Threads], M]) -> Callable[P, Opening[M]]:
    """Return a function that opens, with the signature of the plain one."""

    @wraps(make)
    def begin(*args: P.args, **kwargs: P.kwargs) -> Opening[M]:
        return Opening(partial(make, *args, **kwargs), mirror)

    return begin


def _nothing() -> None:
    """There is nothing to close."""
