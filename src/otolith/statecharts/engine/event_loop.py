"""The main event loop: sessions handle events, invoke children, and fire timers until all rest.

This is `mainEventLoop` of the W3C algorithm, for a tree of sessions instead of threads. Invoked
charts are sessions below the one that invoked them; events between them go through external queues.
A session that ends, or fails, tells its parent with `done.invoke.<id>` or `error.invoke.<id>`.
What is not a chart is a service of the host: its start and stop are effects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from otolith.errors import BadChart, StepFailed
from otolith.frozen import EMPTY
from otolith.statecharts.engine.compiled_chart import (
    Bindings,
    CompiledChart,
    CompiledInvoke,
    StateNode,
)
from otolith.statecharts.engine.event_processor import deliver
from otolith.statecharts.engine.microstep import (
    exit_interpreter,
    initialize_data,
    macrostep,
    microstep,
    select_transitions,
)
from otolith.statecharts.engine.session import (
    ChartFailure,
    ChartSession,
    StepScope,
    empty_snapshot,
    freeze_value,
)
from otolith.statecharts.formats.scxml_reader import read_scxml
from otolith.statecharts.snapshot import ChartEvent, Child, Timer

MAX_MACROSTEPS = 10_000
"""How many macrosteps one step may take before it counts as endless."""
MAX_TIMERS = 10_000
"""How many timers one step fires at their own times before it skips to the present."""
_MAX_DEPTH = 20
"""How many charts may have invoked one another."""
_CHART_TYPES = frozenset(
    {None, "scxml", "http://www.w3.org/TR/scxml", "http://www.w3.org/TR/scxml/", "otolith"}
)


# ---------------------------------------------------------------- all sessions of a step


def run_until_idle(scope: StepScope) -> None:
    """Process external events until all queues are empty."""
    for _ in range(MAX_MACROSTEPS):
        if not process_next_event(scope):
            return
    raise _endless(scope)


def process_next_event(scope: StepScope) -> bool:
    """Process one event of the first session that has one, parents first; False if none has."""
    root = scope.root
    if not root.external_queue and not root.child_sessions:
        return False
    sessions = root.with_descendants()
    session = next((s for s in sessions if s.external_queue and s.status == "running"), None)
    if session is None:
        return False
    event = session.external_queue.pop(0)
    _report_failure_to_parent(session, lambda: process_event(session, event))
    return True


def fire_timers(scope: StepScope, until: int) -> None:
    """Fire the timers that are due, in the order of their deadlines, each with what it causes.

    A chart that sets a timer again and again could have any number of them in a long pause. After
    `MAX_TIMERS` the clock skips to `until`: the timers that are still due fire then, late and each
    once, and what they set is counted from there.
    """
    if not _fire_due_timers(scope, until, MAX_TIMERS):
        scope.now = max(scope.now, until)
        if not _fire_due_timers(scope, until, MAX_MACROSTEPS):
            raise _endless(scope)


def _fire_due_timers(scope: StepScope, until: int, limit: int) -> bool:
    """Fire up to so many timers, each at its own time; return whether no other one is due."""
    run_until_idle(scope)
    for _ in range(limit):
        if not fire_next_timer(scope, until):
            scope.now = max(scope.now, until)
            return True
        run_until_idle(scope)
    return False


def fire_next_timer(scope: StepScope, until: int) -> bool:
    """Deliver the event of the timer that is due first, at its own time; False if none is due."""
    sessions = scope.root.with_descendants()
    timers = [(timer, session) for session in sessions for timer in session.timers]
    if not timers:
        scope.now = max(scope.now, until)
        return False
    timer, session = min(timers, key=lambda pair: pair[0][:2])
    if timer.due > until:
        return False
    scope.now = max(scope.now, timer.due)
    session.timers.remove(timer)
    _report_failure_to_parent(session, lambda: _fire(session, timer))
    return True


def _fire(session: ChartSession, timer: Timer) -> None:
    """Deliver the event of a timer; one for the internal queue is processed at once."""
    try:
        deliver(session, timer.event, timer.target, timer.type)
    except ChartFailure as failure:
        session.report(failure)
    if session.internal_queue:
        _finish_macrostep(session)


def _endless(scope: StepScope) -> StepFailed:
    """Return the error for a step that causes itself again and again."""
    return StepFailed(
        f"more than {MAX_MACROSTEPS} macrosteps without coming to rest",
        place=scope.root.chart.definition.name,
        hint="an event or a timer without delay causes itself again",
    )


def _report_failure_to_parent(session: ChartSession, work: Callable[[], object]) -> None:
    """Do some work of a session; if a child fails, that is an event for its parent."""
    if session.parent is None:
        work()
        return
    try:
        work()
    except StepFailed as error:
        session.status = "error"
        session.timers, session.external_queue = [], []
        details = freeze_value({"message": str(error), "place": error.place})
        name, id = f"error.invoke.{session.invoke_id}", session.invoke_id
        session.parent.external_queue.append(ChartEvent(name, details, "platform", invokeid=id))


# ---------------------------------------------------------------- one session


def start_session(session: ChartSession, given: Mapping[str, Any]) -> None:
    """Initialize the data, enter the first states, and finish the first macrostep.

    `given` are values from outside; they replace those that the root of the chart declares.
    """
    chart: CompiledChart = session.chart
    is_late = chart.definition.binding == "late"
    session.assign({name: None for node in chart.order for name, _ in node.data})
    for node in [chart.root] if is_late else chart.order:
        initialize_data(session, node, given if node is chart.root else EMPTY)
    if is_late:
        session.bound = (chart.root.id,)
    if given and not chart.definition.is_scxml:
        session.assign(given)
    session.execute(chart.script)
    microstep(session, (chart.initial_transition,), "")
    _finish_macrostep(session)


def process_event(session: ChartSession, event: ChartEvent) -> bool:
    """Make the macrostep of one external event; return whether anything took the event."""
    session.event = event
    is_taken = bool(session.children) and _finalize_and_forward(session, event)
    transitions = select_transitions(session, event.name)
    if transitions:
        microstep(session, transitions, event.name)
    _finish_macrostep(session)
    return is_taken or bool(transitions)


def _finalize_and_forward(session: ChartSession, event: ChartEvent) -> bool:
    """Run `finalize` for a child's answer, forward the event, forget services that answered."""
    is_taken = False
    for child in list(session.children):
        invoke = session.chart.nodes[child.state].invokes[child.number]
        if child.id == event.invokeid and invoke.finalize is not None:
            session.execute(invoke.finalize)
            is_taken = True
        below = session.child_sessions.get(child.id)
        if invoke.invoke.is_forwarding and below is not None and below.status == "running":
            below.external_queue.append(event)
            is_taken = True
    for child in list(session.children):
        answers = (f"done.invoke.{child.id}", f"error.invoke.{child.id}")
        if child.is_service and event.name in answers:
            session.children.remove(child)  # so that leaving its state does not stop it
    return is_taken


