"""Model classes as fields with checks: dataclass, attrs, msgspec, TypedDict, NamedTuple, pydantic.

Models of pydantic are checked by pydantic: strictly, to the leaf, field by field. pydantic trusts
an instance of a model, and makes a new one of what it validates. So its core schemas are rewritten
here (`_strict`) to look into every instance and to make none: only errors are wanted. Rules across
the fields of a state's own model (`model_validator`) need all fields at once and are not run; those
of models inside it are.
"""

from __future__ import annotations

import dataclasses
import typing
import warnings
from collections.abc import Iterator
from copy import copy
from importlib.util import find_spec
from typing import Any, NamedTuple

import msgspec

from otolith.errors import Invalid
from otolith.state.schema import checks as check_of
from otolith.state.schema.checks import Check, Checks, Misfit, substituted, type_name

_NOT_SCHEMAS = {"cls", "config", "default", "expected", "metadata", "ref", "serialization"}
_PREFIX = "Input should be "


def is_pydantic(kind: Any) -> bool:
    """Tell whether a class is a model of pydantic."""
    return isinstance(kind, type) and hasattr(kind, "__pydantic_fields_set__")


def allows_extra(kind: Any) -> bool:
    """Tell whether a model takes fields that it does not name."""
    return is_pydantic(kind) and bool(kind.model_config.get("extra") == "allow")


def pydantic_check(kind: Any) -> Check:
    """Return the check of instances of a model."""
    from pydantic_core import SchemaValidator, ValidationError

    validator = SchemaValidator(_strict(_core_schema(kind)))

    def check(value: Any) -> None:
        """Raise unless the value fits the model."""
        if not isinstance(value, kind):
            raise Misfit(type_name(kind), value)
        try:
            validator.validate_python(value, strict=True)
        except ValidationError as error:
            raise _misfit(error.errors(include_url=False)[0], value) from None

    return check


def pydantic_type_check(hint: Any) -> Check:
    """Return the check of an annotation by pydantic; what its validators return is not used.

    Raises:
        Invalid: pydantic cannot judge it.
    """
    from pydantic_core import SchemaValidator, ValidationError

    validator = SchemaValidator(_strict(pydantic_adapter(hint).core_schema))

    def check(value: Any) -> None:
        """Raise unless the value fits the annotation."""
        try:
            validator.validate_python(value, strict=True)
        except ValidationError as error:
            raise _misfit(error.errors(include_url=False)[0], value) from None

    return check


def pydantic_adapter(hint: Any) -> Any:
    """Return pydantic's TypeAdapter of an annotation.

    Raises:
        Invalid: pydantic cannot judge it.
    """
    from pydantic import ConfigDict, TypeAdapter
    from pydantic.errors import PydanticUserError

    config = ConfigDict(arbitrary_types_allowed=True)
    try:
        try:
            return TypeAdapter(hint, config=config)
        except PydanticUserError as error:
            if error.code != "type-adapter-config-unused":
                raise
            return TypeAdapter(hint)  # a model or dataclass, which has a config of its own
    except (PydanticUserError, NameError, TypeError) as error:
        raise Invalid(
            f"pydantic cannot judge {hint}: {error}", hint="use types that pydantic knows"
        ) from error


def has_pydantic_parts(hint: Any) -> bool:
    """Tell whether pydantic is to judge an annotation, or a part of it that is not in a class."""
    kind = typing.get_origin(hint) or hint
    if hasattr(hint, "__metadata__"):
        bounds = hint.__metadata__ if find_spec("pydantic") else ()
        has_bounds = any(_library(each) == "annotated_types" for each in bounds)
        is_judged = has_bounds or any(map(_is_of_pydantic, hint.__metadata__))
        return is_judged or has_pydantic_parts(hint.__origin__)
    is_judged = hasattr(kind, "__get_pydantic_core_schema__") and not is_pydantic(kind)
    if is_judged and isinstance(kind, type) and not dataclasses.is_dataclass(kind):
        return True
    return any(map(has_pydantic_parts, typing.get_args(hint)))


def _is_of_pydantic(metadata: object) -> bool:
    is_own = _library(metadata) in ("pydantic", "pydantic_core")
    return is_own or hasattr(metadata, "__get_pydantic_core_schema__")


def _library(metadata: object) -> str:
    return type(metadata).__module__.partition(".")[0]


def pydantic_fields(kind: Any) -> Iterator[tuple[str, Check, bool]]:
    """Yield the name, the check and whether it is required, of each field of a model."""
    fields, definitions, config = _model_fields(kind)
    for name, field in fields.items():
        check = _field_check(name, field["schema"], definitions, config)
        yield name, check, kind.model_fields[name].is_required()


