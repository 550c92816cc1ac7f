"""What an agent keeps: its state, as Python's own values, on the versioned tree.

Read `session.py`, then `holding.py`, then `tracking/imprint.py`.
"""

from otolith.agent.frames import Frame
from otolith.agent.past import Then
from otolith.agent.repo import Repo
from otolith.agent.schema import Schema
from otolith.agent.session import Versioned

__all__ = ["Frame", "Repo", "Schema", "Then", "Versioned"]
