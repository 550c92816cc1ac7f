"""A machine: a chart that runs in a state, whose steps are part of the state's commits.

`send` stages a step, `state.commit` makes it last, `carry_out` does what committed steps ask for.
Whatever a state can do, a machine in it can: it is read as it was, forked, rolled back and merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from otolith.core import Branch, StateReader, digest
from otolith.errors import Invalid, KeyNotFound, ReadOnly, Uncommitted
from otolith.statecharts.chart import Chart
from otolith.statecharts.effect_runner import EffectReport, EffectRunner, Handler
from otolith.statecharts.engine.step import Step, step
from otolith.statecharts.snapshot import Effect, Event, Snapshot
from otolith.statecharts.storage import Record, Recorded, Waiting
from otolith.types import Clock

_KEY_BYTES = 16


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
            KeyNotFound: there is none, and nothing can be written here.
            ChartMismatch: it runs another chart, and no migration leads here.
        """
        if not name or "/" in name:
            raise Invalid(f"{name!r} cannot name a machine", hint="use a word")
        self.state = state
        self.chart = chart
        self.name = name
        self._clock = clock
        self._record = Record(state, name)
        self._seen: tuple[bytes | None, Snapshot] | None = None
        if self._record.cell is None:
            self._start(data)
        elif data is not None:
            raise Invalid(
                f"machine {name} has begun already, and has its data",
                hint="leave out data=, or give the machine another name",
            )
        self.snapshot  # noqa: B018  # says at once if it is of another chart

    def __repr__(self) -> str:
        return f"<Machine {self.name} of {self.chart.name}: {self.phase}>"

    # What it is

    @property
    def snapshot(self) -> Snapshot:
        """The running chart, as one value."""
        with self.state.lock:
            cell = self._record.cell
            if self._seen is None or self._seen[0] != cell:
                found = self._record.snapshot()
                if found is None:
                    raise KeyNotFound(
                        f"there is no machine {self.name} here any more",
                        hint="it was begun after this commit, or on another branch",
                    )
                self._seen = cell, self.chart.migrate(found)
            return self._seen[1]

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
        """Whether it has reached its end."""
        return self.snapshot.status != "running"

    @property
    def output(self) -> Any:
        """What it came to, once it is done."""
        return self.snapshot.output

    @property
    def due(self) -> int | None:
        """When the next timer is due, in microseconds since 1970; None if none waits."""
        return self.snapshot.next_due

    def allowed(self) -> tuple[str, ...]:
        """Return the events that active states have transitions for; guards are not asked."""
        return self.chart.allowed(self.snapshot)

    def can(self, event: str, /, **data: Any) -> bool:
        """Tell whether an event would be taken now; guards are asked, and nothing changes."""
        return self.chart.can(self.snapshot, event, data or None)

    def log(self) -> list[Recorded]:
        """Return the events of its past, the oldest first."""
        with self.state.lock:
            return self._record.log()

    def outbox(self) -> list[Waiting]:
        """Return the effects that are not carried out yet, the oldest first."""
        with self.state.lock:
            return list(self._record.outbox().values())

    # Stepping

    def send(self, event: str | Event, /, **data: Any) -> Step:
        """Stage the step that an event makes: `state.commit()` makes it last.

        Raises:
            IllegalTransition: the chart does not take it now; the error lists what it takes.
            StepFailed: a guard or action failed; the machine stays where it was.
        """
        if isinstance(event, str):
            event = Event(event, data or None)
        elif data:
            raise Invalid("an Event has its data already", hint="leave out the keywords")
        return self._step(event, is_strict=self.chart.is_strict)

    def advance(self, now: int | None = None) -> Step:
        """Stage what time has done: the timers that came due, each at its own time."""
        with self._writing() as state:
            before = self.snapshot
            moved = self.chart.advance(before, self._now() if now is None else now)
            if moved.trace or moved.effects:
                self._keep(state, moved, before, Recorded("", None, moved.snapshot.time))
        return moved

    # Effects

    def carry_out(
        self,
        handlers: Mapping[str, Handler] | None = None,
        *,
        limit: int | None = None,
        on_progress: Callable[[Effect], None] | None = None,
    ) -> EffectReport:
        """Do what committed steps ask for, and commit what came of each effect.

        An effect is carried out by the handler of its name, or of its kind (`"send"`, `"emit"`,
        `"log"`, `"stop"`): one of `handlers`, or what `@chart.effect` registered. What a service
        returns goes back to the chart as an event, and what that asks for is carried out too, up
        to `limit` effects. See `effect_runner.py` for what is promised if the process dies in
        between.

        Raises:
            Uncommitted: there are edits that are not committed.
        """
        if not self._branch().is_clean:
            raise Uncommitted(
                "there are edits that are not committed, and effects follow commits",
                hint="call state.commit() first",
            )
        bindings = self.chart.bindings
        return EffectRunner(
            self, bindings, handlers or {}, limit=limit, on_progress=on_progress
        ).run()

    def settle(self, key: str, *, happened: bool, result: Any = None) -> None:
        """Decide about an effect that was begun and of which nobody knows whether it happened.

        Raises:
            KeyNotFound: no such effect waits.
        """
        waiting = {each.effect.key: each for each in self.outbox()}.get(key)
        if waiting is None:
            raise KeyNotFound(f"no effect {key} waits", hint="machine.outbox() lists those that do")
        if not happened:
            self.change_outbox({key: waiting._replace(is_begun=False)})
            self.commit(f"{waiting.effect.name} did not happen")
            return
        self.change_outbox({key: None})
        if waiting.effect.kind == "invoke":
            id = waiting.effect.id
            self.answer(Event(f"done.invoke.{id}", result, invokeid=id))
        self.commit(f"{waiting.effect.name} did happen")

    def commit(self, message: str) -> None:
        """Commit what was staged, as something that happened outside."""
        self._branch().commit(message, kind="effect")

    def answer(self, event: Event) -> Step:
        """Stage the step that an answer from outside makes; one that nobody awaits is dropped."""
        return self._step(event, is_strict=False)

    def change_outbox(self, changes: Mapping[str, Waiting | None]) -> None:
        """Stage what has become of effects: another entry, or None for those that are over."""
        with self._writing():
            self._record.change_outbox(changes)

    def _step(self, event: Event, *, is_strict: bool) -> Step:
        with self._writing() as state:
            before = self.snapshot
            moved = step(self.chart.model, before, event, self._now(), is_strict=is_strict)
            if moved.trace or moved.effects or moved.snapshot.queue != before.queue:
                time = moved.snapshot.time
                self._keep(state, moved, before, Recorded(event.name, event.data, time))
        return moved

    def _start(self, data: Mapping[str, Any] | None) -> None:
        if not isinstance(self.state, Branch):
            raise KeyNotFound(
                f"there is no machine {self.name} here", hint="it was begun after this commit"
            )
        with self._writing() as state:
            session = f"{state.ref}#{self.name}"
            first = self.chart.start(data, now=self._now(), session=session)
            self._keep(state, first, None, None)

    def _keep(
        self, state: Branch, moved: Step, before: Snapshot | None, recorded: Recorded | None
    ) -> None:
        said = [] if recorded is None else [recorded.event, recorded.data]
        waiting: dict[str, Waiting | None] = {}
        for place, effect in enumerate(moved.effects):
            key = self._key(state, [moved.snapshot.seq, place, *said])
            order = moved.snapshot.seq, place
            waiting[key] = Waiting(replace(effect, key=key), order)
        self._record.keep(moved.snapshot, before=before, recorded=recorded, outbox=waiting)
        self._seen = self._record.cell, moved.snapshot

    def _key(self, state: Branch, said: list[Any]) -> str:
        """Return a name for an effect: that of the same step from the same commit, and no other."""
        head = "" if state.head is None else state.head.id
        content = state.cells.encoding.encode([state.ref, self.name, head, *said])
        return digest(content)[:_KEY_BYTES].hex()

    # Small things

    def _now(self) -> int:
        return 0 if self._clock is None else self._clock()

    @contextmanager
    def _writing(self) -> Iterator[Branch]:
        state = self._branch()
        with state.lock:
            yield state

    def _branch(self) -> Branch:
        if not isinstance(self.state, Branch):
            raise ReadOnly(
                "this machine is as it was, and takes no more events",
                hint="fork the state at this commit, and go on there",
            )
        return self.state
