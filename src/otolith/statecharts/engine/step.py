"""The step: from a snapshot and an event to the next snapshot, as a pure function.

RULES

1. A step takes a compiled chart, a snapshot, an event and the time, and returns a new snapshot, the
   effects it asks for and a trace. It reads no clock, draws no lot, opens nothing, and writes
   to nothing it was given. The same arguments give the same answer, in any process.
2. What happens is what the W3C SCXML algorithm says. For each active leaf, in document order, the
   innermost state with an enabled transition speaks, its transitions in document order; of two
   that would leave the same state, the one from further inside wins, else the earlier one.
   States are left inside out, then transitions act, then states are entered outside in.
3. A *microstep* takes one set of transitions. A *macrostep* goes on, eventless transitions before
   internal events, until neither is left; then what the entered states invoke is started. Only
   then is the next external event looked at.
4. Charts that were invoked live inside the snapshot of their parent. Events between them go
   through external queues. A step ends when all queues are empty; parents go before children.
5. Timers are deadlines. A step first fires what came due up to its time, in the order of the
   deadlines and each at its own time, then handles its event. Time does not go back.
6. What fails inside a chart is an `error.execution` or `error.communication` event if the document
   is SCXML, or if some transition of the chart means that event (by name, not by a bare `*`); then
   a failure in one block of actions ends that block only, and a guard that fails is false. In any
   other chart nobody would hear it: the step raises `StepFailed`. In a child chart that becomes
   `error.invoke.<id>` for its parent.
7. A step that raises has done nothing: the snapshot it was given is still the machine.
8. An event that nobody takes is dropped, as SCXML has it; with `is_strict` it is refused by an
   `IllegalTransition`, and so is any event for a chart that is done.

THEORY OF OPERATION

`model.Model` is the chart compiled; its choices and plans are worked out once (see there). Most
steps are a look-up: the choice for (configuration, event) is *plain*, and the new snapshot is the
old one with another configuration. All others take the snapshot apart into a `running.Run` per
session, which `microsteps` and `invoking` change in place, and put it together again at the end.
`turn` is one macrostep of one session; `step` and `advance` make turns until all is quiet.

Worlds: snapshots taken apart into running sessions, and kept going until all is quiet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from otolith.errors import BadValue, ChartMismatch, Corrupt, IllegalTransition, StepFailed
from otolith.frozen import freeze
from otolith.statecharts.engine.chart_layout import keep
from otolith.statecharts.engine.compiled_chart import Choice, CompiledChart
from otolith.statecharts.engine.invoke import attend, begin, handle, read_model, settle
from otolith.statecharts.engine.microstep import MOST_MICROSTEPS, select
from otolith.statecharts.engine.run import (
    SYSTEM_NAMES,
    ChartSession,
    Failure,
    StepScope,
    blank,
    taken,
)
from otolith.statecharts.engine.send import deliver, everyone
from otolith.statecharts.snapshot import Child, Effect, Event, Microstep, Snapshot, Timer

MOST_TURNS = 10_000
"""How many macrosteps and timers one step may take before it is taken for endless."""


def check(model: CompiledChart, snapshot: Snapshot) -> None:
    """Refuse a snapshot of another chart."""
    if snapshot.chart != model.hash:
        raise ChartMismatch(
            f"this snapshot is of chart {snapshot.chart[:12]}"
            f"{f' version {snapshot.version}' if snapshot.version else ''},"
            f" and {model.definition.name or 'this chart'} is {model.hash[:12]}",
            expected=model.hash,
            actual=snapshot.chart,
            hint="load it with the chart it was made by, or declare chart.migrate_from",
        )


def restore(model: CompiledChart, snapshot: Snapshot, now: int | None) -> StepScope:
    """Return the world of a snapshot, with the next step begun."""
    time = snapshot.time if now is None else max(now, snapshot.time)
    world = StepScope(time, snapshot.seq + 1, snapshot.counter, snapshot.session)
    world.root = _restored(world, model, snapshot)
    return world


def _restored(
    world: StepScope,
    model: CompiledChart,
    snapshot: Snapshot,
    parent: ChartSession | None = None,
    invokeid: str | None = None,
) -> ChartSession:
    is_broken = snapshot.status == "error"  # it stopped half-way, and does not go on
    mask = 0 if is_broken else model.mask_of(snapshot.configuration)
    model.check_history(snapshot.history)
    run = ChartSession(world, model, mask, snapshot, parent=parent, invokeid=invokeid)
    for child in snapshot.children:
        _check_child(model, child)
        if child.snapshot is not None:
            inner = _model_of(run, child)
            check(inner, child.snapshot)
            run.runs[child.id] = _restored(world, inner, child.snapshot, run, child.id)
    return run


def _check_child(model: CompiledChart, child: Child) -> None:
    """Refuse a child that no state of the chart has invoked."""
    node = model.nodes.get(child.state)
    if node is None or not 0 <= child.number < len(node.calls):
        raise Corrupt(
            f"the child {child.id[:80]!r} was invoked by nothing in this chart",
            hint="the snapshot was changed by hand, or is of another chart",
        )


def _model_of(run: ChartSession, child: Child) -> CompiledChart:
    """Find the chart of a child again: inside its parent's, by its name, or by its text."""
    content = run.model.nodes[child.state].calls[child.number].content
    if isinstance(content, CompiledChart):
        return content
    found: CompiledChart | None = run.model.bindings.charts.get(child.source)
    if found is not None:
        return found
    try:
        return read_model(run, child.source)
    except Failure as error:
        raise Corrupt(
            f"the chart of the child {child.id[:80]!r} is not found: {error}",
            hint="register it with chart.child, or restore an older snapshot",
        ) from error


