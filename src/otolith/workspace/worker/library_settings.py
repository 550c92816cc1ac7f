"""Settings of Python and of libraries that a step may change, and that no variable holds.

Each group of settings is read as a flat dict and written the same way. Only entries are stored that
differ from those just after the import of their module; a module that was not imported is left
alone.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

Values: TypeAlias = dict[str, Any]
Accessors: TypeAlias = tuple[Callable[[Any], Any], Callable[[Any, Any], object]]
"""Functions of a module that return and set one entry."""

_PLAIN = frozenset({type(None), bool, int, float, str})
_CONTEXT_FIELDS = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")
_CATEGORIES = ("LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME")
_DEFAULT_LOGGER = [0, True, False]
_HANDLERS = "handlers"


class LibrarySettings(NamedTuple):
    """How the settings of a module are read, and some of them written."""

    module: str
    read: Callable[[], Values]
    write: Callable[[Values], None]


def changed(now: Values, before: Values) -> Values:
    """Return the entries that differ from before; None for those that are gone."""
    found = {key: None for key in before if key not in now}
    return found | {
        key: value
        for key, value in now.items()
        if key not in before or not _is_same(value, before[key])
    }


def is_plain(value: object) -> bool:
    """Tell whether a value is data through and through, which nothing else refers to."""
    if type(value) in (list, tuple):
        return all(map(is_plain, value))  # type: ignore[call-overload]
    return is_constant(value)


def is_constant(value: object) -> bool:
    """Tell whether a value is data that cannot change."""
    return type(value) in _PLAIN


def _is_same(value: Any, other: Any) -> bool:
    """Compare two values whose comparison may raise."""
    if value is other:
        return True
    try:
        return type(value) is type(other) and bool(value == other)
    except Exception:  # noqa: BLE001  # a comparison of a library or of the user
        return False


def _fields(module: str, fields: Mapping[str, Accessors]) -> LibrarySettings:
    """Return a group of settings that are read and written one by one."""

    def read() -> Values:
        return {key: get(sys.modules[module]) for key, (get, _) in fields.items()}

    def write(values: Values) -> None:
        for key, value in values.items():
            if key in fields:  # a later version may know more of them
                fields[key][1](sys.modules[module], value)

    return LibrarySettings(module, read, write)


def _options(module: str, getter: str, setter: str) -> LibrarySettings:
    """Return a group of settings that one function returns and another takes by keyword."""
    return LibrarySettings(
        module,
        lambda: dict(getattr(sys.modules[module], getter)()),
        lambda values: getattr(sys.modules[module], setter)(**values),
    )


def _context_field(name: str) -> Accessors:
    """Return how a number or word of the decimal context is read and written."""
    return (
        lambda decimal: getattr(decimal.getcontext(), name),
        lambda decimal, value: setattr(decimal.getcontext(), name, value),
    )


def _context_signals(name: str) -> Accessors:
    """Return how the flags or traps of the decimal context are read and written, by name."""

    def read(decimal: Any) -> list[str]:
        signals = getattr(decimal.getcontext(), name)
        return sorted(signal.__name__ for signal, is_on in signals.items() if is_on)

    def write(decimal: Any, value: list[str]) -> None:
        signals = getattr(decimal.getcontext(), name)
        for signal in signals:
            signals[signal] = signal.__name__ in value

    return read, write


def _category(name: str) -> Accessors:
    """Return how a category of the locale is read and written."""
    return (
        lambda locale: locale.setlocale(getattr(locale, name)),
        lambda locale, value: locale.setlocale(getattr(locale, name), value),
    )


# Filters of warnings as data: categories by name, patterns by their text.


def _set_filters(_: Any, filters: list[list[Any]]) -> None:
    warnings.filters[:] = [tuple(map(_filter_part, each)) for each in filters]  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]  # noqa: SLF001  # as those do that add one


def _filter_data(part: Any) -> Any:
    """Return a part of a filter of warnings as data."""
    if isinstance(part, re.Pattern):
        return ["pattern", part.pattern, part.flags]
    if isinstance(part, type) and part.__module__ != "__main__":
        return ["class", part.__module__, part.__qualname__]
    return part


def _filter_part(data: Any) -> Any:
    """Return a part of a filter of warnings from data."""
    if not isinstance(data, list):
        return data
    kind, name, more = data
    return re.compile(name, more) if kind == "pattern" else attrgetter(more)(import_module(name))


def _logging() -> Values:
    """Return levels and handlers of all loggers that are not as usual."""
    logging = sys.modules["logging"]
    loggers = {"root": logging.root, **logging.root.manager.loggerDict}
    found: Values = {}
    for name, logger in loggers.items():
        if not isinstance(logger, logging.Logger):
            continue
        values = [logger.level, logger.propagate, logger.disabled]
        if values != _DEFAULT_LOGGER:
            found[name] = values
        if any(type(handler).__name__ != "NullHandler" for handler in logger.handlers):
            found[f"{name} {_HANDLERS}"] = list(logger.handlers)
    return found


def _set_logging(values: Values) -> None:
    """Set levels and handlers of loggers; None stands for the defaults."""
    logging = sys.modules["logging"]
    for key, value in values.items():
        name, _, what = key.partition(" ")
        logger = logging.getLogger(None if name == "root" else name)
        if what == _HANDLERS:
            logger.handlers[:] = value or []
        else:
            level, logger.propagate, logger.disabled = value or _DEFAULT_LOGGER
            logger.setLevel(level)


def _numpy_errors() -> Values:
    numpy = sys.modules["numpy"]
    return {**numpy.geterr(), "call": numpy.geterrcall()}


def _set_numpy_errors(values: Values) -> None:
    numpy = sys.modules["numpy"]
    numpy.seterr(**{name: value for name, value in values.items() if name != "call"})
    if "call" in values:
        numpy.seterrcall(values["call"])


def _flatten(options: Values, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield nested options with dotted names."""
    for name, value in options.items():
        if type(value) is dict:
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _set_pandas(values: Values) -> None:
    for name, value in values.items():
        sys.modules["pandas"].set_option(name, value)


