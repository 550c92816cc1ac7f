"""Charts and machines on the screen: findings, runs, paths, and where machines are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from otolith.cli.format.history import counted
from otolith.cli.terminal import safe, table
from otolith.statecharts import Chart, Effect, Finding, Path, Paths, Run, Stage, StoredMachine

_COLORS = {"error": "red", "warning": "yellow", "note": "blue"}


def finding_lines(chart: Chart, found: Sequence[Finding]) -> Iterator[str]:
    """Yield what was found, and how much of it."""
    for each in found:
        yield f"{click.style(each.severity, fg=_COLORS[each.severity])}: {safe(each.message)}"
        if each.hint:
            yield safe(f"  {each.hint}")
    kinds = [each.severity for each in found]
    told = [counted(kinds.count(kind), kind) for kind in _COLORS if kind in kinds]
    states = counted(len(chart.states), "state")
    yield f"{safe(chart.name)}: {states}, {', '.join(told) or 'nothing wrong'} ({chart.hash[:12]})"


def finding_json(found: Finding) -> dict[str, Any]:
    """Return a finding as JSON has it."""
    names = ("kind", "severity", "state", "message", "hint", "place")
    return {name: getattr(found, name) for name in names}


def run_lines(run: Run) -> Iterator[str]:
    """Yield the steps of a run, and why it ended if it did."""
    rows = []
    for stage in run.stages:
        asked = ", ".join(map(_asked, stage.effects))
        rows.append([_time(stage), *map(safe, (_item(stage.item), stage.phase, asked))])
    yield from table([["time", "event", "phase", "asks for"], *rows])
    if run.refusal is not None:
        yield f"{click.style('stopped', fg='red')}: {safe(run.refusal.message)}"


def run_json(run: Run) -> dict[str, Any]:
    """Return a run as JSON has it."""
    refusal = run.refusal
    return {
        "accepted": run.is_accepted,
        "phase": run.phase,
        "steps": [
            {
                "event": _item(stage.item),
                "time": stage.time,
                "configuration": list(stage.snapshot.configuration),
                "effects": [effect.to_data() for effect in stage.effects],
            }
            for stage in run.stages
        ],
        "refusal": None
        if refusal is None
        else {"event": _item(refusal.item), "message": refusal.message, "allowed": refusal.allowed},
    }


def path_lines(found: Paths) -> Iterator[str]:
    """Yield paths, a line each."""
    rows = [[each.phase, " ".join(map(_item, each.script)) or "(the start)"] for each in found]
    yield from table([list(map(safe, row)) for row in rows])
    for limit in found.limits:
        yield f"({limit})"


def path_json(path: Path) -> dict[str, Any]:
    """Return a path as JSON has it."""
    return {"events": list(path.script), "configuration": list(path.configuration)}


def machine_lines(found: Mapping[str, StoredMachine]) -> Iterator[str]:
    """Yield where machines are, a line each."""
    if not found:
        yield "no machines; state.lifecycle(chart) begins one"
        return
    rows = [["machine", "phase", "steps", "waits for", "outbox"]]
    for name, kept in found.items():
        due = kept.snapshot.next_due
        when = "" if due is None else f"{_moment(due)}"
        waiting = len(kept.outbox)
        phase = kept.snapshot.phase
        status = "" if kept.snapshot.status == "running" else f" ({kept.snapshot.status})"
        rows.append(
            [
                safe(name),
                safe(phase + status),
                str(kept.steps),
                when,
                str(waiting) if waiting else "",
            ]
        )
    yield from table(rows, right=(2, 4))


def machine_json(kept: StoredMachine) -> dict[str, Any]:
    """Return a machine as JSON has it."""
    return {
        "snapshot": kept.snapshot.to_data(),
        "steps": kept.steps,
        "outbox": [waiting.to_data() for waiting in kept.outbox.values()],
    }


def _asked(effect: Effect) -> str:
    return effect.name if effect.kind == "call" else f"{effect.kind} {effect.name}"


def _item(item: Any) -> str:
    if item is None:
        return "(start)"
    if isinstance(item, str):
        return item
    name, data = item[0], item[1]
    return f"+{data:g}s" if name == "after" else f"{name}:{data}"


def _time(stage: Stage) -> str:
    return f"{stage.time / 1e6:g}s"


def _moment(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
