"""Statecharts that can be stored, rewound, merged and checked.

    chart = Chart.load("booking.json")
    snapshot, effects, trace = chart.start({"goal": "fly"}, session="trip-42")
    snapshot, effects, trace = chart.step(snapshot, "new_task", now=clock())

    machine = state.lifecycle(chart)          # the same, stored in a state and committed with it
    machine.send("new_task", goal="fly")

Read `engine/step.py` first, then `engine/microstep.py` beside the W3C algorithm; for documents
`formats/`; for machines that are stored `machine.py`. Names are imported when they are first used.

Glossary: a *chart* is a definition with the functions that its names stand for; a *snapshot* is a
running chart between two steps, as one value; a *configuration* is the active states that have no
active child; a *step* takes a snapshot and an event to the next snapshot; an *effect* is what a
step asks the host to do, as data with a key; a *guard* decides whether a transition may be taken;
an *action* is pure and runs inside the step; a *microstep* takes one set of transitions, and a
*trace* lists the microsteps of a step; a *macrostep* is what one external event causes until the
chart rests; a *machine* is a chart that runs in a state.
"""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.statecharts.agent_phases import AGENT, Phase
    from otolith.statecharts.analysis import (
        ChartChange,
        Coverage,
        Finding,
        Path,
        PathProblem,
        Paths,
        SimulationRun,
        SimulationStep,
        StateGraph,
        Verdict,
    )
    from otolith.statecharts.analysis.inputs import ScriptItem, format_time
    from otolith.statecharts.chart import Chart
    from otolith.statecharts.chart_class import ChartClass, action, effect, guard, to
    from otolith.statecharts.engine.step import StepResult, advance, enqueue, start, step, turn
    from otolith.statecharts.machine import EffectReport, Machine
    from otolith.statecharts.merge import MachineMerger
    from otolith.statecharts.snapshot import (
        ChartEvent,
        ChartSnapshot,
        Child,
        Effect,
        Microstep,
        Timer,
    )
    from otolith.statecharts.storage import LoggedEvent, PendingEffect, StoredMachine, machines_in

__all__ = [
    "AGENT",
    "Chart",
    "ChartChange",
    "ChartClass",
    "ChartEvent",
    "ChartSnapshot",
    "Child",
    "Coverage",
    "Effect",
    "EffectReport",
    "Finding",
    "LoggedEvent",
    "Machine",
    "MachineMerger",
    "Microstep",
    "Path",
    "PathProblem",
    "Paths",
    "PendingEffect",
    "Phase",
    "ScriptItem",
    "SimulationRun",
    "SimulationStep",
    "StateGraph",
    "StepResult",
    "StoredMachine",
    "Timer",
    "Verdict",
    "action",
    "advance",
    "effect",
    "enqueue",
    "format_time",
    "guard",
    "machines_in",
    "start",
    "step",
    "to",
    "turn",
]

_NAMES_BY_MODULE = {
    "agent_phases": "AGENT Phase",
    "analysis": "ChartChange Coverage Finding Path PathProblem Paths SimulationRun SimulationStep"
    " StateGraph Verdict",
    "analysis.inputs": "ScriptItem format_time",
    "chart": "Chart",
    "chart_class": "ChartClass action effect guard to",
    "engine.step": "StepResult advance enqueue start step turn",
    "machine": "EffectReport Machine",
    "merge": "MachineMerger",
    "snapshot": "ChartEvent ChartSnapshot Child Effect Microstep Timer",
    "storage": "LoggedEvent PendingEffect StoredMachine machines_in",
}

__getattr__ = door(
    __name__, {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}
)
