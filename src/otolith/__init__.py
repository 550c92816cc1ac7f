"""The front door: `open` and the names a user needs, each loaded when it is first asked for.

Importing otolith imports nothing else. `_HOME` says where each name lives; the block below it
tells type checkers the same, and a test in `tests/house` keeps the two alike.
"""

# A type checker reads this name as true; importing it from `typing` would cost the most of all.
TYPE_CHECKING = False

__version__ = "0.1.0"

_HOME = {
    "open": "otolith.opening",
    "Repo": "otolith.core",
    "Branch": "otolith.core",
    "Snapshot": "otolith.core",
    "Commit": "otolith.core",
    "Change": "otolith.core",
    "Conflict": "otolith.core",
    "Merge": "otolith.core",
    "Codecs": "otolith.codecs",
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
}

if TYPE_CHECKING:
    from otolith.codecs import Codecs
    from otolith.core import Branch, Change, Commit, Conflict, Merge, Repo, Snapshot
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
        ReadOnly,
        StaleRef,
        Unavailable,
        Unsupported,
    )
    from otolith.opening import open

__all__ = [
    "BadValue",
    "Branch",
    "Change",
    "Closed",
    "Codecs",
    "Commit",
    "Conflict",
    "Corrupt",
    "Denied",
    "Error",
    "Exists",
    "Full",
    "Invalid",
    "Merge",
    "MergeConflict",
    "NotFound",
    "ReadOnly",
    "Repo",
    "Snapshot",
    "StaleRef",
    "Unavailable",
    "Unsupported",
    "__version__",
    "open",
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


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
