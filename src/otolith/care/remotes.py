"""Remotes: push, pull, fetch, clone and mirror between the stores of one repo.

    push     our branches and tags to another store; refused if that would drop commits of others
    fetch    the branches of another store, to refs under `remote/<name>/`, and its new tags
    pull     fetch, then merge what came into our branches
    clone    everything into an empty store, which remembers where it came from; only leases and
             queues stay behind, because they are about who uses this store now
    mirror   everything, so that the other store has just our refs and no others

Copies of one repo have the same constants (`.config`), so equal states have equal hashes and only
what is missing is copied (`core/transfer.py`). Stores of two repos are strangers, and refused; but
a store that was just made, in which nothing was ever committed, becomes a copy. A program that has
it open then is refused at its first commit, and opens it again.

The names of remotes are a packed map under the ref `.remotes`: name -> URL. A password in a URL is
not stored; give it by the environment or the password file of the client.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from blake3 import blake3

from otolith.care.user_erasure import brings_back
from otolith.core import (
    ERASED,
    SHARED,
    Attempts,
    Backend,
    BareRepo,
    Branch,
    Commit,
    CopyTotals,
    Transfer,
    attempts_ref,
    is_branch_ref,
    is_tag_ref,
    pack,
    unpack,
)
from otolith.errors import (
    BadRef,
    Corrupt,
    Diverged,
    Exists,
    Invalid,
    NotFound,
    RefNotFound,
    StaleRef,
    Unavailable,
)
from otolith.stores import (
    Batch,
    Object,
    Progress,
    Store,
    Swap,
    as_store,
    has_landed,
    open_store,
    without_secrets,
)
from otolith.types import Hash

CONFIG = ".config"
REMOTES = ".remotes"
_TRACKED = "remote/"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_LABEL_WORDS = 3
_TRIES = 100
_MOVES_OF_NEW = 64  # a store with more was used
_FIRST_HINTS = 128  # a history can be longer than all that is new
_HINTS = 100_000  # commits that are looked for by the history of a branch, and not one by one


class RefUpdate(NamedTuple):
    """What a transfer did with one ref.

    `kind` is new, fast-forward, forced, merged, deleted, up-to-date, ahead (the other side has
    nothing new), erased (it would bring back a person who was erased, and was left out), or
    conflict (nothing was changed: merge it by hand).
    """

    name: str
    kind: str
    old: Hash | None
    new: Hash | None

    def __repr__(self) -> str:
        """Show the ref and what became of it."""
        return f"<RefUpdate {self.name} {self.kind}>"


@dataclass(frozen=True, slots=True)
class TransferReport:
    """The result of a transfer: what became of each ref, and how much was copied."""

    refs: tuple[RefUpdate, ...]
    copied: CopyTotals

    @property
    def changed(self) -> tuple[RefUpdate, ...]:
        """The refs that were changed."""
        return tuple(each for each in self.refs if each.kind not in _UNCHANGED)

    @property
    def conflicts(self) -> tuple[RefUpdate, ...]:
        """The branches that were not merged, because a person has to decide."""
        return tuple(each for each in self.refs if each.kind == "conflict")

    def __repr__(self) -> str:
        """Show the counts."""
        objects, size = self.copied.objects, self.copied.bytes
        return f"<TransferReport {len(self.changed)} refs, {objects} objects, {size} bytes>"


_UNCHANGED = ("up-to-date", "ahead", "erased", "conflict")


class Remotes:
    """The other stores of a repo, by name.

    repo.remotes.add("origin", "postgresql://db/agents")
    repo.push("origin")
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __repr__(self) -> str:
        return f"<Remotes {', '.join(self.list()) or 'none'}>"

    def list(self) -> dict[str, str]:
        """Return the URLs, by name."""
        return self._read()[1]

    def add(self, name: str, url: str) -> None:
        """Give a URL a name. A path is stored as an absolute one.

        Raises:
            BadRef: the name has a character other than letters, digits, dot, dash and underscore.
            Exists: there is one of this name.
            Invalid: the URL has a password in it, which would be stored.
        """
        if not _NAME.match(name):
            raise BadRef(f"{name!r} cannot name a remote", hint="use letters, digits, . - and _")
        if without_secrets(url) != url:
            raise Invalid(
                f"{without_secrets(url)}: a password would be stored",
                hint="leave it out, and give it by the environment or the client's password file",
            )

        def edit(remotes: dict[str, str]) -> None:
            if name in remotes:
                raise Exists(f"there is a remote {name} already", hint="remove it first")
            remotes[name] = _absolute(url)

        self._edit(edit)

    def remove(self, name: str) -> None:
        """Forget a remote, and the branches that were fetched from it.

        Raises:
            RefNotFound: there is none of this name.
        """

        def edit(remotes: dict[str, str]) -> None:
            if name not in remotes:
                hint = "repo.remotes.list() lists them"
                raise RefNotFound(f"there is no remote {name}", hint=hint)
            del remotes[name]

        self._edit(edit)
        store = self._backend.store
        fetched = store.refs(f"{_TRACKED}{name}/").items()
        swaps = [Swap(ref, old, None) for ref, old in fetched]
        _swap_all(store, swaps, self._backend.clock(), "remote")

    def url(self, name_or_url: str) -> str:
        """Return the URL of a remote, or a URL as it is."""
        return self.list().get(name_or_url, name_or_url)

    def _edit(self, edit: Callable[[dict[str, str]], None]) -> None:
        while True:
            old, remotes = self._read()
            edit(remotes)
            new, now = (
                pack(self._backend.encoding, dict(sorted(remotes.items()))),
                self._backend.clock(),
            )
            try:
                self._backend.store.write(
                    Batch([new], [Swap(REMOTES, old, new.hash)], time=now, note="remote")
                )
            except StaleRef:
                continue
            return

    def _read(self) -> tuple[Hash | None, dict[str, str]]:
        store = self._backend.store
        hash = store.ref(REMOTES)
        if hash is None:
            return None, {}
        return hash, unpack(store, self._backend.encoding, hash, "the list of remotes")


