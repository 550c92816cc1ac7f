"""Merge policies: the rule that decides at a path when both sides changed it.

Rules live in the state under `.policy`, a map from path patterns to policy names, so they are
versioned with it and both sides of a merge use the same ones. In a pattern `*` stands for one
key and `**` for any number; a star that is part of a key is written `~2`. An exact path beats a
pattern, a longer pattern a shorter one. A pattern that ends in `**` does not apply to maps, only to
what is in them.

What otolith stores under a reserved name has a fixed rule (`RESERVED`); no pattern changes that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias

from otolith.core.paths import (
    ALIASES,
    CONVERSATION,
    FLOWS,
    LIFECYCLE,
    LOOP,
    MEMORY,
    POLICY,
    PROFILE,
    TEAM,
    WORKSPACE,
    Path,
    format_path,
    parse_path,
)
from otolith.errors import BadPolicy

CALL = "call:"


Rule: TypeAlias = Callable[..., str | None]
"""Returns the policy for a path below a reserved name; `is_map` is whether both sides are maps."""


def _conversation_policy(path: Path, *, is_map: bool) -> str | None:
    """Append messages of both sides, one after the other; the later writer decides settings.

    What either side took out of a log is gone, so that two that took out different messages agree.
    """
    if len(path) == 1:
        return None
    name = str(path[1])
    if not name.startswith(".") or name.startswith(".usage."):
        return "log"
    return None if is_map else "last-writer"


def _memory_policy(path: Path, *, is_map: bool) -> str | None:
    """Merge plans and notes by functions of their own; see `memory/merge.py`."""
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


def _workspace_policy(path: Path, *, is_map: bool) -> str | None:
    """Merge tables of variables by name; the later writer decides a variable.

    Two pickles under one name are a conflict. What only describes the others follows the later
    writer.
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


def _team_policy(path: Path, *, is_map: bool) -> str | None:
    """Return the rule for what a team stores: messages and decisions stay, later fields win.

    Who works on a session is one value: its parts mean nothing beside those of another owner.
    """
    table = path[1] if len(path) > 1 else None
    if is_map:
        whole = {"proposals": f"{CALL}team-proposal", "sessions": "last-writer"}
        return whole.get(str(table)) if len(path) == 3 else None
    return {"mail": "log", "settled": "log", "read": "counter"}.get(str(table), "last-writer")


def _flow_policy(path: Path, *, is_map: bool) -> str | None:
    """Merge records of tasks by a function; see `flows/storage.py`. Two results are a conflict."""
    table, depth = path[2] if len(path) > 2 else None, len(path)
    if table == "tasks":
        return f"{CALL}flow-task" if depth == 4 else None
    if table == "head":
        return None if is_map and depth < 4 else "last-writer"
    return "last-writer" if table == "rates" and depth == 4 else None


def whole_check(path: Path) -> str | None:
    """Return the name of the resolver that checks a map which was put together from both sides.

    It gets the merged map twice, and returns why the whole makes no sense, or an empty text.
    """
    return "flow-plan" if path[0] == FLOWS and path[2:] == ("plan",) else None


def _profile_policy(path: Path, *, is_map: bool) -> str | None:
    """Unite the evidence of both sides; the later time of forgetting holds.

    A purpose is merged by a function, so that a consent that one side took back is taken back.
    """
    table, depth = path[1] if len(path) > 1 else None, len(path)
    if table == "purposes":
        return f"{CALL}profile-purpose" if depth == 3 else None
    if is_map:
        return None
    return "max" if table == "forgotten" else "last-writer"


RESERVED: dict[str, Rule] = {
    # An alias is checked when it is read, so either side will do.
    ALIASES: lambda path, *, is_map: None if is_map else "last-writer",
    CONVERSATION: _conversation_policy,
    FLOWS: _flow_policy,
    # A machine is merged as a whole.
    LIFECYCLE: lambda path, *, is_map: None if len(path) == 1 else f"{CALL}lifecycle",
    # Two processes that make the same step, or the same call, must not both believe it is theirs.
    LOOP: lambda path, *, is_map: None,
    MEMORY: _memory_policy,
    # Rules that differ are a conflict, whatever a pattern decides about values.
    POLICY: lambda path, *, is_map: None,
    PROFILE: _profile_policy,
    TEAM: _team_policy,
    WORKSPACE: _workspace_policy,
}
"""The rules for what otolith stores itself, by the name at the top."""


Resolver: TypeAlias = Callable[[object, object, object], object]
"""A registered function that takes base (None if absent), ours and theirs, and returns the merged
value, or NotImplemented for a conflict.
"""

NAMES = (
    *("error", "ours", "theirs", "last-writer"),
    *("max", "min", "counter", "set", "append", "map", "text", "document"),
)
"""The policies that a rule may name, beside `call:NAME`."""


def check_policy(name: str, resolvers: Mapping[str, Resolver]) -> str:
    """Return the name of a policy.

    Raises:
        BadPolicy: no policy or resolver has this name.
    """
    given: object = name
    is_call = isinstance(given, str) and given.startswith(CALL)
    known = name in NAMES or (is_call and name[len(CALL) :] in resolvers)
    if not known:
        raise BadPolicy(
            f"{name!r} is not a merge policy",
            hint=f"use one of {', '.join(NAMES)}, or call:NAME after repo.resolver(NAME, function)",
        )
    return name


def check_pattern(pattern: str) -> str:
    """Return a pattern, which is spelled like a path.

    Raises:
        BadPath: it is not spelled like a path.
    """
    parse_path(pattern)
    return pattern


def exactly(path: Path) -> str:
    """Return the pattern that matches a path and no other."""
    return format_path(path).replace("*", "~2")


class Policies:
    """The rules of one state."""

    def __init__(self, rules: Mapping[str, str]) -> None:
        self._exact = {text: name for text, name in rules.items() if "*" not in text}
        patterns = [text for text in rules if "*" in text]
        patterns.sort(key=lambda text: (-len(text), text))
        self._patterns = [(text, _compiled(text), rules[text]) for text in patterns]

    def find(self, path: Path, *, is_map: bool = False) -> str | None:
        """Return the policy for a path, if a rule names one; `is_map` if both sides are maps."""
        rule = RESERVED.get(path[0]) if isinstance(path[0], str) else None
        if rule is not None:
            return rule(path, is_map=is_map)
        text = exactly(path)
        if text in self._exact:
            return self._exact[text]
        for pattern, expression, name in self._patterns:
            if not (is_map and pattern.endswith("**")) and expression.match(text):
                return name
        return None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return the expression for a pattern; `**` stands for no key as well."""
    text = "/".join(".*" if part == "**" else _key_pattern(part) for part in pattern.split("/"))
    text = text.replace("/.*/", "/(?:.*/)?")
    text = "(?:.*/)?" + text[3:] if text.startswith(".*/") else text
    return re.compile(text + r"\Z", re.DOTALL)


def _key_pattern(part: str) -> str:
    """Return the expression for one key; atomic groups keep several stars from backtracking."""
    first, *rest = map(re.escape, part.split("*"))
    if not rest:
        return first
    middle = "".join(f"(?>[^/]*?{piece})" for piece in rest[:-1] if piece)
    return f"{first}{middle}[^/]*{rest[-1]}"
