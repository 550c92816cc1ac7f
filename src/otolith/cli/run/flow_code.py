"""Flows in the user's files and modules, for a worker to work on.

Their code runs in this process, without a sandbox; or in others, which find the same files.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from typing import Any

from otolith.cli.errors import user_code_errors
from otolith.cli.options import GlobalOptions
from otolith.cli.run.user_code import import_code
from otolith.errors import Exists, Invalid
from otolith.flows import Flow

_HOW_TO_NAME = "name it as FILE.py:FLOW or package.module:FLOW"


def load_flows(options: GlobalOptions, names: Iterable[str]) -> list[Flow]:
    """Return the flows that `FILE.py:FLOW` or `module:FLOW` name; without `:FLOW`, all in it.

    Raises:
        Invalid: there is no such file, module or flow.
        Exists: two flows have one name.
    """
    found: dict[str, tuple[Flow, str]] = {}
    for name in names:
        for flow in _flows_of(options, name):
            other, where = found.setdefault(flow.name, (flow, name))
            if other is not flow:
                raise Exists(
                    f"two flows have the name {flow.name!r}: in {where} and in {name}",
                    hint="give each a name of its own, or name only one of them by --code",
                )
    return [flow for flow, _ in found.values()]


def _flows_of(options: GlobalOptions, name: str) -> list[Flow]:
    source, _, attribute = name.rpartition(":") if ":" in name else (name, "", "")
    with user_code_errors(name, "it is raised when it is imported; what it runs goes in __main__"):
        module = import_code(options.directory, source)
        folder = str(options.directory.resolve())
        if folder not in sys.path:  # processes that run tasks search where this one does
            sys.path.append(folder)
        if attribute:
            flow = getattr(module, attribute, None)
            if inspect.isfunction(flow) and not inspect.signature(flow).parameters:
                flow = flow()
            flows: list[Any] = [flow]
        else:
            flows = [each for each in vars(module).values() if isinstance(each, Flow)]
    if not flows:
        raise Invalid(f"{name} has no flow", hint=_HOW_TO_NAME)
    for each in flows:
        if not isinstance(each, Flow):
            known = [key for key, value in vars(module).items() if isinstance(value, Flow)]
            raise Invalid(
                f"{attribute} is not a flow in {source}",
                hint=f"its flows are {', '.join(known) or 'none'}",
            )
    return list(dict.fromkeys(flows))
