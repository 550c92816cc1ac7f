"""What is said about a value that cannot be kept, or not be read: its type, and the way out."""

from __future__ import annotations

from traceback import format_exception_only
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

from otolith.errors import BadValue, UnknownType

_NAMED = (type, FunctionType, BuiltinFunctionType, MethodType)
_PLAIN = (dict, list, tuple, set, frozenset, str, bytes, bytearray, bool, int, float, complex)
_CONVERT = "convert it to plain data, make its class a dataclass, or register a codec for it"
_ALLOW = ', or allow pickle="signed"'
_RESULT = "keep the result, not the handle: what was read, or what is needed to open it again"
_OWN = "otolith."
_LONGEST_REASON = 300


def refuse(kind: type) -> BadValue:
    """Return the error for values of a type that nobody keeps."""
    way_out = _only_way_out(kind)
    hint = _way_out(kind) + _ALLOW if way_out is None else way_out
    return BadValue(f"cannot keep a {_name(kind)}", hint=hint)


def refuse_own(kind: type) -> None:
    """Refuse what otolith hands out to work with: a state does not contain its own store."""
    if str(kind.__module__).startswith(_OWN) and not issubclass(kind, BaseException):
        raise BadValue(
            f"cannot keep a {_name(kind)}", hint="keep the values in it, or its name, not a handle"
        )


def unpicklable(kind: type, error: Exception) -> BadValue:
    """Return the error for a value that could not be pickled."""
    return BadValue(f"cannot keep a {_name(kind)}: {_reason(error)}", hint=_advice(kind, error))


def unloadable(type_name: str, error: Exception) -> UnknownType:
    """Return the error for a pickle that could not be loaded."""
    return UnknownType(
        f"a pickled value of type {type_name} could not be loaded: {_reason(error)}",
        hint="install or restore what it was made with, or read with opaque=True",
    )


def _advice(kind: type, error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply, or has no end: keep its parts in a list or a dict"
    if isinstance(error, RuntimeError) and "changed" in _reason(error):
        return "something else changed it meanwhile: keep a copy, or commit when it is at rest"
    if issubclass(kind, (type, FunctionType)):
        return "only what has a name at the top level of its module can be kept: define it there"
    return _only_way_out(kind) or (
        "leave what cannot be kept out of its __getstate__, convert it to plain data,"
        " or register a codec for it"
    )


def _only_way_out(kind: type) -> str | None:
    """Return what to do about values that not even a pickle can keep."""
    if _is_handle(kind):
        return _RESULT
    if kind is memoryview:
        return "convert it with bytes(...)"
    if issubclass(kind, ModuleType):
        return "keep its name, not the thing itself"
    return None


def _way_out(kind: type) -> str:
    if str(kind.__module__).partition(".")[0] == "numpy":
        return "keep the arrays and numbers it is made of"
    if issubclass(kind, BaseException):
        return "keep what it says: str(error), or a dict of what matters"
    if issubclass(kind, _NAMED):
        return "keep its name, not the thing itself"
    for plain in _PLAIN:
        if issubclass(kind, plain):
            return (
                f"it is a subclass of {plain.__name__}: convert it with {plain.__name__}(...),"
                " or register a codec for it"
            )
    return _CONVERT


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _reason(error: Exception) -> str:
    # Not str(error): the exception is the user's, and its __str__ may raise as well.
    said = format_exception_only(error)[0].partition("\n")[0]
    return said if len(said) <= _LONGEST_REASON else said[: _LONGEST_REASON - 1] + "…"


def _is_handle(kind: type) -> bool:
    names = {base.__name__ for base in kind.__mro__}
    return bool(names & _HANDLES) or hasattr(kind, "__next__") or hasattr(kind, "__await__")


_HANDLES = {
    "_IOBase", "socket", "lock", "RLock", "Lock", "_RLock", "Condition", "Event", "Semaphore",
    "Thread", "Popen", "Process", "Connection", "Cursor", "async_generator",
}  # fmt: skip
