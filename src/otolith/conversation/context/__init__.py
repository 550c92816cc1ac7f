"""Context windows: what of a conversation a model is sent, within a budget of tokens.

Read `projecting.py` for the rules, then `units.py` and `tiers.py`; `cutting.py` says how a cut
stays where it is, `sending.py` how each provider wants it. `whole.py` is a context without a
budget.
"""

from otolith.agent.conversation.context.context import Context, Indices
from otolith.agent.conversation.context.projecting import project
from otolith.agent.conversation.context.source import Rules, Source
from otolith.agent.conversation.context.units import Reason
from otolith.agent.conversation.context.whole import whole

__all__ = ["Context", "Indices", "Reason", "Rules", "Source", "project", "whole"]