def _matplotlib() -> Values:
    # By the methods of dict: its own would choose a backend. Lists are copied.
    everything = dict.items(sys.modules["matplotlib"].rcParams)
    return {
        name: list(value) if type(value) is list else value
        for name, value in everything
        if name != "backend"
    }


SETTINGS = {
    "csv": _fields(
        "csv", {"field": (lambda m: m.field_size_limit(), lambda m, v: m.field_size_limit(v))}
    ),
    "decimal": _fields(
        "decimal",
        {name: _context_field(name) for name in _CONTEXT_FIELDS}
        | {name: _context_signals(name) for name in ("flags", "traps")},
    ),
    "gc": _fields(
        "gc",
        {
            "is_on": (lambda m: m.isenabled(), lambda m, v: m.enable() if v else m.disable()),
            "threshold": (lambda m: m.get_threshold(), lambda m, v: m.set_threshold(*v)),
        },
    ),
    "locale": _fields("locale", {name: _category(name) for name in _CATEGORIES}),
    "logging": LibrarySettings("logging", _logging, _set_logging),
    "matplotlib": LibrarySettings(
        "matplotlib",
        _matplotlib,
        lambda values: dict.update(sys.modules["matplotlib"].rcParams, values),
    ),
    "numpy.errors": LibrarySettings("numpy", _numpy_errors, _set_numpy_errors),
    "numpy.printing": _options("numpy", "get_printoptions", "set_printoptions"),
    "pandas": LibrarySettings(
        "pandas", lambda: dict(_flatten(sys.modules["pandas"].options.d, "")), _set_pandas
    ),
    "python": _fields(
        "sys",
        {
            "recursion": (lambda m: m.getrecursionlimit(), lambda m, v: m.setrecursionlimit(v)),
            "digits": (
                lambda m: m.get_int_max_str_digits(),
                lambda m, v: m.set_int_max_str_digits(v),
            ),
        },
    ),
    "sklearn": _options("sklearn", "get_config", "set_config"),
    "socket": _fields(
        "socket",
        {"timeout": (lambda m: m.getdefaulttimeout(), lambda m, v: m.setdefaulttimeout(v))},
    ),
    "warnings": _fields(
        "warnings",
        {
            "filters": (
                lambda m: [list(map(_filter_data, each)) for each in m.filters],
                _set_filters,
            )
        },
    ),
}
"""By a name that is in stored states and never changes."""
