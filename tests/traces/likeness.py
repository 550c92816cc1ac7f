"""Says what a namespace holds, strictly and deeply, so that two namespaces can be compared.

Content (telling/contents.py) and aliases (telling/identity.py) are told apart: a variable's text
is about what it holds, the entry `<identity>` about who shares it. This module and its parts need
only the standard library; numpy, pandas, sympy and matplotlib are understood when the session
loaded them.
"""

from __future__ import annotations

import re
import types
from collections.abc import Mapping

from tests.traces.telling.contents import tell
from tests.traces.telling.identity import identity

IDENTITY = "<identity>"
FOLD = 1500

_ROOT = re.compile(r"(?:memory )?([^\W\d]\w*)")


def describe(
    namespace: Mapping[str, object], *, lost: frozenset[str] = frozenset(), fold: int = FOLD
) -> dict[str, str]:
    """Return a text for each variable and one for the aliases between them.

    Args:
        namespace: the variables; a lazy namespace must have been loaded.
        lost: variables to leave out. Aliases that only they show are not told either.
        fold: the longest text of a part; of a longer one the head and a hash are kept. Raise it to
            see what differs.
    """
    home = frozenset({"__main__", str(namespace.get("__name__", "__main__"))})
    seen = {name: namespace[name] for name in namespace if _is_variable(name, namespace, lost)}
    told = {name: tell(seen[name], home=home, fold=fold) for name in sorted(seen)}
    return told | {IDENTITY: "\n".join(identity(seen, home))}


def differences(
    a: Mapping[str, str], b: Mapping[str, str], *, lost: frozenset[str] = frozenset()
) -> dict[str, tuple[str | None, str | None]]:
    """Return what two descriptions say of each variable that differs; None where it is missing.

    Of the aliases, only the groups that the other does not have.
    """
    names = sorted((a.keys() | b.keys()) - lost - {IDENTITY})
    found: dict[str, tuple[str | None, str | None]] = {
        name: (a.get(name), b.get(name)) for name in names if a.get(name) != b.get(name)
    }
    mine, other = _groups(a, lost), _groups(b, lost)
    if mine != other:
        found[IDENTITY] = ("\n".join(sorted(mine - other)), "\n".join(sorted(other - mine)))
    return found


def _is_variable(name: str, namespace: Mapping[str, object], lost: frozenset[str]) -> bool:
    if name.startswith("_") or name in lost:
        return False
    return not isinstance(namespace[name], types.ModuleType)


def _groups(told: Mapping[str, str], lost: frozenset[str]) -> set[str]:
    groups = set()
    for line in told.get(IDENTITY, "").splitlines():
        paths = [path for path in line.split(" = ") if _root(path) not in lost]
        if len(paths) > 1 or line.startswith("stopped"):
            groups.add(" = ".join(paths))
    return groups


def _root(path: str) -> str:
    found = _ROOT.match(path)
    return found[1] if found else ""
