"""Bulk migration: lists values that are stored in an older form, and rewrites them by a commit.

Values are migrated when they are read, whether or not they were migrated in bulk. A bulk migration
pays before a migration is removed from the program, and shows before a release what would fail
after it. History does not change: old commits hold what they held, and are migrated when read.

Theory of operation. A model stores the name and the version of its class beside its fields, so the
search for stale values reads those, and the field names, and makes no instance. Bytes and text are
not read at all. To renew a value is to load it, which migrates it, and to put it back; what is
around it stays.

A state that was stored with a schema has a record of it under `.schema`; its top values are the
fields of that model, and go through the same migrations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from otolith.codecs import Codecs, Opaque, migrate, migration_path
from otolith.core import (
    BareRepo,
    Branch,
    Cells,
    Commit,
    Path,
    format_path,
    parse_path,
    scope_ref,
    split_ref,
)
from otolith.errors import (
    BadValue,
    Corrupt,
    Denied,
    Error,
    MissingExtra,
    RefNotFound,
    StaleRef,
    UnknownType,
    Unsupported,
)
from otolith.types import Hash, Tag

_NAMED = (Tag.MODEL, Tag.STATE, Tag.CUSTOM)
_KEY = "(key)"  # stands in a path for a key that is itself a model
_NOT_OPAQUE = "open the repo with codecs that are not opaque"

CountValue = Callable[[], None]
"""Called for every value that was examined."""


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


class StaleValueSearch:
    """Finds the stale values of one state, and renews them."""

    def __init__(self, cells: Cells, codecs: Codecs, *, count: CountValue) -> None:
        self._cells = cells
        self._codecs = codecs
        self._count = count
        self._other_key = cells.encoding.key(None)[:1]
        self._verdicts: dict[tuple[Any, ...], tuple[str, int] | Error | None] = {}
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
        stale = self._stale_at(code, data, path)
        if stale is not None:
            yield stale
        yield from self.find(self._cells.element(data, 2) if code in _NAMED else data, path)

    def renewed(self, cell: bytes, path: Path = (), *, is_form: bool = False) -> bytes | None:
        """Return a cell in which nothing is stale, or None if nothing was.

        What cannot be renewed is noted in `failures`. `is_form` is whether it is the data of a tag.
        """
        loose = self._candidate(cell)
        if loose is None:
            return None
        code, data = self._untagged(loose)
        if code is not None:
            stale = self._stale_at(code, data, path)
            if stale is not None:
                return self._try_to_renew(stale, lambda: self._migrated(loose, stale))
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
        return loose if is_whole and any(code in loose for code in _NAMED) else None

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
        return key.startswith(self._other_key) and any(code in key for code in _NAMED)

    # Judging

    def _stale_at(self, code: int, data: bytes, path: Path) -> StaleValue | None:
        """Return what is stale about a value itself, apart from its parts; None if nothing is.

        Raises:
            Corrupt: it has the tag of a model, and not its form.
        """
        if code not in _NAMED:
            return None
        head = list(self._cells.elements(data))
        name, version = (self._cells.load(part) for part in head[:2])
        if type(name) is not str or type(version) is not int:
            raise Corrupt(f"{format_path(path)} is not a model", hint="run otolith fsck")
        fields = frozenset[str]()
        if code == Tag.MODEL:
            unkey = self._cells.encoding.unkey
            fields = frozenset(str(unkey(key)) for key, _ in self._cells.entries(head[2]))
        verdict = self._verdict(code, name, version, fields, len(head) > 3)
        if verdict is None:
            return None
        stale = StaleValue(format_path(path), name, version)
        if isinstance(verdict, Error):
            return stale.blocked(verdict)
        return stale._replace(today=verdict[0], today_version=verdict[1])

    def _verdict(self, *case: Any) -> tuple[str, int] | Error | None:
        """Return the name and version that a value would be stored with today, or an error."""
        if case not in self._verdicts:
            code, name, version, fields, has_rest = case
            try:
                verdict = self._codecs.current_type(
                    code, name, version, fields=fields, has_rest=has_rest
                )
                self._verdicts[case] = verdict
            except (UnknownType, BadValue) as error:
                self._verdicts[case] = error
        return self._verdicts[case]

    # Renewing

    def _migrated(self, loose: bytes, stale: StaleValue) -> bytes:
        """Lift a stale value and put it back."""
        value = self._cells.load(loose)
        if isinstance(value, Opaque):
            raise UnknownType(stale.why or "it was read as Opaque", hint=_NOT_OPAQUE)
        return self._cells.put(value)

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
        encoding = self._cells.encoding
        new = encoding.key(encoding.unkey(key))
        if new in edits or self._cells.entry(loose, new) is not None:
            raise BadValue(
                "two keys of a map would become one", hint="give one of them another key"
            )
        return new


Progress = Callable[[str, int, int], None]
Validate = Callable[[type, dict[str, Any]], None]
"""Raises an Error if the top values of a state do not fit the model of its schema."""

_RECORD = ".schema"
_SCOPES = ("session/", "user/", "app/")
_MOST_RACES = 20  # that others win, before a migration gives up
_PROGRESS_STEP = 256


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


def plan_migration(
    repo: BareRepo,
    *,
    session: str | None = None,
    branch: str | None = None,
    progress: Progress | None = None,
) -> list[MigrationPlan]:
    """List what would be migrated on each branch: of one session, or of the whole repo.

    No instance is made and no migration is run, so what is listed as possible may still fail:
    `apply_migration(dry_run=True)` tries.

    Raises:
        RefNotFound: the session or branch does not exist.
        Unsupported: the repo was opened with other codecs than `Codecs`.
    """
    count = _Counter(progress)
    states = (_BranchMigration(repo, ref, count) for ref in _refs(repo, session, branch))
    return [MigrationPlan(state.ref, state.stale()) for state in states]


def apply_migration(
    repo: BareRepo,
    *,
    session: str | None = None,
    branch: str | None = None,
    dry_run: bool = False,
    validate: Validate | None = None,
    progress: Progress | None = None,
) -> list[MigrationPlan]:
    """Rewrite what is stale, by one commit of kind "migrate" for each branch that has any.

    A branch on which something cannot be migrated is not changed: `failures` of its plan say why.
    With `dry_run` every value is migrated and encoded, and nothing is written. `validate` is called
    with the model and the top values of each state that was stored with a schema.

    Raises:
        RefNotFound, Unsupported: as for `plan_migration`.
        StaleRef: others keep committing; branches migrated so far stay migrated.
    """
    count = _Counter(progress)
    return [
        _migrate_branch(repo, ref, count, validate, is_dry=dry_run)
        for ref in _refs(repo, session, branch)
    ]


def _refs(repo: BareRepo, session: str | None, branch: str | None) -> list[str]:
    """Return the refs to migrate: of a session, of a branch name, or all.

    Raises:
        RefNotFound: the session, or its branch, does not exist.
    """
    if session is None:
        refs = [ref for scope in _SCOPES for ref in repo.store.refs(scope)]
        return [ref for ref in refs if branch in (None, split_ref(ref)[2])]
    prefix = scope_ref("session", session, branch or "x")
    found = repo.store.refs(prefix if branch else prefix[:-1])
    refs = [ref for ref in found if branch in (None, split_ref(ref)[2])]
    if not refs:
        what = f"session {session} has no branch {branch}" if branch else f"no session {session}"
        raise RefNotFound(what, hint="repo.sessions() lists what there is")
    return refs


def _migrate_branch(
    repo: BareRepo, ref: str, count: _Counter, validate: Validate | None, *, is_dry: bool
) -> MigrationPlan:
    """Migrate a branch; again, if others have committed: then the newest values are others."""
    lost_races = 0
    while True:
        state = _BranchMigration(repo, ref, count)
        values = state.stale()
        if not values or any(value.why for value in values):
            return MigrationPlan(ref, values)
        failures = state.renew(validate)
        if failures or is_dry:
            paths, why = {each.path for each in values}, {each.path: each for each in failures}
            others = (failure for failure in failures if failure.path not in paths)
            return MigrationPlan(ref, (*(why.get(each.path, each) for each in values), *others))
        try:
            return MigrationPlan(ref, values, state.land(len(values)))
        except StaleRef:
            lost_races += 1
            if lost_races > _MOST_RACES:
                raise


class _Counter:
    """Counts the values that were examined, and reports progress."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._count = 0

    def __call__(self) -> None:
        """Count one more value."""
        self._count += 1
        if self._progress is not None and self._count % _PROGRESS_STEP == 0:
            self._progress("migrating", self._count, 0)


