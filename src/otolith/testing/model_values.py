"""Three-way merge of nested values, by looking at everything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from otolith.codecs import identical
from otolith.testing.model.lists import brute_list_merge, by_place
from otolith.testing.model.places import ABSENT, Path, State, find

POLICY = ".policy"

Resolver = Callable[[Any, Any, Any], Any]


class ModelConflict(NamedTuple):
    """A path on which both sides changed and no rule decides."""

    path: Path
    base: Any
    ours: Any
    theirs: Any


class _Undecided(Exception):
    """The policy has no answer."""


def brute_merge(
    base: State,
    ours: State,
    theirs: State,
    *,
    ours_first: bool = True,
    theirs_later: Callable[[Path], bool] = lambda path: True,
    resolvers: Mapping[str, Resolver] | None = None,
    is_virtual: bool = False,
) -> tuple[State, list[ModelConflict]]:
    """Return two states as one, and what is left to decide."""
    sides = [find(state, (POLICY,)) for state in (base, ours, theirs)]
    walk = partial(
        _Walk,
        ours_first=ours_first,
        theirs_later=theirs_later,
        resolvers=resolvers or {},
        is_virtual=is_virtual,
    )
    rules = walk(rules={}).join((POLICY,), *sides)
    whole = walk(rules={} if rules is ABSENT else rules)
    return deepcopy(whole.join_maps((), base, ours, theirs)), whole.conflicts


@dataclass
class _Walk:
    rules: Mapping[str, str]
    ours_first: bool
    theirs_later: Callable[[Path], bool]
    resolvers: Mapping[str, Resolver]
    is_virtual: bool
    conflicts: list[ModelConflict] = field(default_factory=list)

    def join(self, path: Path, base: Any, ours: Any, theirs: Any) -> Any:
        if identical(base, theirs):
            return ours
        if identical(base, ours):
            return theirs
        is_map = type(ours) is dict and type(theirs) is dict
        rule = policy_of(self.rules, path, is_map=is_map)
        policy = rule or _natural(ours, theirs)
        gone = ours is ABSENT or theirs is ABSENT
        twins = policy == "map" or rule in {"counter", "append"}
        if identical(ours, theirs) and (gone or not twins):
            return ours
        if policy == "last-writer":
            policy = "theirs" if self.theirs_later(path) else "ours"
        if policy in {"ours", "theirs"}:
            return ours if policy == "ours" else theirs
        try:
            if gone:
                raise _Undecided
            return self._decide(policy, path, base, ours, theirs, is_rule=rule is not None)
        except _Undecided:
            return self._conflict(path, base, ours, theirs)

    def _decide(
        self, policy: str, path: Path, base: Any, ours: Any, theirs: Any, *, is_rule: bool
    ) -> Any:
        if policy == "map":
            return self.join_maps(path, base, ours, theirs)
        if policy == "set":
            return self._join_sets(base, ours, theirs)
        if policy == "append":
            return self._join_lists(base, ours, theirs, keep_twins=is_rule)
        if policy == "counter":
            return _add_up(base, ours, theirs)
        if policy in {"max", "min"}:
            return _extreme(ours, theirs, largest=policy == "max")
        if policy == "text":
            return self._join_lines(base, ours, theirs)
        resolver = self.resolvers.get(policy.removeprefix("call:"))
        if policy.startswith("call:") and resolver is not None:
            return resolver(None if base is ABSENT else base, ours, theirs)
        raise _Undecided

    def join_maps(self, path: Path, base: Any, ours: Any, theirs: Any) -> Any:
        _require(dict, ours, theirs)
        start = base if type(base) is dict else {}
        merged = {}
        for key in {**start, **ours, **theirs}:
            sides = [find(side, (key,)) for side in (start, ours, theirs)]
            value = self.join((*path, key), *sides)
            if value is not ABSENT:
                merged[key] = value
        return merged

    def _join_sets(self, base: Any, ours: Any, theirs: Any) -> Any:
        if type(ours) not in {set, frozenset} or type(ours) is not type(theirs):
            raise _Undecided
        start = base if type(base) in {set, frozenset} else set()
        added, gone = (ours | theirs) - start, start - (ours & theirs)
        return type(ours)((start | added) - gone)

    def _join_lists(self, base: Any, ours: Any, theirs: Any, *, keep_twins: bool) -> Any:
        _require(list, ours, theirs)
        start = base if type(base) is list else []
        merged = brute_list_merge(
            start, ours, theirs, ours_first=self.ours_first, keep_twins=keep_twins
        )
        if merged is None:
            raise _Undecided
        return merged

    def _join_lines(self, base: Any, ours: Any, theirs: Any) -> Any:
        start = "" if base is ABSENT else base
        _require(str, start, ours, theirs)
        lines = [text.splitlines(keepends=True) for text in (start, ours, theirs)]
        merged = by_place(*lines, ours_first=self.ours_first, keep_twins=False)
        if merged is None:
            raise _Undecided
        return "".join(merged)

    def _conflict(self, path: Path, base: Any, ours: Any, theirs: Any) -> Any:
        if self.is_virtual:
            return base
        self.conflicts.append(ModelConflict(path, base, ours, theirs))
        return ours


def policy_of(rules: Mapping[str, str], path: Path, *, is_map: bool = False) -> str | None:
    """Return the policy of a path: an exact rule, else that of the longest pattern that fits."""
    keys = [str(key).replace("~", "~0").replace("/", "~1") for key in path]
    exact = rules.get("/".join(keys))
    fitting = [text for text in rules if "*" in text and _fits(text.split("/"), keys)]
    if is_map:
        fitting = [text for text in fitting if not text.endswith("**")]
    best = min(fitting, key=lambda text: (-len(text), text), default="")
    return exact if exact is not None else rules.get(best)


def _fits(pattern: list[str], keys: list[str]) -> bool:
    if not pattern:
        return not keys
    if pattern[0] == "**":
        least = 1 if len(pattern) == 1 else 0
        return any(_fits(pattern[1:], keys[at:]) for at in range(least, len(keys) + 1))
    return bool(keys) and _looks_like(pattern[0], keys[0]) and _fits(pattern[1:], keys[1:])


def _looks_like(pattern: str, key: str) -> bool:
    if not pattern.startswith("*"):
        return (
            pattern == key
            if not pattern
            else key[:1] == pattern[0] and _looks_like(pattern[1:], key[1:])
        )
    return any(_looks_like(pattern[1:], key[at:]) for at in range(len(key) + 1))


def _natural(ours: Any, theirs: Any) -> str:
    if type(ours) is not type(theirs):
        return "error"
    kinds: dict[type, str] = {dict: "map", list: "append", set: "set", frozenset: "set"}
    return kinds.get(type(ours), "error")


def _require(kind: type, *values: Any) -> None:
    if any(type(value) is not kind for value in values):
        raise _Undecided


def _add_up(base: Any, ours: Any, theirs: Any) -> Any:
    start = 0 if base is ABSENT else base
    kinds = {type(number) for number in (start, ours, theirs)}
    if not (kinds <= {int, float} or kinds <= {int, Decimal}):
        raise _Undecided
    return ours + theirs - start


def _extreme(ours: Any, theirs: Any, *, largest: bool) -> Any:
    try:
        if ours < theirs:
            return theirs if largest else ours
        if theirs < ours:
            return ours if largest else theirs
    except TypeError:
        pass
    raise _Undecided
