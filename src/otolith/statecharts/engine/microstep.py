"""Microsteps and macrosteps of one session: leaving, acting, entering, until it rests."""

from __future__ import annotations

from typing import Any

from otolith.errors import StepFailed
from otolith.frozen import EMPTY
from otolith.statecharts.engine.chart_layout import CompiledTransition, Node
from otolith.statecharts.engine.compile import Get, Test, microseconds
from otolith.statecharts.engine.compiled_chart import Choice, CompiledChart
from otolith.statecharts.engine.plan import Plan
from otolith.statecharts.engine.run import ChartSession, Failure, frozen
from otolith.statecharts.snapshot import Event, Timer

MOST_MICROSTEPS = 1_000
"""How many microsteps a macrostep may take before it is taken for endless."""


def select(run: ChartSession, event: str) -> tuple[CompiledTransition, ...]:
    """Return the transitions that an event enables, guards asked; conflicts are still in it."""
    choice: Choice = run.model.choice(run.mask, event)
    if choice.sure is not None:
        return choice.sure
    answers: dict[Test, bool] = {}
    found: list[CompiledTransition] = []
    for group in choice.groups:
        arc = next((arc for arc in group if _holds(run, arc, answers)), None)
        if arc is not None and arc not in found:
            found.append(arc)
    return tuple(found)


def _holds(run: ChartSession, arc: CompiledTransition, answers: dict[Test, bool]) -> bool:
    """Ask a guard once, even where several regions share its transition."""
    test = arc.test
    if test is None:
        return True
    if test not in answers:
        answers[test] = test(run)
    return answers[test]


def microstep(run: ChartSession, arcs: tuple[CompiledTransition, ...], event: str) -> None:
    """Leave states, do the transitions' actions, enter states."""
    model: CompiledChart = run.model
    plan = model.plan(run.mask, arcs, run.history)
    run.world.trace.append(plan.line(event, run.path))
    if plan.records:
        run.history = {**run.history, **dict(plan.records)}
    if plan.script is not None:
        for run.mask, block in plan.script:
            run.execute(block)
        run.mask = plan.mask
        return
    for node in plan.exits:
        leave(run, node)
    for arc in plan.arcs:
        if arc.actions:
            run.execute(arc.actions)
    enter_all(run, plan)


def leave(run: ChartSession, node: Node) -> None:
    for block in node.exit:
        run.execute(block)
    if node.waits:
        names = {name for _, name in node.waits}
        run.timers = [timer for timer in run.timers if timer.id not in names]
    if node.calls:
        stop_children(run, node)
    run.to_invoke &= ~node.bit
    run.mask &= ~node.bit


def enter_all(run: ChartSession, plan: Plan) -> None:
    for node, block in plan.entries:
        run.mask |= node.bit
        if node.calls:
            run.to_invoke |= node.bit
        if node.data and run.model.definition.binding == "late" and node.id not in run.bound:
            run.bound = (*run.bound, node.id)
            declare(run, node)
        for delay, name in node.waits:
            _wait(run, node, delay, name)
        for entry in node.entry:
            run.execute(entry)
        if block:
            run.execute(block)
        if node.kind == "final":
            _finish_parent(run, node)


def _wait(run: ChartSession, node: Node, delay: Get, name: str) -> None:
    try:
        due = run.world.now + microseconds(delay(run), node.id)
    except Failure as failure:
        run.fail(failure)
        return
    run.timers.append(Timer(due, run.world.next_number(), name, Event(name, None, "platform")))


def declare(run: ChartSession, node: Node, given: dict[str, Any] = EMPTY) -> None:
    """Give the variables of a state their first values; one that fails is there, but empty."""
    for name, get in node.data:
        try:
            run.assign(name, given[name] if name in given else get(run))
        except Failure as failure:
            run.assign(name, None)
            run.fail(failure)


def _finish_parent(run: ChartSession, node: Node) -> None:
    """Tell that the state around a final one is done, and the parallel one around that."""
    parent = node.parent
    assert parent is not None
    if parent is run.model.root:
        run.is_stopping = True
        return
    run.internal.append(_done(run, parent, output_of(run, node)))
    above = parent.parent
    while above is not None and above.kind == "parallel" and _is_finished(run, above):
        if above is run.model.root:
            run.is_stopping = True
            return
        run.internal.append(_done(run, above, None))
        above = above.parent


def _done(run: ChartSession, node: Node, data: Any) -> Event:
    return Event(f"done.state.{node.id}", data, "platform")


def _is_finished(run: ChartSession, node: Node) -> bool:
    if node.kind == "parallel":
        return all(_is_finished(run, child) for child in node.children)
    return any(child.kind == "final" and run.mask & child.bit for child in node.children)


def output_of(run: ChartSession, node: Node) -> Any:
    """Return what a state hands over when it is done."""
    if node.output is None:
        return None
    content, params = node.output
    try:
        if content is not None:
            return frozen(content(run))
    except Failure as failure:
        run.fail(failure)
        return None
    found: dict[str, Any] = {}
    for name, get in params:
        try:
            found[name] = frozen(get(run))
        except Failure as failure:
            run.fail(failure)
    return frozen(found) if found else None


def macrostep(run: ChartSession) -> None:
    """Take eventless transitions and internal events until none is left, or the chart is done."""
    recent: list[str] = []
    for _ in range(MOST_MICROSTEPS):
        if run.is_stopping:
            return
        arcs, event = select(run, ""), ""
        while not arcs:
            if not run.internal:
                return
            run.event = run.internal.popleft()
            event = run.event.name
            arcs = select(run, event)
        recent.append(", ".join(run.model.leaves_of(run.mask)))
        microstep(run, arcs, event)
    cycle = list(dict.fromkeys(recent[-50:]))
    raise StepFailed(
        f"more than {MOST_MICROSTEPS} microsteps without coming to rest,"
        f" going round in {' -> '.join(cycle)}",
        place=run.model.definition.name,
        hint="an eventless transition or a raised event leads back to where it started",
    )


# ---------------------------------------------------------------- ending


def stop_children(run: ChartSession, node: Node) -> None:
    """End what a state has invoked."""
    for child in [child for child in run.children if child.state == node.id]:
        run.children.remove(child)
        below = run.runs.pop(child.id, None)
        if child.is_service:
            run.effect("stop", child.source or "", id=child.id)
        elif below is not None and below.status == "running":
            below.is_silent = True
            end(below)


def end(run: ChartSession) -> None:
    """Leave all states, inside out; the final ones stay visible in the snapshot."""
    resting = run.mask
    model: CompiledChart = run.model
    final = next((node for node in model.root.children if _is_final(run, node)), None)
    for node in reversed(model.nodes_of(run.mask)):
        leave(run, node)
    if final is not None:
        run.output = output_of(run, final)
    if model.root.output is not None:
        run.event = Event("done", run.output, "platform")
        run.output = output_of(run, model.root)
    run.mask = resting
    run.status = "done"
    run.timers = []
    run.queue = []
    run.internal.clear()


def _is_final(run: ChartSession, node: Node) -> bool:
    return node.kind == "final" and bool(run.mask & node.bit)
