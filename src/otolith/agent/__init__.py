"""Agents that act: a state as one value, tools, models, and a loop that survives its process.

    class Booker(Orchestrator):
        def step(self, s: AgentState) -> AgentState: ...
    Booker(repo).run("Book a flight", session="trip-42")   # again after kill -9: it goes on

    agent = Agent(model=my_model)

    @agent.task
    def analyse(data: list[float]) -> Summary:
        "Describe the data."

Read `orchestrator.py`, then `run_store.py` for what is kept, `tool_runner.py` for how often a tool
is called, and `model_step.py` for what an agent does in a step. Names are loaded when they are
asked for.

Glossary: a *run* is the work of one agent in a session; a *step* takes it from one state to the
next, and is a commit; an *effect* is what a tool does to the world; the *ledger* has all of them; a
*recorded reply* is what a model answered, kept for steps that are cut off and for repeated runs.
"""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.agent.agent import Agent, Task
    from otolith.agent.invocation import Outcome
    from otolith.agent.ledger import Entry, effects_after, ledger_in
    from otolith.agent.model_step import ModelOrchestrator
    from otolith.agent.models import (
        AnthropicModel,
        FunctionModel,
        Model,
        OpenAIModel,
        Recorded,
        ReplayModel,
        Reply,
        ScriptedModel,
        Usage,
    )
    from otolith.agent.orchestrator import Orchestrator
    from otolith.agent.replay_run import Replay, replay
    from otolith.agent.run_store import list_runs, load_run, replies_in, run_code_name
    from otolith.agent.state import AgentState, Observation, WorkingMemory
    from otolith.agent.tools import Tool, Toolbox, tool

__all__ = [
    "Agent",
    "AgentState",
    "AnthropicModel",
    "Entry",
    "FunctionModel",
    "Model",
    "ModelOrchestrator",
    "Observation",
    "OpenAIModel",
    "Orchestrator",
    "Outcome",
    "Recorded",
    "Replay",
    "ReplayModel",
    "Reply",
    "ScriptedModel",
    "Task",
    "Tool",
    "Toolbox",
    "Usage",
    "WorkingMemory",
    "effects_after",
    "ledger_in",
    "list_runs",
    "load_run",
    "replay",
    "replies_in",
    "run_code_name",
    "tool",
]

_HOME = {
    "ModelOrchestrator": "model_step",
    "Agent": "agent",
    "AgentState": "state",
    "AnthropicModel": "models",
    "Entry": "ledger",
    "FunctionModel": "models",
    "Model": "models",
    "Observation": "state",
    "OpenAIModel": "models",
    "Orchestrator": "orchestrator",
    "Outcome": "invocation",
    "Recorded": "models",
    "Replay": "replay_run",
    "ReplayModel": "models",
    "Reply": "models",
    "ScriptedModel": "models",
    "Task": "agent",
    "Tool": "tools",
    "Toolbox": "tools",
    "Usage": "models",
    "WorkingMemory": "state",
    "run_code_name": "run_store",
    "effects_after": "ledger",
    "ledger_in": "ledger",
    "replay": "replay_run",
    "replies_in": "run_store",
    "load_run": "run_store",
    "list_runs": "run_store",
    "tool": "tools",
}

__getattr__ = door(__name__, _HOME)
