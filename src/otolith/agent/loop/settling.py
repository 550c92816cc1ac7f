"""Settling: what nobody knows about effects is decided, and going back says what stays done.

A sub-agent that is not merged yet has its effects on its fork; they are found there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otolith.agent.loop.delegating import branch_of
from otolith.agent.loop.ledger import Entry, effects_after, refuse_forks
from otolith.agent.loop.looking import MAIN
from otolith.agent.loop.loose import LooseRun
from otolith.agent.loop.record import KeptRun
from otolith.agent.loop.signature import plain
from otolith.agent.loop.stepping import Stepping
from otolith.agent.session import Versioned
from otolith.core import Target
from otolith.errors import KeyNotFound, Unsupported

_OPEN = ("begun", "unknown")


class Settling(Stepping):
    """What a user decides about effects."""

    def unknown_effects(self, session: str = MAIN) -> list[Entry]:
        """Return the calls of which nobody knows whether they happened, also of sub-agents."""
        found: dict[str, Entry] = {}
        for run in _under_way(self._open(session)):
            found |= {entry.key: entry for entry in run.entries() if entry.status in _OPEN}
        return list(found.values())

    def settle(self, key: str, *, happened: bool, result: Any = None, session: str = MAIN) -> None:
        """Decide about a call of which nobody knows whether it happened.

        Raises:
            KeyNotFound: the ledger has no such call.
        """
        is_known = False
        for run in _under_way(self._open(session)):
            entry = run.entry(key)
            if entry is not None and entry.status in _OPEN:
                ended = entry.ended("done", result=plain(result), error="") if happened else None
                run.write(key, ended)
                is_known = True
        if not is_known:
            raise KeyNotFound(f"no call {key} is open", hint="unknown_effects() lists those")

    def is_handed_over(self, session: str = MAIN) -> bool:
        """Tell whether whoever asked for the last task was given what came of it."""
        return self._open(session).is_handed_over

    def hand_over(self, session: str = MAIN) -> None:
        """Note that the result of the last task is given to whoever asked for it."""
        self._open(session).hand_over()

    def rollback(self, target: Target, *, session: str = MAIN) -> list[Entry]:
        """Go back to an earlier commit; return the effects since, which stay in the world.

        Raises:
            Invalid: it is a commit of a sub-agent, on a fork.
        """
        state = self._open(session).state
        if not isinstance(state, Versioned):
            raise Unsupported("this run has no history", hint="give a store or a Versioned state")
        state.refresh()
        refuse_forks(state, state.resolve(target), self.name)
        left = effects_after(state, target)
        state.rollback(target)
        for entry in left:
            state.events.append(
                "effect_left", agent=self.name, tool=entry.tool, key=entry.key, status=entry.status
            )
        state.commit("effects that stay in the world")
        return left

    def _open(self, session: str) -> KeptRun | LooseRun:
        raise NotImplementedError


def _under_way(run: KeptRun | LooseRun) -> Iterator[KeptRun | LooseRun]:
    """Yield a run, and those of its sub-agents that are not merged yet."""
    yield run
    if not isinstance(run, KeptRun):
        return
    heads = run.state.repo.branches(run.session, scope=run.state.scope)
    for name, branch in run.forks(run.iteration).items():
        if branch in heads:
            yield from _under_way(KeptRun(branch_of(run.state, branch), name))