# ---------------------------------------------------------------- turns and timers


def settle_all(world: StepScope) -> None:
    """Make turns until all queues are empty."""
    for _ in range(MOST_TURNS):
        if not macrostep_of(world):
            return
    raise _endless(world)


def macrostep_of(world: StepScope) -> bool:
    """Make one macrostep of the first session that has an event waiting, if there is one."""
    root = world.root
    if not root.queue and not root.runs:
        return False
    for run in everyone(world.root):
        if run.queue and run.status == "running":
            event = run.queue.pop(0)
            attend(run, lambda run=run, event=event: handle(run, event))
            return True
    return False


def fire_due(world: StepScope, now: int) -> None:
    """Fire all timers up to a time, each with what follows from it."""
    for _ in range(MOST_TURNS):
        settle_all(world)
        if not fire_next(world, now):
            world.now = max(world.now, now)
            return
    raise _endless(world)


def fire_next(world: StepScope, now: int) -> bool:
    """Deliver the timer that is due first, at its own time."""
    waiting = [(timer, run) for run in everyone(world.root) for timer in run.timers]
    if not waiting:
        world.now = max(world.now, now)
        return False
    timer, run = min(waiting, key=lambda pair: pair[0][:2])
    if timer.due > now:
        return False
    world.now = max(world.now, timer.due)
    run.timers.remove(timer)
    attend(run, lambda: _fire(run, timer))
    return True


def _fire(run: ChartSession, timer: Timer) -> None:
    try:
        deliver(run, timer.event, timer.target, timer.type)
    except Failure as failure:
        run.fail(failure)
    if run.internal:
        settle(run)


def _endless(world: StepScope) -> StepFailed:
    return StepFailed(
        f"more than {MOST_TURNS} macrosteps without coming to rest",
        place=world.root.model.definition.name,
        hint="an event or a timer without delay causes itself again",
    )


class Step(NamedTuple):
    """What a step gives: the machine as it is now, what to do outside, and how it got here."""

    snapshot: Snapshot
    effects: tuple[Effect, ...]
    trace: tuple[Microstep, ...]


_new = tuple.__new__


def start(
    model: CompiledChart, data: Mapping[str, Any] | None = None, *, now: int = 0, session: str = ""
) -> Step:
    """Return the first snapshot of a chart, all that follows from entering it done."""
    world = opened(model, data, now=now, session=session)
    settle_all(world)
    return _closed(world)


def opened(
    model: CompiledChart, data: Mapping[str, Any] | None = None, *, now: int = 0, session: str = ""
) -> StepScope:
    """Enter a chart's first states and make its first macrostep only."""
    world = StepScope(now, 0, 0, session)
    world.root = ChartSession(world, model, 0, blank(model, session))
    if not SYSTEM_NAMES.isdisjoint(data or ()):
        raise BadValue("data names what belongs to the system", hint="choose other names")
    begin(world.root, freeze(dict(data or {})))
    return world


def step(
    model: CompiledChart,
    snapshot: Snapshot,
    event: str | Event,
    now: int | None = None,
    *,
    is_strict: bool = False,
) -> Step:
    """Return what an event makes of a snapshot; see the rules above.

    Raises:
        ChartMismatch: the snapshot is not of this chart.
        IllegalTransition: the chart does not take the event, and the step is strict.
        StepFailed: a guard or an action failed and the chart hears no errors, or it never rests.
    """
    name: str = event[0] if type(event) is Event else event  # type: ignore[assignment]
    choice = model.choices.get((snapshot[0], name))
    if (
        choice is not None
        and snapshot[3] == "running"
        and not (snapshot[6] or snapshot[7] or snapshot[8])
        and snapshot[13] == model.hash
        and (choice.trace or not is_strict)
    ):
        time = snapshot[2] if now is None or now < snapshot[2] else now
        head = (choice.configuration, snapshot[1] + 1, time)
        return _new(Step, (_new(Snapshot, head + snapshot[3:]), (), choice.trace))
    return _full_step(model, snapshot, event, now, is_strict=is_strict)


