"""Looking at runs in a state, also in one of the past: which there are, and where each is.

See `record.py` for how they are kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from otolith.agent.conversation import Conversation
from otolith.agent.loop.models.model import Recorded
from otolith.agent.loop.state import SCHEMA, AgentState
from otolith.core import LOOP, Path, Reading
from otolith.errors import Corrupt

MAIN = "main"


def value_at(state: Reading, path: Path) -> Any:
    """Return what is kept at a path; None if there is nothing."""
    with state.turn():
        cell = state.cell_at(path)
        return None if cell is None else state.cells.load(cell)


def runs_in(state: Reading) -> list[str]:
    """Return the names of the runs that are kept in a state."""
    cell = state.cell_at((LOOP, "runs"))
    keys = [] if cell is None else [key for key, _ in state.cells.entries(cell)]
    return [str(state.cells.encoding.unkey(key)) for key in keys]


def run_in(state: Reading, name: str = MAIN) -> AgentState | None:
    """Return where a run is in a state, or was in one of the past; None if it has not begun.

    Raises:
        SchemaMismatch: it was kept by another version, and no migration leads here.
    """
    path = (LOOP, "runs", name)
    head = value_at(state, (*path, "head"))
    if head is None:
        return None
    if not isinstance(head, dict):
        raise Corrupt(f".loop/runs/{name} is no run", hint="run otolith fsck")
    memory = dict(value_at(state, (*path, "memory")) or {})
    memory["tool_calls"] = _elements(state, (*path, "calls"), head.get("calls_from", 0))
    chat = Conversation(state, thread=name)
    if head.get("schema") == SCHEMA:  # what was said needs no migration
        bare = AgentState.from_data({**head, "memory": memory, "messages": ()})
        return replace(bare, messages=tuple(chat.messages()))
    messages = [message.to_data() for message in chat.messages()]
    return AgentState.from_data({**head, "memory": memory, "messages": messages})


def code_in(state: Reading, name: str = MAIN) -> str:
    """Return what a run was run by last: the name of a class, an agent or a task."""
    head = value_at(state, (LOOP, "runs", name, "head"))
    return str(head.get("code", "")) if isinstance(head, dict) else ""


def replies_in(state: Reading, name: str = MAIN) -> list[Recorded]:
    """Return what models have answered in a run, the oldest first."""
    return [Recorded.from_data(each) for each in _elements(state, (LOOP, "runs", name, "replies"))]


def _elements(state: Reading, path: Path, start: int = 0) -> list[Any]:
    with state.turn():
        cell, load = state.cell_at(path), state.cells.load
        return [] if cell is None else [load(each) for each in state.cells.elements(cell, start)]
