"""Models: what an agent thinks with, over HTTP, from a script, or from a record."""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.agent.models.anthropic import AnthropicModel
    from otolith.agent.models.base import FunctionModel, Model, Recorded, Reply, Usage
    from otolith.agent.models.openai import OpenAIModel
    from otolith.agent.models.scripted import ReplayModel, ScriptedModel

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
    "FunctionModel": "base",
    "Model": "base",
    "OpenAIModel": "openai",
    "Recorded": "base",
    "ReplayModel": "scripted",
    "Reply": "base",
    "ScriptedModel": "scripted",
    "Usage": "base",
}

__getattr__ = door(__name__, _HOME)
