"""Models: what an agent thinks with, over HTTP, from a script, or from a record."""

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


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = __import__(f"{__name__}.{_HOME[name]}", fromlist=[name])
    found: object = getattr(module, name)
    globals()[name] = found
    return found