class _BranchMigration(Branch):
    """A branch whose stale values are found and rewritten."""

    _if_moved = "refuse"

    def __init__(self, repo: BareRepo, ref: str, count: _Counter) -> None:
        super().__init__(repo.backend, ref)
        codecs = repo.encoding.codec
        if not isinstance(codecs, Codecs):
            raise Unsupported(
                f"{type(codecs).__name__} cannot migrate models", hint="open the repo with Codecs"
            )
        self._codecs = codecs
        self._search = StaleValueSearch(self.cells, codecs, count=count)

    def stale(self) -> tuple[StaleValue, ...]:
        """Return everything that would be stored differently today."""
        return (*self._stale_schema(), *self._search.find(self._root()))

    def renew(self, validate: Validate | None) -> list[StaleValue]:
        """Stage the state as it would be stored today; return what cannot be."""
        renewed = self._search.renewed(self._root())
        if renewed is not None:
            self._stage.reset(renewed)
        failures = self._search.failures
        for stale in self._stale_schema():
            try:
                self._renew_top(stale, validate)
            except Error as error:
                failures.append(stale.blocked(error))
        return failures

    def land(self, count: int) -> Commit:
        """Commit what was renewed."""
        reads = {} if self.head is None else self.head.reads
        commits = {
            ref: self._backend.graph.commit(Hash(bytes.fromhex(id))) for ref, id in reads.items()
        }
        message = f"migrate {count} value{'s' if count > 1 else ''}"
        return self.commit(message, kind="migrate", reads=commits)

    # The state's own schema

    def _stale_schema(self) -> Iterator[StaleValue]:
        """Yield the schema of the state itself, if the model has another version or name today."""
        cell = self.cell_at((_RECORD,))
        record = self.cells.load(cell) if cell is not None else None
        if not isinstance(record, dict):
            return
        version = record.get("version")
        stale = StaleValue(_RECORD, str(record.get("name")), version if type(version) is int else 0)
        try:
            kind, name, version = self._model(stale.name)
            list(migration_path(kind, stale.version, version))
            if version < stale.version:
                raise UnknownType(
                    f"{name} has version {version} here", hint="a newer program wrote this"
                )
        except UnknownType as error:
            yield stale.blocked(error)
            return
        if (name, version) != (stale.name, stale.version):
            yield stale._replace(today=name, today_version=version)

    def _model(self, name: str) -> tuple[type, str, int]:
        """Return the class of a stored name, and its name and version today.

        Raises:
            UnknownType: there is no such class.
        """
        kind = self._codecs.find(name)
        version = getattr(kind, "__otolith_version__", 1)
        return kind, f"{kind.__module__}:{kind.__qualname__}", version

    def _renew_top(self, stale: StaleValue, validate: Validate | None) -> None:
        """Migrate the top values of the state as the fields of its model, and stage them."""
        kind, name, version = self._model(stale.name)
        keys = [parse_path(name)[0] for name in self]
        before = {key: self[(key,)] for key in keys if isinstance(key, str)}
        after = migrate(kind, before, old=stale.version, new=version)
        if validate is not None:
            validate(kind, after)
        for key in before.keys() - after.keys():
            del self[(key,)]
        for key, value in after.items():
            self[(key,)] = value
        record = {"name": name, "version": version}
        self._stage.put((_RECORD,), self.cells.put(record))
