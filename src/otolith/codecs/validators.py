"""Validators: what the class of a model demands of its fields.

A merge puts fields of two instances together, and the class may refuse the result: a budget of more
than the limit, an end before the start. Only code that a library runs to check values is used:

    pydantic   its validator, on the fields, as if the model was made of them
    msgspec    `convert`, which checks types and constraints
    attrs      the validators of its fields

`__post_init__` is not called: it completes instances, and may do anything. What has no validators
is not checked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from traceback import format_exception_only
from typing import Any, TypeAlias

from otolith.codecs.base import identical

Validator: TypeAlias = Callable[[Any], str]
"""Returns why a value breaks the rules of its class, or an empty text."""


def validator_of(kind: Any) -> Validator | None:
    """Return what checks instances of a model class, or None if nothing does."""
    if hasattr(kind, "__pydantic_validator__"):
        return _checked_by(_validate_pydantic)
    if hasattr(kind, "__struct_encode_fields__"):
        return _checked_by(_validate_struct)
    fields = getattr(kind, "__attrs_attrs__", ())
    if any(field.validator is not None for field in fields):
        return _checked_by(_validate_attrs)
    return None


def _checked_by(validate: Callable[[Any], None]) -> Validator:
    """Return a validator that returns what a function raises."""

    def check(value: Any) -> str:
        try:
            validate(value)
        except Exception as error:  # noqa: BLE001 - the user's validators may raise anything
            return _reason(error)
        return ""

    return check


def _validate_pydantic(value: Any) -> None:
    kind = type(value)
    fields = getattr(kind, "__pydantic_fields__", None) or kind.model_fields
    given = getattr(value, "__pydantic_fields_set__", fields)
    data: Any = dict(getattr(value, "__pydantic_extra__", None) or {})
    for name, field in fields.items():
        part = getattr(value, name)
        if name in given or not identical(part, field.default):  # defaults need not be valid
            data[_alias(name, field)] = part
    is_root = getattr(kind, "__pydantic_root_model__", False) is True
    kind.__pydantic_validator__.validate_python(value.root if is_root else data)


def _alias(name: str, field: Any) -> str:
    """Return what a field is called in the data that a model is made of."""
    aliases = [field.validation_alias, field.alias]
    aliases += getattr(field.validation_alias, "choices", ())
    return next((alias for alias in aliases if type(alias) is str), name)


def _validate_struct(value: Any) -> None:
    kind = type(value)
    parts = [getattr(value, name) for name in kind.__struct_fields__]
    is_array = kind.__struct_config__.array_like
    names = kind.__struct_encode_fields__
    convert = sys.modules["msgspec"].convert  # its class is there, so msgspec is imported
    convert(parts if is_array else dict(zip(names, parts, strict=True)), kind)


def _validate_attrs(value: Any) -> None:
    for field in type(value).__attrs_attrs__:
        if field.validator is not None:
            field.validator(value, field, getattr(value, field.name))


def _reason(error: Exception) -> str:
    """Return an error in one line; of pydantic, the message about each field."""
    errors = getattr(error, "errors", None)
    if callable(errors) and type(error).__module__.partition(".")[0] == "pydantic_core":
        found = [(".".join(map(str, each["loc"])), each["msg"]) for each in errors()]
        return "; ".join(": ".join(filter(None, pair)) for pair in found)
    # Not str(error): the exception is the user's, and its __str__ may raise as well.
    text = format_exception_only(error)[-1].strip()
    return text.partition("\n")[0]
