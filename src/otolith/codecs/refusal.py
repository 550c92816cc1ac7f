"""What is said about a value that cannot be kept: its type, and the way out."""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

from otolith.errors import BadValue

_NAMED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
_PLAIN = (dict, list, tuple, set, frozenset, str, bytes, bytearray, bool, int, float, complex)
_CONVERT = "convert it to plain data, make its class a dataclass, or register a codec for it"


def refuse(kind: type) -> BadValue:
    """Return the error for values of a type that nobody keeps."""
    return BadValue(f"cannot keep a {kind.__module__}.{kind.__qualname__}", hint=_way_out(kind))


def _way_out(kind: type) -> str:
    if kind.__module__.partition(".")[0] == "numpy":
        return "convert a scalar with int() or float(), an array with tolist()"
    if _is_handle(kind):
        return "keep the result, not the handle: what was read, or what is needed to open it again"
    if kind is memoryview:
        return "convert it with bytes(...)"
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


def _is_handle(kind: type) -> bool:
    names = {base.__name__ for base in kind.__mro__}
    return bool(names & _HANDLES) or hasattr(kind, "__next__") or hasattr(kind, "__await__")


_HANDLES = {
    "_IOBase", "socket", "lock", "RLock", "Lock", "_RLock", "Condition", "Event", "Semaphore",
    "Thread", "Popen", "Process", "Connection", "Cursor", "async_generator",
}  # fmt: skip
