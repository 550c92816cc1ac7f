"""Statecharts that can be stored, rewound and proven.

    chart = Chart.load("booking.json")
    snapshot, effects, trace = chart.start({"goal": "fly"}, session="trip-42")
    snapshot, effects, trace = chart.step(snapshot, "new_task", now=clock())

    machine = state.lifecycle(chart)          # the same, kept in a state and committed with it
    machine.send("new_task", goal="fly")

Read `engine/step.py`, then `engine/plan.py`, then `engine/microstep.py`; of documents, `formats/`;
of machines that last, `machine.py`. Names are loaded when they are first asked for.

Glossary: a *chart* is a definition with the functions its names stand for; a *snapshot* is a
running chart between two steps, as one value; a *configuration* is the active states at the bottom
of the hierarchy; a *step* takes a snapshot and an event to the next snapshot; an *effect* is what
a step asks the host to do, as data with a key; a *guard* decides whether a transition may be taken;
an *action* is pure and runs inside the step; a *trace* is how a step got where it is, microstep by
microstep; a *macrostep* is what one external event causes until the chart rests.
"""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.statecharts.agent_phases import AGENT, Phase
    from otolith.statecharts.analysis import (
        Change,
        Coverage,
        Finding,
        Forecast,
        Graph,
        Path,
        Paths,
        Run,
        Stage,
        Verdict,
    )
    from otolith.statecharts.analysis.inputs import Item
    from otolith.statecharts.chart import Chart
    from otolith.statecharts.chart_class import ChartClass, action, effect, guard, to
    from otolith.statecharts.effect_runner import EffectReport
    from otolith.statecharts.engine.step import Step, advance, posted, start, step, turn
    from otolith.statecharts.machine import Machine
    from otolith.statecharts.merge import Merging
    from otolith.statecharts.snapshot import Child, Effect, Event, Microstep, Snapshot, Timer
    from otolith.statecharts.storage import Kept, Recorded, Waiting, machines_in

__all__ = [
    "AGENT",
    "Change",
    "Chart",
    "ChartClass",
    "Child",
    "Coverage",
    "Effect",
    "EffectReport",
    "Event",
    "Finding",
    "Forecast",
    "Graph",
    "Item",
    "Kept",
    "Machine",
    "Merging",
    "Microstep",
    "Path",
    "Paths",
    "Phase",
    "Recorded",
    "Run",
    "Snapshot",
    "Stage",
    "Step",
    "Timer",
    "Verdict",
    "Waiting",
    "action",
    "advance",
    "effect",
    "guard",
    "machines_in",
    "posted",
    "start",
    "step",
    "to",
    "turn",
]

_HOME = {
    "AGENT": "agent_phases",
    "EffectReport": "effect_runner",
    "Change": "analysis",
    "Chart": "chart",
    "ChartClass": "chart_class",
    "Child": "snapshot",
    "Coverage": "analysis",
    "Effect": "snapshot",
    "Event": "snapshot",
    "Finding": "analysis",
    "Forecast": "analysis",
    "Graph": "analysis",
    "Item": "analysis.inputs",
    "Kept": "storage",
    "Machine": "machine",
    "Merging": "merge",
    "Microstep": "snapshot",
    "Path": "analysis",
    "Paths": "analysis",
    "Phase": "agent_phases",
    "Recorded": "storage",
    "Run": "analysis",
    "Snapshot": "snapshot",
    "Stage": "analysis",
    "Step": "engine.step",
    "Timer": "snapshot",
    "Verdict": "analysis",
    "Waiting": "storage",
    "action": "chart_class",
    "advance": "engine.step",
    "effect": "chart_class",
    "guard": "chart_class",
    "machines_in": "storage",
    "posted": "engine.step",
    "start": "engine.step",
    "step": "engine.step",
    "to": "chart_class",
    "turn": "engine.step",
}

__getattr__ = door(__name__, _HOME)
