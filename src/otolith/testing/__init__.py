"""Test suites for your own stores, codecs and executors, and stores that fail on command.

StoreContract, CodecContract       subclass one, define how to make yours, run pytest
ExecutorContract                   the same for what runs tasks of flows
Fault, FaultyStore, PowerLossVFS   failures at a chosen call, and a disk that loses power
blob, node, links, put             objects to write into a store under test
walk_down, walk_up                 a value through a codec and back, one level at a time
check_linearizable                 is there an order that explains a recorded history?
Operation, HistoryModel            what was recorded, and what it is compared with
RegisterModel                      a model of refs: RegisterRead, RegisterWrite, RegisterSwap
strategies                         values, keys and paths for Hypothesis

A store of your own is tested by a file like this; pytest runs every promise of the contract:

    from otolith.testing import StoreContract

    class TestMyStore(StoreContract):
        def make(self, folder):
            return MyStore(folder / "my.store")

        def reopen(self, store, folder):      # only for a store that outlives its process
            store.close()
            return MyStore(folder / "my.store")

The suites need `otolith[testing]`; importing this module alone needs nothing.
"""

from __future__ import annotations

import sys

from otolith.errors import MissingExtra

# A type checker reads this name as true; see the front door.
TYPE_CHECKING = False

_HOME = {
    "StoreContract": "otolith.testing.store_contract",
    "links": "otolith.testing.store_samples",
    "node": "otolith.testing.store_samples",
    "put": "otolith.testing.store_samples",
    "blob": "otolith.testing.store_samples",
    "CodecContract": "otolith.testing.codec_contract",
    "ExecutorContract": "otolith.testing.executor_contract",
    "walk_down": "otolith.testing.codec_contract",
    "walk_up": "otolith.testing.codec_contract",
    "Fault": "otolith.testing.faults",
    "FaultyStore": "otolith.testing.faults",
    "PowerLossVFS": "otolith.testing.faults",
    "HistoryModel": "otolith.testing.linearizable",
    "HistoryVerdict": "otolith.testing.linearizable",
    "Operation": "otolith.testing.linearizable",
    "RegisterModel": "otolith.testing.linearizable",
    "RegisterRead": "otolith.testing.linearizable",
    "RegisterSwap": "otolith.testing.linearizable",
    "RegisterWrite": "otolith.testing.linearizable",
    "UNKNOWN": "otolith.testing.linearizable",
    "check_linearizable": "otolith.testing.linearizable",
}

if TYPE_CHECKING:
    from otolith.testing.codec_contract import CodecContract, walk_down, walk_up
    from otolith.testing.executor_contract import ExecutorContract
    from otolith.testing.faults import Fault, FaultyStore, PowerLossVFS
    from otolith.testing.linearizable import (
        UNKNOWN,
        HistoryModel,
        HistoryVerdict,
        Operation,
        RegisterModel,
        RegisterRead,
        RegisterSwap,
        RegisterWrite,
        check_linearizable,
    )
    from otolith.testing.store_contract import StoreContract
    from otolith.testing.store_samples import blob, links, node, put

__all__ = [
    "UNKNOWN",
    "CodecContract",
    "ExecutorContract",
    "Fault",
    "FaultyStore",
    "HistoryModel",
    "HistoryVerdict",
    "Operation",
    "PowerLossVFS",
    "RegisterModel",
    "RegisterRead",
    "RegisterSwap",
    "RegisterWrite",
    "StoreContract",
    "blob",
    "check_linearizable",
    "links",
    "node",
    "put",
    "walk_down",
    "walk_up",
]

_EXTRA = ("hypothesis", "pytest")


def __getattr__(name: str) -> object:
    """Import a name at its first use: the suites need pytest and Hypothesis, which are optional."""
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
    """Return the public names too, before they are imported."""
    return sorted({*globals(), *__all__})
