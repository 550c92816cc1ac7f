"""What an agent keeps: its state, as Python's own values, on the versioned tree.

Read `session.py`, then `holding.py`, then `tracking/imprint.py`; of events, `kept.py`. What has to
do with running code, and with charts, is loaded when it is first asked for: see
`workspace/__init__.py` and `lifecycle/__init__.py`.
"""

from otolith.agent import lifecycle, workspace
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

# A type checker reads this name as true.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.agent.lifecycle import (
        Chart,
        Effect,
        Finding,
        Item,
        Kept,
        Machine,
        Path,
        Paths,
        Run,
        Stage,
        machines_in,
    )
    from otolith.agent.workspace import (
        Difference,
        Runner,
        Step,
        Variable,
        Workspace,
        ladder,
        variables_in,
        workspace_diff,
    )

__all__ = [
    "Chart",
    "Difference",
    "Effect",
    "Event",
    "EventLog",
    "Finding",
    "Frame",
    "Item",
    "Kept",
    "Live",
    "Machine",
    "Path",
    "Paths",
    "Repo",
    "Run",
    "Runner",
    "Schema",
    "Stage",
    "State",
    "Stateless",
    "Step",
    "Then",
    "Variable",
    "Versioned",
    "Workspace",
    "events",
    "ladder",
    "machines_in",
    "state_of",
    "variables_in",
    "view",
    "workspace_diff",
]


def __getattr__(name: str) -> object:
    room = next((room for room in (workspace, lifecycle) if name in room.__all__), None)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(room, name)
    globals()[name] = found
    return found
