"""Charts and machines as text and JSON: findings, simulated runs, paths, current states.

Times of a simulation are those of its virtual clock, which starts at 0. Times of stored machines
are real; text shows them in UTC, as timers are set in it.

JSON objects:

    finding     kind, severity (error, warning or note), state, message, hint, place
    run         accepted, phase, steps (event, time, configuration, effects), refusal
    path        events, configuration
    machine     snapshot, steps, outbox
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from otolith.cli.format.history import plural
from otolith.cli.terminal import escape, pick, table
from otolith.statecharts import (
    Chart,
    Finding,
    Path,
    Paths,
    SimulationRun,
    StoredMachine,
    format_time,
)

_COLORS = {"error": "red", "warning": "yellow", "note": "blue"}


def finding_lines(chart: Chart, found: Sequence[Finding]) -> Iterator[str]:
    """Yield the findings of a check, then how many there are of each severity."""
    for each in found:
        yield f"{click.style(each.severity, fg=_COLORS[each.severity])}: {escape(each.message)}"
        if each.hint:
            yield escape(f"  {each.hint}")
    kinds = [each.severity for each in found]
    counts = ", ".join(plural(kinds.count(kind), kind) for kind in _COLORS if kind in kinds)
    states = plural(len(chart.states), "state")
    yield f"{escape(chart.name)}: {states}, {counts or 'no problems'} ({chart.hash[:12]})"


def finding_json(found: Finding) -> dict[str, Any]:
    """Return a finding as JSON data."""
    return pick(found, "kind", "severity", "state", "message", "hint", "place")


def run_lines(run: SimulationRun) -> Iterator[str]:
    """Yield the steps of a simulated run as a table, and why it stopped, if it was refused.

    Effects are those that each step asked for; none was performed.
    """
    rows = []
    for stage in run.stages:
        effects = ", ".join(
            effect.name if effect.kind == "call" else f"{effect.kind} {effect.name}"
            for effect in stage.effects
        )
        texts = map(escape, (_event(stage.item), stage.phase, effects))
        rows.append([format_time(stage.time), *texts])
    yield from table([["time", "event", "phase", "effects"], *rows])
    if run.refusal is not None:
        yield f"{click.style('stopped', fg='red')}: {escape(run.refusal.message)}"


def run_json(run: SimulationRun) -> dict[str, Any]:
    """Return a simulated run as JSON data."""
    steps = [
        {
            "event": _event(stage.item),
            "time": stage.time,
            "configuration": stage.snapshot.configuration,
            "effects": [effect.to_data() for effect in stage.effects],
        }
        for stage in run.stages
    ]
    refusal = None
    if run.refusal is not None:
        refusal = {"event": _event(run.refusal.item)} | pick(run.refusal, "message", "allowed")
    return {"accepted": run.is_accepted, "phase": run.phase, "steps": steps, "refusal": refusal}


def path_lines(found: Paths) -> Iterator[str]:
    """Yield paths as a table, then what failed, what was not reached, and what cut the search."""
    rows = [[each.phase, " ".join(map(_event, each.script)) or "(the start)"] for each in found]
    yield from table([list(map(escape, row)) for row in rows])
    for problem in found.problems:
        yield f"{click.style('failed', fg='red')}: {escape(str(problem))}"
    if found.unreached:
        states = escape(", ".join(found.unreached))
        yield f"{click.style('never reached', fg='yellow')}: {states}"
    for limit in found.limits:
        yield f"({limit})"


def path_json(path: Path) -> dict[str, Any]:
    """Return a path as JSON data."""
    return {"events": path.script, "configuration": path.configuration}


def machine_lines(found: Mapping[str, StoredMachine]) -> Iterator[str]:
    """Yield the machines of a session as a table; "waits for" is when the next timer is due."""
    if not found:
        yield "no machines; state.lifecycle(chart) begins one"
        return
    rows = [["machine", "phase", "steps", "waits for", "outbox"]]
    for name, stored in found.items():
        due = stored.snapshot.next_due
        when = ""
        if due is not None:
            when = datetime.fromtimestamp(due / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
        phase = stored.snapshot.phase
        status = "" if stored.snapshot.status == "running" else f" ({stored.snapshot.status})"
        waiting = str(len(stored.outbox) or "")
        rows.append([escape(name), escape(phase + status), str(stored.steps), when, waiting])
    yield from table(rows, right=(2, 4))


def machine_json(stored: StoredMachine) -> dict[str, Any]:
    """Return a machine as JSON data."""
    return {
        "snapshot": stored.snapshot.to_data(),
        "steps": stored.steps,
        "outbox": [waiting.to_data() for waiting in stored.outbox.values()],
    }


def _event(item: Any) -> str:
    """Return an item of a script as the user writes it: `NAME`, `NAME:DATA` or `+30s`."""
    if item is None:
        return "(start)"
    if isinstance(item, str):
        return item
    name, data = item[0], item[1]
    return f"+{format_time(round(data * 1_000_000))}" if name == "after" else f"{name}:{data}"
