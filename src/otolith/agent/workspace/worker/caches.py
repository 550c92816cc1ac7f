"""What functions with a cache (`functools.lru_cache`) have in it, and such functions made again.

Python shows a cache to its collector of garbage only, and lets nobody fill it. So the function
inside of a restored one first answers with what was kept, and then calls what it stands for.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache, update_wrapper
from typing import Any, TypeAlias

Calls: TypeAlias = list[tuple[tuple[Any, ...], dict[str, Any], object]]
"""Arguments by place and by name, and results, the one that was used last at the end."""

_LINK = "_lru_list_elem"
"""What follows a key and a result of a cache with a limit, in the order of their use."""


def calls_of(cached: Any) -> Calls:
    """Return the calls whose results are in a cache; none, if it cannot be read."""
    held = gc.get_referents(cached)
    at = int(bool(held) and held[0] is type(cached))
    pairs = list[tuple[Any, Any]]()
    while at + 2 < len(held) and getattr(held[at + 2], "__name__", "") == _LINK:
        pairs.append((held[at], held[at + 1]))
        at += 3
    cache = held[at] if at < len(held) else None
    if type(cache) is not dict:
        return []
    settings = cached.cache_parameters()
    if settings["maxsize"] is None:
        pairs = list(cache.items())
    if len(pairs) != len(cache) or not all(key in cache for key, _ in pairs):
        return []
    marks = [each for each in held if type(each) is object]
    return [(*_arguments(key, marks, settings["typed"]), result) for key, result in pairs]


def _arguments(
    key: Any,
    marks: list[object],
    is_typed: bool,  # noqa: FBT001
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that a key was made of."""
    if type(key) is not tuple:
        return (key,), {}
    at = next((at for at, part in enumerate(key) if any(part is mark for mark in marks)), None)
    if at is None:
        return key[: len(key) // 2] if is_typed else key, {}
    rest = key[at + 1 :]
    named = rest[: 2 * ((len(rest) - at) // 3)] if is_typed else rest
    return key[:at], dict(zip(named[::2], named[1::2], strict=True))


class Replay:
    """A function that answers with what it is told to, and with its own results after that."""

    __slots__ = ("answers", "function")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.answers: Iterator[object] = iter(())

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        for answer in self.answers:
            return answer
        return self.function(*arguments, **named)


# What pickles call. The names are in stored pickles and never change.


def cache_made(function: Any, maxsize: int | None, is_typed: bool) -> Any:  # noqa: FBT001
    """Return a function with a cache that is to be filled."""
    made = lru_cache(maxsize=maxsize, typed=is_typed)(Replay(function))
    return update_wrapper(made, function)


def cache_filled(made: Any, state: tuple[dict[str, Any], Calls]) -> None:
    """Give a function its attributes, and its cache what was in it."""
    own, calls = state
    vars(made).update(own)
    replay = next(each for each in gc.get_referents(made) if type(each) is Replay)
    for arguments, named, answer in calls:
        replay.answers = iter((answer,))
        with suppress(Exception):  # the hash of an argument may need what is not loaded yet
            made(*arguments, **named)
        replay.answers = iter(())
