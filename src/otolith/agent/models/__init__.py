"""Models: what an agent thinks with, over HTTP, from a script, or from a record."""

from otolith.doors import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.agent.loop.models.anthropic import AnthropicModel
    from otolith.agent.loop.models.model import FunctionModel, Model, Recorded, Reply, Usage
    from otolith.agent.loop.models.openai import OpenAIModel
    from otolith.agent.loop.models.recording import ReplayModel
    from otolith.agent.loop.models.scripted import ScriptedModel

__all__ = [
    "AnthropicModel",
    "FunctionModel",
    "Model",
    "OpenAIModel",
    "Recorded",
    "ReplayModel",
    "Reply",
    "ScriptedModel",
    "Usage",
]

_HOME = {
    "AnthropicModel": "anthropic",
    "FunctionModel": "model",
    "Model": "model",
    "OpenAIModel": "openai",
    "Recorded": "model",
    "ReplayModel": "recording",
    "Reply": "model",
    "ScriptedModel": "scripted",
    "Usage": "model",
}

__getattr__ = door(__name__, _HOME)
