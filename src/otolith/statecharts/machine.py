"""The machine: a chart that runs in a state, and whose steps are part of the state's commits.

`send` stages a step, `state.commit` stores it, `carry_out` does what committed steps ask for. What
a state can do, a machine in it can: be read at a commit, forked, rolled back and merged.

Effects are carried out after the commit that asks for them, and the outcome of each is committed.
An effect is in the outbox of a commit or was never asked for, and it leaves the outbox in the
commit that records its outcome: none is lost. Whether one can happen twice depends on its handler:

    repeatable        (the default) If the process dies after the effect and before its commit, it
                      is carried out again, with the same key, by which the receiver can see that it
                      is the same one.
    not repeatable    That it is begun is committed first. If the process dies then, its outcome is
                      unknown here: the handler's `asks` function is called, if there is one;
                      otherwise the effect is reported as unknown, and `machine.settle` decides.

No software can promise more: between doing something outside and recording it, the power can fail.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from otolith.core import Branch, StateReader, digest
from otolith.errors import Invalid, KeyNotFound, ReadOnly, Uncommitted
from otolith.statecharts.chart import Chart
from otolith.statecharts.engine.compiled_chart import EffectHandler
from otolith.statecharts.engine.step import StepResult, step
from otolith.statecharts.snapshot import ChartEvent, ChartSnapshot, Effect
from otolith.statecharts.storage import LoggedEvent, MachineStorage, PendingEffect
from otolith.types import Clock

HandlerFunction: TypeAlias = Callable[[Effect], Any]
"""Carries out an effect; what it returns, or awaits, is the answer of a service."""

_KEY_BYTES = 16
_logger = logging.getLogger("otolith.lifecycle")


class Machine:
    """A chart that runs in a state: `state.lifecycle(chart)`."""

    def __init__(
        self,
        state: StateReader,
        chart: Chart,
        *,
        name: str = "main",
        data: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Find the machine of this name in a state, or start one.

        Raises:
            KeyNotFound: there is none, and the state is read-only.
            ChartMismatch: it runs another chart, and no migration leads to this one.
        """
        if not name or "/" in name:
            raise Invalid(f"{name!r} cannot name a machine", hint="use a word without a slash")
        self.state = state
        self.chart = chart
        self.name = name
        self._clock = clock
        self._storage = MachineStorage(state, name)
        self._cached: tuple[bytes | None, ChartSnapshot] | None = None
        if self._storage.cell is None:
            self._start(data)
        elif data is not None:
            raise Invalid(
                f"machine {name} has started already, with its own data",
                hint="leave out data=, or give the machine another name",
            )
        self.snapshot  # noqa: B018  # raises at once if it is of another chart

    def __repr__(self) -> str:
        return f"<Machine {self.name} of {self.chart.name}: {self.phase}>"

    # ------------------------------------------------------------ what it is

    @property
    def snapshot(self) -> ChartSnapshot:
        """The running chart as one value."""
        with self.state.lock:
            cell = self._storage.cell
            if self._cached is None or self._cached[0] != cell:
                found = self._storage.snapshot()
                if found is None:
                    raise KeyNotFound(
                        f"machine {self.name} does not exist in this state any more",
                        hint="it was started after this commit, or on another branch",
                    )
                self._cached = cell, self.chart.migrate(found)
            return self._cached[1]

    @property
    def phase(self) -> str:
        """The active state; of several regions, their states joined by a comma."""
        return self.snapshot.phase

    @property
    def configuration(self) -> tuple[str, ...]:
        """The active states that have no active child."""
        return self.snapshot.configuration

    @property
    def data(self) -> Mapping[str, Any]:
        """The data of the chart, which only its own actions change."""
        return self.snapshot.data

    @property
    def is_done(self) -> bool:
        """Whether it has reached a final state, or failed."""
        return self.snapshot.status != "running"

    @property
    def output(self) -> Any:
        """The output of the chart, once it is done."""
        return self.snapshot.output

    @property
    def due(self) -> int | None:
        """When the next timer is due, in microseconds since 1970; None if there is none."""
        return self.snapshot.next_due

    def allowed(self) -> tuple[str, ...]:
        """Return the events that active states have transitions for; guards are not asked."""
        return self.chart.allowed(self.snapshot)

    def can(self, event: str, /, **data: Any) -> bool:
        """Return whether an event would be taken now; guards are asked, and nothing changes."""
        return self.chart.can(self.snapshot, event, data or None)

    def log(self) -> list[LoggedEvent]:
        """Return the events of its past, the oldest first."""
        with self.state.lock:
            return self._storage.log()

    def outbox(self) -> list[PendingEffect]:
        """Return the effects that are not carried out yet, the oldest first."""
        with self.state.lock:
            return list(self._storage.outbox().values())

    # ------------------------------------------------------------ steps

    def send(self, event: str | ChartEvent, /, **data: Any) -> StepResult:
        """Stage the step that an event makes; `state.commit()` stores it.

        Raises:
            IllegalTransition: the chart does not take it now; the error lists what it takes.
            StepFailed: a guard or action failed; the machine stays where it was.
        """
        if isinstance(event, str):
            event = ChartEvent(event, data or None)
        elif data:
            raise Invalid("a ChartEvent has its own data", hint="leave out the keywords")
        return self._step(event, is_strict=self.chart.is_strict)

    def answer(self, event: ChartEvent) -> StepResult:
        """Stage the step that an answer from outside makes; an unexpected one is dropped."""
        return self._step(event, is_strict=False)

    def advance(self, now: int | None = None) -> StepResult:
        """Stage what the passing of time does: the timers that came due, each at its own time."""
        with self._writing() as state:
            before = self.snapshot
            result = self.chart.advance(before, self._now() if now is None else now)
            if result.trace or result.effects:
                self._stage(state, result, before, LoggedEvent("", None, result.snapshot.time))
        return result

    # ------------------------------------------------------------ effects

    def carry_out(
        self,
        handlers: Mapping[str, HandlerFunction] | None = None,
        *,
        limit: int | None = None,
        on_progress: Callable[[Effect], None] | None = None,
    ) -> EffectReport:
        """Do what committed steps ask for, and commit the outcome of each effect.

        An effect is carried out by the handler of its name, or of its kind (`"send"`, `"emit"`,
        `"log"`, `"stop"`): one of `handlers`, or what `@chart.effect` registered. What a service
        returns goes back to the chart as an event, and the effects of that are carried out too, up
        to `limit` effects. The head of this module says what holds if the process dies in between.

        Raises:
            Uncommitted: there are edits that are not committed.
        """
        if not self._branch().is_clean:
            raise Uncommitted(
                "there are edits that are not committed, and effects follow commits",
                hint="call state.commit() first",
            )
        return EffectRunner(self, handlers or {}, limit=limit, on_progress=on_progress).run()

    def settle(self, key: str, *, happened: bool, result: Any = None) -> None:
        """Decide about an effect that was begun and whose outcome is unknown, and commit that.

        Raises:
            KeyNotFound: no such effect is pending.
        """
        pending = {each.effect.key: each for each in self.outbox()}.get(key)
        if pending is None:
            hint = "machine.outbox() lists the pending ones"
            raise KeyNotFound(f"no effect {key} is pending", hint=hint)
        effect = pending.effect
        if not happened:
            self.change_outbox({key: pending._replace(is_begun=False)})
            self.commit(f"{effect.name} did not happen")
            return
        self.change_outbox({key: None})
        if effect.kind == "invoke":
            self.answer(ChartEvent(f"done.invoke.{effect.id}", result, invokeid=effect.id))
        self.commit(f"{effect.name} did happen")

    def commit(self, message: str) -> None:
        """Commit what is staged, as the outcome of an effect."""
        self._branch().commit(message, kind="effect")

    def change_outbox(self, changes: Mapping[str, PendingEffect | None]) -> None:
        """Stage the outcome of effects: a changed entry, or None to remove one."""
        with self._writing():
            self._storage.change_outbox(changes)

    # ------------------------------------------------------------ internals

    def _start(self, data: Mapping[str, Any] | None) -> None:
        """Stage the first snapshot."""
        if not isinstance(self.state, Branch):
            raise KeyNotFound(
                f"machine {self.name} does not exist in this state",
                hint="it was started after this commit",
            )
        with self._writing() as state:
            session = f"{state.ref}#{self.name}"
            first = self.chart.start(data, now=self._now(), session=session)
            self._stage(state, first, None, None)

    def _step(self, event: ChartEvent, *, is_strict: bool) -> StepResult:
        """Stage a step; an event that changes nothing leaves no trace in the log."""
        with self._writing() as state:
            before = self.snapshot
            result = step(self.chart.compiled, before, event, self._now(), is_strict=is_strict)
            if result.trace or result.effects or result.snapshot.queue != before.queue:
                logged = LoggedEvent(event.name, event.data, result.snapshot.time)
                self._stage(state, result, before, logged)
        return result

    def _stage(
        self,
        state: Branch,
        result: StepResult,
        before: ChartSnapshot | None,
        logged: LoggedEvent | None,
    ) -> None:
        """Stage a step; its effects get keys that only the same step from the same commit has."""
        head = "" if state.head is None else state.head.id
        cause = [] if logged is None else [logged.event, logged.data]
        pending: dict[str, PendingEffect | None] = {}
        for position, effect in enumerate(result.effects):
            order = result.snapshot.seq, position
            content = [state.ref, self.name, head, *order, *cause]
            key = digest(state.cells.encoding.encode(content))[:_KEY_BYTES].hex()
            pending[key] = PendingEffect(replace(effect, key=key), order)
        self._storage.stage(result.snapshot, before=before, logged=logged, outbox=pending)
        self._cached = self._storage.cell, result.snapshot

    def _now(self) -> int:
        return 0 if self._clock is None else self._clock()

    @contextmanager
    def _writing(self) -> Iterator[Branch]:
        """Hold the lock of the branch; raise ReadOnly if the state cannot be written."""
        state = self._branch()
        with state.lock:
            yield state

    def _branch(self) -> Branch:
        if not isinstance(self.state, Branch):
            raise ReadOnly(
                "this machine is read-only: its state is at a commit",
                hint="fork the state at this commit, and continue there",
            )
        return self.state


