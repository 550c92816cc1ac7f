"""Migrations: functions that turn stored fields of an older model class into current ones.

They are declared beside the class, and hold for the whole process:

    @migration(Hotel, 1, 2)
    def stars_to_rating(fields):
        return {"name": fields["name"], "rating": fields["stars"] * 2.0}

A value of version 1 that is read where `Hotel.__otolith_version__` is 3 goes through the migration
from 1 and then through the one that starts where it ended. Nothing is guessed: a version
that no migration starts from is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias, TypeVar

from otolith.errors import Error, Exists, Invalid, UnknownType

Fields: TypeAlias = dict[str, Any]
Migrate: TypeAlias = Callable[[Fields], Fields]
"""Turns the fields of one version into those of a later one."""

Step = TypeVar("Step", bound=Migrate)

# What code that meets unexpected fields raises; anything else is a defect that should be seen.
_MISFITS = (Error, TypeError, ValueError, LookupError, AttributeError, ArithmeticError,
            AssertionError, RuntimeError)  # fmt: skip


class Migration(NamedTuple):
    """One step from a version of a model to a later one."""

    old: int
    new: int
    function: Migrate

    @property
    def name(self) -> str:
        """The module and name of the function."""
        function = self.function
        return f"{function.__module__}.{getattr(function, '__qualname__', repr(function))}"


_STEPS: dict[type, dict[int, Migration]] = {}
_MOVED: dict[str, type] = {}


def migration(
    model: type, old: int, new: int, *, formerly: str | Iterable[str] = ()
) -> Callable[[Step], Step]:
    """Declare that a function turns the fields of version `old` of a model into those of `new`.

    `formerly` are the names that the class had before it moved, as "module:Qualname".

    Raises:
        Invalid: the versions are not ints, 1 or more, the second the higher.
        Exists: another function migrates from this version, or another class has a former name.
    """
    if type(old) is not int or type(new) is not int or not 1 <= old < new:
        raise Invalid(
            f"cannot migrate {full_name(model)} from version {old!r} to {new!r}",
            hint="versions are ints, 1 or more, and a migration goes up",
        )
    names = (formerly,) if isinstance(formerly, str) else tuple(formerly)

    def declare(function: Step) -> Step:
        """Register a function as the migration."""
        _check_free(model, Migration(old, new, function), names)
        _STEPS.setdefault(model, {})[old] = Migration(old, new, function)
        _MOVED.update(dict.fromkeys(names, model))
        return function

    return declare


def _check_free(model: type, step: Migration, names: tuple[str, ...]) -> None:
    """Refuse a second migration from a version, or a former name of two classes."""
    # Running a module or a cell of a notebook again declares the same things again.
    taken = _STEPS.get(model, {}).get(step.old)
    if taken is not None and taken.name != step.name:
        raise Exists(
            f"{taken.name} migrates {full_name(model)} from version {step.old} already",
            hint="declare one migration from each version",
        )
    for name in names:
        other = _MOVED.get(name, model)
        if full_name(other) != full_name(model):
            raise Exists(
                f"{name} is declared to be a former name of {full_name(other)}",
                hint="declare a former name for one class only",
            )


def moved_class(name: str) -> type | None:
    """Return the class that migrations declare to have been stored under this name, or None."""
    return _MOVED.get(name)


def migration_path(model: type, old: int, new: int) -> Iterator[Migration]:
    """Yield the migrations that lead from one version to another.

    Raises:
        UnknownType: no migration starts from a version on the path, or one skips the last version.
    """
    known = _STEPS.get(model, {})
    at = old
    while at < new:
        step = known.get(at)
        if step is None or step.new > new:
            raise UnknownType(
                f"{full_name(model)} has version {new} here and was stored with version {old};"
                f" there is no migration from version {at}",
                hint=f"declare @migration({model.__name__}, {at}, {at + 1}),"
                " give register_model an upgrade, or read with opaque=True",
            )
        yield step
        at = step.new


def migrate(model: type, fields: Fields, *, old: int, new: int) -> Fields:
    """Take fields that were stored with one version through the migrations to another.

    Raises:
        UnknownType: there is no path from one to the other, or a migration fails.
    """
    for step in list(migration_path(model, old, new)):
        try:
            found: object = step.function(dict(fields))
        except _MISFITS as error:
            raise _failed(model, step, f"raised {type(error).__name__}: {error}") from error
        if not isinstance(found, dict) or any(type(name) is not str for name in found):
            raise _failed(model, step, f"returned {type(found).__name__}, not a dict of fields")
        fields = found
    return fields


def _failed(model: type, step: Migration, how: str) -> UnknownType:
    """Return the error for a migration that failed."""
    return UnknownType(
        f"the migration {step.name} of {full_name(model)}"
        f" from version {step.old} to {step.new} {how}",
        hint="correct the migration; what is stored is untouched",
    )


def full_name(kind: type) -> str:
    """Return "module:Qualname", as a class is stored unless it was registered otherwise."""
    return f"{kind.__module__}:{kind.__qualname__}"
