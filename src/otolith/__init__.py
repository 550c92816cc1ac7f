"""Version control for what an AI agent knows: every step is a commit.

    import otolith

    state = otolith.Versioned(otolith.Disk("agent.db"))   # a dict backed by a file
    state["plan"] = {"steps": ["search"]}
    first = state.commit("planned")
    state["plan"]["steps"].append("book")                 # in place; commit() detects it
    state.commit("extended")
    state.at(first)["plan/steps"]                         # ['search'], read-only
    state.rollback(first)                                 # a new commit; history stays

Open        open, Repo, Versioned, Live
Stores      Disk, Memory, Cache, KVStore
Look        view, events, Event, ActionEvent, Commit, Change, Merge, PathConflict, Branch, Snapshot
Act         Agent, Orchestrator, AgentState, WorkingMemory, Tool, tool, Workspace, Runner, Chart,
            Flow
Talk        Message, ToolCall
Values      Codecs, migration
Errors      Error and its kinds; all of them are in otolith.errors
Modules     aio (the same verbs, awaitable), errors

Names are loaded when they are first used, so importing otolith imports nothing else.
"""

# A type checker reads this name as true; importing it from `typing` would cost the most of all.
TYPE_CHECKING = False

__version__ = "0.1.0"

# Where each name lives. The block below says the same to type checkers; tests/house compares both.
_HOME = {
    "open": "otolith.opening",
    "Repo": "otolith.session",
    "Versioned": "otolith.session",
    "Live": "otolith.live",
    "Event": "otolith.state",
    "ActionEvent": "otolith.state",
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
    "Flow": "otolith.flows",
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

_MODULES = ("aio", "errors")

if TYPE_CHECKING:
    from otolith import aio, errors
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
    from otolith.flows import Flow
    from otolith.live import Live
    from otolith.opening import open
    from otolith.session import Repo, Versioned
    from otolith.state import ActionEvent, Event, events
    from otolith.statecharts import Chart
    from otolith.stores import Cache, Disk, KVStore, Memory
    from otolith.views import view
    from otolith.workspace import Runner, Workspace

__all__ = [
    "ActionEvent",
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
    "Flow",
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
    "aio",
    "errors",
    "events",
    "migration",
    "open",
    "tool",
    "view",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return __import__(f"{__name__}.{name}", fromlist=[name])
    home = _HOME.get(name)
    if home is None:
        said = f"module {__name__!r} has no attribute {name!r}"
        if name[:1].isupper() and hasattr(__getattr__("errors"), name):
            said += f": it is in {__name__}.errors"
        raise AttributeError(said, name=name, obj=__name__)
    found: object = getattr(__import__(home, fromlist=[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: object) -> None:
    """Load the cell magics: what `%load_ext otolith` calls."""
    __import__("otolith.cli.ipython", fromlist=["load"]).load(shell)


def unload_ipython_extension(shell: object) -> None:
    """Remove the cell magics: what `%unload_ext otolith` calls."""
    __import__("otolith.cli.ipython", fromlist=["unload"]).unload(shell)
