"""Objects that a library has one of: kept by name, as there must not be a second one.

`dataclasses.MISSING`, the generator behind `numpy.random`, the root logger: whoever has one of
these compares it by identity, or expects all others to use it too.
"""

from __future__ import annotations

import sys
import types
from typing import Any

_known: dict[str, dict[int, str]] = {}
_NEVER = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)


def name_of(thing: Any) -> tuple[str, str] | None:
    """Return the module and the name of an object that its own module has under a name."""
    home = getattr(type(thing), "__module__", None)
    if not isinstance(home, str) or home in ("builtins", "__main__"):
        return None
    names = _known.get(home)
    if names is None:
        names = _known[home] = _names(home)
    name = names.get(id(thing))
    return None if name is None else (home, name)


def _names(home: str) -> dict[int, str]:
    module = sys.modules.get(home)
    place = getattr(module, "__file__", None) or ""
    if module is None or ("site-packages" not in place and not _is_standard(home)):
        return {}
    return {
        id(thing): name
        for name, thing in vars(module).items()
        if type(thing).__module__ == home and not isinstance(thing, _NEVER)
    }


def _is_standard(home: str) -> bool:
    return home.partition(".")[0] in sys.stdlib_module_names
