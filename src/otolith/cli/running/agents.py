"""A session opened for the user's code to run in, and the arguments that a terminal gives it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from otolith import opening
from otolith.agent import Orchestrator, Outcome, Task, Versioned
from otolith.cli.asked import Asked
from otolith.cli.failures import worded
from otolith.cli.place import Desk, find, only_session
from otolith.cli.running.code import code_of
from otolith.cli.running.going import Going
from otolith.errors import BadValue, Invalid

_STATE = "state"


class Running(NamedTuple):
    """A session, what runs in it, what it is told to do, and how to go on with it."""

    state: Versioned
    orchestrator: Orchestrator
    told: str | None
    going: Going
    is_task: bool = False

    def hand_over(self, outcome: Outcome) -> None:
        """Note that the result of a task is told to whoever asked: the next call begins anew."""
        if self.is_task and outcome.state.is_over:
            self.orchestrator.hand_over(self.state.session)


@contextmanager
def running(
    asked: Asked, session: str | None, given: str, told: str | None = None
) -> Iterator[Running]:
    """Open a session with the user's classes, and what `FILE.py:NAME` names in it.

    A session that nothing is told must be there already.
    """
    found = code_of(asked, given)
    orchestrator = found if isinstance(found, Orchestrator) else found.acting()
    if isinstance(found, Task) and told is not None:
        inputs = inputs_of(found, told)
        told, orchestrator = found.prompt(inputs), found.acting(inputs=inputs)
    place = find(asked if session is None else asked._replace(session=session))
    with opening.open(place.url, create=False) as repo:
        state = repo.session(place.session or only_session(repo), branch=place.branch)
        if told is None:
            Desk(place, repo, state).head()
        orchestrator.where = state
        going = Going(asked, state.session, given)
        yield Running(state, orchestrator, told, going, isinstance(found, Task))


def inputs_of(task: Task[Any], told: str) -> dict[str, Any]:
    """Return the arguments of a task, which a terminal gives as JSON, as the task wants them.

    Raises:
        Invalid: they are no arguments.
        BadValue: one does not fit; the message says which.
    """
    try:
        found = json.loads(told)
    except ValueError:
        found = None
    names = ", ".join(f'"{name}": …' for name in task.signature.names if name != _STATE)
    hint = f"write {{{names}}}"
    if not isinstance(found, dict):
        raise Invalid(f"{task.name} is a task, and {told!r} are no arguments", hint=hint)
    try:
        return task.inputs(found)
    except BadValue as error:
        raise worded(BadValue(error.message, hint=hint)) from error
