"""Tools that remember what their calls came to, and make none: for a run that is repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from otolith.agent.lifecycle.values import thaw
from otolith.agent.loop.ledger import Entry
from otolith.agent.loop.signature import plain
from otolith.agent.loop.tools import KEY, Tool
from otolith.errors import BadValue, Denied, Error


def recalling(tool: Tool, ledger: Sequence[Entry], *, may_act: bool) -> Tool:
    """Return a tool that comes to what it came to; one without effects is called as ever."""
    if tool.effects == "none":
        return tool
    memory = _Recalled(tool, ledger, may_act=may_act)
    twin = copy(tool)
    twin.function, twin.asks = memory.call, memory.asks
    twin.retries = 0  # what failed then fails now, at once
    return twin


class _Recalled:
    """What the calls of one tool came to, in their order."""

    def __init__(self, tool: Tool, ledger: Sequence[Entry], *, may_act: bool) -> None:
        self._tool = tool
        self._may_act = may_act
        self._ended = [each for each in ledger if each.tool == tool.name and each.status != "begun"]

    def call(self, **arguments: Any) -> Any:
        """Return what the first such call came to that was not asked for yet."""
        tool, key = self._tool, arguments.pop(KEY, None)
        given = tool.signature.arguments(plain(arguments))
        for at, entry in enumerate(self._ended):
            if self._fits(entry, given):
                del self._ended[at]
                if entry.error:
                    raise Error(entry.error)
                return thaw(entry.result)
        if not self._may_act:
            raise Denied(
                f"{tool.name} would act on the world, and this is a replay", hint="say may_act=True"
            )
        return tool.function(**arguments, **({KEY: key} if tool.takes_key else {}))

    def asks(self, key: str, arguments: Mapping[str, Any]) -> Any:
        """Decide about a call that had begun at the commit: the record has how it ended."""
        tool = self._tool
        if not self._may_act or any(entry.key == key for entry in self._ended):
            return None
        if tool.asks is not None:
            return tool.asks(key, arguments)
        if tool.effects == "idempotent":
            return None
        raise Denied(f"how {tool.name} ended is not on record", hint="settle it in the run")

    def _fits(self, entry: Entry, given: dict[str, Any]) -> bool:
        try:
            return self._tool.signature.arguments(entry.arguments) == given
        except BadValue:  # the tool takes something else by now
            return False
