"""Reads, edits, differences and three-way merges of nested values, by brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import SequenceMatcher
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from otolith.codecs import Codecs, identical
from otolith.core import Encoding
from otolith.errors import BadPath, KeyNotFound

Path: TypeAlias = tuple[Any, ...]
State: TypeAlias = dict[Any, Any]


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"

    def __deepcopy__(self, memo: object) -> _Absent:
        return self


ABSENT: Any = _Absent()
"""Where there is no value."""


@dataclass
class Record:
    """A model: it merges and is compared by field."""

    x: Any = None
    y: Any = None


@dataclass(frozen=True)
class Pin:
    """A model that cannot be changed in place."""

    x: Any = None
    z: Any = None


RECORDS = (Record, Pin)


def find(value: Any, path: Path) -> Any:
    """Return what is at a path, or ABSENT."""
    for key in path:
        if type(value) is list:
            at = index(key, len(value))
            value = ABSENT if at is None else value[at]
        elif type(value) is dict:
            value = value.get(key, ABSENT)
        elif type(value) in RECORDS:
            value = vars(value).get(key, ABSENT)
        else:
            return ABSENT
    return value


def put(state: State, path: Path, value: Any) -> State:
    """Return a copy with a value put at a path; dicts on the way are made.

    Raises:
        BadPath: something on the way has no parts.
        KeyNotFound: a list on the way is too short.
    """
    changed = deepcopy(state)
    _write(changed, path, deepcopy(value), ())
    return with_sorted_names(changed)


def with_sorted_names(state: State) -> State:
    """Return a state as it is shown: its names and its policies are in order, no other dicts."""
    names = {name: state[name] for name in sorted(state)}
    if type(names.get(POLICY)) is dict:
        names[POLICY] = dict(sorted(names[POLICY].items()))
    return names


def remove(state: State, path: Path) -> State:
    """Return a copy without what is at a path."""
    if find(state, path) is ABSENT:
        raise KeyNotFound(f"nothing at {path}")
    changed = deepcopy(state)
    holder = find(changed, path[:-1])
    if type(holder) in RECORDS:
        raise BadPath(f"{path} is a field")
    del holder[index(path[-1], len(holder)) if type(holder) is list else path[-1]]
    return changed


def _write(holder: Any, path: Path, value: Any, above: Path) -> None:
    here = (*above, path[0])
    if type(holder) is list:
        key: Any = index(path[0], len(holder))
        if key is None:
            raise KeyNotFound(f"nothing at {here}")
    elif type(holder) is dict:
        key = path[0]
    elif type(holder) in RECORDS:
        if path[0] not in vars(holder):
            raise KeyNotFound(f"nothing at {here}")
        _write(vars(holder), path, value, above)
        return
    else:
        raise BadPath(f"{above} has no parts")
    if len(path) == 1:
        holder[key] = value
        return
    if type(holder) is dict:
        holder.setdefault(key, {})
    _write(holder[key], path[1:], value, here)


def index(key: Any, length: int) -> int | None:
    """Return the index that a key of a path names in a list of this length."""
    if type(key) is str:
        digits = key.removeprefix("-")
        key = int(key) if digits.isdecimal() else None
    if type(key) is not int or not -length <= key < length:
        return None
    return key + length if key < 0 else key


class ModelChange(NamedTuple):
    """One path whose value was added (old is ABSENT), removed (new is ABSENT) or changed."""

    path: Path
    old: Any
    new: Any


class Edit(NamedTuple):
    """Elements `start` to `stop` of a list that became others, from `new_start` on."""

    start: int
    stop: int
    new_start: int
    new: list[Any]


def brute_changes(old: Any, new: Any, path: Path = ()) -> Iterator[ModelChange]:
    """Yield every change from one value to another; lists that differ are one change."""
    if identical(old, new):
        return
    if type(old) is dict and type(new) is dict:
        if path and is_reordered(old, new):
            yield ModelChange(path, old, new)
        for key in {**old, **new}:
            yield from brute_changes(old.get(key, ABSENT), new.get(key, ABSENT), (*path, key))
    elif type(old) is type(new) and type(old) in RECORDS:
        for key in vars(old):
            yield from brute_changes(find(old, (key,)), find(new, (key,)), (*path, key))
    else:
        yield ModelChange(path, old, new)


def is_reordered(old: dict[Any, Any], new: dict[Any, Any]) -> bool:
    """Tell whether the keys that two dicts share come in another order."""
    return [key for key in old if key in new] != [key for key in new if key in old]


def edits(old: list[Any], new: list[Any]) -> list[Edit]:
    """Return how one list became another."""
    tokens: list[Any] = []
    before, after = [_token(tokens, part) for part in old], [_token(tokens, part) for part in new]
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [Edit(a, b, c, new[c:d]) for tag, a, b, c, d in blocks if tag != "equal"]


def _token(tokens: list[Any], part: Any) -> int:
    """Number values, so that identical ones have one number; they need not be hashable."""
    for number, known in enumerate(tokens):
        if identical(known, part):
            return number
    tokens.append(part)
    return len(tokens) - 1


def patched(old: Any, changes: Iterable[ModelChange]) -> Any:
    """Return what a value becomes by changes.

    In a list, removed and changed elements are named by their old index, added ones by their
    new index. New keys of a dict come last, in the order of the changes.
    """
    changed = deepcopy(old)
    rest = list(changes)
    for change in rest:
        if change.path == ():
            return change.new
    below: dict[Any, list[ModelChange]] = {}
    for change in rest:
        below.setdefault(change.path[0], []).append(change._replace(path=change.path[1:]))
    if type(changed) is list:
        return _patched_list(changed, below)
    parts = vars(changed) if type(changed) in RECORDS else changed
    for key, some in below.items():
        value = patched(find(changed, (key,)), some)
        if value is ABSENT:
            del parts[key]
        else:
            parts[key] = value
    return changed


def _patched_list(old: list[Any], below: dict[Any, list[ModelChange]]) -> list[Any]:
    kept: list[Any] = []
    added: dict[int, Any] = {}
    for key, some in below.items():
        added |= {
            int(key): change.new for change in some if change.old is ABSENT and not change.path
        }
    for at, part in enumerate(old):
        some = [
            change for change in below.get(str(at), []) if change.path or change.old is not ABSENT
        ]
        value = patched(part, some) if some else part
        if value is not ABSENT:
            kept.append(value)
    for at in sorted(added):
        kept.insert(at, added[at])
    return kept


def brute_list_merge(
    base: list[Any], ours: list[Any], theirs: list[Any], *, ours_first: bool, keep_twins: bool
) -> list[Any] | None:
    """Return a list with the edits of both sides, or None if they cannot be told apart."""
    first, second = (ours, theirs) if ours_first else (theirs, ours)
    if keep_twins and (_moved(base, ours) or _moved(base, theirs)):
        return _by_content(base, first, second)
    merged = by_place(base, ours, theirs, ours_first=ours_first, keep_twins=keep_twins)
    both = _moved(base, ours) & _moved(base, theirs)
    if merged is None or any(_bag(merged)[part] > _bag(base)[part] for part in both):
        return None
    return merged


def by_place(
    base: list[Any], ours: list[Any], theirs: list[Any], *, ours_first: bool, keep_twins: bool
) -> list[Any] | None:
    """Return a list with the edits of both sides where they were made; None if two overlap."""
    mine, yours = edits(base, ours), edits(base, theirs)
    if any(_clash(a, b) for a in mine for b in yours):
        return None
    merged: list[Any] = []
    at = 0
    while at <= len(base):
        sides = [mine, yours] if ours_first else [yours, mine]
        new = [edit.new for side in sides for edit in side if edit.start == edit.stop == at]
        if len(new) == 2 and identical(new[0], new[1]) and not keep_twins:
            new.pop()
        merged += [part for parts in new for part in parts]
        cut = next((edit for edit in mine + yours if edit.start == at < edit.stop), None)
        merged += base[at : at + 1] if cut is None else cut.new
        at = at + 1 if cut is None else cut.stop
    return merged


def _clash(a: Edit, b: Edit) -> bool:
    if a.start == a.stop and b.start == b.stop:
        return False
    if (a.start, a.stop) == (b.start, b.stop):
        return not identical(a.new, b.new)
    if a.start == a.stop or b.start == b.stop:
        insert, cut = (a, b) if a.start == a.stop else (b, a)
        return cut.start < insert.start < cut.stop
    return max(a.start, b.start) < min(a.stop, b.stop)


def _moved(base: list[Any], side: list[Any]) -> Counter[str]:
    """Return the elements that an edit removes and another one puts back."""
    some = edits(base, side)
    removed = [part for edit in some for part in base[edit.start : edit.stop]]
    return _bag(removed) & _bag([part for edit in some for part in edit.new])


def _by_content(base: list[Any], first: list[Any], second: list[Any]) -> list[Any]:
    """Return the first list, with what the second has more, and without what it has less."""
    known, other = _bag(base), _bag(second)
    gone, more = known - other, other - known
    merged = [part for part in first if not _take(gone, part)]
    fresh = [part for edit in edits(base, second) for part in edit.new]
    moved = _moved(base, second)
    extra = [part for part in fresh if not _take(moved, part)]
    return merged + [part for part in extra if _take(more, part)]


def _bag(parts: list[Any]) -> Counter[str]:
    return Counter(map(repr, parts))


def _take(bag: Counter[str], part: Any) -> bool:
    found = bag[repr(part)] > 0
    bag[repr(part)] -= found
    return found


POLICY = ".policy"
KEY_OF = Encoding(Codecs()).key

Resolver = Callable[[Any, Any, Any], Any]

Disputes: TypeAlias = dict[bytes, Any]
"""What stands for a conflict in a virtual base, and what both sides began with there."""


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
    disputes: Disputes | None = None,
    is_virtual: bool = False,
) -> tuple[State, list[ModelConflict]]:
    """Return two states as one, and what is left to decide.

    Conflicts inside a virtual base are noted in `disputes`; give them to the merge that uses it.
    """
    sides = [find(state, (POLICY,)) for state in (base, ours, theirs)]
    walk = partial(
        _Walk,
        ours_first=ours_first,
        theirs_later=theirs_later,
        resolvers=resolvers or {},
        disputes={} if disputes is None else disputes,
        is_virtual=is_virtual,
    )
    found = walk(rules={}).join((POLICY,), *sides)
    rules = found.items() if type(found) is dict else ()
    whole = walk(rules={pattern: name for pattern, name in rules if type(name) is str})
    joined = deepcopy(whole.join_maps((), base, ours, theirs))
    return with_sorted_names(joined), whole.conflicts


@dataclass
class _Walk:
    rules: Mapping[str, str]
    ours_first: bool
    theirs_later: Callable[[Path], bool]
    resolvers: Mapping[str, Resolver]
    disputes: Disputes
    is_virtual: bool
    conflicts: list[ModelConflict] = field(default_factory=list)

    def join(self, path: Path, base: Any, ours: Any, theirs: Any) -> Any:
        is_disputed = self._is_dispute(base)
        if identical(ours if is_disputed else base, theirs):
            return ours
        if not is_disputed and identical(base, ours):
            return theirs
        if self._is_dispute(ours) or self._is_dispute(theirs):
            return self._conflict(path, base, ours, theirs)
        is_map = type(ours) is type(theirs) and type(ours) in (dict, *RECORDS)
        rule = policy_of(self.rules, path, is_map=is_map)
        policy = rule or ("error" if is_disputed else _natural(ours, theirs))
        gone = ours is ABSENT or theirs is ABSENT
        twins = policy == "map" or rule in {"counter", "append"}
        if identical(ours, theirs) and rule == "error":
            return self._conflict(path, base, ours, theirs)
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
        if policy == "map" and type(ours) in RECORDS:
            return self._join_records(path, base, ours, theirs)
        if policy == "map":
            return self.join_maps(path, base, ours, theirs)
        base = self._without_disputes(base)
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
        return {key: merged[key] for key in self._order(start, ours, theirs) if key in merged}

    def _join_records(self, path: Path, base: Any, ours: Any, theirs: Any) -> Any:
        _require(type(ours), theirs)
        start = base if type(base) is type(ours) else ABSENT
        fields = {}
        for key in vars(ours):
            before, mine, yours = (
                ABSENT if side is ABSENT else find(side, (key,)) for side in (start, ours, theirs)
            )
            fields[key] = self.join((*path, key), before, mine, yours)
        return type(ours)(**fields)

    def _order(self, start: State, ours: State, theirs: State) -> list[Any]:
        """Return the keys of two sides in the order that a merged dict has."""
        in_key_order = sorted({**ours, **theirs}, key=KEY_OF)
        if all([*side] == [key for key in in_key_order if key in side] for side in (ours, theirs)):
            return in_key_order
        moved = is_reordered(start, ours), is_reordered(start, theirs)
        first, second = (ours, theirs)
        if not (moved[0] if moved[0] != moved[1] else self.ours_first):
            first, second = second, first
        return [*first, *(key for key in second if key not in first)]

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
        if merged is None or any(line.splitlines() == [line] for line in merged[:-1]):
            raise _Undecided
        return "".join(merged)

    def _conflict(self, path: Path, base: Any, ours: Any, theirs: Any) -> Any:
        is_disputed = self._is_dispute(base)
        base = self._without_disputes(base)
        if _only_reordered(ours, theirs):
            return ours if self.ours_first else theirs
        if not is_disputed and _only_reordered(base, ours):
            return theirs
        if not is_disputed and _only_reordered(base, theirs):
            return ours
        if self.is_virtual:
            sides = sorted((_spelled(ours), _spelled(theirs)))
            dispute = "\0".join(("dispute", _spelled(base), *sides)).encode()
            self.disputes[dispute] = base
            return dispute
        self.conflicts.append(ModelConflict(path, base, ours, theirs))
        return ours

    def _is_dispute(self, value: Any) -> bool:
        return type(value) is bytes and value in self.disputes

    def _without_disputes(self, base: Any) -> Any:
        if self._is_dispute(base):
            return self.disputes[base]
        if type(base) in RECORDS:
            parts = {key: self._without_disputes(value) for key, value in vars(base).items()}
            return ABSENT if ABSENT in parts.values() else type(base)(**parts)
        if type(base) is not dict:
            return base
        plain = {key: self._without_disputes(value) for key, value in base.items()}
        return {key: value for key, value in plain.items() if value is not ABSENT}


def _only_reordered(old: Any, new: Any) -> bool:
    return not identical(old, new) and identical(old, new, ordered=False)


def _spelled(value: Any) -> str:
    """Return a text that identical values have in common."""
    if type(value) in RECORDS:
        return f"{type(value).__name__}{_spelled(vars(value))}"
    if type(value) is dict:
        return f"{{{sorted((_spelled(key), _spelled(part)) for key, part in value.items())}}}"
    if type(value) in {set, frozenset}:
        return f"{type(value).__name__}{sorted(map(_spelled, value))}"
    if type(value) in {list, tuple}:
        return f"{type(value).__name__}{list(map(_spelled, value))}"
    return f"{type(value).__name__} {value!r}"


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
    kinds |= dict.fromkeys(RECORDS, "map")
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
