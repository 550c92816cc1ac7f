"""Migrating in bulk: what is stored in an older form is listed, and rewritten by a commit.

Values are migrated when they are read, whether or not they were migrated in bulk. Doing so pays
before a migration is removed from the program, and shows before a release what would fail after
it. History stays: old commits keep what they hold, and are migrated when they are read.

A state that was kept with a schema has a record of it under `.schema`; its top values are the
fields of that model, and go through the same migrations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from otolith.care.stale import Search, Stale
from otolith.codecs import Codecs, migrate, way
from otolith.core import Branch, Commit, Repo, parse_path, scope_ref, split_ref
from otolith.errors import Error, MergeConflict, RefNotFound, UnknownType, Unsupported
from otolith.types import Hash

Progress = Callable[[str, int, int], None]
Validate = Callable[[type, dict[str, Any]], None]
"""Raises an Error if the top values of a state do not fit the model of its schema."""

_RECORD = ".schema"
_SCOPES = ("session/", "user/", "app/")
_RETRIES = 4
_TOGETHER = 256


class Plan(NamedTuple):
    """What on one branch is stored otherwise than it would be today."""

    ref: str
    values: tuple[Stale, ...]
    commit: Commit | None = None  # the one that migrated it

    @property
    def name(self) -> str:
        """The branch as people write it."""
        scope, id, branch = split_ref(self.ref)
        return f"{id}/{branch}" if scope == "session" else f"{scope} {id}/{branch}"

    @property
    def failures(self) -> tuple[Stale, ...]:
        """What cannot be migrated."""
        return tuple(value for value in self.values if value.why)


def plan_migration(
    repo: Repo,
    *,
    session: str | None = None,
    branch: str | None = None,
    progress: Progress | None = None,
) -> list[Plan]:
    """List what would be migrated on each branch: of one session, or of everything there is.

    Nothing is lifted and no migration is run, so what is listed as possible may still fail:
    `apply_migration(dry_run=True)` tries.

    Raises:
        RefNotFound: there is no such session or branch.
        Unsupported: the repo has codecs of its own kind, which know nothing of models.
    """
    seen = _Counter(progress)
    states = (_State(repo, ref, seen) for ref in _refs(repo, session, branch))
    return [Plan(state.ref, state.stale()) for state in states]


def apply_migration(
    repo: Repo,
    *,
    session: str | None = None,
    branch: str | None = None,
    dry_run: bool = False,
    validate: Validate | None = None,
    progress: Progress | None = None,
) -> list[Plan]:
    """Rewrite what is stale, by one commit of kind "migrate" for each branch that has any.

    A branch on which something cannot be migrated stays as it is: `failures` of its plan say why.
    With `dry_run` every value is migrated and encoded, and nothing is written. `validate` is called
    with the model and the top values of each state that was kept with a schema.

    Raises:
        RefNotFound, Unsupported: as for `plan_migration`.
        MergeConflict: others keep writing to the very values; branches done so far stay done.
    """
    seen = _Counter(progress)
    return [
        _applied(repo, ref, seen, validate, is_dry=dry_run) for ref in _refs(repo, session, branch)
    ]


def _refs(repo: Repo, session: str | None, branch: str | None) -> list[str]:
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


def _applied(
    repo: Repo, ref: str, seen: _Counter, validate: Validate | None, *, is_dry: bool
) -> Plan:
    for _ in range(_RETRIES):
        try:
            return _tried(_State(repo, ref, seen), validate, is_dry=is_dry)
        except MergeConflict:
            continue  # somebody else wrote to the very values: look again
    return _tried(_State(repo, ref, seen), validate, is_dry=is_dry)


def _tried(state: _State, validate: Validate | None, *, is_dry: bool) -> Plan:
    values = state.stale()
    if not values or any(value.why for value in values):
        return Plan(state.ref, values)
    failures = state.renew(validate)
    if failures or is_dry:
        return Plan(state.ref, _with(values, failures))
    return Plan(state.ref, values, state.land(len(values)))


def _with(values: tuple[Stale, ...], failures: list[Stale]) -> tuple[Stale, ...]:
    """Return values with what was found when they were tried."""
    why = {failure.path: failure for failure in failures}
    rest = [failure for failure in failures if failure.path not in {each.path for each in values}]
    return (*(why.get(value.path, value) for value in values), *rest)


class _Counter:
    """Counts what was looked at, and tells now and then."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._count = 0

    def __call__(self) -> None:
        self._count += 1
        if self._progress is not None and self._count % _TOGETHER == 0:
            self._progress("migrating", self._count, 0)


class _State(Branch):
    """A branch whose whole state is looked through and rewritten."""

    def __init__(self, repo: Repo, ref: str, seen: _Counter) -> None:
        super().__init__(repo.archive, ref)
        codecs = repo.encoding.codec
        if not isinstance(codecs, Codecs):
            raise Unsupported(
                f"{type(codecs).__name__} knows nothing of models", hint="open it with Codecs"
            )
        self._codecs = codecs
        self._search = Search(self.cells, codecs, seen=seen)

    def stale(self) -> tuple[Stale, ...]:
        """Return everything that is stored otherwise than it would be today."""
        return (*self._stale_schema(), *self._search.find(self._root()))

    def renew(self, validate: Validate | None) -> list[Stale]:
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
            ref: self._archive.graph.commit(Hash(bytes.fromhex(id))) for ref, id in reads.items()
        }
        message = f"migrate {count} value{'s' if count > 1 else ''}"
        return self.commit(message, kind="migrate", reads=commits)

    # The state's own schema

    def _stale_schema(self) -> Iterator[Stale]:
        cell = self.cell_at((_RECORD,))
        record = self.cells.load(cell) if cell is not None else None
        if not isinstance(record, dict):
            return
        stale = Stale(_RECORD, str(record.get("name")), _int(record.get("version")))
        try:
            kind, name, version = self._model(stale.name)
            list(way(kind, stale.version, version))
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
        kind = self._codecs.find(name)
        version = getattr(kind, "__otolith_version__", 1)
        return kind, f"{kind.__module__}:{kind.__qualname__}", version

    def _renew_top(self, stale: Stale, validate: Validate | None) -> None:
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


def _int(value: object) -> int:
    return value if type(value) is int else 0
