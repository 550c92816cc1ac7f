"""Maintenance of any repo, without knowing what its values mean.

Glossary: to *verify* is to re-hash what is reachable and report what is broken; to *repair* is to
fetch broken objects from a replica by their hash; to *prune* is to drop what no ref reaches; to
*migrate* is to store values of older versions of their classes as they are stored today; to *sign
anew* is to sign with the current key what older ones have signed; a *remote* is another store of
the same repo; to *erase* a user is to remove all of their state, for good.
"""

from otolith.care.maintenance import Problem, Report, expire, prune, verify
from otolith.care.migrate import apply_migration, plan_migration
from otolith.care.remotes import (
    RefUpdate,
    Remotes,
    TransferReport,
    clone,
    fetch,
    mirror,
    pull,
    push,
    remote_label,
)
from otolith.care.signatures import sign_anew
from otolith.care.stale_values import MigrationPlan, StaleValue
from otolith.care.user_erasure import ErasureReceipt, erase

__all__ = [
    "ErasureReceipt",
    "MigrationPlan",
    "Problem",
    "RefUpdate",
    "Remotes",
    "Report",
    "StaleValue",
    "TransferReport",
    "apply_migration",
    "clone",
    "erase",
    "expire",
    "fetch",
    "mirror",
    "plan_migration",
    "prune",
    "pull",
    "push",
    "remote_label",
    "sign_anew",
    "verify",
]