def push(
    repo: BareRepo,
    target: Store | str,
    *,
    only: Sequence[str] = (),
    force: bool = False,
    progress: Progress | None = None,
) -> TransferReport:
    """Copy branches and tags to another store of this repo, or to an empty store.

    `target` is a store, a URL or the name of a remote. `only` are patterns for refs, such as
    "session/trip-42/*"; without them all branches and tags are pushed. All refs move, or none;
    where one batch cannot move so many (`capabilities.most_swaps`: etcd moves 62) that holds for
    each batch, and a push that was cut off between two of them continues when it is repeated.

    Raises:
        Diverged: the target has commits that this repo lacks; nothing was moved, unless they came
            between two batches. `pull` first. With `force` they are dropped from the branch.
        Invalid: the target is the store of another repo.
    """
    with _opened(repo, target, create=True) as store:
        ours = _wanted(repo.store, only)
        transfer = Transfer(repo.store, store, progress)
        _share_constants(repo.store, store, repo.clock())
        for _ in range(_TRIES):
            theirs = {name: store.ref(name) for name in ours} if only else store.refs()
            erased = brings_back(repo.backend, repo.store, store, ours)
            updates = [
                RefUpdate(name, "erased", None, None)
                if name in erased
                else _compare(repo.backend, name, theirs.get(name), ours[name], is_forced=force)
                for name in ours
            ]
            refused = [each.name for each in updates if each.kind == "conflict"]
            if refused:
                raise Diverged(
                    f"{_listed(refused)}: the target has a commit there that is not in ours",
                    names=tuple(refused),
                    hint="pull first, then push again; or force it, which drops them",
                )
            moved = [each for each in updates if each.kind not in _UNCHANGED]
            _copy(transfer, repo.store, [each.name for each in moved], ours)
            try:
                _swap_all(
                    store,
                    [Swap(each.name, each.old, each.new) for each in moved],
                    repo.clock(),
                    "push",
                )
            except (StaleRef, NotFound):  # somebody else pushed, or collected, at the same time
                continue
            _share_attempts(repo.backend, repo.backend.over(store), ours, transfer)
            return TransferReport(tuple(updates), transfer.copied)
    raise Diverged("the branches of the target move faster than they are pushed", hint="try again")


