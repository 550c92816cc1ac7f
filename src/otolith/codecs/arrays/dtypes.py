"""The types of elements of arrays, as plain data.

A form is one of

    "<f8"                       a simple type, as numpy writes it: byte order, kind, bytes, [unit]
    "<q"                        the same by its letter, where two types have the same bytes
    "<f16/63"                   a long double, with the bits of its mantissa: machines differ
    {"strings": bool}           StringDType, and whether it converts; "na" is its missing value
    {"of": form, "shape": [int]}        an array within each element
    {"of": form, "metadata": {…}}       any type with metadata
    {"names", "formats", "offsets", "itemsize", "aligned", "record"}    fields; "titles" if any
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import numpy as np

from otolith.codecs.exact import identical
from otolith.codecs.forms import demand
from otolith.errors import BadValue, UnknownType

Dtype: TypeAlias = np.dtype[Any]

_SIMPLE = re.compile(r"[<>|](?:[biufcmMSUVO]\d+(?:\[\d*[a-zA-Z]+\])?|[mMSUVO]|[bhilqpBHILQP])")
_LONG = re.compile(r"([<>][fc]\d+)/(\d+)")
_MANTISSA = int(np.finfo(np.longdouble).nmant)
_STRINGS = getattr(np.dtypes, "StringDType", None)


def lower_dtype(dtype: Dtype) -> object:
    """Return the form of a type.

    Raises:
        BadValue: it comes from elsewhere than numpy.
    """
    if dtype.metadata:
        return {"of": _lower_bare(dtype), "metadata": dict(dtype.metadata)}
    return _lower_bare(dtype)


def lift_dtype(form: object) -> Dtype:
    """Return the type that has this form.

    Raises:
        Corrupt: there is no such type.
        UnknownType: this machine or this numpy has no such type.
    """
    dtype = _lift_named(form) if type(form) is str else _lift_made(form)
    demand(identical(lower_dtype(dtype), form), f"{str(form)[:80]} is not a type of numpy")
    return dtype


def _lower_bare(dtype: Dtype) -> object:
    if dtype.names is not None:
        return _lower_fields(dtype)
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"of": lower_dtype(base), "shape": list(shape)}
    if dtype.char in "gG":
        return f"{dtype.str}/{_MANTISSA}"
    if dtype.kind == "T":
        return _lower_strings(dtype)
    plain = np.dtype(dtype.str)
    if plain.type is dtype.type:
        return dtype.str
    lettered = dtype.str[0] + dtype.char
    if _SIMPLE.fullmatch(lettered) and np.dtype(lettered).type is dtype.type:
        return lettered
    raise BadValue(
        f"cannot keep an array of {dtype.type.__module__}.{dtype.type.__qualname__}",
        hint="convert it with astype to a type of numpy's own",
    )


def _lower_fields(dtype: Dtype) -> dict[str, object]:
    fields = [dtype.fields[name] for name in dtype.names or () if dtype.fields]
    form: dict[str, object] = {
        "names": list(dtype.names or ()),
        "formats": [lower_dtype(field[0]) for field in fields],
        "offsets": [field[1] for field in fields],
        "itemsize": dtype.itemsize,
        "aligned": dtype.isalignedstruct,
        "record": dtype.type is np.record,
    }
    titles = [field[2] if len(field) > 2 else None for field in fields]
    return {**form, "titles": titles} if any(title is not None for title in titles) else form


def _lower_strings(dtype: Any) -> dict[str, object]:
    form: dict[str, object] = {"strings": dtype.coerce}
    return {**form, "na": dtype.na_object} if hasattr(dtype, "na_object") else form


def _lift_named(form: str) -> Dtype:
    if long := _LONG.fullmatch(form):
        if int(long[2]) != _MANTISSA:
            raise UnknownType(
                f"a long double of {long[2]} bits cannot be read on this machine",
                hint="read it where it was written, and keep it as float64",
            )
        return _long_double(long[1])
    demand(_SIMPLE.fullmatch(form), f"{form[:80]!r} is not a type of numpy")
    return np.dtype(form)


def _long_double(name: str) -> Dtype:
    return np.dtype(name[0] + ("g" if name[1] == "f" else "G"))


def _lift_made(form: object) -> Dtype:
    demand(type(form) is dict, "a type of numpy is neither a str nor a dict")
    parts: dict[Any, Any] = form  # type: ignore[assignment]  # looked at one line above
    if "names" in parts:
        return _lift_fields(parts)
    if "strings" in parts:
        return _lift_strings(parts)
    if "metadata" in parts:
        return np.dtype(lift_dtype(parts["of"]), metadata=parts["metadata"])
    return np.dtype((lift_dtype(parts["of"]), tuple(parts["shape"])))


def _lift_fields(parts: dict[Any, Any]) -> Dtype:
    spec = {name: parts[name] for name in ("names", "offsets", "itemsize")}
    spec["formats"] = [lift_dtype(each) for each in parts["formats"]]
    if "titles" in parts:
        spec["titles"] = parts["titles"]
    dtype: Dtype = np.dtype(spec, align=parts["aligned"])  # type: ignore[call-overload]
    return np.dtype((np.record, dtype)) if parts["record"] else dtype


def _lift_strings(parts: dict[Any, Any]) -> Dtype:
    if _STRINGS is None:
        raise UnknownType("this numpy has no StringDType", hint="install numpy 2 or newer")
    options = {"na_object": parts["na"]} if "na" in parts else {}
    made: Dtype = _STRINGS(coerce=parts["strings"], **options)
    return made
