"""Refs and expressions: names for commits, such as `session/trip/main`, `main~2` or a tag.

    session/<id>/<branch>     a branch of a session; the id is percent-encoded
    user/<id>/<branch>        the state of a user, across sessions
    app/<name>/<branch>       the state of an application, across users
    team/<id>/<branch>        the state that several agents share
    stage/<id>/<branch>       the stash of a branch of a session
    stage.<scope>/...         the same, of a branch of another scope
    tag/<name>                a name that does not move
    .config                   the repo's constants
    .attempts/<scope>/<id>    what was begun and must not happen twice: see `attempts.py`
    .shared/<scope>/<id>/...  leases and queues: see `shared_map.py`
    .erased/<digest>          the receipt for a user whose state was erased

An expression is a name and steps: `~n` goes to the nth first parent, `^n` to the nth parent,
`@{n}` to where the ref was n moves ago. The name is `@` (the head of the current branch), a
branch of the same session, `session/branch`, a full ref, a tag, or the first digits of an id.

Undo and redo go to where a branch was before its last move, read from the history of its ref.

What was *erased* stays erased. A receipt is written in the batch that removes the refs of a user;
it does not tell whose it is. A handle that has one of the commits finds its ref gone; whoever makes
such a ref checks in the same batch that there is no receipt (`Refs.write`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import quote, unquote

from otolith.core.history.commits import Commit, Graph, is_commit
from otolith.core.trees.layout import digest
from otolith.errors import (
    BadRef,
    CommitNotFound,
    Corrupt,
    Erased,
    Invalid,
    NotFound,
    RefNotFound,
    StaleRef,
)
from otolith.stores import Batch, Move, Store, Swap
from otolith.types import Hash

CONFIG = ".config"
ERASED = ".erased/"
SCOPES = ("session", "user", "app", "team")

_NAME = re.compile(r"(?!.*(\.\.|//|@\{|\.lock$))[\w][\w.+=@:-]*(/[\w][\w.+=@:-]*)*\Z")
_EXPRESSION = re.compile(r"(?P<name>.*?)(?P<steps>(?:~\d*|\^\d*|@\{\d+\})*)\Z", re.DOTALL)
_STEP = re.compile(r"~\d*|\^\d*|@\{\d+\}")
_MOST_FOUND = 4096
"""Objects of all kinds share the digits of ids; four digits fit one in 65,536."""

_HEX = re.compile(r"[0-9a-f]{4,64}\Z")


def check_name(name: str, *, what: str = "branch") -> str:
    """Return the name of a branch or tag if it is one.

    Raises:
        BadRef: it has a character that expressions need, or nothing in it.
    """
    if not _is_text(name) or name == "HEAD" or not _NAME.match(name):
        raise BadRef(f"{name!r} cannot name a {what}", hint=_name_hint(name))
    return name


def _name_hint(name: object) -> str:
    """Return why a name is refused, and what to do."""
    if not isinstance(name, str):
        return "use a str"
    if name == "HEAD":
        return "HEAD stands for the current commit: choose another name"
    if name.endswith(".lock"):
        return "names that end with .lock are reserved: choose another ending"
    parts = next((part for part in ("..", "//", "@{") if part in name), None)
    if parts is not None:
        return f"leave out {parts}, which has a meaning of its own in expressions"
    return "use letters, digits, and - _ . + = : / between them"


def _is_text(name: object) -> bool:
    """Tell whether a name is a str that can be stored: one without lone surrogates."""
    return isinstance(name, str) and name.encode(errors="replace").decode() == name


def scope_ref(scope: str, id: str, branch: str) -> str:
    """Return the ref of a branch of a session, a user or an application."""
    if scope not in SCOPES:
        raise BadRef(f"{scope!r} is not a scope", hint=f"use {', '.join(SCOPES)}")
    if not _is_text(id) or not id:
        raise BadRef(f"{id!r} cannot name a {scope}", hint="use a non-empty str")
    return f"{scope}/{quote(id, safe='')}/{check_name(branch)}"


def stage_ref(ref: str) -> str:
    """Return the ref of the staged edits of a branch."""
    scope, _, rest = ref.partition("/")
    return f"stage/{rest}" if scope == "session" else f"stage.{scope}/{rest}"


def sibling_ref(ref: str, branch: str) -> str:
    """Return the ref of another branch of the same session, user or application."""
    scope, id, _ = ref.split("/", 2)
    return f"{scope}/{id}/{check_name(branch)}"


def tag_ref(name: str) -> str:
    """Return the ref of a tag."""
    return f"tag/{check_name(name, what='tag')}"


def split_ref(ref: str) -> tuple[str, str, str]:
    """Return the scope, the id and the branch of a ref.

    Raises:
        BadRef: it is not the ref of a branch.
    """
    scope, *rest = ref.split("/", 2)
    if len(rest) != 2:
        raise BadRef(f"{ref[:80]!r} is not the ref of a branch", hint="run otolith fsck")
    id, branch = rest
    return scope, unquote(id), branch


def erased_ref(salt: int, scope: str, id: str) -> str:
    """Return the ref of the receipt for an erased state, which does not tell whose it was."""
    name = f"{scope}\0{id}".encode("utf-8", "surrogatepass")
    return f"{ERASED}{digest(salt.to_bytes(8, 'big') + name)[:16].hex()}"


def receipt_ref(salt: int, ref: str) -> str | None:
    """Return the ref of the receipt for a branch or stash; None if its scope is never erased."""
    ref = ref.removeprefix("stage.")
    if not ref.startswith("user/") or not is_branch_ref(ref):
        return None
    return erased_ref(salt, *split_ref(ref)[:2])


def is_branch_ref(ref: str) -> bool:
    """Tell whether a ref in a store is that of a branch, spelled as `scope_ref` spells it."""
    try:
        scope, id, branch = split_ref(ref)
        return scope_ref(scope, id, branch) == ref
    except BadRef:
        return False


def is_tag_ref(ref: str) -> bool:
    """Tell whether a ref in a store is that of a tag, with a name that a tag can have."""
    try:
        return tag_ref(ref.removeprefix("tag/")) == ref
    except BadRef:
        return False


def _erased(ref: str) -> Erased:
    """Return the error for a branch or stash of a state that was erased."""
    scope, id, _ = split_ref(ref.removeprefix("stage."))
    return Erased(
        f"{scope} {id} was erased from this store, and stays erased",
        hint="if they come back, begin anew with another id",
    )


class Refs:
    """Resolves names and expressions to commits, and writes what moves refs."""

    def __init__(self, store: Store, graph: Graph, *, salt: int, config: Hash) -> None:
        """Begin with the salt of a repo, and the hash of its constants."""
        self._store = store
        self._graph = graph
        self._salt = salt
        self._config = config
        self.is_checked = False

    def write(self, store: Store, batch: Batch) -> None:
        """Write a batch to the store; the first checks that the repo is the one that was opened.

        Raises:
            Erased: a ref that it would make is of a state that was erased. Nothing was written.
            Invalid: another repo was copied into the store since. Nothing was written.
        """
        receipts = {
            receipt: swap.name
            for swap in batch.swaps
            if swap.old is None and (receipt := receipt_ref(self._salt, swap.name))
        }
        if self.is_checked and not receipts:
            store.write(batch)
            return
        checks = [Swap(receipt, None, None) for receipt in receipts]
        if not self.is_checked:
            checks.append(Swap(CONFIG, self._config, self._config))
        try:
            store.write(replace(batch, swaps=[*batch.swaps, *checks]))
        except StaleRef as stale:
            if stale.name in receipts:
                raise _erased(receipts[stale.name]) from None
            if stale.name == CONFIG:
                raise Invalid(
                    "another repo was copied into this store since it was opened",
                    hint="open it again",
                ) from None
            raise
        self.is_checked = True

    def check_not_erased(self, ref: str) -> None:
        """Refuse a branch or stash of an erased state.

        Raises:
            Erased: it was erased.
        """
        receipt = receipt_ref(self._salt, ref)
        if receipt is not None and self._store.ref(receipt) is not None:
            raise _erased(ref)

    def checks(self, refs: Iterable[str]) -> list[Swap]:
        """Return the checks of a commit that is based on others, that none of them was erased."""
        receipts = {receipt_ref(self._salt, ref) for ref in refs}
        return [Swap(receipt, None, None) for receipt in receipts if receipt is not None]

    def check_none_erased(self, refs: Iterable[str]) -> None:
        """Refuse branches of which one is of an erased state.

        Raises:
            Erased: it was erased.
        """
        for ref in refs:
            self.check_not_erased(ref)

    def head(self, ref: str) -> Commit | None:
        """Return the commit a ref names; None if there is no such ref.

        Raises:
            Erased: it is of a state that was erased.
        """
        hash = self._store.ref(ref)
        while hash is not None:
            try:
                return self._graph.commit(hash)
            except Corrupt:
                # Deleted and collected, perhaps, after its name was read.
                before, hash = hash, self._store.ref(ref)
                if hash == before:
                    raise
        self.check_not_erased(ref)
        return None

    def resolve(self, expression: str, *, at: str | None = None) -> Commit:
        """Return the commit an expression names; `at` is the full ref of the current branch.

        Raises:
            BadRef: it is not an expression, or a prefix of several ids.
            RefNotFound, CommitNotFound: no ref or commit has this name.
        """
        found = _EXPRESSION.match(expression) if _is_text(expression) else None
        if not expression or found is None:
            raise BadRef(f"{expression!r} does not name a commit", hint="try @, main~2 or a tag")
        steps = _STEP.findall(found["steps"])
        name = found["name"] or "@"
        if steps and steps[0].startswith("@{"):
            commit = self._moves_ago(name, int(steps.pop(0)[2:-1]), at)
        else:
            commit = self._named(name, at)
        for step in steps:
            number = int(step[1:] or 1)
            if step[0] == "^":
                commit = self._parent(commit, number, expression)
                continue
            for _ in range(number):
                commit = self._parent(commit, 1, expression)
        return commit

    def full_name(self, name: str, *, at: str | None = None) -> str | None:
        """Return the full ref that a name stands for, if there is one.

        That is a branch here, a tag, a full ref, SESSION/BRANCH, or the branch main of SESSION.
        """
        if name in ("@", "HEAD"):
            return at
        candidates = ["/".join([*at.split("/", 2)[:2], name])] if at else []
        candidates += [f"tag/{name}", name]
        if "/" in name:
            session, _, branch = name.rpartition("/")
            candidates.append(f"session/{quote(session, safe='')}/{branch}")
        if not _HEX.match(name):  # the beginning of an id
            candidates.append(f"session/{quote(name, safe='')}/main")
        return next((ref for ref in candidates if self._store.ref(ref) is not None), None)

    def _named(self, name: str, at: str | None) -> Commit:
        """Return the commit that a ref, a tag or the start of an id names."""
        ref = self.full_name(name, at=at)
        head = self.head(ref) if ref is not None else None
        if head is not None:
            return head
        if name in ("@", "HEAD"):
            raise RefNotFound("this branch has no commit yet", hint="commit first")
        if _HEX.match(name):
            return self._by_prefix(name)
        raise RefNotFound(
            f"no branch, tag or commit is called {name!r}",
            hint="repo.branches(id) lists branches, repo.tags() lists tags",
        )

    def _by_prefix(self, digits: str) -> Commit:
        """Return the one commit whose id starts with these digits."""
        prefix = bytes.fromhex(digits[: len(digits) // 2 * 2])
        near = self._store.find(prefix, limit=_MOST_FOUND)
        found = [hash for hash in near if hash.hex().startswith(digits)]
        commits = [hash for hash in found if is_commit(self._store.read([hash]).get(hash, b""))]
        if len(commits) > 1:
            raise BadRef(
                f"{digits} is the beginning of {len(commits)} commits",
                hint="give more digits: " + ", ".join(hash.hex()[:14] for hash in commits),
            )
        if not commits:
            raise CommitNotFound(
                f"no commit starts with {digits}", hint="state.log() lists the commits"
            )
        return self._graph.commit(commits[0])

    def _moves_ago(self, name: str, moves: int, at: str | None) -> Commit:
        """Return where a ref was a number of moves ago."""
        ref = self.full_name(name, at=at)
        history = self._store.moves(ref, limit=moves + 1) if ref else []
        places = [move.new for move in history]
        if history and len(places) <= moves:
            places.append(history[-1].old)
        hash = places[moves] if moves < len(places) else None
        if hash is None:
            raise CommitNotFound(
                f"{name} has moved only {max(len(places) - 1, 0)} times",
                hint="state.log() lists the commits",
            )
        return self._graph.commit(hash)

    def _parent(self, commit: Commit, number: int, expression: str) -> Commit:
        """Return a parent of a commit by its number, from 1; 0 is the commit itself."""
        if number == 0:
            return commit
        if number > len(commit.parents):
            raise CommitNotFound(
                f"{expression}: commit {commit.short} has no parent {number}",
                hint=f"it has {len(commit.parents)}; state.log() lists the commits",
            )
        return self._graph.commit(Hash(bytes.fromhex(commit.parents[number - 1])))


UNDO, REDO, FORK = "undo: ", "redo: ", "fork: "
_BEFORE_FIRST = "before the first commit"


class Undo:
    """The moves of one ref, replayed into those that are done and those that were undone."""

    def __init__(self, moves: list[Move]) -> None:
        self._done: list[Move] = []
        self._undone: list[Move] = []
        for move in reversed(moves):
            if move.note.startswith(UNDO) and self._done and _is_undone_by(self._done[-1], move):
                self._undone.append(self._done.pop())
            elif move.note.startswith(REDO) and self._undone and move.new == self._undone[-1].new:
                self._done.append(self._undone.pop())
            else:
                self._done.append(move)
                self._undone.clear()

    def back(self) -> tuple[Hash | None, str]:
        """Return where undo leads, None for before the first commit, and what to note."""
        move = self._done[-1] if self._done else None
        if move is None or (move.old is None and move.note.startswith(FORK)):
            raise NotFound(
                "there is nothing to undo",
                hint="the branch began here, or gc has deleted its older moves",
            )
        return move.old, UNDO + (move.note if move.old is not None else _BEFORE_FIRST)

    def forward(self) -> tuple[Hash, str]:
        """Return where redo leads, and what to note."""
        move = self._undone[-1] if self._undone else None
        if move is None or move.new is None:
            raise NotFound("there is nothing to redo", hint="redo follows undo, before new commits")
        return move.new, REDO + move.note


def _is_undone_by(move: Move, later: Move) -> bool:
    """Tell whether a later move goes back to before this one; before the first commit is nothing.

    To get there, undo makes a commit without parents, so `later.new` is not known before.
    """
    return later.new == move.old or (move.old is None and later.note == UNDO + _BEFORE_FIRST)
