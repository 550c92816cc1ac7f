"""BareRepo: everything in one store; sessions, branches, tags, and commits by name."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

from otolith.core.backend import Backend, no_pauses
from otolith.core.branch import Branch
from otolith.core.handles import Snapshot
from otolith.core.history.commits import Commit
from otolith.core.history.refs import (
    is_branch_ref,
    is_tag_ref,
    scope_ref,
    split_ref,
    stage_ref,
    tag_ref,
)
from otolith.core.merge.policies import Resolver
from otolith.core.trees.encoding import Encoding, ValueCodec
from otolith.core.trees.objects import LOAD_LIMIT_BYTES
from otolith.errors import Invalid, RefExists, RefNotFound, StaleRef
from otolith.stores import Batch, Store, Swap
from otolith.types import Clock, Hash, Pauses


class Session(NamedTuple):
    """A session, user or application that has at least one commit."""

    id: str
    branches: tuple[str, ...]


class BareRepo:
    """A repo over one store, without defaults from this machine; `session.Repo` adds those.

    Threads may share it; each opens its own branches.
    """

    def __init__(
        self,
        store: Store,
        *,
        codec: ValueCodec,
        clock: Clock,
        author: str,
        entropy: Callable[[int], bytes],
        cache_bytes: int = 64 << 20,
        load_limit_bytes: int = LOAD_LIMIT_BYTES,
        pauses: Pauses = no_pauses,
    ) -> None:
        self.backend = Backend(
            store,
            codec=codec,
            clock=clock,
            author=author,
            entropy=entropy,
            cache_bytes=cache_bytes,
            load_limit_bytes=load_limit_bytes,
            pauses=pauses,
        )

    @property
    def store(self) -> Store:
        """The store underneath."""
        return self.backend.store

    @property
    def clock(self) -> Clock:
        """The clock that commits are stamped by."""
        return self.backend.clock

    @property
    def salt(self) -> int:
        """The number that decides where nodes end."""
        return self.backend.config.salt

    @property
    def encoding(self) -> Encoding:
        """How values become bytes."""
        return self.backend.encoding

    def session(self, id: str, *, branch: str = "main") -> Branch:
        """Return a branch of a session. It is made by its first commit."""
        return Branch(self.backend, scope_ref("session", id, branch))

    def sessions(self, *, scope: str = "session") -> list[Session]:
        """Return all sessions, by id; or all users, or all applications.

        A ref that no branch can have, in a forged store, is skipped.
        """
        branches: dict[str, list[str]] = {}
        for ref in self.store.refs(scope_ref(scope, "x", "x").removesuffix("x/x")):
            if is_branch_ref(ref):
                _, id, branch = split_ref(ref)
                branches.setdefault(id, []).append(branch)
        return [Session(id, tuple(names)) for id, names in sorted(branches.items())]

    def branches(self, id: str, *, scope: str = "session") -> dict[str, Commit]:
        """Return the branches of a session, or of another scope, and their heads."""
        prefix = scope_ref(scope, id, "x")[:-1]
        heads = {ref: hash for ref, hash in self.store.refs(prefix).items() if is_branch_ref(ref)}
        return {split_ref(ref)[2]: self.backend.graph.commit(hash) for ref, hash in heads.items()}

    def delete_branch(self, id: str, branch: str, *, scope: str = "session") -> None:
        """Delete a branch and its stash.

        Its commits stay until nothing names them and they are collected.
        """
        ref = scope_ref(scope, id, branch)
        stash = stage_ref(ref)
        head = self._existing(ref, f"branch {branch}")
        while True:
            # The stash is named even if there is none: one written concurrently would stay.
            swaps = [Swap(ref, head, None), Swap(stash, self.store.ref(stash), None)]
            try:
                self.store.write(Batch(swaps=swaps, time=self.clock(), note="delete"))
            except StaleRef as stale:
                if stale.name != stash:
                    raise
            else:
                return

    def tag(self, name: str, target: Commit | str, *, force: bool = False) -> Commit:
        """Give a commit a name that does not move."""
        commit = target if isinstance(target, Commit) else self.resolve(target)
        ref = tag_ref(name)
        old = self.store.ref(ref)
        if old is not None and not force:
            raise RefExists(f"tag {name} already exists", hint="choose another, or force=True")
        self.backend.move(ref, old, commit, note="tag")
        return commit

    def tags(self) -> dict[str, Commit]:
        """Return all tags and their commits."""
        heads = {ref: hash for ref, hash in self.store.refs("tag/").items() if is_tag_ref(ref)}
        return {
            ref.removeprefix("tag/"): self.backend.graph.commit(hash) for ref, hash in heads.items()
        }

    def delete_tag(self, name: str) -> None:
        """Delete a tag."""
        ref = tag_ref(name)
        self.backend.move(ref, self._existing(ref, f"tag {name}"), None, note="delete")

    def resolve(self, expression: str, *, at: str | None = None) -> Commit:
        """Return the commit that an expression names; `at` is the ref of the current branch."""
        return self.backend.refs.resolve(expression, at=at)

    def at(self, target: Commit | str) -> Snapshot:
        """Return the state at a commit, read-only."""
        commit = target if isinstance(target, Commit) else self.resolve(target)
        return Snapshot(self.backend.cells(), commit)

    def resolver(self, name: str, function: Resolver) -> None:
        """Register a function for the merge policy `call:NAME`."""
        given: object = name
        if not isinstance(given, str) or not given.isidentifier():
            raise Invalid(f"{name!r} cannot name a resolver", hint="use a Python identifier")
        self.backend.resolvers[name] = function

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _existing(self, ref: str, what: str) -> Hash:
        """Return the hash of a ref, or raise RefNotFound."""
        hash = self.store.ref(ref)
        if hash is None:
            raise RefNotFound(
                f"there is no {what}",
                hint="repo.branches(id) lists branches, repo.tags() lists tags",
            )
        return hash