def fetch(
    repo: BareRepo,
    source: Store | str,
    *,
    name: str = "",
    only: Sequence[str] = (),
    progress: Progress | None = None,
) -> TransferReport:
    """Copy the branches of another store of this repo to refs under `remote/<name>/`.

    `name` is that of the remote, or made from the URL. Tags that this repo lacks come along.
    `state.merge("remote/<name>/session/<id>/<branch>")` merges what came.
    """
    with _opened(repo, source, create=False) as store:
        return _fetch(repo, store, name or remote_label(repo, source), only, progress)[0]


def pull(
    repo: BareRepo,
    source: Store | str,
    *,
    name: str = "",
    only: Sequence[str] = (),
    progress: Progress | None = None,
) -> TransferReport:
    """Fetch from another store of this repo, and merge what came into the branches here.

    A branch that has a conflict is left as it is, and reported as such: `state.merge(ref)` of the
    fetched ref brings the conflicts to decide.
    """
    with _opened(repo, source, create=False) as store:
        label = name or remote_label(repo, source)
        fetched, theirs = _fetch(repo, store, label, only, progress)
        updates = [_merge(repo, ref, head, label) for ref, head in theirs.items()]
        tags = [e for e in fetched.refs if e.name.startswith("tag/") or e.kind == "erased"]
        transfer = Transfer(store, repo.store, progress)
        _share_attempts(repo.backend.over(store), repo.backend, theirs, transfer)
        return TransferReport((*updates, *tags), fetched.copied)


def clone(
    repo: BareRepo, target: Store | str, *, origin: str = "", progress: Progress | None = None
) -> TransferReport:
    """Copy the whole repo into an empty store; one that was cut off continues.

    `origin`, a URL, is stored there as the remote of that name, so that `pull` finds back.

    Raises:
        Exists: the target has commits that are not from this repo.
    """
    with _opened(repo, target, create=True) as store:
        strangers = store.refs().keys() - repo.store.refs().keys() - {REMOTES}
        if strangers:
            raise Exists(
                f"the target is not empty: it has {_listed(sorted(strangers))}",
                hint="clone into a new store, or push into this one",
            )
        report = _mirror(repo, store, force=False, progress=progress, note="clone", leave=SHARED)
        if origin and without_secrets(origin) == origin:
            remotes = Remotes(repo.backend.over(store))
            if "origin" not in remotes.list():
                remotes.add("origin", origin)
        return report


