"""What time it is for a view of a state: that of its repo, unless the view was given a clock."""

from __future__ import annotations

from otolith.core import Reading, Repo
from otolith.types import Clock


def clock_of(state: Reading) -> Clock | None:
    """Return the clock of a state that goes on; one that is only read has none."""
    repo: object = getattr(state, "repo", None)
    return repo.clock if isinstance(repo, Repo) else None
