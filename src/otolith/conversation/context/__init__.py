"""Context windows: the part of a conversation that a model is sent, within a budget of tokens.

Read `builder.py` for the rules and the pipeline, then the modules in the order in which it uses
them: `source.py` (inputs), `units.py` (grouping), `reductions.py` (shrinking), `budget.py` (costs
and cuts), `provider_messages.py` (translation), `context.py` (the result, with its reasons).
"""

from otolith.conversation.context.builder import ContextBuilder
from otolith.conversation.context.context import Context, Indices
from otolith.conversation.context.provider_messages import all_messages_for
from otolith.conversation.context.source import ContextRules, MessageSource
from otolith.conversation.context.units import Reason

__all__ = [
    "Context",
    "ContextBuilder",
    "ContextRules",
    "Indices",
    "MessageSource",
    "Reason",
    "all_messages_for",
]