def _field_check(name: str, schema: Any, definitions: list[Any], config: Any) -> Check:
    """Return a strict check of one field of a pydantic model."""
    from pydantic_core import SchemaValidator, ValidationError, core_schema

    field = core_schema.model_field(_strict(schema))
    alone: Any = core_schema.model_fields_schema({name: field})
    if definitions:
        alone = core_schema.definitions_schema(alone, definitions)
    validator = SchemaValidator(alone, config)

    def check(value: Any) -> None:
        """Raise unless the value fits the model."""
        try:
            validator.validate_python({name: value}, strict=True)
        except ValidationError as error:
            found = error.errors(include_url=False)[0]
            raise _misfit(dict(found) | {"loc": found["loc"][1:]}, value) from None

    return check


def _core_schema(kind: Any) -> Any:
    """Return pydantic's schema of a model, with its annotations resolved."""
    from pydantic.errors import PydanticUserError

    try:
        kind.model_rebuild()
    except (NameError, PydanticUserError) as error:
        raise Invalid(
            f"the annotations of {type_name(kind)} cannot be resolved: {error}",
            hint="define or import what they name, then call model_rebuild()",
        ) from error
    return kind.__pydantic_core_schema__


def _model_fields(kind: Any) -> tuple[dict[str, Any], list[Any], Any]:
    """Return the fields of a model, the definitions they refer to, and the model's settings."""
    schema, config = _core_schema(kind), None
    definitions: dict[str, Any] = {}
    while schema["type"] != "model-fields":
        if schema["type"] == "definitions":
            definitions |= {each["ref"]: each for each in schema["definitions"]}
        if schema["type"] == "model":
            config = schema.get("config")
        inner = schema.get("schema")
        schema = definitions[schema["schema_ref"]] if "schema_ref" in schema else inner
        if schema is None or schema.get("type") == "nullable":
            raise Invalid(f"{type_name(kind)} has no fields", hint="use a model with named fields")
    return schema["fields"], [_strict(each) for each in definitions.values()], config


def _strict(schema: Any) -> Any:
    """Return a schema that looks into instances, and runs no code that completes them."""
    if isinstance(schema, list | tuple):
        return type(schema)(map(_strict, schema))
    if not isinstance(schema, dict):
        return schema
    made = {
        name: part if name in _NOT_SCHEMAS else _strict(part)
        for name, part in schema.items()
        if name != "validation_alias"  # an instance has its fields under their own names
    }
    return _instance_schema(made) if made.get("type") in ("model", "dataclass") else made


def _instance_schema(schema: dict[str, Any]) -> Any:
    """Return a schema that checks what is in instances of a class, and makes none."""
    from pydantic_core import PydanticCustomError, core_schema

    kind, fields = schema["cls"], schema.get("fields")
    expected = _PREFIX + "an instance of " + type_name(kind).replace("{", "{{")

    def check(value: Any, fits: Any) -> object:
        """Raise unless the value fits the model."""
        if not isinstance(value, kind):
            raise PydanticCustomError("instance", expected)
        if fields is not None:  # a dataclass
            fits({name: getattr(value, name) for name in fields if hasattr(value, name)})
        elif schema.get("root_model"):
            fits(value.root)
        else:
            fits({**(value.__pydantic_extra__ or {}), **value.__dict__})
        return copy(value)  # a validator of the model may change what it is given

    return core_schema.no_info_wrap_validator_function(
        check, schema["schema"], ref=schema.get("ref")
    )


def _misfit(error: Any, value: Any) -> Misfit:
    """Return the first error of pydantic as a Misfit, with its path in the value."""
    message = str(error["msg"])
    expected = message.removeprefix(_PREFIX)
    message = "" if expected != message else message[:1].lower() + message[1:]
    misfit = Misfit(expected, error["input"], message=message)
    misfit.path = [*reversed(list(_places_in(error["loc"], value)))]
    return misfit


def _places_in(location: tuple[Any, ...], value: Any) -> Iterator[object]:
    """Yield the parts of a location that are places in the value; others name alternatives."""
    for part in location:
        if isinstance(value, dict) and part in value:
            value = value[part]
            yield part
        elif isinstance(value, list | tuple) and type(part) is int and part < len(value):
            value = value[part]
            yield str(part)
        elif isinstance(part, str) and part in getattr(value, "__dict__", {}):
            value = getattr(value, part)
            yield part


class Field(NamedTuple):
    """One field of a model."""

    name: str
    check: Check
    is_required: bool


