"""What an agent has in mind, on the screen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from otolith.cli.safety import safe
from otolith.cli.screen.output import table
from otolith.cli.screen.values import one_line, to_json
from otolith.cli.screen.words import counted, moment

if TYPE_CHECKING:
    from otolith.agent import Then

_SIGNS = {"pending": " ", "active": ">", "done": "x", "failed": "!", "skipped": "-"}


def memory_lines(then: Then) -> Iterator[str]:
    """Yield the goal, the plan, the data of the task and the notes; what is empty is left out."""
    task = then.memory.task
    parts = [*_plan(then), *_data(then), *_notes(then)]
    if not (task.goal or parts or len(then.memory.tool_calls)):
        yield "nothing in mind"
        return
    yield f"{click.style(safe(task.goal) or '(no goal)', bold=True)}  ({safe(task.status)})"
    yield from parts
    calls = len(then.memory.tool_calls)
    if calls:
        yield f"{counted(calls, 'call')} of tools"


def _plan(then: Then) -> Iterator[str]:
    for number, step in enumerate(then.memory.steps):
        if not number:
            yield "Plan"
        why = f"  ({step.why})" if step.why else ""
        yield safe(f"  [{_SIGNS.get(step.state, '?')}] {step.text}{why}")


def _data(then: Then) -> list[str]:
    rows = [[f"  {safe(name)}", one_line(value)] for name, value in then.memory.task.data.items()]
    return ["Data of the task", *table(rows)] if rows else []


def _notes(then: Then) -> list[str]:
    rows = []
    for note in then.memory.notes.all():
        about = ["pinned"] * note.is_pinned + [f"from {note.source}"] * bool(note.source)
        about += [f"replaced by {note.replaced_by}"] * bool(note.replaced_by)
        told = safe(", ".join(about))
        rows.append([f"  {safe(note.key)}", one_line(note.value), moment(note.time), told])
    return ["Notes", *table(rows)] if rows else []


def memory_json(then: Then) -> dict[str, Any]:
    """Return it for programs."""
    memory = then.memory
    steps = [
        {"id": step.id, "text": step.text, "state": str(step.state), "why": step.why}
        for step in memory.steps
    ]
    notes = [
        {
            "key": note.key,
            "value": note.value,
            "importance": note.importance,
            "pinned": note.is_pinned,
            "source": note.source,
            "time": note.time,
            "replaced_by": note.replaced_by,
        }
        for note in memory.notes.all()
    ]
    found: dict[str, Any] = to_json(
        {
            "task": memory.task.to_dict(),
            "plan": steps,
            "notes": notes,
            "calls": len(memory.tool_calls),
        }
    )
    return found
