"""What an agent works with: its goal, its plan, what it noted, and which tools it called.

    mem = state.memory
    mem.goal = "fly to NYC under 500"
    mem.plan(["search", "compare", "book"]); mem.done("search")
    mem.note("airline", "Delta", importance=0.9)
    mem.recall("which airline?", k=3)

Read `memory.py`, then `record.py` for where it is kept, `fading.py` for how it fades, and
`merging.py` for what two branches make of it. Names are loaded when they are first asked for.

Glossary: a *note* is something worth knowing, under a key; its *strength* is what is left of its
importance; a *step* is a part of the plan; a *tool record* is one call of a tool and what came of
it; a *task* is all that seen from outside.
"""

from otolith.doors import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.agent.memory.calls import ToolLog, ToolRecord
    from otolith.agent.memory.choosing import Choice, Item
    from otolith.agent.memory.fading import strength
    from otolith.agent.memory.memory import Memory
    from otolith.agent.memory.merging import RESOLVERS, merge_notes, merge_plans
    from otolith.agent.memory.note import Note, Version
    from otolith.agent.memory.plan import Step, StepState
    from otolith.agent.memory.recalling import Recalled
    from otolith.agent.memory.task import TaskState

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
    "RESOLVERS": "merging",
    "Choice": "choosing",
    "Item": "choosing",
    "Memory": "memory",
    "Note": "note",
    "Recalled": "recalling",
    "Step": "plan",
    "StepState": "plan",
    "TaskState": "task",
    "ToolLog": "calls",
    "ToolRecord": "calls",
    "Version": "note",
    "merge_notes": "merging",
    "merge_plans": "merging",
    "strength": "fading",
}

__getattr__ = door(__name__, _HOME)
