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
from typing import Any

from otolith.care.stale_values import (
    MigrationPlan,
    Progress,
    StaleValue,
    StaleValueSearch,
    ValueCounter,
    branch_refs,
    check_repo,
)
from otolith.codecs import Codecs, Opaque, migrate, migration_path
from otolith.core import (
    BareRepo,
    Branch,
    Cells,
    Commit,
    Path,
    format_path,
    parse_path,
)
from otolith.errors import (
    BadValue,
    Corrupt,
    Error,
    StaleRef,
    UnknownType,
    Unsupported,
)
from otolith.types import Hash, Tag

_NAMED = (Tag.MODEL, Tag.STATE, Tag.CUSTOM)
_NOT_OPAQUE = "open the repo with codecs that are not opaque"


class ModelJudge:
    """Judges models: one is stale whose class has another version, name or fields today."""

    codes: tuple[Tag, ...] = _NAMED

    def __init__(self, cells: Cells, codecs: Codecs) -> None:
        self._cells = cells
        self._codecs = codecs
        self._verdicts: dict[tuple[Any, ...], tuple[str, int] | Error | None] = {}

    def stale_at(self, code: int, data: bytes, path: Path) -> StaleValue | None:
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

    def inside(self, code: int, data: bytes) -> bytes | None:
        """Return the fields of a model."""
        return self._cells.element(data, 2)

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

    def renewed(self, loose: bytes, stale: StaleValue) -> bytes:
        """Lift a stale value and put it back."""
        value = self._cells.load(loose)
        if isinstance(value, Opaque):
            raise UnknownType(stale.why or "it was read as Opaque", hint=_NOT_OPAQUE)
        return self._cells.put(value)

    def renewed_key(self, key: bytes, renew: Callable[[], bytes | None]) -> bytes:
        """Lift a key that has a stale model in it, and put it back."""
        encoding = self._cells.encoding
        return encoding.key(encoding.unkey(key))


Validate = Callable[[type, dict[str, Any]], None]
"""Raises an Error if the top values of a state do not fit the model of its schema."""

_RECORD = ".schema"
_MOST_RACES = 20  # that others win, before a migration gives up


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
    check_repo("plan_migration", repo)
    count = ValueCounter(progress)
    states = (_BranchMigration(repo, ref, count) for ref in branch_refs(repo, session, branch))
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
    check_repo("apply_migration", repo)
    count = ValueCounter(progress)
    return [
        _migrate_branch(repo, ref, count, validate, is_dry=dry_run)
        for ref in branch_refs(repo, session, branch)
    ]


def _migrate_branch(
    repo: BareRepo, ref: str, count: ValueCounter, validate: Validate | None, *, is_dry: bool
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


class _BranchMigration(Branch):
    """A branch whose stale values are found and rewritten."""

    _if_moved = "refuse"

    def __init__(self, repo: BareRepo, ref: str, count: ValueCounter) -> None:
        super().__init__(repo.backend, ref)
        codecs = repo.encoding.codec
        if not isinstance(codecs, Codecs):
            raise Unsupported(
                f"{type(codecs).__name__} cannot migrate models", hint="open the repo with Codecs"
            )
        self._codecs = codecs
        judge = ModelJudge(self.cells, codecs)
        self._search = StaleValueSearch(self.cells, judge, count=count)

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
