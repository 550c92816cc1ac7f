"""Worlds: snapshots taken apart into running sessions, and kept going until all is quiet."""

from __future__ import annotations

from otolith.agent.lifecycle.invoking import attend, handle, read_model, settle
from otolith.agent.lifecycle.model import Model
from otolith.agent.lifecycle.running import Failure, Run, World
from otolith.agent.lifecycle.sending import deliver, everyone
from otolith.agent.lifecycle.snapshot import Child, Snapshot, Timer
from otolith.errors import ChartMismatch, StepFailed

MOST_TURNS = 10_000
"""How many macrosteps and timers one step may take before it is taken for endless."""


def check(model: Model, snapshot: Snapshot) -> None:
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


def loaded(model: Model, snapshot: Snapshot, now: int | None) -> World:
    """Return the world of a snapshot, with the next step begun."""
    time = snapshot.time if now is None else max(now, snapshot.time)
    world = World(time, snapshot.seq + 1, snapshot.counter, snapshot.session)
    world.root = _restored(world, model, snapshot)
    return world


def _restored(
    world: World,
    model: Model,
    snapshot: Snapshot,
    parent: Run | None = None,
    invokeid: str | None = None,
) -> Run:
    is_broken = snapshot.status == "error"  # it stopped half-way, and does not go on
    mask = 0 if is_broken else model.mask_of(snapshot.configuration)
    run = Run(world, model, mask, snapshot, parent=parent, invokeid=invokeid)
    for child in snapshot.children:
        if child.snapshot is not None:
            inner = _model_of(run, child)
            check(inner, child.snapshot)
            run.runs[child.id] = _restored(world, inner, child.snapshot, run, child.id)
    return run


def _model_of(run: Run, child: Child) -> Model:
    """Find the chart of a child again: inside its parent's, by its name, or by its text."""
    content = run.model.nodes[child.state].calls[child.number].content
    if isinstance(content, Model):
        return content
    found: Model | None = run.model.bindings.charts.get(child.source)
    return read_model(run, child.source) if found is None else found


# ---------------------------------------------------------------- turns and timers


def settle_all(world: World) -> None:
    """Make turns until all queues are empty."""
    for _ in range(MOST_TURNS):
        if not take_turn(world):
            return
    raise _endless(world)


def take_turn(world: World) -> bool:
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


def fire_due(world: World, now: int) -> None:
    """Fire all timers up to a time, each with what follows from it."""
    for _ in range(MOST_TURNS):
        settle_all(world)
        if not fire_next(world, now):
            world.now = max(world.now, now)
            return
    raise _endless(world)


def fire_next(world: World, now: int) -> bool:
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


def _fire(run: Run, timer: Timer) -> None:
    try:
        deliver(run, timer.event, timer.target, timer.type)
    except Failure as failure:
        run.fail(failure)
    if run.internal:
        settle(run)


def _endless(world: World) -> StepFailed:
    return StepFailed(
        f"more than {MOST_TURNS} macrosteps without coming to rest",
        place=world.root.model.definition.name,
        hint="an event or a timer without delay causes itself again",
    )
