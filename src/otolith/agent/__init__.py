"""Agents that act: a state as one value, tools, models, and a loop that survives its process.

    class Booker(Orchestrator):
        def step(self, s: AgentState) -> AgentState: ...
    Booker(repo).run("Book a flight", session="trip-42")   # again after kill -9: it resumes

    agent = Agent(model=my_model)

    @agent.task
    def analyse(data: list[float]) -> Summary:
        "Describe the data."

Read `orchestrator.py`, then `journal.py` for what is stored, `tool_runner.py` for how often a tool
is called, and `model_step.py` for the step of an agent. Names are loaded when they are first used.

Glossary: a *run* is the work of one agent in a session; a *step* takes it from one state to the
next, and is a commit; an *effect* is what a tool does to the world; the *ledger* has all of them; a
*recorded reply* is the answer of a model, stored for steps that are cut off and for replays.
"""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.agent.agent import Agent, Task
    from otolith.agent.fan_out import FanOut, fan_out
    from otolith.agent.flow_tasks import WorkspaceStep
    from otolith.agent.flow_tool import flow_tool
    from otolith.agent.judge import judge
    from otolith.agent.ledger import LedgerEntry, effects_after, ledger_in
    from otolith.agent.model_step import ModelOrchestrator
    from otolith.agent.models.anthropic import AnthropicModel
    from otolith.agent.models.base import (
        FunctionModel,
        Model,
        RecordedReply,
        Reply,
        ReplyEnding,
        TextRestart,
        TokenUsage,
    )
    from otolith.agent.models.openai import OpenAIModel
    from otolith.agent.models.script import ScriptedModel
    from otolith.agent.orchestrator import Orchestrator
    from otolith.agent.replay_run import ReplayModel, ReplayResult, replay
    from otolith.agent.run_store import list_runs, load_run, replies_in, run_code_name
    from otolith.agent.state import AgentState, Observation, Outcome, WorkingMemory
    from otolith.agent.tools import Tool, Toolbox, tool

__all__ = [
    "Agent",
    "AgentState",
    "AnthropicModel",
    "FanOut",
    "FunctionModel",
    "LedgerEntry",
    "Model",
    "ModelOrchestrator",
    "Observation",
    "OpenAIModel",
    "Orchestrator",
    "Outcome",
    "RecordedReply",
    "ReplayModel",
    "ReplayResult",
    "Reply",
    "ReplyEnding",
    "ScriptedModel",
    "Task",
    "TextRestart",
    "TokenUsage",
    "Tool",
    "Toolbox",
    "WorkingMemory",
    "WorkspaceStep",
    "effects_after",
    "fan_out",
    "flow_tool",
    "judge",
    "ledger_in",
    "list_runs",
    "load_run",
    "replay",
    "replies_in",
    "run_code_name",
    "tool",
]

_MODULES = {
    "agent": "Agent Task",
    "fan_out": "FanOut fan_out",
    "flow_tasks": "WorkspaceStep",
    "flow_tool": "flow_tool",
    "judge": "judge",
    "ledger": "LedgerEntry effects_after ledger_in",
    "model_step": "ModelOrchestrator",
    "models.anthropic": "AnthropicModel",
    "models.base": "FunctionModel Model RecordedReply Reply ReplyEnding TextRestart TokenUsage",
    "models.openai": "OpenAIModel",
    "models.script": "ScriptedModel",
    "orchestrator": "Orchestrator",
    "replay_run": "ReplayModel ReplayResult replay",
    "run_store": "list_runs load_run replies_in run_code_name",
    "state": "AgentState Observation Outcome WorkingMemory",
    "tools": "Tool Toolbox tool",
}

__getattr__ = door(
    __name__, {name: module for module, names in _MODULES.items() for name in names.split()}
)
