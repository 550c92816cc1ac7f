"""The event processor: delivers events to sessions and hosts, at once or after a delay.

Targets are those of SCXML: none for the session itself, `#_internal`, `#_parent`, `#_<invokeid>`
for a child, `#_scxml_<session>` for any session of the same step. An address with a scheme
(`mailto:...`), or a `type` registered with `chart.outlet`, leaves the step as an effect. A target
that cannot be reached is an `error.communication`; an invalid one an `error.execution`.
"""

from __future__ import annotations

import re
from typing import Any

from otolith.frozen import FrozenDict
from otolith.statecharts.engine.session import SCXML_PROCESSOR, ChartFailure, ChartSession
from otolith.statecharts.snapshot import ChartEvent, Timer

_SCXML_TYPES = frozenset({None, "", "scxml", SCXML_PROCESSOR, "http://www.w3.org/TR/scxml/"})
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.+")


def send(
    session: ChartSession,
    name: Any,
    data: Any,
    *,
    target: Any,
    type: Any,
    id: str,
    is_id_visible: bool,
    delay: int,
) -> None:
    """Deliver an event, or start its timer; invalid arguments fail at once, not when it is due.

    `is_id_visible`: the document named or stored the id, so the receiver sees it as `sendid`.
    """
    _check(session, name, target, type, delay)
    event = ChartEvent(
        name or "",
        data,
        "external",
        id if is_id_visible else None,
        f"#_scxml_{session.id}",
        SCXML_PROCESSOR,
        session.invoke_id if target == "#_parent" else None,
    )
    if delay:
        scope = session.scope
        timer = Timer(scope.now + delay, scope.next_number(), id, event, target, type)
        session.timers.append(timer)
    else:
        deliver(session, event, target, type)


def deliver(session: ChartSession, event: ChartEvent, target: str | None, type: str | None) -> None:
    """Put an event into the queue of its receiver, or among the effects of the step."""
    if type not in _SCXML_TYPES or (target and _ADDRESS.fullmatch(target)):
        params = FrozenDict({"data": event.data})
        session.add_effect("send", event.name, params, target=target, type=type, id=event.sendid)
    elif target == "#_internal":
        session.internal_queue.append(event._replace(type="internal", origin=None, origintype=None))
    elif (receiver := _receiver(session, target)) is None:
        message = f"{target} cannot be reached"
        raise ChartFailure(message, kind="communication", send_id=event.sendid)
    elif receiver is session.parent and session.is_silent:
        return  # the parent is stopping this session and does not listen any more
    elif receiver.status == "running":
        receiver.external_queue.append(event)


def _check(session: ChartSession, name: Any, target: Any, type: Any, delay: int) -> None:
    """Raise `ChartFailure` for arguments that a send cannot have."""
    if type is not None and not isinstance(type, str):
        raise ChartFailure(f"the type of a send must be a string, got {type!r}")
    if type not in _SCXML_TYPES and type not in session.chart.bindings.outlets:
        raise ChartFailure(f"{type!r} is not a registered type of send")
    if not name and type in _SCXML_TYPES:
        raise ChartFailure("an event must have a name")
    if name is not None and not isinstance(name, str):
        raise ChartFailure(f"the name of an event must be a string, got {name!r}")
    if target is None or target == "":
        return
    if not isinstance(target, str) or not (target.startswith("#_") or _ADDRESS.fullmatch(target)):
        raise ChartFailure(f"{target!r} is not a valid target")
    if delay and target == "#_internal":
        raise ChartFailure("an internal event cannot be delayed")


def _receiver(session: ChartSession, target: str | None) -> ChartSession | None:
    """Return the session that a target names; None if there is none."""
    if not target:
        return session
    if target == "#_parent":
        return session.parent
    if target.startswith("#_scxml_"):
        id = target.removeprefix("#_scxml_")
        sessions = session.scope.root.with_descendants()
        return next((each for each in sessions if each.id == id), None)
    return session.child_sessions.get(target.removeprefix("#_"))
