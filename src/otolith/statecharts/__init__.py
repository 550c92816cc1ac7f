"""Statecharts that can be stored, rewound and proven.

    chart = Chart.load("booking.json")
    snapshot, effects, trace = chart.start({"goal": "fly"}, session="trip-42")
    snapshot, effects, trace = chart.step(snapshot, "new_task", now=clock())

    machine = state.lifecycle(chart)          # the same, kept in a state and committed with it
    machine.send("new_task", goal="fly")

Read `stepping.py`, then `plans.py`, then `microsteps.py`; of documents, `formats/`;
of machines that last, `machine.py`. Names are loaded when they are first asked for.

Glossary: a *chart* is a definition with the functions its names stand for; a *snapshot* is a
running chart between two steps, as one value; a *configuration* is the active states at the bottom
of the hierarchy; a *step* takes a snapshot and an event to the next snapshot; an *effect* is what
a step asks the host to do, as data with a key; a *guard* decides whether a transition may be taken;
an *action* is pure and runs inside the step; a *trace* is how a step got where it is, microstep by
microstep; a *macrostep* is what one external event causes until the chart rests.
"""

from otolith.doors import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.agent.lifecycle.analysis import (
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
    from otolith.agent.lifecycle.analysis.scripts import Item
    from otolith.agent.lifecycle.carrying import Carried
    from otolith.agent.lifecycle.chart import Chart
    from otolith.agent.lifecycle.classes import ChartClass, action, effect, guard, to
    from otolith.agent.lifecycle.effects import Effect
    from otolith.agent.lifecycle.machine import Machine
    from otolith.agent.lifecycle.merging import Merging
    from otolith.agent.lifecycle.phases import AGENT, Phase
    from otolith.agent.lifecycle.record import Kept, Recorded, Waiting, machines_in
    from otolith.agent.lifecycle.snapshot import Child, Event, Microstep, Snapshot, Timer
    from otolith.agent.lifecycle.stepping import Step, advance, posted, start, step, turn

__all__ = [
    "AGENT",
    "Carried",
    "Change",
    "Chart",
    "ChartClass",
    "Child",
    "Coverage",
    "Effect",
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
    "AGENT": "phases",
    "Carried": "carrying",
    "Change": "analysis",
    "Chart": "chart",
    "ChartClass": "classes",
    "Child": "snapshot",
    "Coverage": "analysis",
    "Effect": "effects",
    "Event": "snapshot",
    "Finding": "analysis",
    "Forecast": "analysis",
    "Graph": "analysis",
    "Item": "analysis.scripts",
    "Kept": "record",
    "Machine": "machine",
    "Merging": "merging",
    "Microstep": "snapshot",
    "Path": "analysis",
    "Paths": "analysis",
    "Phase": "phases",
    "Recorded": "record",
    "Run": "analysis",
    "Snapshot": "snapshot",
    "Stage": "analysis",
    "Step": "stepping",
    "Timer": "snapshot",
    "Verdict": "analysis",
    "Waiting": "record",
    "action": "classes",
    "advance": "stepping",
    "effect": "classes",
    "guard": "classes",
    "machines_in": "record",
    "posted": "stepping",
    "start": "stepping",
    "step": "stepping",
    "to": "classes",
    "turn": "stepping",
}

__getattr__ = door(__name__, _HOME)
