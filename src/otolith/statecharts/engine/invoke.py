"""Invoking: child charts and services that live as long as the state that asked for them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from otolith.errors import BadChart, StepFailed
from otolith.frozen import EMPTY
from otolith.statecharts.definition import Definition
from otolith.statecharts.engine.chart_layout import CompiledInvoke, Node
from otolith.statecharts.engine.compiled_chart import Bindings, CompiledChart
from otolith.statecharts.engine.microstep import declare, end, macrostep, microstep, select
from otolith.statecharts.engine.run import ChartSession, Failure, blank, frozen
from otolith.statecharts.formats.scxml_reader import read_scxml
from otolith.statecharts.snapshot import Child, Event

CHART_TYPES = frozenset(
    {None, "scxml", "http://www.w3.org/TR/scxml", "http://www.w3.org/TR/scxml/", "otolith"}
)
DEEPEST = 20
"""How many charts may be inside one another."""


def begin(run: ChartSession, given: dict[str, Any]) -> None:
    """Make the first macrostep of a session."""
    model: CompiledChart = run.model
    is_late = model.definition.binding == "late"
    for node in model.order:
        for name, _ in node.data:
            run.assign(name, None)
    for node in [model.root] if is_late else model.order:
        declare(run, node, given if node is model.root else EMPTY)
    if is_late:
        run.bound = (model.root.id,)
    if given and not model.definition.is_scxml:
        run.merge(given)
    if model.script:
        run.execute(model.script)
    microstep(run, (model.start,), "")
    settle(run)


def settle(run: ChartSession) -> None:
    """Finish a macrostep: come to rest, invoke what the entered states ask for, tell the parent."""
    while True:
        macrostep(run)
        if run.is_stopping:
            end(run)
            _tell_parent(run)
            return
        if run.to_invoke:
            _invoke_all(run)
        if not run.internal:
            return


def handle(run: ChartSession, event: Event) -> bool:
    """Make the macrostep of one external event; return whether anything took it."""
    run.event = event
    is_taken = bool(run.children) and _finalize_and_forward(run, event)
    for child in [child for child in run.children if _has_answered(child, event)]:
        run.children.remove(child)  # there is nothing left to stop
    arcs = select(run, event.name)
    if arcs:
        microstep(run, arcs, event.name)
    settle(run)
    return is_taken or bool(arcs)


def _has_answered(child: Child, event: Event) -> bool:
    answers = (f"done.invoke.{child.id}", f"error.invoke.{child.id}")
    return child.is_service and event.name in answers


def _tell_parent(run: ChartSession) -> None:
    parent = run.parent
    if parent is None or run.is_silent or run.invokeid is None:
        return
    parent.queue.append(
        Event(f"done.invoke.{run.invokeid}", run.output, "external", invokeid=run.invokeid)
    )


def _finalize_and_forward(run: ChartSession, event: Event) -> bool:
    """Let a child's answer be looked at first, and hand on what is to be forwarded."""
    is_taken = False
    for child in list(run.children):
        call = run.model.nodes[child.state].calls[child.number]
        if child.id == event.invokeid and call.finalize is not None:
            run.execute(call.finalize)
            is_taken = True
        if call.invoke.is_forwarding and child.id in run.runs:
            below = run.runs[child.id]
            if below.status == "running":
                below.queue.append(event)
                is_taken = True
    return is_taken


def _invoke_all(run: ChartSession) -> None:
    pending, run.to_invoke = run.to_invoke, 0
    for node in run.model.nodes_of(pending):
        for number, call in enumerate(node.calls):
            try:
                _invoke(run, node, number, call)
            except Failure as failure:
                failure.place = failure.place or call.invoke.place or node.id
                run.fail(failure)


def _invoke(run: ChartSession, node: Node, number: int, call: CompiledInvoke) -> None:
    invoke = call.invoke
    id = invoke.id or f"{node.id}.{run.world.next_number()}"
    if any(child.id == id for child in run.children):
        raise Failure(f"something is invoked as {id!r} already")
    if call.store_id is not None:
        call.store_id(run, id)
    kind, source = call.type(run), call.source(run)
    given = frozen(call.payload(run)) or EMPTY
    content = call.content
    if content is None:
        model, name = _named(run, kind, source), source
    elif isinstance(content, CompiledChart):
        model, name = content, None
    else:
        name = content(run)
        model = read_model(run, name)
    if model is None:
        run.children.append(Child(id, node.id, number, str(source), is_service=True))
        params = {"input": given} if given else {}
        run.effect("invoke", str(source), params=params, id=id, type=kind)
        return
    _check_type(kind)
    run.children.append(Child(id, node.id, number, name))
    _start(run, id, model, given)


def _check_type(kind: Any) -> None:
    if kind not in CHART_TYPES:
        raise Failure(f"{kind!r} is not a kind of chart that can be invoked")


def _named(run: ChartSession, kind: Any, source: Any) -> CompiledChart | None:
    """Return the registered chart of a name; None if it must be a service outside."""
    if not isinstance(source, str):
        raise Failure(f"{source!r} names nothing that could be invoked")
    found: CompiledChart | None = run.model.bindings.charts.get(source)
    if found is None and run.model.definition.is_scxml and kind in CHART_TYPES:
        raise Failure(f"there is no chart {source!r}", kind="communication")
    return found


def _start(run: ChartSession, id: str, model: CompiledChart, given: dict[str, Any]) -> None:
    if run.path.count("/") >= DEEPEST:
        raise Failure(f"charts are more than {DEEPEST} deep inside one another")
    first = blank(model, f"{run.session}/{id}")
    below = ChartSession(run.world, model, 0, first, parent=run, invokeid=id)
    run.runs[id] = below
    attend(below, lambda: begin(below, given))


def attend(run: ChartSession, work: Any) -> None:
    """Do some work of a session; the failure of a child is an event for its parent."""
    if run.parent is None or run.invokeid is None:
        work()
        return
    try:
        work()
    except StepFailed as error:
        run.status = "error"
        run.timers, run.queue = [], []
        told = frozen({"message": str(error), "place": error.place})
        run.parent.queue.append(
            Event(f"error.invoke.{run.invokeid}", told, "platform", invokeid=run.invokeid)
        )


def read_model(run: ChartSession, text: Any) -> CompiledChart:
    """Return the chart that a text of SCXML is."""
    if not isinstance(text, str):
        raise Failure("what is invoked is not the text of a chart")
    try:
        return _model_of(text)
    except BadChart as error:
        raise Failure(str(error)) from error


@lru_cache(maxsize=64)
def _model_of(text: str) -> CompiledChart:
    return CompiledChart(_definition(text), Bindings())


def _definition(text: str) -> Definition:
    return read_scxml(text)
