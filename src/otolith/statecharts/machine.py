"""The machine: a chart that runs in a state, and whose steps are part of the state's commits.

`send` stages a step, `state.commit` stores it, `carry_out` does what committed steps ask for. What
a state can do, a machine in it can: be read at a commit, forked, rolled back and merged.

Effects are carried out after the commit that asks for them, and the outcome of each is committed.
An effect is in the outbox of a commit or was never asked for, and it leaves the outbox in the
commit that records its outcome: none is lost. Whether one can happen twice depends on its handler:

    repeatable        (the default) If the process dies after the effect and before its commit, it
                      is carried out again, with the same key, by which the receiver can see that it
                      is the same one.
    not repeatable    Its key is claimed first, beside the branches of the session, where no fork,
                      merge or undo can lose it (`core/attempts.py`). Whoever finds the effect
                      pending on another branch learns how it ended, and does not call the handler.
                      If the process dies in between, the outcome is unknown: the handler's `asks`
                      function is called, if there is one; otherwise the effect is reported as
                      unknown, and `machine.settle` decides.

No software can promise more: between doing something outside and recording it, the power can fail.

Several processes may carry out one outbox. An outcome is staged on the current head, and again on
the next one if another process was faster (`Branch.commit_change`): outcomes are never merged.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from otolith.core import Attempt, Attempts, Branch, StateReader, digest
from otolith.errors import Busy, Conflict, Invalid, KeyNotFound, ReadOnly, Uncommitted
from otolith.owners import is_owner_alive, register_owner
from otolith.shapes import check_argument
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
        given: object = chart
        if not isinstance(given, Chart):
            hint = "make one with Chart.load or Chart.from_data; of a ChartClass, pass its .chart"
            raise Invalid(f"a machine runs a Chart, got {str(given)[:80]!r}", hint=hint)
        check_argument(name, "name", str, "a text")
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
        """Return the effects that are not carried out yet, the oldest first.

        Of a current state, `is_begun` also tells what was begun on another branch, or undone.
        """
        pending = self.pending()
        if isinstance(self.state, Branch):
            for key, each in pending.items():
                attempt = None if each.is_begun else self.attempts(each.effect).find(key)
                if attempt is not None and attempt.status != "done":
                    pending[key] = each._replace(is_begun=True, error=attempt.error)
        return list(pending.values())

    def pending(self) -> dict[str, PendingEffect]:
        """Return the effects that are pending in this state by key, as they are stored."""
        with self.state.lock:
            return self._storage.outbox()

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
            result = self.chart.advance(before, self.now() if now is None else now)
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

        The decision holds on every branch on which the effect is pending.

        Raises:
            KeyNotFound: no such effect is pending.
            Busy: a process that is alive is in the middle of it.
            Conflict: another process has decided, or carried it out, in the meantime.
        """
        check_argument(key, "key", str, "the key of an effect")
        self._branch().refresh()
        pending = self.pending().get(key)
        if pending is None:
            hint = "machine.outbox() lists the pending ones"
            raise KeyNotFound(f"no effect {key} is pending", hint=hint)
        effect, attempts = pending.effect, self.attempts(pending.effect)
        known = attempts.find(key)
        if known is not None and known.status == "begun" and is_owner_alive(known.by):
            raise Busy(f"{effect.name} is being carried out", hint="let it end, then look again")
        ended = _done(known or Attempt("begun"), effect, result) if happened else None
        is_over = known is not None and known.status == "done"
        if is_over or not attempts.swap(key, known, ended):
            raise Conflict(
                f"{effect.name} was carried out or settled in the meantime",
                hint="machine.carry_out() takes over how it ended",
            )
        if happened:
            self.record(key, lambda pending: self.end(effect, result), f"{effect.name} did happen")
        else:
            self.record(key, self._reopen, f"{effect.name} did not happen")

    def record(
        self,
        key: str,
        change: Callable[[PendingEffect], None],
        message: str,
        *,
        removed: Iterable[str] = (),
    ) -> None:
        """Commit the outcome of an effect, and that others are removed, as far as they are pending.

        `change` stages the outcome, and does it again if another process has committed meanwhile.
        """

        def stage() -> bool:
            pending = self.pending()
            self.change_outbox({each: None for each in removed if each in pending})
            if key in pending:
                change(pending[key])
            return key in pending or not pending.keys().isdisjoint(removed)

        state = self._branch()
        if not state.commit_change(stage, message, kind="effect") and not state.is_clean:
            state.commit(message, kind="effect")  # what the handler has staged

    def end(self, effect: Effect, result: Any) -> None:
        """Stage that an effect happened, and send the answer of a service to the chart."""
        self.change_outbox({effect.key: None})
        if effect.kind == "invoke":
            answer = ChartEvent(f"done.invoke.{effect.id}", result, invokeid=effect.id)
            self.answer(answer)

    def attempts(self, effect: Effect) -> Attempts:
        """Return the attempts of the session in which the machine was started."""
        return self._branch().attempts(effect.session.partition("#")[0])

    def change_outbox(self, changes: Mapping[str, PendingEffect | None]) -> None:
        """Stage the outcome of effects: a changed entry, or None to remove one."""
        with self._writing():
            self._storage.change_outbox(changes)

    def _reopen(self, pending: PendingEffect) -> None:
        """Stage that an effect was not begun."""
        self.change_outbox({pending.effect.key: pending._replace(is_begun=False)})

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
            first = self.chart.start(data, now=self.now(), session=session)
            self._stage(state, first, None, None)

    def _step(self, event: ChartEvent, *, is_strict: bool) -> StepResult:
        """Stage a step; an event that changes nothing leaves no trace in the log."""
        with self._writing() as state:
            before = self.snapshot
            result = step(self.chart.compiled, before, event, self.now(), is_strict=is_strict)
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
        """Stage a step; its effects get keys that only the same step from the same commit has.

        A step before the first commit is identified by its time: a session that is made again under
        the name of a deleted one has other keys.
        """
        head = result.snapshot.time if state.head is None else state.head.id
        cause = [] if logged is None else [logged.event, logged.data]
        pending: dict[str, PendingEffect | None] = {}
        for position, effect in enumerate(result.effects):
            order = result.snapshot.seq, position
            content = [state.ref, self.name, head, *order, *cause]
            key = digest(state.cells.encoding.encode(content))[:_KEY_BYTES].hex()
            pending[key] = PendingEffect(replace(effect, key=key), order)
        self._storage.stage(result.snapshot, before=before, logged=logged, outbox=pending)
        self._cached = self._storage.cell, result.snapshot

    def now(self) -> int:
        """Return the time, in microseconds since 1970; 0 without a clock."""
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
    busy: tuple[Effect, ...] = ()
    """Those that another process, or another branch, is in the middle of; they stay pending."""


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
    busy: list[Effect] = field(default_factory=list)
    silent: set[str] = field(default_factory=set)
    """Keys of effects that were done here and cannot fail: the next commit removes them."""
    owner: str = ""

    def run(self) -> EffectReport:
        """Carry out the pending effects, the oldest first."""
        with register_owner() as self.owner:
            self._run()
        return EffectReport(
            tuple(self.done),
            tuple(self.failed),
            tuple(self.unknown),
            tuple(self.unhandled),
            tuple(self.busy),
        )

    def _run(self) -> None:
        state, tried = self.machine.state, set[str]()
        assert isinstance(state, Branch)
        while self.limit is None or len(self.done) < self.limit:
            state.refresh()
            outbox = self.machine.pending()
            pending = next((each for key, each in outbox.items() if key not in tried), None)
            if pending is None:
                break
            effect = pending.effect
            tried.add(effect.key)
            handler = self._handler(effect)
            if handler is None:
                self.unhandled.append(effect)
            elif handler.function in _BUILT_IN.values():
                handler.function(effect)
                self.silent.add(effect.key)
                self.done.append(effect)
            else:
                self._carry_out(pending, handler)
        if self.silent:
            self._record("", lambda pending: None, "carry out what needs no answer")

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
        """Carry out an effect as often as it may be, and commit the outcome."""
        if self.on_progress is not None:
            self.on_progress(pending.effect)
        if pending.is_begun or not handler.is_repeatable:
            self._carry_out_once(pending, handler)
            return
        for _ in range(1 + handler.retry):
            try:
                result = _call(handler, pending.effect)
            except Exception as error:  # noqa: BLE001  # whatever a user's function raises
                pending = pending._replace(tries=pending.tries + 1, error=_message(error))
            else:
                self._finish(pending.effect, result)
                return
        self._fail(pending)

    def _carry_out_once(self, pending: PendingEffect, handler: EffectHandler) -> None:
        """Claim the key of an effect and call its handler, or learn how it ended elsewhere."""
        effect, attempts = pending.effect, self.machine.attempts(pending.effect)
        claimed = attempts.find(effect.key)
        known = Attempt("unknown") if claimed is None and pending.is_begun else claimed
        if known is not None:
            if known.status == "done":
                self._finish(effect, known.result)
                return
            if known.status == "begun" and is_owner_alive(known.by):
                self.busy.append(effect)
                return
            if known.status == "failed" and not pending.is_begun:
                self._fail(pending._replace(is_begun=True, error=known.error))
                return
            if handler.asks is None:
                self.unknown.append(effect)
                return
        claim = Attempt("begun", self.owner, self.machine.now())
        answer = None if known is None or handler.asks is None else handler.asks(effect)
        if answer is not None and answer is not False:
            result = None if answer is True else answer
            attempts.swap(effect.key, claimed, _done(claim, effect, result))
            self._finish(effect, result)
        elif attempts.swap(effect.key, claimed, claim):
            self._call_once(pending, handler, claim)
        else:
            self.busy.append(effect)  # another one was faster

    def _call_once(self, pending: PendingEffect, handler: EffectHandler, claim: Attempt) -> None:
        """Call the handler of a claimed effect, and record the outcome for all branches first."""
        effect, attempts = pending.effect, self.machine.attempts(pending.effect)
        try:
            result = _call(handler, effect)
        except Exception as error:  # noqa: BLE001  # whatever a user's function raises
            message, tries = _message(error), pending.tries + 1
            attempts.swap(effect.key, claim, claim.ended("failed", error=message))
            self._fail(pending._replace(is_begun=True, tries=tries, error=message))
        else:
            attempts.swap(effect.key, claim, _done(claim, effect, result))
            self._finish(effect, result)

    def _finish(self, effect: Effect, result: Any) -> None:
        """Remove an effect that happened, and send the answer of a service to the chart."""
        machine = self.machine
        self._record(
            effect.key, lambda pending: machine.end(effect, result), f"carry out {effect.name}"
        )
        self.done.append(effect)

    def _fail(self, failed: PendingEffect) -> None:
        """Send the failure to the chart if it handles it; otherwise the effect stays pending."""
        machine, effect = self.machine, failed.effect
        is_service = effect.kind == "invoke"
        event = f"error.invoke.{effect.id}" if is_service else f"error.effect.{effect.name}"

        def change(pending: PendingEffect) -> None:
            if is_service or machine.can(event):
                machine.change_outbox({effect.key: None})
                details = {"error": failed.error, "key": effect.key}
                machine.answer(ChartEvent(event, details, invokeid=effect.id))
            else:
                machine.change_outbox({effect.key: failed})

        self.failed.append(failed)
        self._record(effect.key, change, f"{effect.name} failed")

    def _record(self, key: str, change: Callable[[PendingEffect], None], message: str) -> None:
        """Commit an outcome, and with it those of effects that needed no answer."""
        self.machine.record(key, change, message, removed=self.silent)
        self.silent = set()


def _call(handler: EffectHandler, effect: Effect) -> Any:
    """Call a handler; the result of an async one is awaited, up to its timeout."""
    result = handler.function(effect)
    if not inspect.isawaitable(result):
        return result

    async def within_timeout() -> Any:
        async with asyncio.timeout(handler.timeout):
            return await result

    return asyncio.run(within_timeout())


def _done(attempt: Attempt, effect: Effect, result: Any) -> Attempt:
    """Return an attempt that ended well; only what a service returns is used again."""
    return attempt.ended("done", result=result if effect.kind == "invoke" else None)


def _message(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".encode(errors="replace").decode()


def _log(effect: Effect) -> None:
    """Write the label and the value to the logger of this module."""
    _logger.info("%s %s", effect.name, dict(effect.params))


def _ignore(effect: Effect) -> None:
    """Do nothing: no listener is registered, or the service to stop has already ended."""


_BUILT_IN: dict[str, HandlerFunction] = {"log": _log, "emit": _ignore, "stop": _ignore}