def _finish_macrostep(session: ChartSession) -> None:
    """Come to rest, invoke what the entered states ask for, end the session if it is done."""
    while True:
        macrostep(session)
        if session.is_stopping:
            exit_interpreter(session)
            parent, id = session.parent, session.invoke_id
            if parent is not None and not session.is_silent:
                parent.external_queue.append(
                    ChartEvent(f"done.invoke.{id}", session.output, "external", invokeid=id)
                )
            return
        if session.states_to_invoke:
            _invoke_all(session)
        if not session.internal_queue:
            return


# ---------------------------------------------------------------- invokes


def _invoke_all(session: ChartSession) -> None:
    """Start the invokes of the states that were entered and not exited in this macrostep."""
    pending, session.states_to_invoke = session.states_to_invoke, 0
    for node in session.chart.nodes_of(pending):
        for number, invoke in enumerate(node.invokes):
            try:
                _invoke(session, node, number, invoke)
            except ChartFailure as failure:
                failure.place = failure.place or invoke.invoke.place or node.id
                session.report(failure)


def _invoke(session: ChartSession, node: StateNode, number: int, invoke: CompiledInvoke) -> None:
    """Start the child of one invoke: a session for a chart, an effect for a service."""
    id = invoke.invoke.id or f"{node.id}.{session.scope.next_number()}"
    if any(child.id == id for child in session.children):
        raise ChartFailure(f"the invoke id {id!r} is already in use")
    if invoke.store_id is not None:
        invoke.store_id(session, id)
    type, source = invoke.type(session), invoke.source(session)
    given = freeze_value(invoke.payload(session)) or EMPTY
    chart: CompiledChart | None
    if invoke.content is None:
        chart, name = _registered_chart(session, type, source), source
    elif isinstance(invoke.content, CompiledChart):
        chart, name = invoke.content, None
    else:
        name = invoke.content(session)
        chart = read_chart(name)
    if chart is None:
        session.children.append(Child(id, node.id, number, str(source), is_service=True))
        params = {"input": given} if given else {}
        session.add_effect("invoke", str(source), params, id=id, type=type)
        return
    if type not in _CHART_TYPES:
        raise ChartFailure(f"{type!r} is not a type of chart that can be invoked")
    if session.path.count("/") >= _MAX_DEPTH:
        raise ChartFailure(f"charts invoke one another more than {_MAX_DEPTH} deep")
    session.children.append(Child(id, node.id, number, name))
    first = empty_snapshot(chart, f"{session.id}/{id}")
    below = ChartSession(session.scope, chart, 0, first, parent=session, invoke_id=id)
    session.child_sessions[id] = below
    _report_failure_to_parent(below, lambda: start_session(below, given))


def _registered_chart(session: ChartSession, type: Any, source: Any) -> CompiledChart | None:
    """Return the chart that `chart.child` registered; None if the name is one of a service."""
    if not isinstance(source, str):
        raise ChartFailure(f"the source of an invoke must be a name, got {source!r}")
    found = find_chart(session.chart.bindings, source)
    if found is None and session.chart.definition.is_scxml and type in _CHART_TYPES:
        raise ChartFailure(f"no chart {source!r} is registered", kind="communication")
    return found


def find_chart(bindings: Bindings, name: str) -> CompiledChart | None:
    """Return the chart of a name: one that was registered, or a document that lies beside ours."""
    found = bindings.charts.get(name)
    text = bindings.documents.get(name.removeprefix("file:"))
    if found is None and text is not None:
        try:
            definition = read_scxml(
                text, resolve=bindings.documents.get, name=name.removeprefix("file:")
            )
            found = bindings.charts[name] = CompiledChart(definition, bindings)
        except BadChart as error:
            raise ChartFailure(f"{name}: {error}", kind="communication") from error
    return found


def read_chart(text: Any) -> CompiledChart:
    """Return the chart of an SCXML text that a running chart has computed."""
    if not isinstance(text, str):
        raise ChartFailure("the content of an invoke must be the text of a chart")
    try:
        return _read_chart(text)
    except BadChart as error:
        raise ChartFailure(str(error)) from error


@lru_cache(maxsize=64)
def _read_chart(text: str) -> CompiledChart:
    # Cached: a child is compiled again at each step otherwise, when its snapshot is restored.
    return CompiledChart(read_scxml(text), Bindings())