def fields_of(model: Any) -> list[Field]:
    """Return the fields of a model, each with its check.

    Raises:
        Invalid: it is not a model, or its annotations cannot be resolved.
    """
    kind = typing.get_origin(model) or model
    if is_pydantic(kind):
        return [Field(*field) for field in pydantic_fields(kind)]
    required = _required(kind)
    if required is None:
        raise Invalid(
            f"{model!r} is not a model",
            hint="a schema is a dataclass, a TypedDict, or a class of attrs, msgspec or pydantic",
        )
    checks = Checks(model_check)
    hints = _hints(kind, model)
    fields = [Field(name, checks.of(hints[name]), required[name]) for name in required]
    for unchecked in checks.unchecked:
        warnings.warn(
            f"{type_name(kind)}: values of {unchecked} are checked only as far as isinstance goes",
            stacklevel=4,
        )
    return fields


def type_check(hint: Any) -> Check:
    """Return the check of any annotation: a function that raises Misfit unless a value fits.

    Raises:
        Invalid: the annotations of a class that it mentions cannot be resolved.
    """
    return Checks(model_check).of(hint)


def model_check(checks: Checks, kind: Any, hint: Any) -> Check | None:
    """Return the check of a nested model, or of what pydantic annotates; None for other classes."""
    if kind is typing.Annotated:
        is_judged = any(map(_is_of_pydantic, hint.__metadata__))
        return pydantic_type_check(hint) if is_judged else None
    if is_pydantic(kind):
        return pydantic_check(kind)
    if hasattr(kind, "__get_pydantic_core_schema__") and not dataclasses.is_dataclass(kind):
        return pydantic_type_check(hint)  # a class that tells pydantic what its values are
    required = _required(kind)
    if required is None:
        return None
    hints = _hints(kind, hint)
    parts = {name: checks.of(hints.get(name, Any)) for name in required}
    if _is_typed_dict(kind):
        return check_of.typed_dict(kind, parts, frozenset(n for n in required if required[n]))
    return check_of.model(kind, list(parts.items()))


def _is_typed_dict(kind: Any) -> bool:
    """Tell whether a class is a TypedDict, of typing or of typing_extensions."""
    return typing.is_typeddict(kind) or type(kind).__name__ == "_TypedDictMeta"


def _required(kind: Any) -> dict[str, bool] | None:
    """Return the fields of a class and whether each is required; None for other classes."""
    if _is_typed_dict(kind):
        return _required_keys(kind)
    if dataclasses.is_dataclass(kind):
        no = dataclasses.MISSING
        return {
            field.name: field.init and field.default is no and field.default_factory is no
            for field in dataclasses.fields(kind)
        }
    if isinstance(attributes := getattr(kind, "__attrs_attrs__", None), tuple):
        import attrs

        return {each.name: each.init and each.default is attrs.NOTHING for each in attributes}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {field.name: field.required for field in msgspec.structs.fields(kind)}
    defaults = getattr(kind, "_field_defaults", None)  # of a NamedTuple
    return None if defaults is None else {name: name not in defaults for name in kind._fields}


def _required_keys(kind: Any) -> dict[str, bool]:
    """Return which keys of a TypedDict are required."""
    # In postponed annotations Python does not look for NotRequired; the resolved ones show it.
    required = {}
    for name, hint in _hints(kind, kind).items():
        wrapper = getattr(typing.get_origin(hint), "_name", None)
        if wrapper in ("Required", "NotRequired"):
            required[name] = wrapper == "Required"
        else:
            required[name] = name in kind.__required_keys__
    return required


def _hints(kind: Any, hint: Any) -> dict[str, Any]:
    """Return the annotations of a class; the parameters of generic classes are substituted."""
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise Invalid(
            f"the annotations of {type_name(kind)} cannot be resolved: {error}",
            hint="define or import what they name at the top level of the module",
        ) from error
    given = _parameters_of_fields(kind, typing.get_args(hint))
    return {name: substituted(each, given.get(name, {})) for name, each in hints.items()}


def _parameters_of_fields(kind: Any, args: tuple[Any, ...]) -> dict[str, dict[Any, Any]]:
    """Return what the type parameters of each field stand for, also of fields of generic bases."""
    given = dict(zip(getattr(kind, "__parameters__", ()), args, strict=False))
    found: dict[str, dict[Any, Any]] = {}
    bases = vars(kind).get("__orig_bases__", kind.__bases__)
    for base in reversed(bases):
        origin = typing.get_origin(base) or base
        if origin not in (typing.Generic, object) and isinstance(origin, type):
            filled = tuple(substituted(each, given) for each in typing.get_args(base))
            found |= _parameters_of_fields(origin, filled)
    own = vars(kind).get("__annotations__", {})  # that of a TypedDict has what it inherits, too
    fresh = (name for name in own if not (_is_typed_dict(kind) and name in found))
    return found | dict.fromkeys(fresh, given)