def mirror(
    repo: BareRepo,
    target: Store | str,
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> TransferReport:
    """Make another store an exact copy: all refs, and no others.

    Raises:
        Diverged: the target has commits that this repo never had; nothing was moved.
        Invalid: the target is the store of another repo.
    """
    with _opened(repo, target, create=True) as store:
        return _mirror(repo, store, force=force, progress=progress, note="mirror")


def _mirror(
    repo: BareRepo,
    store: Store,
    *,
    force: bool,
    progress: Progress | None,
    note: str,
    leave: str | None = None,
) -> TransferReport:
    """Copy all refs but those whose name starts with `leave`."""
    transfer = Transfer(repo.store, store, progress)
    _share_constants(repo.store, store, repo.clock())
    for _ in range(_TRIES):
        ours, theirs = _mirrored(repo.store, leave), _mirrored(store, leave)
        differ = _differing(repo.backend, store, ours, theirs)
        strange = _strange(repo, store, differ, ours, theirs)
        if strange and not force:
            raise Diverged(
                f"{_listed(strange)}: the target has commits that were never here",
                names=tuple(strange),
                hint="pull them first; or force it, which drops them",
            )
        _copy(transfer, repo.store, [name for name in differ if name in ours], ours)
        swaps = [Swap(name, theirs.get(name), ours.get(name)) for name in sorted(differ)]
        try:
            _swap_all(store, swaps, repo.clock(), note)
        except (StaleRef, NotFound):
            continue
        kinds = [
            "deleted" if new is None else "new" if old is None else "forced"
            for _, old, new in swaps
        ]
        updates = [
            RefUpdate(*swap[:1], kind, *swap[1:]) for swap, kind in zip(swaps, kinds, strict=True)
        ]
        return TransferReport(tuple(updates), transfer.copied)
    raise Diverged("the refs of the target move faster than they are mirrored", hint="try again")


def _differing(
    backend: Backend, target: Store, ours: dict[str, Hash], theirs: dict[str, Hash]
) -> list[str]:
    """Return the refs to mirror; a receipt there stays, and so does what it is for away."""
    kept = brings_back(backend, backend.store, target, ours) | {
        ref for ref in theirs if ref.startswith(ERASED)
    }
    names = {**ours, **theirs}
    return [name for name in names if ours.get(name) != theirs.get(name) and name not in kept]


def _strange(
    repo: BareRepo,
    target: Store,
    names: Iterable[str],
    ours: dict[str, Hash],
    theirs: dict[str, Hash],
) -> list[str]:
    """Return the refs with commits that were never here; those of who was erased here were."""
    erased = brings_back(repo.backend, target, repo.store, theirs)
    return [
        name
        for name in names
        if name in theirs
        and name not in erased
        and not _was_here(repo.backend, name, theirs[name], ours.get(name))
    ]


def _fetch(
    repo: BareRepo, store: Store, label: str, only: Sequence[str], progress: Progress | None
) -> tuple[TransferReport, dict[str, Hash]]:
    """Copy branches to tracking refs; return the report, and the heads of the source."""
    if not repo.backend.is_used:
        _share_constants(store, repo.store, repo.clock())
        repo.backend.read_constants()
    _check_constants(repo.store, store)
    transfer = Transfer(store, repo.store, progress)
    theirs = _wanted(store, only)
    erased = brings_back(repo.backend, store, repo.store, theirs)
    theirs = {name: head for name, head in theirs.items() if name not in erased}
    branches = {name: head for name, head in theirs.items() if is_branch_ref(name)}
    for _ in range(_TRIES):
        _copy(transfer, store, list(theirs), theirs)
        tracked = {f"{_TRACKED}{label}/{name}": head for name, head in branches.items()}
        tags = {name: head for name, head in theirs.items() if name.startswith("tag/")}
        before = repo.store.refs(f"{_TRACKED}{label}/") | repo.store.refs("tag/")
        wanted = tracked | {name: head for name, head in tags.items() if name not in before}
        swaps = [Swap(name, before.get(name), head) for name, head in wanted.items()]
        try:
            _swap_all(repo.store, swaps, repo.clock(), "fetch")
        except (StaleRef, NotFound):
            continue
        updates = [
            RefUpdate(
                name, "new" if old is None else "up-to-date" if old == new else "forced", old, new
            )
            for name, old, new in swaps
        ]
        left_out = (RefUpdate(name, "erased", None, None) for name in sorted(erased))
        return TransferReport((*updates, *left_out), transfer.copied), branches
    raise Diverged("the refs move faster than they are fetched", hint="try again")


def _merge(repo: BareRepo, ref: str, theirs: Hash, label: str) -> RefUpdate:
    """Merge a fetched head into our branch of the same name."""
    graph, before = repo.backend.graph, repo.store.ref(ref)
    commit = graph.commit(theirs)
    if before is None:
        repo.backend.move(ref, None, commit, note="pull")
        return RefUpdate(ref, "new", None, theirs)
    compared = _compare(repo.backend, ref, before, theirs)
    if compared.kind in ("up-to-date", "ahead"):
        return compared
    branch = Branch(repo.backend, ref)
    result = branch.merge(commit, message=f"pull from {label}")
    if not result.ok:
        return RefUpdate(ref, "conflict", before, theirs)
    kind = "fast-forward" if result.kind == "fast-forward" else "merged"
    after = branch.head
    return RefUpdate(ref, kind, before, after.hash if after is not None else None)


def _compare(
    backend: Backend, name: str, old: Hash | None, new: Hash, *, is_forced: bool = False
) -> RefUpdate:
    """Tell what becomes of a ref at `old` that is to go to `new`, a commit that is stored here."""
    if old is None:
        return RefUpdate(name, "new", old, new)
    if old == new:
        return RefUpdate(name, "up-to-date", old, new)
    known = _commit(backend, old)
    if known is not None and not name.startswith("tag/"):
        target = backend.graph.commit(new)
        if backend.graph.is_ancestor(known, target):
            return RefUpdate(name, "fast-forward", old, new)
        if backend.graph.is_ancestor(target, known):
            return RefUpdate(name, "ahead", old, new)
    is_moved_tag = is_tag_ref(name) and _was_here(backend, name, old, new)
    return RefUpdate(name, "forced" if is_forced or is_moved_tag else "conflict", old, new)


def _was_here(backend: Backend, name: str, hash: Hash, now: Hash | None) -> bool:
    """Tell whether our ref of a name is, or was, at a commit or after it.

    A commit of others that was only fetched does not count.
    """
    moves = backend.store.moves(name)
    if any(hash in (move.old, move.new) for move in moves):
        return True
    known, tip = _commit(backend, hash), None if now is None else _commit(backend, now)
    return known is not None and tip is not None and backend.graph.is_ancestor(known, tip)


def _commit(backend: Backend, hash: Hash) -> Commit | None:
    """Return a commit, if it is stored here."""
    return backend.graph.commit(hash) if backend.store.read([hash]) else None


def _wanted(store: Store, only: Sequence[str]) -> dict[str, Hash]:
    """Return the branches and tags of a store, or those that match a pattern."""
    refs = store.refs()
    found = {name: head for name, head in refs.items() if is_branch_ref(name) or is_tag_ref(name)}
    if not only:
        return found
    chosen = {
        name: head
        for name, head in found.items()
        if any(fnmatchcase(name, pattern) for pattern in only)
    }
    if not chosen:
        raise RefNotFound(
            f"no branch or tag matches {', '.join(only)}",
            hint='patterns are full refs, such as "session/trip-42/*"',
        )
    return chosen


def _mirrored(store: Store, leave: str | None) -> dict[str, Hash]:
    """Return the refs that a mirror has as well: all but what is about the store itself."""
    prefixes = (_TRACKED,) if leave is None else (_TRACKED, leave)
    return {
        name: head
        for name, head in store.refs().items()
        if name not in (CONFIG, REMOTES) and not name.startswith(prefixes)
    }


def _copy(transfer: Transfer, source: Store, names: Iterable[str], heads: dict[str, Hash]) -> None:
    """Copy what refs name, with the history of each as a hint."""
    transfer.ask_again()  # if this is another try: a collection may have been faster
    wanted = list(names)
    branches = (name for name in wanted if not name.startswith("tag/"))
    histories = (_recent(transfer, source, name) for name in branches)
    transfer.copy([heads[name] for name in wanted], histories)


def _recent(transfer: Transfer, source: Store, name: str) -> list[Hash]:
    """Return commits of a ref's history, the newest first, down to one that the target has."""
    limit = _FIRST_HINTS
    while True:
        moves = source.moves(name, limit=limit)
        commits = [move.new for move in moves if move.new is not None]
        if len(moves) < limit or limit >= _HINTS or transfer.is_in_target(commits[-1:]):
            return commits
        limit = min(2 * limit, _HINTS)


def _swap_all(store: Store, swaps: Sequence[Swap], now: int, note: str) -> None:
    """Move refs to commits that were copied; together, if the store can.

    Raises:
        NotFound: a collection has dropped what was copied.
        StaleRef: one has moved since. If they are more than the store can move in one batch, some
            may have been moved.
    """
    moved = [swap for swap in swaps if swap.old != swap.new]
    at_once = store.capabilities.most_swaps or len(moved)
    for start in range(0, len(moved), at_once or 1):
        some = moved[start : start + at_once]
        needs = list(dict.fromkeys(swap.new for swap in some if swap.new is not None))
        batch = Batch(swaps=some, needs=needs, time=now, note=note)
        try:
            store.write(batch)
        except Unavailable:
            if not has_landed(store, batch):
                raise


def _share_constants(source: Store, target: Store, now: int) -> None:
    """Give a store in which nothing was committed yet the constants of this repo.

    Raises:
        Corrupt: they cannot be read.
        Invalid: the target is the store of another repo.
    """
    hash, theirs = source.ref(CONFIG), target.ref(CONFIG)
    if hash not in (None, theirs) and (theirs is None or _is_unused(target)):
        data = source.read([hash]).get(hash)
        if data is None or blake3(data).digest() != hash:
            raise Corrupt("the constants of the source cannot be read", hint="run otolith fsck")
        constants = Batch([Object(hash, data)], [Swap(CONFIG, theirs, hash)], time=now, note="init")
        with suppress(StaleRef):  # another process was faster, with these constants or others
            target.write(constants)
    _check_constants(source, target)


def _is_unused(store: Store) -> bool:
    """Tell whether a store has constants and names of remotes, and never had any other ref."""
    names = {CONFIG, REMOTES}
    moves = store.moves(limit=_MOVES_OF_NEW)
    is_short = len(moves) < _MOVES_OF_NEW
    return is_short and store.refs().keys() <= names and all(each.name in names for each in moves)


def _check_constants(one: Store, other: Store) -> None:
    if one.ref(CONFIG) != other.ref(CONFIG):
        raise Invalid(
            "the two stores are of different repos",
            hint="clone one of them; copies of one repo can push and pull",
        )


def _share_attempts(
    source: Backend, target: Backend, branches: Iterable[str], transfer: Transfer
) -> None:
    """Tell the target what was begun in sessions, so that it is not begun there again."""
    by_home = {attempts_ref(ref): ref for ref in branches if is_branch_ref(ref)}
    for home, ref in by_home.items():
        ours = source.store.ref(home)
        if ours is not None and target.store.ref(home) != ours:
            transfer.copy([ours])
            Attempts(target, ref).absorb(target.graph.commit(ours))


def remote_label(repo: BareRepo, source: Store | str) -> str:
    """Return the name under `remote/` for the branches of another store.

    It is that of the remote, if it has one; else the end of its path or URL, and some digits that
    tell it from others with the same end.
    """
    if not isinstance(source, str):
        return "store"
    named = [name for name, url in Remotes(repo.backend).list().items() if url == _absolute(source)]
    if named or _NAME.match(source):
        return named[0] if named else source
    place = without_secrets(_absolute(source))
    words = re.findall(r"[A-Za-z0-9]+", place.partition("?")[0].rpartition("@")[2])
    digits = blake3(place.encode()).hexdigest()[:6]
    return "-".join([*words[-_LABEL_WORDS:], digits])


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _url_of(repo: BareRepo, place: str) -> str:
    """Return the URL of a remote, or a path or URL as it is.

    Raises:
        RefNotFound: it is a bare word that names neither a remote nor a file.
    """
    remotes = Remotes(repo.backend).list()
    if place not in remotes and place.isidentifier() and not Path(place).exists():
        raise RefNotFound(
            f"there is no remote {place}, and no file of that name",
            hint=f"give a path such as ./{place}, or a URL; repo.remotes.list() lists the names",
        )
    return remotes.get(place, place)


def _absolute(url: str) -> str:
    """Return a path as one that means the same file in any folder; a URL as it is."""
    path = url.removeprefix("sqlite:")
    return url if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:|//", path) else str(Path(path).absolute())


@contextmanager
def _opened(repo: BareRepo, place: Store | str, *, create: bool) -> Iterator[Store]:
    """Open the store that a URL or the name of a remote means; a store stays open."""
    if not isinstance(place, str | os.PathLike):
        yield as_store(place)
        return
    store = open_store(_url_of(repo, os.fspath(place)), create=create)
    try:
        yield store
    finally:
        store.close()
