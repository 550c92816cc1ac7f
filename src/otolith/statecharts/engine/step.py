"""The step: from a snapshot and an event to the next snapshot, as a pure function.

RULES

1. A step takes a compiled chart, a snapshot, an event and the time. It returns a new snapshot, the
   effects it asks for, and a trace. It reads no clock, uses no randomness, opens nothing, and does
   not change its arguments. Equal arguments give an equal result, in any process.
2. The W3C SCXML algorithm decides what happens. For each active leaf, in document order, the
   innermost state with an enabled transition is asked, its transitions in document order. Of two
   transitions that would exit the same state, the inner one wins, else the earlier one. States are
   exited from the inside out, then transitions act, then states are entered from the outside in.
3. A *microstep* takes one set of transitions. A *macrostep* repeats, eventless transitions before
   internal events, until neither is left; then the invokes of entered states start. Only then is
   the next external event processed.
4. Invoked charts live inside the snapshot of their parent. Events between them go through external
   queues. A step ends when all queues are empty; parents go before children.
5. Timers are deadlines. A step first fires the timers due up to its time, in the order of their
   deadlines and each at its own time, then processes its event. Time does not go back. After 10,000
   timers the rest fire at the time of the step, so that a long pause ends.
6. A failure inside a chart is an `error.execution` or `error.communication` event if the document
   is SCXML, or if a transition of the chart names that event (not by a bare `*`). Then a failure in
   a block of actions ends that block only, and a guard that fails is false. In any other chart no
   transition would handle it, and the step raises `StepFailed`; in a child chart that becomes
   `error.invoke.<id>` for its parent.
7. A step that raises has changed nothing: the snapshot it was given is still valid.
8. An event that no transition takes is dropped, as SCXML has it. With `is_strict` it raises
   `IllegalTransition`, and so does any event for a chart that is done. It counts as taken if an
   eventless transition that reads it changes the states, the data or the history.

THEORY OF OPERATION

`CompiledChart` caches what steps look up (see there). Most steps are one look-up: the event is
*plain* in this configuration, and the new snapshot is the old one with another configuration. All
others take the snapshot apart into one `ChartSession` per running chart (`session.py`), which
`event_loop.py` and `microstep.py` change in place, and put them together again at the end. `turn`
makes one macrostep of one session; `step` and `advance` continue until all sessions rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from otolith.errors import BadValue, ChartMismatch, Corrupt, IllegalTransition
from otolith.frozen import freeze
from otolith.shapes import NOTHING, check_argument
from otolith.statecharts.engine.compiled_chart import (
    HINT_OTHER_CHART,
    CompiledChart,
    PlainStep,
    cache_put,
)
from otolith.statecharts.engine.event_loop import (
    find_chart,
    fire_next_timer,
    fire_timers,
    process_event,
    process_next_event,
    read_chart,
    run_until_idle,
    start_session,
)
from otolith.statecharts.engine.microstep import MAX_MICROSTEPS, plan_microstep, select_transitions
from otolith.statecharts.engine.session import (
    SYSTEM_NAMES,
    ChartFailure,
    ChartSession,
    StepScope,
    empty_snapshot,
)
from otolith.statecharts.snapshot import (
    ChartEvent,
    ChartSnapshot,
    Child,
    Effect,
    Microstep,
    check_fields,
)
from otolith.types import cut_line


class StepResult(NamedTuple):
    """What a step returns: the new snapshot, effects for the host, and how it got there."""

    snapshot: ChartSnapshot
    effects: tuple[Effect, ...]
    trace: tuple[Microstep, ...]

    def __repr__(self) -> str:
        phase = ", ".join(self.snapshot.configuration)
        return f"<StepResult {cut_line(phase)}, {len(self.effects)} effects>"


_new = tuple.__new__  # a NamedTuple made without its argument check: the plain step is hot


def start(
    chart: CompiledChart,
    data: Mapping[str, Any] | None = None,
    *,
    now: int = 0,
    session: str = "",
) -> StepResult:
    """Return the first snapshot of a chart, after everything that entering it causes."""
    check_argument(data, "data", (Mapping, NOTHING), "a mapping")
    if not SYSTEM_NAMES.isdisjoint(data or ()):
        names = ", ".join(sorted(SYSTEM_NAMES.intersection(data or ())))
        raise BadValue(f"data contains the system variable {names}", hint="choose other names")
    scope = StepScope(now, 0, 0, session)
    scope.root = ChartSession(scope, chart, 0, empty_snapshot(chart, session))
    start_session(scope.root, freeze(dict(data or {})))
    run_until_idle(scope)
    return _result(scope)


def step(
    chart: CompiledChart,
    snapshot: ChartSnapshot,
    event: str | ChartEvent,
    now: int | None = None,
    *,
    is_strict: bool = False,
) -> StepResult:
    """Return what an event makes of a snapshot; see the rules above.

    Raises:
        ChartMismatch: the snapshot is not of this chart.
        IllegalTransition: the chart does not take the event, and the step is strict.
        StepFailed: a guard or an action failed in a chart without error events, or it never rests.
    """
    name: str = event[0] if type(event) is ChartEvent else event  # type: ignore[assignment]
    try:
        plain = chart.plain_steps.get((snapshot[0], name))
    except (TypeError, LookupError):  # this is not a snapshot, or not an event
        plain = None
    if (
        plain is not None
        and snapshot[3] == "running"
        and not (snapshot[6] or snapshot[7] or snapshot[8])  # queue, timers, children
        and snapshot[13] == chart.hash
        and (plain[1] or not is_strict)
    ):
        time = snapshot[2] if now is None or now < snapshot[2] else now
        head = (plain[0], snapshot[1] + 1, time)
        return _new(StepResult, (_new(ChartSnapshot, head + snapshot[3:]), (), plain[1]))
    return _full_step(chart, snapshot, event, now, is_strict=is_strict)


def _full_step(
    chart: CompiledChart,
    snapshot: ChartSnapshot,
    event: str | ChartEvent,
    now: int | None,
    *,
    is_strict: bool,
) -> StepResult:
    """Make a step with sessions, when the plain one of the cache does not apply."""
    event = _checked_event(event)
    scope = restore(chart, snapshot, now)
    key = (snapshot.configuration, event.name)
    if snapshot.status == "running" and key not in chart.not_plain:
        _learn_plain_step(chart, key)
    if snapshot.timers or snapshot.children or snapshot.queue:
        until, scope.now = scope.now, snapshot.time
        fire_timers(scope, until)
    root = scope.root
    if root.status == "running":
        mask, data, history = root.mask, root.data, root.history
        is_taken = process_event(root, event)
        is_same = root.mask == mask and root.data is data and root.history is history
        if is_strict and not is_taken and is_same:
            raise _refusal(root, event.name)
        run_until_idle(scope)
    elif is_strict:
        raise _refusal(root, event.name)
    return _result(scope)


def advance(chart: CompiledChart, snapshot: ChartSnapshot, now: int) -> StepResult:
    """Return what time makes of a snapshot: the timers that came due, in their order."""
    scope = restore(chart, snapshot, now)
    until, scope.now = scope.now, snapshot.time
    fire_timers(scope, until)
    return _result(scope)


def turn(
    chart: CompiledChart, snapshot: ChartSnapshot, now: int | None = None
) -> StepResult | None:
    """Make one macrostep of one session, or fire one timer; None if there is nothing to do."""
    scope = restore(chart, snapshot, now)
    until, scope.now = scope.now, snapshot.time
    if not process_next_event(scope) and not fire_next_timer(scope, until):
        return None
    return _result(scope)


def enqueue(snapshot: ChartSnapshot, event: str | ChartEvent) -> ChartSnapshot:
    """Return the snapshot with an event in its external queue, for `turn` to process."""
    return snapshot._replace(queue=(*snapshot.queue, _checked_event(event)))


def is_enabled(chart: CompiledChart, snapshot: ChartSnapshot, event: str | ChartEvent) -> bool:
    """Return whether an event would take a transition now, or be forwarded to a child."""
    event = _checked_event(event)
    root = restore(chart, snapshot, None).root
    if snapshot.status != "running":
        return False
    root.event = event
    return bool(select_transitions(root, event.name)) or any(
        chart.nodes[child.state].invokes[child.number].invoke.is_forwarding
        for child in snapshot.children
    )


def accepted_events(chart: CompiledChart, snapshot: ChartSnapshot) -> tuple[str, ...]:
    """Return the events that active states have transitions for; guards are not asked."""
    root = restore(chart, snapshot, None).root
    return chart.allowed(root.mask) if snapshot.status == "running" else ()


def is_at_rest(chart: CompiledChart, snapshot: ChartSnapshot) -> bool:
    """Return whether no eventless transition is enabled."""
    root = restore(chart, snapshot, None).root
    return snapshot.status != "running" or not select_transitions(root, "")


def _checked_event(given: str | ChartEvent) -> ChartEvent:
    """Return an event with a plain name and frozen data."""
    event = ChartEvent(given) if isinstance(given, str) else given
    kinds: tuple[object, object] = (event, getattr(event, "name", None))
    if not isinstance(kinds[0], ChartEvent) or not isinstance(kinds[1], str):
        got = repr(given)[:80]
        raise BadValue(f"an event must be a name or a ChartEvent, got {got}", hint="send a name")
    if not event.name:
        raise BadValue(f"an event must have a name, got {event!r}", hint="send a name")
    if type(event.name) is not str:
        event = event._replace(name=str.__str__(event.name))
    return event if event.data is None else event._replace(data=freeze(event.data))


def _refusal(session: ChartSession, event: str) -> IllegalTransition:
    """Return the error that lists the events that are accepted instead."""
    chart: CompiledChart = session.chart
    state = ", ".join(chart.leaf_ids(session.mask))
    if session.status != "running":
        allowed: tuple[str, ...] = ()
        message = f"the chart is {session.status} in {state} and accepts no more events"
    else:
        allowed = chart.allowed(session.mask)
        message = f"{state} does not accept {event}; allowed: {', '.join(allowed) or 'nothing'}"
        if chart.candidates(session.mask, event).groups:
            message += f" (the guard of {event} returned false)"
    return IllegalTransition(message, state=state, event=event, allowed=allowed)


# ---------------------------------------------------------------- from snapshots to sessions


def check_chart(chart: CompiledChart, snapshot: ChartSnapshot) -> None:
    """Check that a snapshot is of this chart.

    Raises:
        ChartMismatch: it is of another one.
    """
    if snapshot.chart != chart.hash:
        version = f" version {snapshot.version}" if snapshot.version else ""
        raise ChartMismatch(
            f"this snapshot is of chart {snapshot.chart[:12]}{version},"
            f" and {chart.definition.name or 'this chart'} is {chart.hash[:12]}",
            expected=chart.hash,
            actual=snapshot.chart,
            hint="load it with the chart it was made by, or declare chart.migrate_from",
        )


def restore(chart: CompiledChart, snapshot: ChartSnapshot, now: int | None) -> StepScope:
    """Return the sessions of a snapshot, ready for the next step.

    Raises:
        ChartMismatch: the snapshot, or a child in it, is of another chart.
        Corrupt: the snapshot says what cannot be.
        BadValue: it is not a snapshot.
    """
    if chart.latest is None or snapshot is not chart.latest:
        check_fields(snapshot)
        _check_snapshot(chart, snapshot)
    if now is not None and type(now) is not int:
        check_argument(now, "now", int, "a number of microseconds, or None")
    time = snapshot.time if now is None else max(now, snapshot.time)
    scope = StepScope(time, snapshot.seq + 1, snapshot.counter, snapshot.session)
    scope.root = _restore_session(scope, chart, snapshot)
    return scope


def _restore_session(
    scope: StepScope,
    chart: CompiledChart,
    snapshot: ChartSnapshot,
    parent: ChartSession | None = None,
    invoke_id: str | None = None,
) -> ChartSession:
    """Return the session of a checked snapshot with those of its children."""
    # With the status "error" it stopped in the middle of a step: its states may not fit together.
    mask = 0 if snapshot.status == "error" else chart.mask_of(snapshot.configuration)
    session = ChartSession(scope, chart, mask, snapshot, parent=parent, invoke_id=invoke_id)
    for child in snapshot.children:
        if child.snapshot is not None:
            below = _chart_of_child(chart, child)
            check_chart(below, child.snapshot)
            session.child_sessions[child.id] = _restore_session(
                scope, below, child.snapshot, session, child.id
            )
    return session


def _check_snapshot(chart: CompiledChart, snapshot: ChartSnapshot) -> None:
    """Check a snapshot, whose fields are right, against its chart; then the children in it."""
    check_chart(chart, snapshot)
    mask = 0
    if snapshot.status != "error":
        mask = chart.mask_of(snapshot.configuration)
    chart.check_history(snapshot.history)
    known = (*snapshot.bound, *(snapshot.configuration if snapshot.status == "error" else ()))
    if unknown := [id for id in known if id not in chart.nodes]:
        raise Corrupt(f"there is no state {str(unknown[0])[:80]!r}", hint=HINT_OTHER_CHART)
    for child in snapshot.children:
        node = chart.nodes.get(child.state)
        is_active = node is not None and (mask & node.bit or snapshot.status == "error")
        if node is None or not is_active or not 0 <= child.number < len(node.invokes):
            raise Corrupt(
                f"no invoke of this chart starts the child {child.id[:80]!r}",
                hint=HINT_OTHER_CHART,
            )
        if child.snapshot is not None:
            check_fields(child.snapshot)
            _check_snapshot(_chart_of_child(chart, child), child.snapshot)


def _chart_of_child(chart: CompiledChart, child: Child) -> CompiledChart:
    """Find the chart of a child again: in the definition, by its name, or by its text."""
    content = chart.nodes[child.state].invokes[child.number].content
    if isinstance(content, CompiledChart):
        return content
    try:
        return find_chart(chart.bindings, child.source or "") or read_chart(child.source)
    except ChartFailure as error:
        raise Corrupt(
            f"the chart of the child {child.id[:80]!r} is not found: {error}",
            hint="register it with chart.child, or restore an older snapshot",
        ) from error


def _result(scope: StepScope) -> StepResult:
    """Put the sessions of a step together again."""
    root = scope.root
    root.chart.latest = snapshot = root.snapshot()
    return StepResult(snapshot, tuple(scope.effects), tuple(scope.trace))


def _learn_plain_step(chart: CompiledChart, key: tuple[tuple[str, ...], str]) -> None:
    """Find out whether an event is plain in a configuration, and cache the answer.

    It follows the event and the eventless transitions after it. It is plain if no guard is asked
    and no plan on the way does anything but change the configuration.
    """
    configuration, event = key
    mask = first_mask = chart.mask_of(configuration)
    is_taken = bool(chart.candidates(mask, event).groups)
    trace: list[Microstep] = []
    for _ in range(MAX_MICROSTEPS):
        candidates = chart.candidates(mask, event)
        if candidates.groups:
            if candidates.unguarded is None:
                break
            plan = plan_microstep(chart, mask, candidates.unguarded, {})
            if not plan.is_plain:
                break
            trace.append(plan.trace_line(event, ""))
            is_resting = not event and plan.mask == mask and not chart.definition.is_scxml
            mask = plan.mask
        else:
            is_resting = not event
        if is_resting:
            if trace and mask == first_mask and not is_taken:
                break  # a strict step refuses it, another one does not
            cache_put(chart.plain_steps, key, PlainStep(chart.leaf_ids(mask), tuple(trace)))
            return
        event = ""
    cache_put(chart.not_plain, key, value=True)
