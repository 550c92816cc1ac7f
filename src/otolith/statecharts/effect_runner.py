"""Carrying out effects: after the commit that asks for them, with what came of each committed.

An effect is in the outbox of a commit, or it was never asked for; it leaves the outbox in the
commit that says what came of it. So none is lost. Whether one is done twice depends on what dies:

    repeatable        (the default) If the process dies after the effect and before its commit, it
                      is carried out again, with the same key. Whoever receives it can see by the
                      key that it is the same one.
    not repeatable    That it is begun is committed first. If the process dies then, nobody here can
                      know whether it happened: `asks` is asked, if there is such a function;
                      otherwise the effect is reported as unknown, and `machine.settle` decides.

No software can promise more: between doing a thing outside and writing that down, the power can go.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from otolith.statecharts.engine.compiled_chart import Bindings, Effective
from otolith.statecharts.engine.step import Step
from otolith.statecharts.snapshot import Effect, Event
from otolith.statecharts.storage import Waiting

Handler: TypeAlias = Callable[[Effect], Any]
"""Carries out an effect; what it returns, or awaits, is the answer of a service."""

_logger = logging.getLogger("otolith.lifecycle")


class Moving(Protocol):
    """The machine whose effects are carried out."""

    def outbox(self) -> list[Waiting]: ...
    def can(self, event: str, /) -> bool: ...
    def answer(self, event: Event) -> Step: ...
    def change_outbox(self, changes: Mapping[str, Waiting | None]) -> None: ...
    def commit(self, message: str) -> None: ...


@dataclass(frozen=True, slots=True)
class EffectReport:
    """What became of the effects that waited."""

    done: tuple[Effect, ...] = ()
    failed: tuple[Waiting, ...] = ()
    """Those that failed, and why; they wait, and are tried again next time."""
    unknown: tuple[Effect, ...] = ()
    """Those that were begun and may have happened, or not."""
    unhandled: tuple[Effect, ...] = ()
    """Those that nobody is registered for; they wait."""


class EffectRunner:
    """One round: every effect that waits, and those that follow from what they came to."""

    def __init__(
        self,
        machine: Moving,
        bindings: Bindings,
        handlers: Mapping[str, Handler],
        *,
        limit: int | None = None,
        on_progress: Callable[[Effect], None] | None = None,
    ) -> None:
        self._machine = machine
        self._bindings = bindings
        self._handlers = handlers
        self._left = limit
        self._on_progress = on_progress
        self._tried: set[str] = set()
        self._has_passed = False
        self._done: list[Effect] = []
        self._failed: list[Waiting] = []
        self._unknown: list[Effect] = []
        self._unhandled: list[Effect] = []

    def run(self) -> EffectReport:
        """Carry out what waits, the oldest first."""
        while (waiting := self._next()) is not None:
            self._tried.add(waiting.effect.key)
            way = self._way(waiting.effect)
            if way is None:
                self._unhandled.append(waiting.effect)
            elif way.function in _QUIET.values():
                self._pass(waiting.effect, way)
            else:
                self._carry(waiting, way)
        if self._has_passed:
            self._machine.commit("carry out what needs no answer")
        return EffectReport(
            tuple(self._done), tuple(self._failed), tuple(self._unknown), tuple(self._unhandled)
        )

    def _next(self) -> Waiting | None:
        if self._left is not None and len(self._done) >= self._left:
            return None
        fresh = (each for each in self._machine.outbox() if each.effect.key not in self._tried)
        return next(fresh, None)

    def _way(self, effect: Effect) -> Effective | None:
        """Return how an effect is carried out: by its name, or by its kind."""
        handler = self._handlers.get(effect.name)
        if handler is not None:
            return Effective(handler)
        known = self._bindings.effects.get(effect.name) if effect.kind in _NAMED else None
        if known is not None:
            return known
        handler = self._handlers.get(effect.kind, _QUIET.get(effect.kind))
        return None if handler is None else Effective(handler)

    def _pass(self, effect: Effect, way: Effective) -> None:
        """Do what is done here and cannot fail; it is committed with whatever is next."""
        way.function(effect)
        self._machine.change_outbox({effect.key: None})
        self._done.append(effect)
        self._has_passed = True

    def _carry(self, waiting: Waiting, way: Effective) -> None:
        effect = waiting.effect
        if self._on_progress is not None:
            self._on_progress(effect)
        if waiting.is_begun:
            if way.asks is None:
                self._unknown.append(effect)
                return
            answer = way.asks(effect)
            if answer is not None and answer is not False:
                self._finish(effect, None if answer is True else answer)
                return
        elif not way.is_repeatable:
            waiting = waiting._replace(is_begun=True)
            self._machine.change_outbox({effect.key: waiting})
            self._commit(f"begin {effect.name}")
        self._try(waiting, way)

    def _try(self, waiting: Waiting, way: Effective) -> None:
        effect, error = waiting.effect, ""
        for _ in range(1 + (way.retry if way.is_repeatable else 0)):
            try:
                result = _called(way, effect)
            except Exception as failure:  # noqa: BLE001  # whatever a user's function raises
                error = f"{type(failure).__name__}: {failure}"
                waiting = waiting._replace(tries=waiting.tries + 1, error=error)
            else:
                self._finish(effect, result)
                return
        self._fail(waiting)

    def _finish(self, effect: Effect, result: Any) -> None:
        self._machine.change_outbox({effect.key: None})
        if effect.kind == "invoke":
            self._machine.answer(Event(f"done.invoke.{effect.id}", result, invokeid=effect.id))
        self._commit(f"carry out {effect.name}")
        self._done.append(effect)

    def _fail(self, waiting: Waiting) -> None:
        """Tell the chart, if it listens; otherwise the effect waits for the next time."""
        effect, about = waiting.effect, {"error": waiting.error, "key": waiting.effect.key}
        is_service = effect.kind == "invoke"
        event = f"error.invoke.{effect.id}" if is_service else f"error.effect.{effect.name}"
        self._failed.append(waiting)
        if is_service or self._machine.can(event):
            self._machine.change_outbox({effect.key: None})
            self._machine.answer(Event(event, about, invokeid=effect.id))
        else:
            self._machine.change_outbox({effect.key: waiting})
        self._commit(f"{effect.name} failed")

    def _commit(self, message: str) -> None:
        self._has_passed = False
        self._machine.commit(message)


def _called(way: Effective, effect: Effect) -> Any:
    result = way.function(effect)
    if not inspect.isawaitable(result):
        return result
    return asyncio.run(_within(result, way.timeout))


async def _within(result: Any, seconds: float | None) -> Any:
    async with asyncio.timeout(seconds):
        return await result


def _log(effect: Effect) -> None:
    _logger.info("%s %s", effect.name, dict(effect.params))


def _nothing(effect: Effect) -> None:
    """Do nothing: nobody listens, or what is to be stopped has ended."""


_NAMED = frozenset({"call", "invoke", "send", "emit"})
_QUIET: dict[str, Handler] = {"log": _log, "emit": _nothing, "stop": _nothing}
