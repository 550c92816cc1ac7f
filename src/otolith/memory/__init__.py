"""What an agent works with: its goal, its plan, what it noted, and which tools it called.

    mem = state.memory
    mem.goal = "fly to NYC under 500"
    mem.plan(["search", "compare", "book"]); mem.done("search")
    mem.note("airline", "Delta", importance=0.9)
    mem.recall("which airline?", k=3)

Read `memory.py`, then `storage.py` for where it is kept, `notes.py` for how it fades, and
`merge.py` for what two branches make of it. Names are loaded when they are first asked for.

Glossary: a *note* is something worth knowing, under a key; its *strength* is what is left of its
importance; a *step* is a part of the plan; a *tool record* is one call of a tool and what came of
it; a *task* is all that seen from outside.
"""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.memory.memory import Memory
    from otolith.memory.merge import RESOLVERS, merge_notes, merge_plans
    from otolith.memory.notes import Note, Recalled, Version, strength
    from otolith.memory.plan import Step, StepState, TaskState
    from otolith.memory.relevance import Choice, Item
    from otolith.memory.tool_calls import ToolLog, ToolRecord

__all__ = [
    "RESOLVERS",
    "Choice",
    "Item",
    "Memory",
    "Note",
    "Recalled",
    "Step",
    "StepState",
    "TaskState",
    "ToolLog",
    "ToolRecord",
    "Version",
    "merge_notes",
    "merge_plans",
    "strength",
]

_HOME = {
    "Choice": "relevance",
    "Item": "relevance",
    "Memory": "memory",
    "Note": "notes",
    "RESOLVERS": "merge",
    "Recalled": "notes",
    "Step": "plan",
    "StepState": "plan",
    "TaskState": "plan",
    "ToolLog": "tool_calls",
    "ToolRecord": "tool_calls",
    "Version": "notes",
    "merge_notes": "merge",
    "merge_plans": "merge",
    "strength": "notes",
}

__getattr__ = door(__name__, _HOME)
