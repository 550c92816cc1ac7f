"""What an agent keeps: its state, as Python's own values, on the versioned tree.

Read `session.py`, then `holding.py`, then `tracking/imprint.py`; of events, `kept.py`.
"""

from otolith.agent.event import Event, EventLog
from otolith.agent.frames import Frame
from otolith.agent.kept import events
from otolith.agent.live import Live, Stateless, state_of
from otolith.agent.past import Then
from otolith.agent.repo import Repo
from otolith.agent.schema import Schema
from otolith.agent.session import Versioned
from otolith.agent.state import State
from otolith.agent.viewing import view

__all__ = [
    "Event",
    "EventLog",
    "Frame",
    "Live",
    "Repo",
    "Schema",
    "State",
    "Stateless",
    "Then",
    "Versioned",
    "events",
    "state_of",
    "view",
]
