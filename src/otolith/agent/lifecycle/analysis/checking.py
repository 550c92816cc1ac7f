"""Checking: what is wrong, or likely not meant, with a chart.

Questions about behaviour are answered by exploring the chart with guards that may say either: what
is not reached then is never reached. If there is too much to explore, a `cut` note says so, and
only what can be seen without exploring is told.
"""

from __future__ import annotations

from dataclasses import replace

from otolith.agent.lifecycle.analysis.data_flow import undeclared
from otolith.agent.lifecycle.analysis.exploring import explore
from otolith.agent.lifecycle.analysis.findings import SEVERITIES, Finding
from otolith.agent.lifecycle.analysis.reaching import Reach
from otolith.agent.lifecycle.analysis.rivalry import rivals, shadowed
from otolith.agent.lifecycle.analysis.wiring import missing, unheard, unraised
from otolith.agent.lifecycle.model import Model


def check(model: Model, *, max_configurations: int = 10_000) -> list[Finding]:
    """Return what is to say about a chart and the charts inside it, errors first."""
    graph = explore(model, max_configurations=max_configurations)
    reach = Reach(model, graph)
    found = [
        *missing(model),
        *undeclared(model),
        *reach.endless(),
        *reach.unreachable(),
        *reach.dead_ends(),
        *reach.without_final(),
        *rivals(model, graph),
        *shadowed(model),
        *unraised(model),
        *unheard(model),
        *reach.idle_timers(),
        *reach.idle_defaults(),
    ]
    told = {finding.place for finding in found if finding.place}
    found += [each for each in reach.never_taken() if each.place not in told]
    found += [
        Finding("cut", "note", "", f"not all was explored: {words}") for words in graph.limits
    ]
    for node in model.order:
        for call in node.calls:
            if isinstance(call.content, Model):
                inner = check(call.content, max_configurations=max_configurations)
                found += [_inside(node.id, each) for each in inner]
    return sorted(dict.fromkeys(found), key=lambda each: SEVERITIES.index(each.severity))


def _inside(state: str, found: Finding) -> Finding:
    """Say of what was found in a chart inside which state invokes it."""
    message = f"in what {state} invokes: {found.message}"
    return replace(found, state=f"{state}/{found.state}", message=message)
