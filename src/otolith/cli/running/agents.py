"""Orchestrators and agents of the user's own code, found by name for a verb that runs them."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from otolith import opening
from otolith.agent import Agent, Orchestrator, Task, Versioned
from otolith.cli.asked import Asked
from otolith.cli.place import find, only_session
from otolith.errors import Invalid

_HOW = "name it as FILE.py:NAME or package.module:NAME"


class Running(NamedTuple):
    """A session, what runs in it, and what it is told to do."""

    state: Versioned
    orchestrator: Orchestrator
    told: str | None


@contextmanager
def running(
    asked: Asked, session: str | None, given: str, told: str | None = None
) -> Iterator[Running]:
    """Open a session with the user's classes, and what `FILE.py:NAME` names in it."""
    found = code_of(asked, given)
    orchestrator = found if isinstance(found, Orchestrator) else found.acting()
    if isinstance(found, Task) and told is not None:
        inputs = _inputs(found, told)
        told, orchestrator = found.prompt(inputs), found.acting(inputs=inputs)
    place = find(asked if session is None else asked._replace(session=session))
    with opening.open(place.url, create=False) as repo:
        state = repo.session(place.session or only_session(repo), branch=place.branch)
        orchestrator.where = state
        yield Running(state, orchestrator, told)


def code_of(asked: Asked, given: str) -> Orchestrator | Agent | Task[Any]:
    """Return the orchestrator, agent or task that `FILE.py:NAME` names, of the user's.

    Raises:
        Invalid: there is no such thing, or it is something else.
    """
    place, _, name = given.rpartition(":") if ":" in given else (given, "", "")
    module = _module(asked, place)
    found = _named(module, name) if name else _only(module, given)
    if _makes(found):
        found = _made(found, given)
    if not isinstance(found, Orchestrator | Agent | Task):
        raise Invalid(f"{given} is no orchestrator, agent or task", hint=_HOW)
    return found


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


def _inputs(task: Task[Any], told: str) -> dict[str, Any]:
    """Return the arguments of a task, which a terminal gives as JSON."""
    try:
        found = json.loads(told)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        names = ", ".join(f'"{name}": …' for name in task.signature.names if name != "state")
        raise Invalid(
            f"{task.name} is a task, and {told!r} are no arguments", hint=f"write {{{names}}}"
        )
    return task.signature.named(**found)


def _module(asked: Asked, place: str) -> ModuleType:
    if not place.endswith(".py"):
        sys.path.insert(0, str(asked.directory.resolve()))
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            raise Invalid(f"there is no module {error.name}", hint=_HOW) from None
        except (ValueError, TypeError):  # nothing at all, or dots
            raise Invalid(f"{place!r} is no module", hint=_HOW) from None
        finally:
            sys.path.pop(0)
    path = (asked.directory / place).resolve()
    if not path.is_file():
        raise Invalid(f"there is no file {place}", hint=_HOW)
    return _loaded(path)


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # so that its classes can be found by their names
    sys.path.insert(
        0, str(path.parent)
    )  # as Python does for a script: it may import its neighbours
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever a user's module raises
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
                 if frame.filename == str(path)]  # fmt: skip
        where = f" (line {lines[-1]})" if lines else ""
        raise Invalid(
            f"{path.name} cannot be loaded{where}: {type(error).__name__}: {error}",
            hint=f"see what `python {path.name}` says; what it runs goes under __main__",
        ) from error
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
