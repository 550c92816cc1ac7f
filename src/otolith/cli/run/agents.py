"""Orchestrators, agents and tasks of the user's own code, found by name."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from otolith.agent import Agent, Orchestrator, Task
from otolith.cli.asked import Asked
from otolith.cli.running.theirs import theirs
from otolith.errors import Invalid

_HOW = "name it as FILE.py:NAME or package.module:NAME"


def code_of(asked: Asked, given: str) -> Orchestrator | Agent | Task[Any]:
    """Return the orchestrator, agent or task that `FILE.py:NAME` names, of the user's.

    Raises:
        Invalid: there is no such thing, or it is something else.
    """
    place, _, name = given.rpartition(":") if ":" in given else (given, "", "")
    with theirs(given, "it is raised when it is imported; what it runs goes under __main__"):
        module = _module(asked, place)
        found = _named(module, name) if name else _only(module, given)
        if _makes(found):
            found = _made(found, given)
    if not isinstance(found, Orchestrator | Agent | Task):
        raise Invalid(f"{given} is no orchestrator, agent or task", hint=_HOW)
    return found


def name_of(asked: Asked, given: str) -> str:
    """Return the name of the run that code of the user's goes on with."""
    found = code_of(asked, given)
    return found.name if isinstance(found, Orchestrator) else found.acting().name


def _makes(found: object) -> bool:
    """Tell a class of orchestrators, or a function that may return one, from anything else."""
    return inspect.isfunction(found) or (
        isinstance(found, type) and issubclass(found, Orchestrator)
    )


def _made(found: Any, given: str) -> Any:
    try:
        inspect.signature(found).bind()
    except TypeError:
        raise Invalid(
            f"{given} needs arguments, which nobody has here",
            hint=f"make one in the file, such as `booker = {found.__name__}(…)`, and name that",
        ) from None
    return found()


def _module(asked: Asked, place: str) -> ModuleType:
    if not place.endswith(".py"):
        return _imported(asked.directory.resolve(), place)
    path = (asked.directory / place).resolve()
    if not path.is_file():
        raise Invalid(f"there is no file {place}", hint=_HOW)
    return _loaded(path)


def _imported(directory: Path, place: str) -> ModuleType:
    if not all(part.isidentifier() for part in place.split(".")):
        raise Invalid(f"{place!r} is no module", hint=_HOW)
    sys.path.insert(0, str(directory))
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if f"{place}.".startswith(f"{error.name}."):
            raise Invalid(f"there is no module {error.name}", hint=_HOW) from None
        raise  # it is there, and imports something that is not
    finally:
        sys.path.pop(0)


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    is_new = sys.modules.setdefault(path.stem, module) is module  # its classes are found by name
    # As Python does for a script: it may import its neighbours.
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if is_new:  # half a module is none
            del sys.modules[path.stem]
        raise
    return module


def _named(module: ModuleType, name: str) -> Any:
    if not hasattr(module, name):
        raise Invalid(f"{module.__name__} has no {name}", hint=_HOW)
    return getattr(module, name)


def _only(module: ModuleType, given: str) -> Any:
    """Return the one orchestrator or agent of a module."""
    own = {name: value for name, value in vars(module).items() if _runs(value, module)}
    if len(own) != 1:
        named = ", ".join(own) or "none"
        raise Invalid(f"{given} has {len(own)} orchestrators or agents: {named}", hint=_HOW)
    return next(iter(own.values()))


def _is_ready(value: object) -> bool:
    """Tell an orchestrator, an agent or a task from what makes one."""
    return isinstance(value, Orchestrator | Agent | Task)


def _runs(value: object, module: ModuleType) -> bool:
    if isinstance(value, type):
        return issubclass(value, Orchestrator) and value.__module__ == module.__name__
    return isinstance(value, Agent | Orchestrator)
