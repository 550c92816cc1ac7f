"""Prove your own parts: contract suites, a model, a machine, faults, and a disk that loses power.

StoreContract, CodecContract, RepoContract   subclass one, say how to make yours, run pytest
CoreContract                                 as RepoContract, for a bare otolith.core.Repo
ModelRepo, RepoMachine                       a repo of plain dicts, and random histories beside it
Fault, FaultyStore, PowerLossVFS             what goes wrong, when it is told to
strategies                                   values, keys and paths for Hypothesis
"""

from __future__ import annotations

import sys

from otolith.errors import MissingExtra

# A type checker reads this name as true; see the front door.
TYPE_CHECKING = False

_HOME = {
    "StoreContract": "otolith.testing.store_contract",
    "links": "otolith.testing.store_contract",
    "node": "otolith.testing.store_contract",
    "put": "otolith.testing.store_contract",
    "thing": "otolith.testing.store_contract",
    "CodecContract": "otolith.testing.codec_contract",
    "walk_down": "otolith.testing.codec_contract",
    "walk_up": "otolith.testing.codec_contract",
    "CoreContract": "otolith.testing.repo_contract",
    "RepoContract": "otolith.testing.repo_contract",
    "RepoMachine": "otolith.testing.machine",
    "ABSENT": "otolith.testing.model_values",
    "ModelBranch": "otolith.testing.model",
    "ModelChange": "otolith.testing.model_values",
    "ModelCommit": "otolith.testing.model",
    "ModelRepo": "otolith.testing.model",
    "brute_changes": "otolith.testing.model_values",
    "brute_list_merge": "otolith.testing.model_values",
    "brute_merge": "otolith.testing.model_values",
    "patched": "otolith.testing.model_values",
    "Fault": "otolith.testing.faults",
    "FaultyStore": "otolith.testing.faults",
    "PowerLossVFS": "otolith.testing.faults",
}

if TYPE_CHECKING:
    from otolith.testing.codec_contract import CodecContract, walk_down, walk_up
    from otolith.testing.faults import Fault, FaultyStore, PowerLossVFS
    from otolith.testing.machine import RepoMachine
    from otolith.testing.model import ModelBranch, ModelCommit, ModelRepo
    from otolith.testing.model_values import (
        ABSENT,
        ModelChange,
        brute_changes,
        brute_list_merge,
        brute_merge,
        patched,
    )
    from otolith.testing.repo_contract import CoreContract, RepoContract
    from otolith.testing.store_contract import StoreContract, links, node, put, thing

__all__ = [
    "ABSENT",
    "CodecContract",
    "CoreContract",
    "Fault",
    "FaultyStore",
    "ModelBranch",
    "ModelChange",
    "ModelCommit",
    "ModelRepo",
    "PowerLossVFS",
    "RepoContract",
    "RepoMachine",
    "StoreContract",
    "brute_changes",
    "brute_list_merge",
    "brute_merge",
    "links",
    "node",
    "patched",
    "put",
    "thing",
    "walk_down",
    "walk_up",
]

_EXTRA = ("hypothesis", "pytest")


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}", name=name, obj=__name__
        )
    found: object = getattr(_load(home), name)
    globals()[name] = found
    return found


def _load(home: str) -> object:
    """Import a suite; under pytest, so that its assertions explain themselves."""
    pytest = sys.modules.get("pytest")
    if pytest is not None and home not in sys.modules:
        pytest.register_assert_rewrite(home)
    try:
        return __import__(home, fromlist=["_"])
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA:
            raise
        raise MissingExtra(
            f"{home} needs {missing}, which is not installed",
            hint="pip install 'otolith[testing]'",
        ) from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