# ---------------------------------------------------------------- carrying out effects


@dataclass(frozen=True, slots=True)
class EffectReport:
    """The outcome of the effects that were pending."""

    done: tuple[Effect, ...] = ()
    failed: tuple[PendingEffect, ...] = ()
    """Those that failed, and why; they stay pending, and the next round tries them again."""
    unknown: tuple[Effect, ...] = ()
    """Those that were begun and may or may not have happened."""
    unhandled: tuple[Effect, ...] = ()
    """Those without a handler; they stay pending."""


@dataclass
class EffectRunner:
    """One round over the outbox: every pending effect, and those that their answers cause."""

    machine: Machine
    handlers: Mapping[str, HandlerFunction]
    limit: int | None = None
    on_progress: Callable[[Effect], None] | None = None
    done: list[Effect] = field(default_factory=list)
    failed: list[PendingEffect] = field(default_factory=list)
    unknown: list[Effect] = field(default_factory=list)
    unhandled: list[Effect] = field(default_factory=list)
    is_commit_due: bool = False
    """Effects were done that cannot fail and are committed together, at the end."""

    def run(self) -> EffectReport:
        """Carry out the pending effects, the oldest first."""
        tried: set[str] = set()
        while self.limit is None or len(self.done) < self.limit:
            outbox = self.machine.outbox()
            pending = next((each for each in outbox if each.effect.key not in tried), None)
            if pending is None:
                break
            effect = pending.effect
            tried.add(effect.key)
            handler = self._handler(effect)
            if handler is None:
                self.unhandled.append(effect)
            elif handler.function in _BUILT_IN.values():
                handler.function(effect)
                self.machine.change_outbox({effect.key: None})
                self.done.append(effect)
                self.is_commit_due = True
            else:
                self._carry_out(pending, handler)
        if self.is_commit_due:
            self.machine.commit("carry out what needs no answer")
        return EffectReport(
            tuple(self.done), tuple(self.failed), tuple(self.unknown), tuple(self.unhandled)
        )

    def _handler(self, effect: Effect) -> EffectHandler | None:
        """Return how an effect is carried out: by its name, or by its kind."""
        given = self.handlers.get(effect.name)
        if given is None and effect.kind in {"call", "invoke", "send", "emit"}:
            registered = self.machine.chart.bindings.effects.get(effect.name)
            if registered is not None:
                return registered
        function = given or self.handlers.get(effect.kind) or _BUILT_IN.get(effect.kind)
        return None if function is None else EffectHandler(function)

    def _carry_out(self, pending: PendingEffect, handler: EffectHandler) -> None:
        """Call the handler of an effect, as often as it may be, and commit the outcome."""
        effect = pending.effect
        if self.on_progress is not None:
            self.on_progress(effect)
        if pending.is_begun:
            if handler.asks is None:
                self.unknown.append(effect)
                return
            answer = handler.asks(effect)
            if answer is not None and answer is not False:
                self._finish(effect, None if answer is True else answer)
                return
        elif not handler.is_repeatable:
            pending = pending._replace(is_begun=True)
            self.machine.change_outbox({effect.key: pending})
            self._commit(f"begin {effect.name}")
        for _ in range(1 + (handler.retry if handler.is_repeatable else 0)):
            try:
                result = _call(handler, effect)
            except Exception as error:  # noqa: BLE001  # whatever a user's function raises
                message = f"{type(error).__name__}: {error}"
                pending = pending._replace(tries=pending.tries + 1, error=message)
            else:
                self._finish(effect, result)
                return
        self._fail(pending)

    def _finish(self, effect: Effect, result: Any) -> None:
        """Remove an effect that happened, and send the answer of a service to the chart."""
        self.machine.change_outbox({effect.key: None})
        if effect.kind == "invoke":
            answer = ChartEvent(f"done.invoke.{effect.id}", result, invokeid=effect.id)
            self.machine.answer(answer)
        self._commit(f"carry out {effect.name}")
        self.done.append(effect)

    def _fail(self, pending: PendingEffect) -> None:
        """Send the failure to the chart if it handles it; otherwise the effect stays pending."""
        effect = pending.effect
        is_service = effect.kind == "invoke"
        event = f"error.invoke.{effect.id}" if is_service else f"error.effect.{effect.name}"
        self.failed.append(pending)
        if is_service or self.machine.can(event):
            self.machine.change_outbox({effect.key: None})
            details = {"error": pending.error, "key": effect.key}
            self.machine.answer(ChartEvent(event, details, invokeid=effect.id))
        else:
            self.machine.change_outbox({effect.key: pending})
        self._commit(f"{effect.name} failed")

    def _commit(self, message: str) -> None:
        self.is_commit_due = False
        self.machine.commit(message)


def _call(handler: EffectHandler, effect: Effect) -> Any:
    """Call a handler; the result of an async one is awaited, up to its timeout."""
    result = handler.function(effect)
    if not inspect.isawaitable(result):
        return result

    async def within_timeout() -> Any:
        async with asyncio.timeout(handler.timeout):
            return await result

    return asyncio.run(within_timeout())


def _log(effect: Effect) -> None:
    """Write the label and the value to the logger of this module."""
    _logger.info("%s %s", effect.name, dict(effect.params))


def _ignore(effect: Effect) -> None:
    """Do nothing: no listener is registered, or the service to stop has already ended."""


_BUILT_IN: dict[str, HandlerFunction] = {"log": _log, "emit": _ignore, "stop": _ignore}
