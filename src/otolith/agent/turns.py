"""One thread at a time inside an object."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class HasTurns(Protocol):
    """Something that threads take turns with."""

    def turn(self) -> AbstractContextManager[object]: ...


S = TypeVar("S", bound=HasTurns)
P = ParamSpec("P")
R = TypeVar("R")


def locked(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Let a method run as one turn."""

    @wraps(method)
    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.turn():
            return method(self, *args, **kwargs)

    return run
