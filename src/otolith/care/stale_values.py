"""Stale values: finds stored values that would be stored differently today, and renews them.

A `Judge` says which values are stale, and renews one: `ModelJudge` models of older versions
(`migrate.py`), `SignatureJudge` pickles that an older key has signed (`signatures.py`). The search
walks the cells of a state, and puts renewed ones in their place; what is around them stays. It does
not load a value that no judge is interested in, and bytes and text are not read at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from otolith.core import SCOPES, BareRepo, Cells, Commit, Path, scope_ref, split_ref
from otolith.errors import BadValue, Denied, Error, Invalid, MissingExtra, RefNotFound, UnknownType
from otolith.types import Tag

CountValue = Callable[[], None]
"""Called for every value that was examined."""
Progress = Callable[[str, int, int], None]

_KEY = "(key)"  # stands in a path for a key that is itself stale
_PROGRESS_STEP = 256


class StaleValue(NamedTuple):
    """A stored value whose class has another version, name or fields today."""

    path: str
    name: str
    version: int
    today: str = ""
    today_version: int = 0
    why: str = ""  # the reason, if it cannot be migrated

    def blocked(self, error: Error) -> StaleValue:
        """Return it with the reason why it cannot be migrated."""
        return self._replace(why=str(error))


class Judge(Protocol):
    """Says which stored values are stale, and renews one."""

    codes: tuple[Tag, ...]
    """The tags of values that can be stale."""

    def stale_at(self, code: int, data: bytes, path: Path) -> StaleValue | None:
        """Return what is stale about a value itself, apart from its parts; None if nothing is."""

    def inside(self, code: int, data: bytes) -> bytes | None:
        """Return the cell in a value of one of the codes that may hold others; None if none."""

    def renewed(self, loose: bytes, stale: StaleValue) -> bytes:
        """Return a stale value as it is stored today."""

    def renewed_key(self, key: bytes, renew: Callable[[], bytes | None]) -> bytes:
        """Return a stale key of a map; `renew` returns the cell that its value would have."""


class StaleValueSearch:
    """Finds the stale values of one state, and renews them."""

    def __init__(self, cells: Cells, judge: Judge, *, count: CountValue) -> None:
        self._cells = cells
        self._judge = judge
        self._count = count
        self._other_key = cells.encoding.key(None)[:1]
        self.failures: list[StaleValue] = []

    def find(self, cell: bytes, path: Path = ()) -> Iterator[StaleValue]:
        """Yield what is stale in a cell, inside of stale values too."""
        loose = self._candidate(cell)
        if loose is None:
            return
        code, data = self._untagged(loose)
        if code is None:
            for name, part in self._parts(data):
                yield from self.find(part, (*path, name))
            return
        stale = self._judge.stale_at(code, data, path)
        if stale is not None:
            yield stale
        inside = self._inside(code, data)
        if inside is not None:
            yield from self.find(inside, path)

    def renewed(self, cell: bytes, path: Path = (), *, is_form: bool = False) -> bytes | None:
        """Return a cell in which nothing is stale, or None if nothing was.

        What cannot be renewed is noted in `failures`. `is_form` is whether it is the data of a tag.
        """
        loose = self._candidate(cell)
        if loose is None:
            return None
        code, data = self._untagged(loose)
        if code is not None:
            stale = self._judge.stale_at(code, data, path)
            if stale is not None:
                return self._try_to_renew(stale, lambda: self._judge.renewed(loose, stale))
            if self._inside(code, data) is None:
                return None
            renewed = self.renewed(data, path, is_form=code != Tag.GRAPH)
            return None if renewed is None else self._cells.tagged_cell(code, renewed)
        if self._cells.kind(loose) == "map":
            return self._renewed_map(loose, path, is_form=is_form)
        return self._renewed_list(loose, path) if self._cells.kind(loose) == "list" else None

    def _candidate(self, cell: bytes) -> bytes | None:
        """Return a cell in loose form, or None if nothing in it can be stale."""
        self._count()
        loose = self._cells.loosen(cell)
        if self._cells.is_grown(loose):
            return None if self._cells.blob(loose) is not None else loose
        # A short value is its own encoding, and the codes of tags are bytes of it.
        is_whole = self._cells.full_size(loose) == len(loose)
        return loose if is_whole and any(code in loose for code in self._judge.codes) else None

    def _inside(self, code: int, data: bytes) -> bytes | None:
        return self._judge.inside(code, data) if code in self._judge.codes else data

    def _untagged(self, loose: bytes) -> tuple[int | None, bytes]:
        """Return the code of a cell, if it has one, and the cell of its data, or itself."""
        tagged = self._cells.tag(loose)
        if tagged is None or not isinstance(tagged.data, bytes):
            return None, loose
        return tagged.code, tagged.data

    def _parts(self, loose: bytes) -> Iterator[tuple[object, bytes]]:
        """Yield the parts of a list or map with their place; a key that is a model is one too."""
        kind = self._cells.kind(loose)
        if kind == "list":
            for at, part in enumerate(self._cells.elements(loose)):
                yield str(at), part
        elif kind == "map":
            for key, part in self._cells.entries(loose):
                if self._may_be_stale(key):
                    yield _KEY, key[1:]
                    yield _KEY, part
                else:
                    yield self._cells.encoding.unkey(key), part

    def _may_be_stale(self, key: bytes) -> bool:
        """Return whether a key of a map can contain a model; most are plain."""
        return key.startswith(self._other_key) and any(code in key for code in self._judge.codes)

    # Renewing

    def _try_to_renew(self, stale: StaleValue, renew: Callable[[], bytes]) -> bytes | None:
        """Renew something, or note that it cannot be renewed."""
        try:
            return renew()
        except (UnknownType, MissingExtra, BadValue, Denied) as error:
            self.failures.append(stale.blocked(error))
            return None

    def _renewed_list(self, loose: bytes, path: Path) -> bytes | None:
        """Renew the elements of a list; neighbours are replaced by one splice."""
        new, start, run = loose, 0, list[bytes]()
        for at, part in enumerate(self._cells.elements(loose)):
            renewed = self.renewed(part, (*path, str(at)))
            if renewed is not None:
                start = start if run else at
                run.append(renewed)
            elif run:
                new = self._cells.splice(new, start, at, run)
                run = []
        if run:
            new = self._cells.splice(new, start, start + len(run), run)
        return None if new is loose else new

    def _renewed_map(self, loose: bytes, path: Path, *, is_form: bool) -> bytes | None:
        """Renew the entries of a map, by one edit of it; a new key takes the place of the old."""
        edits: dict[bytes, bytes | None] = {}
        moved: dict[bytes, bytes] = {}
        for key, part in self._cells.entries(loose):
            if self._may_be_stale(key):
                new_key = self._renew_entry(key, part, path, edits, loose)
                moved |= {key: new_key} if new_key != key else {}
            else:
                name = self._cells.encoding.unkey(key)
                if (renewed := self.renewed(part, (*path, name))) is not None:
                    edits[key] = renewed
        if not edits:
            return None
        new = self._cells.edit_map(loose, edits, is_table=is_form)
        if is_form or not moved:
            return new
        return self._cells.reorder(new, [moved.get(key, key) for key in self._cells.names(loose)])

    def _renew_entry(
        self, key: bytes, part: bytes, path: Path, edits: dict[bytes, bytes | None], loose: bytes
    ) -> bytes:
        """Put an entry whose key is stale under its new key; return the key that it has now."""
        renewed = self.renewed(part, (*path, _KEY))
        stale = next(self.find(key[1:], (*path, _KEY)), None)
        new_key: bytes | None = key
        if stale is not None:
            new_key = self._try_to_renew(stale, lambda: self._new_key(key, edits, loose))
        if new_key not in (None, key):
            edits[key] = None
            renewed = self._cells.loosen(part) if renewed is None else renewed
        if new_key is not None and renewed is not None:
            edits[new_key] = renewed
        return key if new_key is None else new_key

    def _new_key(self, key: bytes, edits: dict[bytes, bytes | None], loose: bytes) -> bytes:
        """Return a key as it is stored today.

        Raises:
            BadValue: the map has an entry under that key already.
        """
        new = self._judge.renewed_key(key, lambda: self.renewed(key[1:]))
        if new in edits or self._cells.entry(loose, new) is not None:
            raise BadValue(
                "two keys of a map would become one", hint="give one of them another key"
            )
        return new


class MigrationPlan(NamedTuple):
    """The values of one branch that would be stored differently today."""

    ref: str
    values: tuple[StaleValue, ...]
    commit: Commit | None = None  # the commit that migrated them

    @property
    def name(self) -> str:
        """The branch as users write it: `session/branch`."""
        scope, id, branch = split_ref(self.ref)
        return f"{id}/{branch}" if scope == "session" else f"{scope} {id}/{branch}"

    @property
    def failures(self) -> tuple[StaleValue, ...]:
        """The values that cannot be migrated."""
        return tuple(value for value in self.values if value.why)


def check_repo(verb: str, repo: object) -> None:
    """Raise Invalid if a repo is not one."""
    if not isinstance(repo, BareRepo):
        raise Invalid(
            f"{verb} needs a repo, got {type(repo).__name__}",
            hint="give what otolith.open(path) returns; a state has its repo at state.repo",
        )


def branch_refs(repo: BareRepo, session: str | None, branch: str | None) -> list[str]:
    """Return the refs of branches: of a session, of a branch name, or all.

    Raises:
        RefNotFound: the session, or its branch, does not exist.
    """
    if session is None:
        refs = [ref for scope in SCOPES for ref in repo.store.refs(f"{scope}/")]
        return [ref for ref in refs if branch in (None, split_ref(ref)[2])]
    prefix = scope_ref("session", session, branch or "x")
    found = repo.store.refs(prefix if branch else prefix[:-1])
    refs = [ref for ref in found if branch in (None, split_ref(ref)[2])]
    if not refs:
        what = f"session {session} has no branch {branch}" if branch else f"no session {session}"
        raise RefNotFound(what, hint="repo.sessions() lists what there is")
    return refs


class ValueCounter:
    """Counts the values that were examined, and reports progress."""

    def __init__(self, progress: Progress | None, what: str = "migrating") -> None:
        self._progress = progress
        self._what = what
        self._count = 0

    def __call__(self) -> None:
        """Count one more value."""
        self._count += 1
        if self._progress is not None and self._count % _PROGRESS_STEP == 0:
            self._progress(self._what, self._count, 0)
