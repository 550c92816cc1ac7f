"""Schemas: the names and types that a whole state must have, checked as values go in and out.

A schema is made of a model class whose fields are the top names of the state:

    class Trip(TypedDict):
        budget: int
        plan: NotRequired[list[str]]

    schema = Schema.of(Trip)
    schema.check("budget", "500", when="in")    # SchemaMismatch: budget: expected int, found str

Nothing is converted and no defaults are filled in. Names that the model does not have are refused;
only a pydantic model with extra="allow" takes them. Names that start with a dot belong to otolith.

The schema of a state is stored with it as its *record*, a name and a version, under `.schema`; when
the version of the model has gone up since, `migrate_state` applies the same migrations to the
top values that stored instances of the model would go through.

`SchemaGuard` does both for a branch.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias

from otolith.codecs import migrate, moved_class
from otolith.core import Change, Path, differences, format_path, parse_own_path, parse_path
from otolith.errors import Invalid, SchemaMismatch
from otolith.state.schema.checks import Misfit
from otolith.state.schema.models import Field, allows_extra, fields_of
from otolith.state.tracked_branch import TrackedBranch

RECORD = ".schema"
"""The top name under which the record of a state's schema is stored."""

When: TypeAlias = Literal["in", "out"]

_HINTS = {
    "in": "write a value that fits, or change the schema",
    "out": "it was stored with another schema, or without one: declare a @migration, or read it"
    " without a schema",
}


class Schema:
    """The fields of a model, as the top names of a state. Make one with `Schema.of`."""

    def __init__(
        self,
        model: Any,
        *,
        name: str,
        version: int,
        fields: Iterable[Field],
        takes_any: bool,
    ) -> None:
        self.model = model
        self.name = name
        self.version = version
        self.takes_any = takes_any
        self._fields = {field.name: field for field in fields}
        self._checks = {field.name: field.check for field in self._fields.values()}

    @classmethod
    def of(cls, model: Any) -> Schema:
        """Return the schema of a dataclass, TypedDict, or class of attrs, msgspec or pydantic.

        Raises:
            Invalid: it is none of these, its annotations cannot be resolved, or its version is bad.
        """
        if isinstance(model, Schema):
            return model
        kind = typing.get_origin(model) or model
        fields = fields_of(model)
        version = getattr(kind, "__otolith_version__", 1)
        if type(version) is not int or version < 1:
            raise Invalid(
                f"{kind.__qualname__} has the schema version {version!r}",
                hint="__otolith_version__ is an int, 1 or more",
            )
        name = f"{kind.__module__}:{kind.__qualname__}"
        return cls(kind, name=name, version=version, fields=fields, takes_any=allows_extra(kind))

    @property
    def names(self) -> tuple[str, ...]:
        """The top names that a state of this schema may have."""
        return tuple(self._fields)

    def check(self, key: str, value: object, *, when: When) -> None:
        """Check the whole value at a top name; `when` is "in" if it is written, "out" if read.

        Raises:
            SchemaMismatch: it does not fit, or the model has no such field; `path` says where.
        """
        check = self._checks.get(key)
        if check is None:
            self.check_name(key)
            return
        try:
            check(value)
        except Misfit as misfit:
            raise self._mismatch(key, misfit, when) from None
        except RecursionError:
            raise SchemaMismatch(
                f"{key} is nested too deeply to be checked", path=key, hint="does it hold itself?"
            ) from None

    def complete(self, keys: Iterable[str]) -> None:
        """Check that every name that must be there is among these.

        Raises:
            SchemaMismatch: one is missing; `path` names the first.
        """
        present = set(keys)
        missing = [f.name for f in self._fields.values() if f.is_required and f.name not in present]
        if missing:
            raise SchemaMismatch(
                f"{self.name} requires {', '.join(missing)}",
                path=missing[0],
                hint="set it, or give the field a default",
            )

    def record(self) -> dict[str, object]:
        """Return what is stored with a state: the name and the version of the schema."""
        return {"name": self.name, "version": self.version}

    def check_name(self, key: str) -> None:
        """Check that the model may have this top name.

        Raises:
            SchemaMismatch: it may not; the hint names those it has.
        """
        if key in self._fields or self.takes_any or key.startswith("."):
            return
        near = get_close_matches(key, self._fields, n=1)
        raise SchemaMismatch(
            f"{self.name} has no field {key}",
            path=key,
            hint=f"did you mean {near[0]}?" if near else f"it has {', '.join(self._fields)}",
        )

    def _mismatch(self, key: str, misfit: Misfit, when: When) -> SchemaMismatch:
        """Return the error for a value that does not fit, with its full path."""
        path = format_path((key, *reversed(misfit.path)))
        place = path if when == "in" else f"what is stored at {path}"
        return SchemaMismatch(
            f"{place} does not fit {self.name}: {misfit}", path=path, hint=_HINTS[when]
        )

    def __repr__(self) -> str:
        return f"<Schema {self.name} version {self.version}>"


