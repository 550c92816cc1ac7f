"""Context windows: what of a conversation a model is sent, within a budget of tokens.

Read `builder.py` for the rules, then `units.py` and `reductions.py`; `budget.py` says how a cut
stays where it is, `provider_messages.py` how each provider wants it. `provider_messages.py` is a
context without a budget.
"""

from otolith.conversation.context.budget import Rules, Source
from otolith.conversation.context.builder import project
from otolith.conversation.context.context import Context, Indices
from otolith.conversation.context.provider_messages import all_messages_for
from otolith.conversation.context.units import Reason

__all__ = ["Context", "Indices", "Reason", "Rules", "Source", "all_messages_for", "project"]
