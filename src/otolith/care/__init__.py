"""Keeping a repo well: over any repo, blind to what its values mean.

Glossary: to *verify* is to re-hash what is reachable and say what is broken; to *repair* is to
fetch broken objects from a replica by their hash; to *prune* is to drop what no ref reaches.
"""

from otolith.care.pruning import prune
from otolith.care.verification import Problem, Report, verify

__all__ = ["Problem", "Report", "prune", "verify"]