def migrate_state(
    schema: Schema, stored: Mapping[str, object] | None, fields: Mapping[str, object]
) -> dict[str, object]:
    """Return the top values of a state, migrated to the current version of the schema.

    `stored` is the record of the state, None if there is none. A state without one, or with the
    current one, is returned unchanged: `check` finds what does not fit.

    Raises:
        SchemaMismatch: the state was stored with another schema, or with a newer version.
        UnknownType: there is no migration for a version on the way, or one fails; says which.
    """
    if stored is None or stored == schema.record():
        return dict(fields)
    name, version = stored.get("name"), stored.get("version")
    if name != schema.name and moved_class(str(name)) is not schema.model:
        raise _stored_with(schema, f"{name} and not with {schema.name}")
    if type(version) is not int or not 1 <= version <= schema.version:
        raise _stored_with(schema, f"version {version} of {name}; here it has {schema.version}")
    found = migrate(schema.model, dict(fields), old=version, new=schema.version)
    for key in found:
        schema.check_name(key)
    schema.complete(found)
    return found


def _stored_with(schema: Schema, what: str) -> SchemaMismatch:
    """Return the error for a state that was stored with another schema."""
    return SchemaMismatch(
        f"the state was stored with the schema {what}",
        path=RECORD,
        hint="open it with the schema it was stored with; if the class moved, declare that with"
        f" @migration({schema.model.__name__}, …, formerly=…)",
    )


class SchemaGuard:
    """Checks a branch against a schema: values as they are written, read and committed."""

    def __init__(self, model: Any, branch: TrackedBranch) -> None:
        self.schema = Schema.of(model)
        self._branch = branch

    def migrate(self) -> None:
        """Take a state that was stored with an older version of the model through its migrations.

        Raises:
            SchemaMismatch, UnknownType: as `migrate_state`.
        """
        record = self._record()
        if record is None or record == self.schema.record():
            return
        before = {name: self._value(name) for name in map(_top, self._branch)}
        after = migrate_state(self.schema, record, before)
        for name in before.keys() - after.keys():
            del self._branch[(name,)]
        for name, value in after.items():
            if name not in before or before[name] is not value:
                self.check_write((name,), value)
                self._branch[(name,)] = value
        self._stage_record()

    def check_read(self, path: str | Path, value: object) -> None:
        """Check a value that was read, if it is a whole one at the top."""
        keys = parse_path(path)
        if len(keys) == 1 and isinstance(keys[0], str):
            self.schema.check(keys[0], value, when="out")

    def check_write(self, path: str | Path, value: object) -> None:
        """Check a value to be written; of one below the top, only the name at the top."""
        keys = parse_own_path(path)
        name = str(keys[0])
        self.schema.check_name(name)
        if len(keys) == 1:
            self.schema.check(name, value, when="in")

    def check_staged(self, changes: Iterable[Change]) -> None:
        """Check the values that changed, and that none is missing, before they are committed.

        Raises:
            SchemaMismatch: a changed value does not fit, or one that must be there is missing.
        """
        present = set(map(_top, self._branch))
        for name in {_top(change.path) for change in changes} & present:
            self.schema.check(name, self._value(name), when="in")
        self.schema.complete(present)
        self._stage_record()

    def misfits(self, before: bytes, after: bytes) -> dict[str, str]:
        """Return the top names, of those that differ in `after`, that do not fit, and why."""
        cells, found = self._branch.cells, dict[str, str]()
        changed = {_top(change.path) for change in differences(cells, before, after)}
        for name in sorted(changed):
            cell = cells.entry(after, cells.encoding.key(name))
            if name.startswith("."):
                continue
            try:
                if cell is None:
                    self.schema.complete({*self.schema.names} - {name})
                else:
                    self.schema.check(name, cells.load(cell), when="in")
            except SchemaMismatch as mismatch:
                found[name] = mismatch.message
        return found

    def _value(self, name: str) -> object:
        return TrackedBranch.__getitem__(self._branch, (name,))  # not checked as a read

    def _record(self) -> Any:
        cell = self._branch.cell_at((RECORD,))
        return None if cell is None else self._branch.cells.load(cell)

    def _stage_record(self) -> None:
        record = self.schema.record()
        if self._record() != record:
            self._branch.write_reserved((RECORD,), self._branch.cells.put(record))


def _top(path: str) -> str:
    return str(parse_path(path)[0])
