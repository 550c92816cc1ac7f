"""Current names for the module, class and function names in older stores and pickles.

Values of our own classes are stored as `module:Qualname`, and pickles of sessions name functions by
module. A name is first looked up as it is stored, and only then here, so `former_names.toml` is
read only for a store of an earlier version. Add an entry there when you rename or move anything
that a store or a pickle can contain.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path


def today(name: str) -> str:
    """Return the current `module:Qualname` for a stored one; an unknown name is returned as it is.

    today("otolith.agent.loop.working:Working") == "otolith.agent.state:WorkingMemory"
    """
    module, _, path = name.partition(":")
    first, dot, rest = path.partition(".")
    tables = name_tables()
    moved = f"{tables['modules'].get(module, module)}:{first}"
    found = tables["names"].get(f"{module}:{first}", moved)
    return f"{tables['renamed'].get(found, found)}{dot}{rest}"


@cache
def name_tables() -> dict[str, dict[str, str]]:
    """Return the tables of `former_names.toml`: modules, names and renamed."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
