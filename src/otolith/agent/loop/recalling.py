"""Tools that remember what their calls came to, and make none: for a run that is repeated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from threading import Lock
from typing import Any

from otolith.agent.lifecycle.values import thaw
from otolith.agent.loop.ledger import Entry
from otolith.agent.loop.signature import plain
from otolith.agent.loop.tools import KEY, Tool
from otolith.errors import BadValue, Denied, Error


class Recalled:
    """What the calls of one run with effects came to, in their order; each is recalled once."""

    def __init__(self, entries: Iterable[Entry], *, may_act: bool) -> None:
        self._may_act = may_act
        self._ended = [each for each in entries if each.status != "begun"]
        self._one_at_a_time = Lock()  # a step may call from several threads

    def tool(self, tool: Tool) -> Tool:
        """Return a tool that comes to what it came to; one without effects is called as ever."""
        if tool.effects == "none":
            return tool
        twin = copy(tool)
        twin.function = lambda **arguments: self._call(tool, arguments)
        twin.asks = lambda key, arguments: self._ask(tool, key, arguments)
        twin.retries = 0  # what failed then fails now, at once
        return twin

    def _call(self, tool: Tool, arguments: dict[str, Any]) -> Any:
        key = arguments.pop(KEY, None)
        entry = self._take(tool, tool.signature.arguments(plain(arguments)))
        if entry is not None:
            if entry.error:
                raise Error(entry.error)
            return thaw(entry.result)
        if not self._may_act:
            raise Denied(
                f"{tool.name} would act on the world, and this is a replay", hint="say may_act=True"
            )
        return tool.function(**arguments, **({KEY: key} if tool.takes_key else {}))

    def _take(self, tool: Tool, given: dict[str, Any]) -> Entry | None:
        """Return the first such call that was not recalled yet."""
        with self._one_at_a_time:
            for at, entry in enumerate(self._ended):
                if entry.tool == tool.name and _fits(tool, entry, given):
                    return self._ended.pop(at)
        return None

    def _ask(self, tool: Tool, key: str, arguments: Mapping[str, Any]) -> Any:
        """Decide about a call that had begun at the commit: the record has how it ended."""
        if not self._may_act or any(entry.key == key for entry in self._ended):
            return None
        if tool.asks is not None:
            return tool.asks(key, arguments)
        if tool.effects == "idempotent":
            return None
        raise Denied(f"how {tool.name} ended is not on record", hint="settle it in the run")


def _fits(tool: Tool, entry: Entry, given: dict[str, Any]) -> bool:
    try:
        return tool.signature.arguments(entry.arguments) == given
    except BadValue:  # the tool takes something else by now
        return False
