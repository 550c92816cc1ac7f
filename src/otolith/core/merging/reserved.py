"""Which policy decides about what is in a state and is not the user's; no pattern changes that.

Each room of `agent/` that keeps something under a name of its own has a rule here.
"""

from __future__ import annotations

from typing import Protocol

from otolith.core.paths import ALIASES, CONVERSATION, LIFECYCLE, LOOP, MEMORY, WORKSPACE, Path

CALL = "call:"


class Rule(Protocol):
    """Names the policy for a path below a reserved name; `is_map` if both sides are maps there."""

    def __call__(self, path: Path, *, is_map: bool) -> str | None: ...


def _of_aliases(path: Path, *, is_map: bool) -> str | None:
    return None if is_map else "last-writer"  # checked when it is read, so nobody is asked


def _of_lifecycle(path: Path, *, is_map: bool) -> str | None:
    return None if len(path) == 1 else f"{CALL}lifecycle"  # a machine is one thing


def _of_conversation(path: Path, *, is_map: bool) -> str | None:
    """Return the policy for what was said: what both sides said is said, one after the other."""
    if len(path) == 1:
        return None
    name = str(path[1])
    if not name.startswith(".") or name.startswith(".usage."):
        return "append"
    return None if is_map else "last-writer"


def _of_memory(path: Path, *, is_map: bool) -> str | None:
    """Return the policy for what an agent works with; see `agent/memory/merging.py`."""
    if len(path) == 1:
        return None
    table, depth = path[1], len(path)
    if table == "plan":
        return f"{CALL}memory-plan"
    if table == "notes":
        return f"{CALL}memory-note" if depth > 2 else None
    if table == "calls":
        return "append"
    return None if is_map else "last-writer"


def _of_loop(path: Path, *, is_map: bool) -> str | None:
    return None  # two that make the same step, or the same call, must not both think it is theirs


def _of_workspace(path: Path, *, is_map: bool) -> str | None:
    """Return the policy for what a workspace keeps: variables merge as values do.

    A pickle is one thing, whatever it is made of. What only describes the others follows whoever
    came last.
    """
    if len(path) == 1:
        return None
    table, depth = path[1], len(path)
    if table in ("ambient", "last", "output"):
        return "last-writer"
    if table in ("vars", "signatures", ALIASES):
        return "last-writer" if depth > 2 else None  # the table itself is a map
    if table in ("objects", "classes"):
        return "error" if depth > 2 else None
    return None


RESERVED: dict[str, Rule] = {
    ALIASES: _of_aliases,
    CONVERSATION: _of_conversation,
    LIFECYCLE: _of_lifecycle,
    LOOP: _of_loop,
    MEMORY: _of_memory,
    WORKSPACE: _of_workspace,
}
"""By the name at the top."""
