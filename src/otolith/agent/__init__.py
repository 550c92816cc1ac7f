"""Agents that act: a state as one value, tools, models, and a loop that survives its process.

    class Booker(Orchestrator):
        def step(self, s: AgentState) -> AgentState: ...
    Booker(repo).run("Book a flight", session="trip-42")   # again after kill -9: it goes on

    agent = Agent(model=my_model)

    @agent.task
    def analyse(data: list[float]) -> Summary:
        "Describe the data."

Read `orchestrator.py`, then `record.py` for what is kept, `hands.py` for how often a tool is
called, and `acting.py` for what an agent does in a step. Names are loaded when they are asked for.

Glossary: a *run* is the work of one agent in a session; a *step* takes it from one state to the
next, and is a commit; an *effect* is what a tool does to the world; the *ledger* has all of them; a
*recorded reply* is what a model answered, kept for steps that are cut off and for repeated runs.
"""

from otolith.doors import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.agent.loop.acting import Acting
    from otolith.agent.loop.agent import Agent
    from otolith.agent.loop.ledger import Entry, effects_after, ledger_in
    from otolith.agent.loop.looking import code_in, replies_in, run_in, runs_in
    from otolith.agent.loop.models import (
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
    from otolith.agent.loop.orchestrator import Orchestrator
    from otolith.agent.loop.outcome import Outcome
    from otolith.agent.loop.replaying import Replay, replay
    from otolith.agent.loop.state import AgentState
    from otolith.agent.loop.task import Task
    from otolith.agent.loop.tools import Tool, Toolbox, tool
    from otolith.agent.loop.working import Observation, Working

__all__ = [
    "Acting",
    "Agent",
    "AgentState",
    "AnthropicModel",
    "Entry",
    "FunctionModel",
    "Model",
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
    "Working",
    "code_in",
    "effects_after",
    "ledger_in",
    "replay",
    "replies_in",
    "run_in",
    "runs_in",
    "tool",
]

_HOME = {
    "Acting": "acting",
    "Agent": "agent",
    "AgentState": "state",
    "AnthropicModel": "models.anthropic",
    "Entry": "ledger",
    "FunctionModel": "models.model",
    "Model": "models.model",
    "Observation": "working",
    "OpenAIModel": "models.openai",
    "Orchestrator": "orchestrator",
    "Outcome": "outcome",
    "Recorded": "models.model",
    "Replay": "replaying",
    "ReplayModel": "models.recording",
    "Reply": "models.model",
    "ScriptedModel": "models.scripted",
    "Task": "task",
    "Tool": "tools",
    "Toolbox": "tools",
    "Usage": "models.model",
    "Working": "working",
    "code_in": "looking",
    "effects_after": "ledger",
    "ledger_in": "ledger",
    "replay": "replaying",
    "replies_in": "looking",
    "run_in": "looking",
    "runs_in": "looking",
    "tool": "tools",
}

__getattr__ = door(__name__, _HOME)