def _full_step(
    model: CompiledChart,
    snapshot: Snapshot,
    event: str | Event,
    now: int | None,
    *,
    is_strict: bool,
) -> Step:
    check(model, snapshot)
    event = _whole(event)
    known = (snapshot.configuration, event.name)
    if snapshot.status == "running" and known not in model.not_plain:
        _learn(model, known)
    world = restore(model, snapshot, now)
    if snapshot.timers or snapshot.children or snapshot.queue:
        until, world.now = world.now, snapshot.time
        fire_due(world, until)
    if world.root.status != "running":
        if is_strict:
            raise refusal(world.root, event.name)
        return _closed(world)
    lines = len(world.trace)
    is_taken = handle(world.root, event)
    if is_strict and not is_taken and len(world.trace) == lines:
        raise refusal(world.root, event.name)
    settle_all(world)
    return _closed(world)


def advance(model: CompiledChart, snapshot: Snapshot, now: int) -> Step:
    """Return what time has made of a snapshot: the timers that came due, in their order."""
    check(model, snapshot)
    world = restore(model, snapshot, now)
    until = world.now
    world.now = snapshot.time
    fire_due(world, until)
    return _closed(world)


def turn(model: CompiledChart, snapshot: Snapshot, now: int | None = None) -> Step | None:
    """Make one macrostep of one session, or fire one timer; None if there is nothing to do."""
    check(model, snapshot)
    world = restore(model, snapshot, now)
    until = world.now
    world.now = snapshot.time
    if not macrostep_of(world) and not fire_next(world, until):
        return None
    return _closed(world)


def _whole(event: str | Event) -> Event:
    """Return an event with a plain name and data that nobody can change."""
    if isinstance(event, str):
        event = Event(event)
    if not event.name:
        raise BadValue(f"{event!r} is no event", hint="an event has a name")
    if type(event.name) is not str:
        event = event._replace(name=str.__str__(event.name))
    return event if event.data is None else event._replace(data=freeze(event.data))


def posted(snapshot: Snapshot, event: str | Event) -> Snapshot:
    """Return the snapshot with an event waiting; `turn` will take it up."""
    return snapshot._replace(queue=(*snapshot.queue, _whole(event)))


def selects(model: CompiledChart, snapshot: Snapshot, event: str | Event) -> bool:
    """Return whether any transition would be taken now, or the event forwarded."""
    check(model, snapshot)
    event = _whole(event)
    if snapshot.status != "running":
        return False
    world = restore(model, snapshot, None)
    run = world.root
    run.event = event
    forwards = any(
        model.nodes[child.state].calls[child.number].invoke.is_forwarding
        for child in snapshot.children
    )
    return forwards or bool(select(run, event.name))


def is_at_rest(model: CompiledChart, snapshot: Snapshot) -> bool:
    """Return whether no transition would be taken without an event."""
    check(model, snapshot)
    return snapshot.status != "running" or not select(restore(model, snapshot, None).root, "")


def refusal(run: ChartSession, event: str) -> IllegalTransition:
    """Return the error that says what would have been accepted."""
    model: CompiledChart = run.model
    state = ", ".join(model.leaves_of(run.mask))
    if run.status != "running":
        return IllegalTransition(
            f"the chart is {run.status} in {state} and accepts nothing any more",
            state=state,
            event=event,
            allowed=(),
        )
    allowed = model.allowed(run.mask)
    is_guarded = bool(model.choice(run.mask, event).groups)
    why = f" ({event} has a guard, and it said no)" if is_guarded else ""
    return IllegalTransition(
        f"{state} does not accept {event}; allowed: {', '.join(allowed) or 'nothing'}{why}",
        state=state,
        event=event,
        allowed=allowed,
    )


def _closed(world: StepScope) -> Step:
    return Step(taken(world.root), tuple(world.effects), tuple(world.trace))


# ---------------------------------------------------------------- plain choices


def _learn(model: CompiledChart, known: tuple[tuple[str, ...], str]) -> None:
    """Work out whether an event is plain in a configuration, and remember the answer."""
    configuration, name = known
    mask = model.mask_of(configuration)
    trace: list[Microstep] = []
    for _ in range(MOST_MICROSTEPS):
        choice = model.choice(mask, name)
        plan = None
        if choice.sure:
            plan = model.plan(mask, choice.sure, {})
        if choice.groups and (plan is None or not plan.is_plain):
            break
        if plan is not None:
            trace.append(plan.line(name, ""))
            mask = plan.mask
        elif not name:
            found = Choice(())
            found.configuration = model.leaves_of(mask)
            found.trace = tuple(trace)
            keep(model.choices, known, found)
            return
        name = ""
    keep(model.not_plain, known, value=True)
