"""Settings of Python and of libraries that a step may change, and that no variable holds.

Each is read as a flat dict and written the same way. What is kept are the entries that are not as
they were when the module had just been imported; a module that nobody imported is left alone.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

Values: TypeAlias = dict[str, Any]

_PLAIN = frozenset({type(None), bool, int, float, str})


class Setting(NamedTuple):
    """How the settings of a module are read, and some of them written."""

    module: str
    read: Callable[[], Values]
    write: Callable[[Values], None]


def changed(now: Values, before: Values) -> Values:
    """Return the entries that are not what they were; None for those that are no more."""
    found = {key: None for key in before if key not in now}
    return found | {
        key: value
        for key, value in now.items()
        if key not in before or not _is_same(value, before[key])
    }


def is_plain(value: object) -> bool:
    """Tell whether a value is data through and through, and nobody's but the setting's."""
    if type(value) in (list, tuple):
        return all(map(is_plain, value))  # type: ignore[call-overload]
    return type(value) in _PLAIN


def is_constant(value: object) -> bool:
    """Tell whether a value is data that cannot change."""
    return type(value) in _PLAIN


def _is_same(value: Any, other: Any) -> bool:
    if value is other:
        return True
    try:
        return type(value) is type(other) and bool(value == other)
    except Exception:  # noqa: BLE001  # somebody else's comparison
        return False


# Python itself


def _python() -> Values:
    return {"recursion": sys.getrecursionlimit(), "digits": sys.get_int_max_str_digits()}


def _set_python(values: Values) -> None:
    if "recursion" in values:
        sys.setrecursionlimit(values["recursion"])
    if "digits" in values:
        sys.set_int_max_str_digits(values["digits"])


def _collector() -> Values:
    gc = sys.modules["gc"]
    return {"is_on": gc.isenabled(), "threshold": gc.get_threshold()}


def _set_collector(values: Values) -> None:
    gc = sys.modules["gc"]
    if "is_on" in values:
        (gc.enable if values["is_on"] else gc.disable)()
    if "threshold" in values:
        gc.set_threshold(*values["threshold"])


def _decimal() -> Values:
    context = sys.modules["decimal"].getcontext()
    signals = {"flags": context.flags, "traps": context.traps}
    raised = {
        name: sorted(s.__name__ for s, on in kind.items() if on) for name, kind in signals.items()
    }
    return {name: getattr(context, name) for name in _OF_CONTEXT} | raised


_OF_CONTEXT = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")


def _set_decimal(values: Values) -> None:
    decimal = sys.modules["decimal"]
    context = decimal.getcontext()
    for name, value in values.items():
        if name in _OF_CONTEXT:
            setattr(context, name, value)
        else:
            signals = getattr(context, name)
            for signal in signals:
                signals[signal] = signal.__name__ in value


def _locale() -> Values:
    locale = sys.modules["locale"]
    return {name: locale.setlocale(getattr(locale, name)) for name in _CATEGORIES}


_CATEGORIES = ("LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME")


def _set_locale(values: Values) -> None:
    locale = sys.modules["locale"]
    for name, value in values.items():
        locale.setlocale(getattr(locale, name), value)


def _csv() -> Values:
    return {"field": sys.modules["csv"].field_size_limit()}


def _set_csv(values: Values) -> None:
    sys.modules["csv"].field_size_limit(values["field"])


def _socket() -> Values:
    return {"timeout": sys.modules["socket"].getdefaulttimeout()}


def _set_socket(values: Values) -> None:
    sys.modules["socket"].setdefaulttimeout(values["timeout"])


# Warnings: categories by name, and patterns by their text, so that a list of them is data


def _warnings() -> Values:
    return {"filters": [[_said(part) for part in each] for each in warnings.filters]}


def _set_warnings(values: Values) -> None:
    warnings.filters[:] = [tuple(map(_meant, each)) for each in values["filters"]]  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]  # noqa: SLF001  # as those do that add one


def _said(part: Any) -> Any:
    if isinstance(part, re.Pattern):
        return ["pattern", part.pattern, part.flags]
    if isinstance(part, type) and part.__module__ != "__main__":
        return ["class", part.__module__, part.__qualname__]
    return part


def _meant(part: Any) -> Any:
    if not isinstance(part, list):
        return part
    kind, name, more = part
    return re.compile(name, more) if kind == "pattern" else attrgetter(more)(import_module(name))


# Logs


def _logging() -> Values:
    found: Values = {}
    for name, logger in _loggers():
        said = [logger.level, logger.propagate, logger.disabled]
        if said != _QUIET:
            found[name] = said
        if any(type(handler).__name__ != "NullHandler" for handler in logger.handlers):
            found[f"{name} {_HANDLERS}"] = list(logger.handlers)
    return found


_QUIET = [0, True, False]
_HANDLERS = "handlers"


def _loggers() -> Iterator[tuple[str, Any]]:
    logging = sys.modules["logging"]
    yield "root", logging.root
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger):
            yield name, logger


def _set_logging(values: Values) -> None:
    logging = sys.modules["logging"]
    for key, value in values.items():
        name, _, what = key.partition(" ")
        logger = logging.getLogger(None if name == "root" else name)
        if what == _HANDLERS:
            logger.handlers[:] = value or []
        else:
            level, logger.propagate, logger.disabled = value or _QUIET
            logger.setLevel(level)


# Libraries


def _numpy_errors() -> Values:
    numpy = sys.modules["numpy"]
    return {**numpy.geterr(), "call": numpy.geterrcall()}


def _set_numpy_errors(values: Values) -> None:
    numpy = sys.modules["numpy"]
    numpy.seterr(**{name: value for name, value in values.items() if name != "call"})
    if "call" in values:
        numpy.seterrcall(values["call"])


def _numpy_printing() -> Values:
    return dict(sys.modules["numpy"].get_printoptions())


def _set_numpy_printing(values: Values) -> None:
    sys.modules["numpy"].set_printoptions(**values)


def _pandas() -> Values:
    return dict(_flat(sys.modules["pandas"].options.d, ""))


def _flat(options: Values, above: str) -> Iterator[tuple[str, Any]]:
    for name, value in options.items():
        if type(value) is dict:
            yield from _flat(value, f"{above}{name}.")
        else:
            yield above + name, value


def _set_pandas(values: Values) -> None:
    for name, value in values.items():
        sys.modules["pandas"].set_option(name, value)


def _matplotlib() -> Values:
    # Past its own reading, which would choose a backend, and with lists as they are now.
    everything = dict.items(sys.modules["matplotlib"].rcParams)
    return {
        name: list(value) if type(value) is list else value
        for name, value in everything
        if name != "backend"
    }


def _set_matplotlib(values: Values) -> None:
    dict.update(sys.modules["matplotlib"].rcParams, values)


def _sklearn() -> Values:
    return dict(sys.modules["sklearn"].get_config())


def _set_sklearn(values: Values) -> None:
    sys.modules["sklearn"].set_config(**values)


SETTINGS = {
    "csv": Setting("csv", _csv, _set_csv),
    "decimal": Setting("decimal", _decimal, _set_decimal),
    "gc": Setting("gc", _collector, _set_collector),
    "locale": Setting("locale", _locale, _set_locale),
    "logging": Setting("logging", _logging, _set_logging),
    "matplotlib": Setting("matplotlib", _matplotlib, _set_matplotlib),
    "numpy.errors": Setting("numpy", _numpy_errors, _set_numpy_errors),
    "numpy.printing": Setting("numpy", _numpy_printing, _set_numpy_printing),
    "pandas": Setting("pandas", _pandas, _set_pandas),
    "python": Setting("sys", _python, _set_python),
    "sklearn": Setting("sklearn", _sklearn, _set_sklearn),
    "socket": Setting("socket", _socket, _set_socket),
    "warnings": Setting("warnings", _warnings, _set_warnings),
}
"""By a name that is in stored states and never changes."""
