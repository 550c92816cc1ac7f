"""Models of every family as fields with checks: dataclass, attrs, msgspec, TypedDict, pydantic."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any, NamedTuple

import msgspec

from otolith.agent.checking import kinds
from otolith.agent.checking.annotations import Checks
from otolith.agent.checking.kinds import Check
from otolith.agent.checking.misfit import named
from otolith.agent.checking.pydantics import is_pydantic, pydantic_check, pydantic_fields
from otolith.errors import Invalid


class Field(NamedTuple):
    """One field of a model."""

    name: str
    check: Check
    is_required: bool


def fields_of(model: Any) -> list[Field]:
    """Return the fields of a model, each with its check.

    Raises:
        Invalid: it is no model, or its annotations name what is not there.
    """
    kind = typing.get_origin(model) or model
    if is_pydantic(kind):
        return [Field(*field) for field in pydantic_fields(kind)]
    required = _required(kind)
    if required is None:
        raise Invalid(
            f"{model!r} is no model",
            hint="a schema is a dataclass, a TypedDict, or a class of attrs, msgspec or pydantic",
        )
    checks = Checks(model_check)
    hints = _hints(kind, model)
    return [Field(name, checks.of(hints[name]), required[name]) for name in required]


def model_check(checks: Checks, kind: type, hint: Any) -> Check | None:
    """Return the check of a nested model, or None if the class is none."""
    if is_pydantic(kind):
        return pydantic_check(kind)
    required = _required(kind)
    if required is None:
        return None
    hints = _hints(kind, hint)
    parts = {name: checks.of(hints.get(name, Any)) for name in required}
    if typing.is_typeddict(kind):
        return kinds.typed_dict(kind, parts, frozenset(n for n in required if required[n]))
    return kinds.model(kind, list(parts.items()))


def _required(kind: Any) -> dict[str, bool] | None:
    """Return the fields of a class and whether each must be given, or None if it has none."""
    if typing.is_typeddict(kind):
        return _required_keys(kind)
    if dataclasses.is_dataclass(kind):
        return {
            field.name: field.init and _has_no_default(field) for field in dataclasses.fields(kind)
        }
    if isinstance(attributes := getattr(kind, "__attrs_attrs__", None), tuple):
        return {each.name: each.init and _has_no_attrs_default(each) for each in attributes}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {field.name: field.required for field in msgspec.structs.fields(kind)}
    defaults = getattr(kind, "_field_defaults", None)  # of a NamedTuple
    return None if defaults is None else {name: name not in defaults for name in kind._fields}


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _has_no_attrs_default(attribute: Any) -> bool:
    import attrs

    return attribute.default is attrs.NOTHING


def _required_keys(kind: Any) -> dict[str, bool]:
    # In postponed annotations Python does not look for NotRequired; the resolved ones show it.
    required = {}
    for name, hint in _hints(kind, kind).items():
        said = getattr(typing.get_origin(hint), "_name", None)
        if said in ("Required", "NotRequired"):
            required[name] = said == "Required"
        else:
            required[name] = name in kind.__required_keys__
    return required


def _hints(kind: Any, hint: Any) -> dict[str, Any]:
    """Return the annotations of a class, with the types that a generic one was given put in."""
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise Invalid(
            f"the annotations of {named(kind)} cannot be resolved: {error}",
            hint="define or import what they name at the top level of the module",
        ) from error
    given = dict(zip(getattr(kind, "__parameters__", ()), typing.get_args(hint), strict=False))
    return {name: _filled(each, given) for name, each in hints.items()} if given else hints


def _filled(hint: Any, given: dict[Any, Any]) -> Any:
    if hint in given:
        return given[hint]
    open_parameters = getattr(hint, "__parameters__", ())
    if not open_parameters or isinstance(hint, type):
        return hint
    return hint[tuple(given.get(each, each) for each in open_parameters)]
