"""Keeping a repo well: over any repo, blind to what its values mean.

Glossary: to *verify* is to re-hash what is reachable and say what is broken; to *repair* is to
fetch broken objects from a replica by their hash; to *prune* is to drop what no ref reaches; to
*migrate* is to store values of older versions of their classes as they are stored today.
"""

from otolith.care.migrate import Plan, Stale, apply_migration, plan_migration
from otolith.care.pruner import prune
from otolith.care.verifier import Problem, Report, verify

__all__ = [
    "Plan",
    "Problem",
    "Report",
    "Stale",
    "apply_migration",
    "plan_migration",
    "prune",
    "verify",
]
