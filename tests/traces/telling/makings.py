"""Functions and classes by the facts of their definition, and the wrappers around them."""

from __future__ import annotations

import enum
import functools
import types
from typing import Any

from tests.traces.telling.containers import with_attributes
from tests.traces.telling.teller import Teller, Telling, looked_up, name_of

_BUILT_IN = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.MethodWrapperType, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.ClassMethodDescriptorType,
)  # fmt: skip
_OF_AN_ENUM = (types.FunctionType, property, staticmethod, classmethod)
_NOT_OF_THE_CLASS = frozenset({
    "__dict__", "__weakref__", "__module__", "__qualname__", "_abc_impl", "__abstractmethods__",
    "__firstlineno__", "__static_attributes__", "__dataclass_fields__", "__dataclass_params__",
    "__annotate__", "__annotate_func__", "__annotations_cache__", "__slotnames__", "__parameters__",
})  # fmt: skip


def _function(teller: Teller, function: Any) -> str:
    if function.__module__ not in teller.home and looked_up(function) is function:
        return f"<function {name_of(function)}>"
    code = function.__code__
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    closure = {name: cell.cell_contents for name, cell in cells if not _is_empty(cell)}
    count = code.co_argcount + code.co_kwonlyargcount
    count += sum(bool(code.co_flags & flag) for flag in (0x04, 0x08))  # *args and **kwargs
    facts = {
        "defaults": function.__defaults__,
        "keywords": function.__kwdefaults__,
        "closure": closure or None,
        "notes": function.__annotations__ or None,
        "attributes": vars(function) or None,
    }
    told = "".join(f" {name}={teller.tell(fact)}" for name, fact in facts.items() if fact)
    arguments = ", ".join(code.co_varnames[:count])
    body = f"uses={_names(code)} says={_constants(teller, code)}"
    return f"<function {function.__name__} {function.__qualname__}({arguments}){told} {body}>"


def _is_empty(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return True
    return False


def _names(code: types.CodeType) -> str:
    inner = [_names(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    return " ".join([*code.co_names, *inner])


def _constants(teller: Teller, code: types.CodeType) -> str:
    return ", ".join(
        _constants(teller, part) if isinstance(part, types.CodeType) else teller.tell(part)
        for part in code.co_consts
    )


def _partial(teller: Teller, value: Any) -> str:
    inside = f"{teller.tell(value.func)}, {teller.many(value.args)}, {teller.pairs(value.keywords)}"
    return with_attributes(teller, value, None, f"({inside})")


def _cached(teller: Teller, value: Any) -> str:
    """Tell what is cached, not what the cache holds: results are made again when it is empty."""
    return f"<cached {value.cache_parameters()} {teller.tell(value.__wrapped__)}>"


def _method(teller: Teller, value: Any) -> str:
    return f"<method {value.__func__.__qualname__} of {teller.tell(value.__self__)}>"


def _built_in(teller: Teller, value: Any) -> str:
    owner = getattr(value, "__self__", None)
    is_free = owner is None or isinstance(owner, types.ModuleType | type)
    of = "" if is_free else f" of {teller.tell(owner)}"
    return f"<built-in {getattr(value, '__module__', None)} {value.__qualname__}{of}>"


def _wrapper(teller: Teller, value: Any) -> str:
    return f"<{type(value).__qualname__} {teller.tell(value.__func__)}>"


def _property(teller: Teller, value: Any) -> str:
    return f"<property {teller.many((value.fget, value.fset, value.fdel))}>"


def _class(teller: Teller, cls: type) -> str:
    if not teller.is_ours(cls):
        return f"<class {name_of(cls)}>"
    bases = ", ".join(teller.tell(base) for base in cls.__bases__)
    names = class_attributes(cls)
    return f"<class {cls.__qualname__}({bases}) by {type(cls).__qualname__} {teller.named(names)}>"


def class_attributes(cls: type) -> dict[str, object]:
    """Return what a class has of its own, without what Python keeps in it for itself."""
    own = {name: value for name, value in vars(cls).items() if name not in _NOT_OF_THE_CLASS}
    if isinstance(cls, enum.EnumMeta):
        own = {name: value for name, value in own.items() if isinstance(value, _OF_AN_ENUM)}
        own |= cls.__members__
    return own


KINDS: tuple[tuple[Any, Telling], ...] = (
    (type, _class),
    (types.FunctionType, _function),
    (functools.partial, _partial),
    (functools._lru_cache_wrapper, _cached),
    (types.MethodType, _method),
    (_BUILT_IN, _built_in),
    (staticmethod | classmethod, _wrapper),
    (property, _property),
)
