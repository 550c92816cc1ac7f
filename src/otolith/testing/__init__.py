"""Prove your own parts: contract suites, faults, and a disk that loses power."""

from otolith.testing.faults import Fault, FaultyStore
from otolith.testing.powerloss import PowerLossVFS
from otolith.testing.store_contract import StoreContract, links, node, put, thing

__all__ = [
    "Fault",
    "FaultyStore",
    "PowerLossVFS",
    "StoreContract",
    "links",
    "node",
    "put",
    "thing",
]
