"""The working memory of an agent: its goal, its plan, its notes, and the tools it called.

    memory = state.memory
    memory.goal = "fly to NYC under 500"
    memory.plan(["search", "compare", "book"])
    memory.done("search")
    memory.note("airline", "Delta", importance=0.9)
    memory.recall("which airline?", k=3)

Read `memory.py` first, then `storage.py` for the stored form, `notes.py` for how a note fades,
`relevance.py` for how notes are ranked, and `merge.py` for what a merge of two branches does.
Modules are loaded when one of their names is first used.

Glossary: a *note* is a value worth knowing, under a key; its *strength* is what is left of its
importance; a *step* is a part of the plan; a *tool record* is one tool call with its result; a
*task* is the goal with the progress of its plan.
"""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.memory.memory import Memory
    from otolith.memory.merge import RESOLVERS, merge_notes, merge_plans
    from otolith.memory.notes import Note, NoteVersion, strength
    from otolith.memory.plan import PlanStep, StepState, TaskState
    from otolith.memory.relevance import RecalledNote, RelevantItem, RelevantItems
    from otolith.memory.tool_calls import ToolLog, ToolRecord

__all__ = [
    "RESOLVERS",
    "Memory",
    "Note",
    "NoteVersion",
    "PlanStep",
    "RecalledNote",
    "RelevantItem",
    "RelevantItems",
    "StepState",
    "TaskState",
    "ToolLog",
    "ToolRecord",
    "merge_notes",
    "merge_plans",
    "strength",
]

_HOME = {
    **dict.fromkeys(["RESOLVERS", "merge_notes", "merge_plans"], "merge"),
    **dict.fromkeys(["Note", "NoteVersion", "strength"], "notes"),
    **dict.fromkeys(["PlanStep", "StepState", "TaskState"], "plan"),
    **dict.fromkeys(["RecalledNote", "RelevantItem", "RelevantItems"], "relevance"),
    **dict.fromkeys(["ToolLog", "ToolRecord"], "tool_calls"),
    "Memory": "memory",
}

__getattr__ = door(__name__, _HOME)
