"""Merge policies: which rule decides at which path when both sides changed it.

Rules live in the state under `.policy`, a map from path patterns to policy names, so they are
versioned with it and both sides of a merge use the same ones. In a pattern `*` stands for one
key and `**` for any number; a star that is part of a key is written `~2`. An exact path beats a
pattern, a longer pattern a shorter one. A pattern that ends in `**` leaves maps alone: it decides
about what is in them.

Which policy decides about what is in a state and is not the user's; no pattern changes that.

Each room of `agent/` that keeps something under a name of its own has a rule here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Protocol, TypeAlias

from otolith.core.paths import (
    ALIASES,
    CONVERSATION,
    LIFECYCLE,
    LOOP,
    MEMORY,
    POLICY,
    WORKSPACE,
    Path,
    format_path,
    parse_path,
)
from otolith.errors import BadPolicy

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
    """Return the policy for what an agent works with; see `memory/merge.py`."""
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


def _of_policies(path: Path, *, is_map: bool) -> str | None:
    return None  # rules that differ are a question, whatever a pattern says of values


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
    POLICY: _of_policies,
    WORKSPACE: _of_workspace,
}
"""By the name at the top."""


Resolver: TypeAlias = Callable[[object, object, object], object]
"""A registered function: base, ours and theirs in, the merged value out. An absent base is None.

NotImplemented means that it cannot tell: that is a conflict.
"""

NAMES = (
    "error",
    "ours",
    "theirs",
    "last-writer",
    "max",
    "min",
    "counter",
    "set",
    "append",
    "map",
    "text",
)


def check_policy(name: str, resolvers: Mapping[str, Resolver]) -> str:
    """Return the name of a policy if it is one."""
    known = name in NAMES or (name.startswith(CALL) and name[len(CALL) :] in resolvers)
    if not known:
        raise BadPolicy(
            f"{name!r} is not a merge policy",
            hint=f"use one of {', '.join(NAMES)}, or call:NAME after repo.resolver(NAME, function)",
        )
    return name


def check_pattern(pattern: str) -> str:
    """Return a pattern if it is one."""
    parse_path(pattern)
    return pattern


def exactly(path: Path) -> str:
    """Return the pattern that fits a path and no other."""
    return format_path(path).replace("*", "~2")


class Policies:
    """The rules of one state."""

    def __init__(self, rules: Mapping[str, str]) -> None:
        self._exact = {text: name for text, name in rules.items() if "*" not in text}
        patterns = [text for text in rules if "*" in text]
        patterns.sort(key=lambda text: (-len(text), text))
        self._patterns = [(_compiled(text), rules[text]) for text in patterns]
        self._map_patterns = [
            (_compiled(text), rules[text]) for text in patterns if not text.endswith("**")
        ]

    def find(self, path: Path, *, is_map: bool = False) -> str | None:
        """Return the policy for a path, if a rule names one; `is_map` if both sides are maps."""
        rule = RESERVED.get(path[0]) if isinstance(path[0], str) else None
        if rule is not None:
            return rule(path, is_map=is_map)
        text = exactly(path)
        exact = self._exact.get(text)
        if exact is not None:
            return exact
        patterns = self._map_patterns if is_map else self._patterns
        return next((name for pattern, name in patterns if pattern.match(text)), None)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    text = "/".join(".*" if part == "**" else _key_pattern(part) for part in pattern.split("/"))
    text = text.replace("/.*/", "/(?:.*/)?")
    text = "(?:.*/)?" + text[3:] if text.startswith(".*/") else text
    return re.compile(text + r"\Z", re.DOTALL)


def _key_pattern(part: str) -> str:
    """Return the expression for one key; it never tries a star in two ways, so it is quick."""
    first, *rest = map(re.escape, part.split("*"))
    if not rest:
        return first
    middle = "".join(f"(?>[^/]*?{piece})" for piece in rest[:-1] if piece)
    return f"{first}{middle}[^/]*{rest[-1]}"
