"""Several that work on one state: what that costs, whether all get on, and how soon they know."""

from bench.teams import coordination, crowd, news, text

KINDS = {
    "crowd": crowd.rows,
    "news": news.rows,
    "coordination": coordination.rows,
    "text": text.rows,
}
# Which kind makes a row, by the first part of its name.
MADE_BY = {name: name for name in ("crowd", "news", "text")}
MADE_BY |= dict.fromkeys(("lease", "proposal", "queue"), "coordination")

__all__ = ["KINDS", "MADE_BY"]
