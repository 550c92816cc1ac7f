"""What an agent keeps: its state, as Python's own values, on the versioned tree.

Read `session.py`, then `holding.py`.
"""

from otolith.agent.home import Home
from otolith.agent.session import Versioned

__all__ = ["Home", "Versioned"]
