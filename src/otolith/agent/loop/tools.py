"""Tools: typed Python functions that a model may call, and what each does to the world.

    none         nothing that lasts: it may be called again after a crash, and nobody minds
    idempotent   the same key twice is once: after a crash it is called again with the same key
    once         it must not happen twice: after a crash `asks` is asked, or the user

A function with a parameter `idempotency_key` is given the key of the call; a model does not see it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias, overload

from otolith.agent.loop.signature import Signature
from otolith.errors import Invalid, KeyNotFound

Effects: TypeAlias = Literal["none", "idempotent", "once"]
EFFECTS = ("none", "idempotent", "once")
KEY = "idempotency_key"
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what providers accept

Asks: TypeAlias = "Callable[[str, Mapping[str, Any]], Any]"
"""Tells whether a call happened, given its key and arguments: what it returned, or True; if not,
None or False."""


class Tool:
    """A function that a model may call. Make one with `tool`, or `@agent.tool`."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        effects: Effects = "none",
        timeout_seconds: float | None = None,
        retries: int = 0,
        asks: Asks | None = None,
    ) -> None:
        """Make a tool of a function.

        Raises:
            Invalid: no schema can be made of its signature, or the settings contradict each other.
        """
        self.function = function
        self.signature = Signature(function, hidden=frozenset({KEY}))
        self.takes_key = KEY in self.signature.names
        self.name = name or self.signature.name
        self.description = self.signature.text if description is None else description
        self.effects = effects
        self.timeout_seconds = timeout_seconds
        self.retries = retries
        self.asks = asks
        self._check()

    def _check(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise Invalid(
                f"{self.name!r} cannot name a tool",
                hint="give name= with at most 64 of the letters a to z, digits, _ and -",
            )
        inner = inspect.unwrap(self.function)
        if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
            raise Invalid(
                f"{self.name} yields, and a tool returns", hint="return a list of what it yields"
            )
        if self.effects not in EFFECTS:
            raise Invalid(f"effects={self.effects!r}", hint=f"use one of {', '.join(EFFECTS)}")
        if self.effects == "once" and self.retries:
            raise Invalid(f"{self.name} must not happen twice", hint="leave out retries=")
        if self.retries < 0 or (self.timeout_seconds is not None and self.timeout_seconds <= 0):
            raise Invalid(f"{self.name}: a time-out is above 0, and retries are 0 or more")

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return self.signature.schema

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.name} effects={self.effects}>"


class Toolbox(Mapping[str, Tool]):
    """Tools by name."""

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for each in tools:
            self.add(each)

    def add(self, given: Tool | Callable[..., Any]) -> Tool:
        """Take a tool in, or a function as one.

        Raises:
            Invalid: there is another of this name.
        """
        found = given if isinstance(given, Tool) else Tool(given)
        if self._tools.get(found.name, found) is not found:
            raise Invalid(f"there is a tool {found.name} already", hint="give it another name=")
        self._tools[found.name] = found
        return found

    def find(self, name: str) -> Tool:
        """Return the tool of a name.

        Raises:
            KeyNotFound: there is none; the message is for the model to read.
        """
        if name in self._tools:
            return self._tools[name]
        near = get_close_matches(name, self._tools, n=1)
        known = ", ".join(self._tools) or "none"
        raise KeyNotFound(
            f"there is no tool {name!r}",
            hint=f"did you mean {near[0]}?" if near else f"the tools are: {known}",
        )

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


@overload
def tool(function: Callable[..., Any]) -> Tool: ...
@overload
def tool(**settings: Any) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(function: Any = None, **settings: Any) -> Any:
    """Make a tool of a function, as a decorator: `@tool` or `@tool(effects="once")`."""
    if function is not None:
        return Tool(function, **settings)
    return lambda found: Tool(found, **settings)
