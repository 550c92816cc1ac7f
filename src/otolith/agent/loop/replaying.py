"""Repeating a run from any commit, on a fork: with another model, another prompt or other tools.

What the world was told is not told again: a call with effects that the run on record made after
that commit with the same arguments comes to what it came to then, also to the error; one that it
never made, or not so often, is refused, unless the caller says that effects may happen.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

from otolith.agent.lifecycle.values import thaw
from otolith.agent.loop.delegating import bound
from otolith.agent.loop.ledger import Entry, ledger_in
from otolith.agent.loop.looking import replies_in
from otolith.agent.loop.models.model import Model
from otolith.agent.loop.models.recording import ReplayModel
from otolith.agent.loop.orchestrator import Orchestrator
from otolith.agent.loop.outcome import Outcome
from otolith.agent.loop.signature import plain
from otolith.agent.loop.tools import KEY, Tool, Toolbox
from otolith.agent.session import Versioned
from otolith.core import Target
from otolith.errors import BadValue, Denied, Error


@dataclass(frozen=True, slots=True)
class Replay:
    """A run that was repeated."""

    outcome: Outcome
    state: Versioned
    """The fork that it is on."""
    replayed: int
    """How many answers came from the record."""
    asked: int
    """How many came from a model."""


def replay(
    orchestrator: Orchestrator,
    state: Versioned,
    *,
    at: Target,
    branch: str,
    model: Model | None = None,
    may_act: bool = False,
    **limits: Any,
) -> Replay:
    """Repeat a run from a commit on a new branch.

    Without `model`, questions that were asked before get the answers on record, and others go to
    the orchestrator's own model. With it, all go to that one. `may_act` lets effects happen that
    are not on record.

    Raises:
        KeyNotFound: there was no run at that commit.
        RefExists: there is such a branch.
    """
    goal, known = state.resolve(at), replies_in(state, orchestrator.name)
    before = {entry.key for entry in ledger_in(state.at(goal)) if entry.status != "begun"}
    ledger = [entry for entry in ledger_in(state) if entry.key not in before]
    fork = state.fork(branch, at=goal)
    asked: Any = ReplayModel(known, then=orchestrator.model) if model is None else _Counted(model)
    twin = bound(orchestrator, fork, orchestrator.name)
    twin.model = asked
    twin.tools = Toolbox(_recalling(tool, ledger, may_act=may_act) for tool in twin.tools.values())
    outcome = twin.resume(state.session, **limits)
    return Replay(outcome, fork, asked.replayed, asked.asked)


class _Counted:
    """A model, and how often it was asked."""

    replayed = 0

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name = model.name
        self.asked = 0

    def complete(self, *given: Any, **more: Any) -> Any:
        """Ask the model."""
        self.asked += 1
        return self._model.complete(*given, **more)


def _recalling(tool: Tool, ledger: list[Entry], *, may_act: bool) -> Tool:
    """Return a tool that remembers what its calls came to, in their order, and makes none."""
    if tool.effects == "none":
        return tool
    ended = [entry for entry in ledger if entry.tool == tool.name and entry.status != "begun"]

    def recall(**arguments: Any) -> Any:
        key = arguments.pop(KEY, None)
        given = tool.signature.arguments(plain(arguments))
        for at, entry in enumerate(ended):
            if _fits(tool, entry, given):
                del ended[at]
                if entry.error:
                    raise Error(entry.error)
                return thaw(entry.result)
        if not may_act:
            raise Denied(
                f"{tool.name} would act on the world, and this is a replay", hint="say may_act=True"
            )
        return tool.function(**arguments, **({KEY: key} if tool.takes_key else {}))

    twin = copy(tool)
    twin.function = recall
    return twin


def _fits(tool: Tool, entry: Entry, given: dict[str, Any]) -> bool:
    try:
        return tool.signature.arguments(entry.arguments) == given
    except BadValue:  # the tool takes something else by now
        return False
