"""A repo made of plain dicts and whole copies: slow, small, and obviously right.

Glossary: a *model commit* holds a full copy of its state; a *model branch* is a handle with a
stage, like `Branch`; `ABSENT` stands where there is no value. Compare what you build with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from otolith.codecs import identical
from otolith.errors import BadPath, KeyNotFound, MergeConflict, NotFound, RefExists, Uncommitted
from tests.reference.model_values import (
    ABSENT,
    POLICY,
    Disputes,
    ModelConflict,
    Path,
    Resolver,
    State,
    brute_changes,
    brute_merge,
    find,
    policy_of,
    put,
    remove,
)


@dataclass(frozen=True, eq=False)
class ModelCommit:
    """A whole state, and where it came from. Later commits have higher numbers."""

    number: int
    state: State
    parents: tuple[ModelCommit, ...]
    kind: str = "step"


@dataclass
class _Trail:
    """Where a ref was: moves that were done, and those that were undone."""

    done: list[tuple[ModelCommit | None, ModelCommit]] = field(default_factory=list)
    undone: list[tuple[ModelCommit | None, ModelCommit]] = field(default_factory=list)


class ModelRepo:
    """Every commit, and names for some of them."""

    def __init__(self) -> None:
        self.commits: list[ModelCommit] = []
        self.refs: dict[tuple[str, str], ModelCommit] = {}
        self.tags: dict[str, ModelCommit] = {}
        self.resolvers: dict[str, Resolver] = {}
        self._trails: dict[tuple[str, str], _Trail] = {}

    def session(self, id: str, *, branch: str = "main") -> ModelBranch:
        return ModelBranch(self, (id, branch))

    def tag(self, name: str, commit: ModelCommit) -> None:
        if name in self.tags:
            raise RefExists(f"tag {name} is already there")
        self.tags[name] = commit

    def add(self, state: State, parents: tuple[ModelCommit, ...], kind: str) -> ModelCommit:
        commit = ModelCommit(len(self.commits), deepcopy(state), parents, kind)
        self.commits.append(commit)
        return commit

    def move(self, ref: tuple[str, str], new: ModelCommit, *, is_fork: bool = False) -> None:
        trail = self.trail(ref)
        if not is_fork:
            trail.done.append((self.refs.get(ref), new))
        trail.undone.clear()
        self.refs[ref] = new

    def trail(self, ref: tuple[str, str]) -> _Trail:
        return self._trails.setdefault(ref, _Trail())

    def prune(self) -> list[ModelCommit]:
        """Forget where refs were; return the commits that are still reachable."""
        self._trails.clear()
        reached = ancestors([*self.refs.values(), *self.tags.values()])
        return sorted(reached, key=lambda commit: commit.number)


def ancestors(tips: Iterable[ModelCommit]) -> set[ModelCommit]:
    """Return commits and all that came before them."""
    found: set[ModelCommit] = set()
    queue = list(tips)
    while queue:
        commit = queue.pop()
        if commit not in found:
            found.add(commit)
            queue += commit.parents
    return found


def bases(left: Iterable[ModelCommit], right: Iterable[ModelCommit]) -> list[ModelCommit]:
    """Return the common ancestors that are before no other one, the earliest first."""
    common = ancestors(left) & ancestors(right)
    best = [
        one
        for one in common
        if not any(one in ancestors(other.parents) for other in common if other is not one)
    ]
    return sorted(best, key=lambda commit: commit.number)


def virtual_base(
    left: list[ModelCommit],
    right: list[ModelCommit],
    resolvers: dict[str, Resolver],
    disputes: Disputes,
) -> State:
    """Return what two sets of commits have in common, as a state."""
    merged: State = {}
    tips: list[ModelCommit] = []
    for commit in bases(left, right):
        base = virtual_base(tips, [commit], resolvers, disputes) if tips else {}
        joined, _ = brute_merge(
            base, merged, commit.state, resolvers=resolvers, disputes=disputes, is_virtual=True
        )
        merged = joined if tips else commit.state
        tips.append(commit)
    return merged


def writer(tip: ModelCommit, path: Path) -> ModelCommit:
    """Return the commit that gave a path the value that it has."""
    here = find(tip.state, path)
    for parent in tip.parents:
        if identical(find(parent.state, path), here):
            return writer(parent, path)
    return tip


class ModelBranch:
    """A handle on one branch, with edits of its own."""

    def __init__(self, repo: ModelRepo, ref: tuple[str, str]) -> None:
        self.repo = repo
        self.ref = ref
        self.head: ModelCommit | None = None
        self.parent: ModelCommit | None = None
        self.conflicts: dict[Path, ModelConflict] = {}
        self.stage: State = {}
        self._arrive(repo.refs.get(ref))

    # Edits

    def get(self, path: Path) -> Any:
        """Return a copy of what is at a path, or ABSENT."""
        return deepcopy(find(self.stage, path))

    def set(self, path: Path, value: Any) -> None:
        self.stage = put(self.stage, path, value)
        self._settle(path)

    def change(self, path: Path, act: Callable[[Any], None]) -> None:
        """Change a value in place. Conflicts are settled where it is another one then."""
        before, self.stage = self.stage, deepcopy(self.stage)
        act(find(self.stage, path))
        for change in brute_changes(before, self.stage):
            self._settle(change.path)

    def delete(self, path: Path) -> None:
        self.stage = remove(self.stage, path)
        self._settle(path)

    def extend(self, path: Path, values: list[Any]) -> None:
        """Append to a list; one that starts this way merges by keeping both sides' elements."""
        old = self.get(path)
        if old is not ABSENT and type(old) is not list:
            raise BadPath(f"{path} is not a list")
        self.set(path, [*([] if old is ABSENT else old), *values])
        if old is ABSENT:
            self._adopt(path, "append")

    def count(self, path: Path, amount: Any) -> None:
        """Add to a number, which then merges by adding up."""
        old = self.get(path)
        self.set(path, (0 if old is ABSENT else old) + amount)
        self._adopt(path, "counter")

    def policy(self, pattern: str, name: str) -> None:
        self.stage = put(self.stage, (POLICY, pattern), name)
        self._settle((POLICY, pattern))

    def _adopt(self, path: Path, name: str) -> None:
        if policy_of(self.stage.get(POLICY, {}), path) is None:
            self.stage = put(self.stage, (POLICY, "/".join(path)), name)

    # History

    @property
    def is_clean(self) -> bool:
        return (
            self.parent is None
            and not self.conflicts
            and identical(self.stage, self.head.state if self.head else {})
        )

    def commit(self) -> ModelCommit:
        if self.conflicts:
            raise MergeConflict("conflicts to decide first", paths=())
        if self.head is not None and self.is_clean:
            return self.head
        self._catch_up()
        parents = tuple(commit for commit in (self.head, self.parent) if commit is not None)
        return self._land(parents, "step" if self.parent is None else "merge")

    def _catch_up(self) -> None:
        """Put the edits on top of what another handle committed, if it did."""
        now = self.repo.refs.get(self.ref)
        if now is self.head:
            return
        before = self.head.state if self.head else {}
        self.head = now
        merged, conflicts = brute_merge(
            before,
            self.stage,
            now.state if now else {},
            ours_first=False,
            theirs_later=lambda path: False,
            resolvers=self.repo.resolvers,
        )
        self.stage = merged
        self.conflicts = {conflict.path: conflict for conflict in conflicts}
        if conflicts:
            raise MergeConflict("somebody else changed the same", paths=())

    def merge(self, theirs: ModelCommit) -> str:
        """Merge a commit; return what happened: merged, fast-forward, up-to-date or conflicted."""
        self._require_clean()
        self.refresh()
        ours = self.head
        if ours is not None and theirs in ancestors([ours]):
            return "up-to-date"
        if ours is None or ours in ancestors([theirs]):
            self.repo.move(self.ref, theirs)
            self._arrive(theirs)
            return "fast-forward"
        disputes: Disputes = {}
        self.stage, conflicts = brute_merge(
            virtual_base([ours], [theirs], self.repo.resolvers, disputes),
            ours.state,
            theirs.state,
            ours_first=ours.number < theirs.number,
            theirs_later=lambda path: writer(ours, path).number < writer(theirs, path).number,
            resolvers=self.repo.resolvers,
            disputes=disputes,
        )
        if conflicts:
            self.parent = theirs
            self.conflicts = {conflict.path: conflict for conflict in conflicts}
            return "conflicted"
        self._land((ours, theirs), "merge")
        return "merged"

    def take(self, path: Path, side: str) -> None:
        """Settle a conflict by one side of it."""
        conflict = self.conflicts.pop(path, None)
        if conflict is None:
            raise KeyNotFound(f"there is no conflict at {path}")
        value = getattr(conflict, side)
        if value is not ABSENT:
            self.stage = put(self.stage, path, value)
        elif find(self.stage, path) is not ABSENT:
            self.stage = remove(self.stage, path)

    def fork(self, name: str) -> ModelBranch:
        ref = (self.ref[0], name)
        start = self.repo.refs.get(self.ref)
        if start is None:
            raise NotFound("there is no commit yet")
        if ref in self.repo.refs:
            raise RefExists(f"branch {name} is already there")
        self.repo.move(ref, start, is_fork=True)
        return ModelBranch(self.repo, ref)

    def rollback(self, goal: ModelCommit) -> ModelCommit:
        self.discard()
        self.refresh()
        self.stage = deepcopy(goal.state)
        return self._land((self.head,) if self.head else (), "rollback")

    def undo(self) -> None:
        self._require_clean()
        trail = self.repo.trail(self.ref)
        if not trail.done:
            raise NotFound("there is nothing to undo")
        old = trail.done[-1][0] or self.repo.add({}, (), "undo")
        trail.undone.append(trail.done.pop())
        self.repo.refs[self.ref] = old
        self._arrive(old)

    def redo(self) -> None:
        self._require_clean()
        trail = self.repo.trail(self.ref)
        if not trail.undone:
            raise NotFound("there is nothing to redo")
        move = trail.undone.pop()
        trail.done.append(move)
        self.repo.refs[self.ref] = move[1]
        self._arrive(move[1])

    def discard(self) -> None:
        self._arrive(self.head)

    def refresh(self) -> None:
        if self.is_clean:
            self._arrive(self.repo.refs.get(self.ref))

    def log(self) -> list[ModelCommit]:
        tips = [self.head] if self.head else []
        return sorted(ancestors(tips), key=lambda commit: -commit.number)

    def _land(self, parents: tuple[ModelCommit, ...], kind: str) -> ModelCommit:
        commit = self.repo.add(self.stage, parents, kind)
        self.repo.move(self.ref, commit)
        self._arrive(commit)
        return commit

    def _arrive(self, commit: ModelCommit | None) -> None:
        self.head = commit
        self.parent = None
        self.conflicts = {}
        self.stage = deepcopy(commit.state) if commit else {}

    def _settle(self, path: Path) -> None:
        for conflict in list(self.conflicts):
            shared = min(len(path), len(conflict))
            if conflict[:shared] == path[:shared]:
                del self.conflicts[conflict]

    def _require_clean(self) -> None:
        if not self.is_clean:
            raise Uncommitted("there are staged edits")
