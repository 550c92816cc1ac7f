"""Sending: where an event goes, now or when its time has come.

Targets are those of SCXML: none for oneself, `#_internal`, `#_parent`, `#_<invokeid>` for a child,
`#_scxml_<session>` for any session of the same world; an address with a scheme (`mailto:...`)
leaves as an effect. What cannot be reached is `error.communication`, what makes no sense
`error.execution`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from otolith.frozen import FrozenDict
from otolith.statecharts.engine.run import SCXML_PROCESSOR, ChartSession, Failure
from otolith.statecharts.snapshot import Event, Timer

_SCXML_TYPES = frozenset({None, "", "scxml", SCXML_PROCESSOR, "http://www.w3.org/TR/scxml/"})
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.+")


@dataclass(frozen=True, slots=True)
class Message:
    """What is to be sent, with everything evaluated."""

    name: Any
    data: Any
    target: Any
    type: Any
    id: str
    is_named: bool
    delay: int


def post(run: ChartSession, message: Message) -> None:
    """Send now, or put it among the timers; what can be refused is refused at once."""
    _check(run, message)
    event = Event(
        message.name or "",
        message.data,
        "external",
        message.id if message.is_named else None,
        f"#_scxml_{run.session}",
        SCXML_PROCESSOR,
        run.invokeid if message.target == "#_parent" else None,
    )
    if message.delay:
        timer = Timer(
            run.world.now + message.delay,
            run.world.next_number(),
            message.id,
            event,
            message.target,
            message.type,
        )
        run.timers.append(timer)
    else:
        deliver(run, event, message.target, message.type)


def deliver(run: ChartSession, event: Event, target: str | None, type: str | None) -> None:
    """Hand an event to whom it is for."""
    if type not in _SCXML_TYPES or (target and _ADDRESS.fullmatch(target)):
        params = FrozenDict({"data": event.data})
        run.effect("send", event.name, params=params, target=target, type=type, id=event.sendid)
    elif target == "#_internal":
        run.internal.append(event._replace(type="internal", origin=None, origintype=None))
    elif (receiver := _receiver(run, target)) is None:
        raise Failure(f"{target} cannot be reached", kind="communication", sendid=event.sendid)
    elif receiver is run.parent and run.is_silent:
        return  # a child that is being stopped: its parent does not listen any more
    elif receiver.status == "running":
        receiver.queue.append(event)


def cancel(run: ChartSession, id: Any) -> None:
    """Forget the timers of this id."""
    run.timers = [timer for timer in run.timers if timer.id != id]


def _check(run: ChartSession, message: Message) -> None:
    if message.type is not None and not isinstance(message.type, str):
        raise Failure(f"{message.type!r} is not a way to send")
    if message.type not in _SCXML_TYPES and message.type not in run.model.bindings.outlets:
        raise Failure(f"{message.type!r} is not a way to send that is known here")
    if not message.name and message.type in _SCXML_TYPES:
        raise Failure("an event without a name")
    if message.name is not None and not isinstance(message.name, str):
        raise Failure(f"{message.name!r} is not the name of an event")
    target = message.target
    if target is None or target == "":
        return
    if not isinstance(target, str) or not (target.startswith("#_") or _ADDRESS.fullmatch(target)):
        raise Failure(f"{target!r} is not a target")
    if message.delay and target == "#_internal":
        raise Failure("an internal event cannot be delayed")


def _receiver(run: ChartSession, target: str | None) -> ChartSession | None:
    if not target:
        return run
    if target == "#_parent":
        return run.parent
    if target.startswith("#_scxml_"):
        session = target.removeprefix("#_scxml_")
        return next((each for each in everyone(run.world.root) if each.session == session), None)
    return run.runs.get(target.removeprefix("#_"))


def everyone(run: ChartSession) -> Iterator[ChartSession]:
    """Yield a run and those below it, parents first."""
    yield run
    for child in list(run.runs.values()):
        yield from everyone(child)
