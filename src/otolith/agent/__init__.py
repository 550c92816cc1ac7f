"""What an agent keeps: its state, as Python's own values, on the versioned tree.

Read `session.py`, then `holding.py`, then `tracking/imprint.py`; of events, `kept.py`. What has to
do with running code, charts, conversations, memory and agents that act is loaded when it is first
asked for: see `__init__.py` of `workspace`, `lifecycle`, `conversation`, `memory` and `loop`. Those
rooms are doors of their own, with more names than are here.
"""

from otolith.agent import conversation, lifecycle, loop, memory, workspace
from otolith.agent.event import Event, EventLog
from otolith.agent.frames import Frame
from otolith.agent.kept import events
from otolith.agent.live import Live, Stateless, state_of
from otolith.agent.past import Then
from otolith.agent.recounting import Told, recount, words_of
from otolith.agent.repo import Repo
from otolith.agent.schema import Schema
from otolith.agent.session import Versioned
from otolith.agent.state import State
from otolith.agent.viewing import view

# A type checker reads this name as true.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.agent.conversation import (
        Attachment,
        Context,
        Conversation,
        Hit,
        Message,
        Reasoning,
        Role,
        Text,
        ToolCall,
        ToolResult,
        Topic,
    )
    from otolith.agent.lifecycle import (
        Chart,
        Effect,
        Finding,
        Item,
        Kept,
        Machine,
        Path,
        Paths,
        Run,
        Stage,
        machines_in,
    )
    from otolith.agent.loop import (
        Agent,
        AgentState,
        AnthropicModel,
        Entry,
        Model,
        Observation,
        OpenAIModel,
        Orchestrator,
        Outcome,
        Recorded,
        Reply,
        ScriptedModel,
        Task,
        Tool,
        Usage,
        code_in,
        effects_after,
        ledger_in,
        replay,
        replies_in,
        run_in,
        runs_in,
        tool,
    )
    from otolith.agent.memory import Note, TaskState, ToolRecord
    from otolith.agent.workspace import (
        Difference,
        Runner,
        Step,
        Variable,
        Workspace,
        ladder,
        variables_in,
        workspace_diff,
    )

__all__ = [
    "Agent",
    "AgentState",
    "AnthropicModel",
    "Attachment",
    "Chart",
    "Context",
    "Conversation",
    "Difference",
    "Effect",
    "Entry",
    "Event",
    "EventLog",
    "Finding",
    "Frame",
    "Hit",
    "Item",
    "Kept",
    "Live",
    "Machine",
    "Message",
    "Model",
    "Note",
    "Observation",
    "OpenAIModel",
    "Orchestrator",
    "Outcome",
    "Path",
    "Paths",
    "Reasoning",
    "Recorded",
    "Reply",
    "Repo",
    "Role",
    "Run",
    "Runner",
    "Schema",
    "ScriptedModel",
    "Stage",
    "State",
    "Stateless",
    "Step",
    "Task",
    "TaskState",
    "Text",
    "Then",
    "Told",
    "Tool",
    "ToolCall",
    "ToolRecord",
    "ToolResult",
    "Topic",
    "Usage",
    "Variable",
    "Versioned",
    "Workspace",
    "code_in",
    "effects_after",
    "events",
    "ladder",
    "ledger_in",
    "machines_in",
    "recount",
    "replay",
    "replies_in",
    "run_in",
    "runs_in",
    "state_of",
    "tool",
    "variables_in",
    "view",
    "words_of",
    "workspace_diff",
]


def __getattr__(name: str) -> object:
    rooms = (workspace, lifecycle, conversation, memory, loop)
    room = next((room for room in rooms if name in room.__all__), None)
    if room is None or name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(room, name)
    globals()[name] = found
    return found
