"""The front door: `open` and the names a user needs, each loaded when it is first asked for.

Importing otolith imports nothing else. `_HOME` says where each name lives; the block below it
tells type checkers the same, and a test in `tests/house` keeps the two alike.
"""

# A type checker reads this name as true; importing it from `typing` would cost the most of all.
TYPE_CHECKING = False

__version__ = "0.1.0"

_HOME = {
    "open": "otolith.opening",
    "Repo": "otolith.session",
    "Versioned": "otolith.session",
    "Live": "otolith.state",
    "Event": "otolith.state",
    "events": "otolith.state",
    "view": "otolith.views",
    "Agent": "otolith.agent",
    "Orchestrator": "otolith.agent",
    "AgentState": "otolith.agent",
    "WorkingMemory": "otolith.agent",
    "Tool": "otolith.agent",
    "tool": "otolith.agent",
    "Message": "otolith.conversation",
    "ToolCall": "otolith.conversation",
    "Chart": "otolith.statecharts",
    "Runner": "otolith.workspace",
    "Workspace": "otolith.workspace",
    "Branch": "otolith.core",
    "Snapshot": "otolith.core",
    "Commit": "otolith.core",
    "Change": "otolith.core",
    "PathConflict": "otolith.core",
    "Merge": "otolith.core",
    "Memory": "otolith.stores",
    "Disk": "otolith.stores",
    "Cache": "otolith.stores",
    "KVStore": "otolith.stores",
    "Codecs": "otolith.codecs",
    "migration": "otolith.codecs",
    "Error": "otolith.errors",
    "NotFound": "otolith.errors",
    "Exists": "otolith.errors",
    "StaleRef": "otolith.errors",
    "MergeConflict": "otolith.errors",
    "Invalid": "otolith.errors",
    "BadValue": "otolith.errors",
    "Denied": "otolith.errors",
    "ReadOnly": "otolith.errors",
    "Closed": "otolith.errors",
    "Unavailable": "otolith.errors",
    "Full": "otolith.errors",
    "Corrupt": "otolith.errors",
    "Unsupported": "otolith.errors",
    "Untrusted": "otolith.errors",
    "SchemaMismatch": "otolith.errors",
    "Unstorable": "otolith.errors",
    "NotKept": "otolith.errors",
}

if TYPE_CHECKING:
    from otolith.agent import Agent, AgentState, Orchestrator, Tool, WorkingMemory, tool
    from otolith.codecs import Codecs, migration
    from otolith.conversation import Message, ToolCall
    from otolith.core import Branch, Change, Commit, Merge, PathConflict, Snapshot
    from otolith.errors import (
        BadValue,
        Closed,
        Corrupt,
        Denied,
        Error,
        Exists,
        Full,
        Invalid,
        MergeConflict,
        NotFound,
        NotKept,
        ReadOnly,
        SchemaMismatch,
        StaleRef,
        Unavailable,
        Unstorable,
        Unsupported,
        Untrusted,
    )
    from otolith.opening import open
    from otolith.session import Repo, Versioned
    from otolith.state import Event, Live, events
    from otolith.statecharts import Chart
    from otolith.stores import Cache, Disk, KVStore, Memory
    from otolith.views import view
    from otolith.workspace import Runner, Workspace

__all__ = [
    "Agent",
    "AgentState",
    "BadValue",
    "Branch",
    "Cache",
    "Change",
    "Chart",
    "Closed",
    "Codecs",
    "Commit",
    "Corrupt",
    "Denied",
    "Disk",
    "Error",
    "Event",
    "Exists",
    "Full",
    "Invalid",
    "KVStore",
    "Live",
    "Memory",
    "Merge",
    "MergeConflict",
    "Message",
    "NotFound",
    "NotKept",
    "Orchestrator",
    "PathConflict",
    "ReadOnly",
    "Repo",
    "Runner",
    "SchemaMismatch",
    "Snapshot",
    "StaleRef",
    "Tool",
    "ToolCall",
    "Unavailable",
    "Unstorable",
    "Unsupported",
    "Untrusted",
    "Versioned",
    "WorkingMemory",
    "Workspace",
    "__version__",
    "events",
    "migration",
    "open",
    "tool",
    "view",
]


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}", name=name, obj=__name__
        )
    module = __import__(home, fromlist=[name])
    found: object = getattr(module, name)
    globals()[name] = found
    return found


def load_ipython_extension(shell: object) -> None:
    """Do what `%load_ext otolith` asks for."""
    __import__("otolith.cli.ipython", fromlist=["load"]).load(shell)


def unload_ipython_extension(shell: object) -> None:
    """Do what `%unload_ext otolith` asks for."""
    __import__("otolith.cli.ipython", fromlist=["unload"]).unload(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
