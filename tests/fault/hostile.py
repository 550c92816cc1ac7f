"""Names and data that somebody prepared: one list for every place that takes any."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from signal import ITIMER_REAL, SIGALRM, setitimer, signal
from typing import Any

from otolith.errors import Error

NASTY_NAMES: dict[str, str] = {
    "empty": "",
    "dot": ".",
    "dots": "..",
    "slash": "/",
    "up": "a/../b",
    "up and out": "../../../../tmp/otolith-was-here",
    "absolute": "/tmp/otolith-was-here",
    "backslash": "..\\..\\x",
    "nul": "a\0b",
    "newline": "a\nb",
    "carriage return": "a\rb",
    "escape": "\x1b[2J\x1b[31mred",
    "title": "\x1b]0;title\x07",
    "c1 control": "\x9b2Jx",
    "right to left": "a\u202egnp.exe",
    "isolate": "a\u2066b",
    "line separator": "a\u2028b",
    "300 letters": "x" * 300,
    "40000 letters": "y" * 40_000,
    "emoji": "👩‍👩‍👧",
    "device": "CON",
    "option": "-rf",
    "long option": "--help",
    "shell": "$(touch x)",
    "backticks": "`touch x`",
    "semicolon": "; touch x #",
    "script": "<script>alert(1)</script>",
    "attribute": '" onload="x',
    "quotes": "'\"",
    "entity": "&lt;",
    "leading dot": ".hidden",
    "trailing space": "a ",
    "percent": "%2e%2e",
    "format": "{0.__class__}%s%n",
    "unicode dots": "\uff0e\uff0e\uff0f",
    "glob": "*",
    "glob set": "[!a]?",
    "regex": "(a+)+$",
    "tilde": "~root",
    "dunder": "__class__",
    "import": "os:system",
    "at": "a@b:c~1^2",
    "sql": "'; drop table ref; --",
    "combining": "e\u0301" * 20,
    "zero width": "a\u200bb",
}  # fmt: skip
LONE_SURROGATE = "a\ud800b"


class Hang(BaseException):
    """It took too long; no handler of ours takes it for an error."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise Hang in what takes longer."""

    def late(*_: object) -> None:
        raise Hang

    before = signal(SIGALRM, late)
    setitimer(ITIMER_REAL, seconds)
    try:
        yield
    finally:
        setitimer(ITIMER_REAL, 0)
        signal(SIGALRM, before)


def nested(depth: int, around: Any = list) -> Any:
    """Return containers in one another."""
    value: Any = around()
    for _ in range(depth):
        value = [value] if around is list else {"a": value}
    return value


def circle() -> list[Any]:
    """Return a list that holds itself."""
    value: list[Any] = []
    value.append(value)
    return value


NASTY_DATA: list[Any] = [
    None, 0, 1, -1, 2**63, 2**300, 10**5000, 1.5, float("nan"), float("inf"), -0.0,
    "", "x", "a", "b", "#a", "²", "9" * 5000, "1.5", LONE_SURROGATE, "\0", "\x1b[2J", "." * 50_000,
    b"x", [], {}, (), [1], {"a": 1}, True, False, [None], "x" * 50_000,
    nested(5000), nested(5000, dict), nested(150), circle(), object(), int, {1: 2}, {None: 1},
    {("a",): 1}, set(), range(10**9), {"type": "text"}, {"type": "tool_use"}, {"type": "image"},
    {"@expr": "1+"}, {"@expr": "x"}, {"@expr": 5, "@lang": []}, {"@expr": "1", "@lang": "js"},
    {"@code": "x"}, {"@value": {}}, "initial", "deep", "parallel", "final", "history",
]  # fmt: skip


def places(document: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Yield every container in a document with each of its keys."""
    keys = list(document) if isinstance(document, dict) else range(len(document))
    for key in keys:
        yield document, key
        if isinstance(document[key], dict | list) and depth < 20:
            yield from places(document[key], depth + 1)


def copied(value: Any, depth: int = 0) -> Any:
    """Return a copy of the containers in a document."""
    if depth > 20:
        return value
    if type(value) is dict:
        return {key: copied(inner, depth + 1) for key, inner in value.items()}
    return [copied(inner, depth + 1) for inner in value] if type(value) is list else value


def mutants(document: Any, chance: random.Random, count: int) -> Iterator[Any]:
    """Yield copies of a document in which something is replaced, taken away or put beside."""
    for _ in range(count):
        found = copied(document)
        for _ in range(chance.randrange(1, 4)):
            known = list(places(found))
            if not known:
                break
            holder, key = chance.choice(known)
            what = chance.random()
            if what < 0.65:
                holder[key] = chance.choice(NASTY_DATA)
            elif what < 0.85:
                del holder[key]
            elif isinstance(holder, dict):
                holder[chance.choice([*NASTY_NAMES.values()])] = chance.choice(NASTY_DATA)
        yield found


def outcome(call: Any, *args: Any, seconds: float = 20.0) -> str:
    """Return "ok" or the kind of our error; what is neither is raised."""
    with within(seconds):
        try:
            call(*args)
        except Error as error:
            with suppress(AttributeError):
                return error.kind
        return "ok"
