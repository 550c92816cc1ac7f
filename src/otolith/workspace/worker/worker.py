"""The life of a worker: told once what there is, then a step at a time, each handed over."""

from __future__ import annotations

import io
import os
import socket
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

from otolith.agent.tracking.fixed import is_fixed
from otolith.agent.tracking.views import is_array
from otolith.agent.workspace.messages import Begin, Done, Ran, Run, ToWorker
from otolith.agent.workspace.sandbox import Limits
from otolith.agent.workspace.wire import Gone, Wire
from otolith.agent.workspace.worker.ambience import Ambience
from otolith.agent.workspace.worker.capture import Capture
from otolith.agent.workspace.worker.describing import describe, type_name
from otolith.agent.workspace.worker.execution import Outcome, execute, failure_of
from otolith.agent.workspace.worker.pickling import unpacked
from otolith.agent.workspace.worker.remote import RemoteHost
from otolith.agent.workspace.worker.shadow import Shadow
from otolith.agent.workspace.worker.showing import show
from otolith.agent.workspace.worker.variables import Variables
from otolith.codecs import Codecs
from otolith.errors import BadValue, Invalid
from otolith.types import Tagged

_MOST_VALUE_BYTES = 16 << 20


def live(line: socket.socket) -> None:
    """Do what the host says until it hangs up."""
    wire: Wire[ToWorker] = Wire(line, ToWorker)
    begin, _ = wire.receive()
    if not isinstance(begin, Begin):
        raise Invalid(f"a worker begins with Begin, not {type(begin).__name__}", hint="a bug")
    _renew_streams()
    Limits(*begin.limits).apply()
    worker = Worker(RemoteHost(wire), begin)
    while True:
        try:
            order, _ = wire.receive()
        except Gone:
            return
        if isinstance(order, Run):
            wire.send(worker.run(order))


class Worker:
    """One session in one process."""

    def __init__(self, host: RemoteHost, begin: Begin) -> None:
        self._host = host
        self._begin = begin
        sys.path.insert(0, begin.work)
        self._ambience = Ambience(begin.work)
        self._variables: Variables | None = None

    def run(self, order: Run) -> Done:
        """Run one step and capture what it did."""
        began = perf_counter()
        variables = self._entered(order)
        refused = _take(order, variables)
        ready = perf_counter()
        outcome = refused or execute(order.code, variables.namespace, variables.sources)
        ran = perf_counter()
        self._host.wire.send(Ran())
        loaded = sorted(variables.index.keys() - variables.namespace.cold)
        self._ambience.look()
        captured = Capture(variables, order.step).run()
        variables.shadow.keep("ambient", value=self._ambience.capture())
        self._keep_outcome(variables.shadow, order, outcome)
        tops = variables.shadow.tops()
        made = variables.shadow.made(tops)
        variables.shadow.settle(tops)
        seconds = {
            "restore": ready - began,
            "run": ran - ready,
            "capture": perf_counter() - ran,
        }
        value = outcome.value
        return Done(
            ok=outcome.failure is None,
            value=None if value is None else show(value, most=self._begin.shown_chars),
            value_type=None if value is None else type_name(value),
            failure=outcome.failure,
            was_interrupted=outcome.was_interrupted,
            cells=tops,
            objects=made,
            created=captured.created,
            changed=captured.changed,
            deleted=captured.deleted,
            lost=captured.lost,
            loaded=loaded,
            pickles=captured.pickles,
            figures=outcome.figures,
            modules=self._ambience.modules(),
            seconds=seconds,
        )

    def _entered(self, order: Run) -> Variables:
        if order.roots is not None or self._variables is None:
            codecs = SessionCodecs()
            shadow = Shadow(self._host, self._begin.config, codecs)
            shadow.start(order.roots or {}, order.along)
            variables = Variables(shadow, self._host, codecs, self._begin.resources)
            dict.__setitem__(variables.namespace, "__name__", "__main__")
            dict.__setitem__(variables.namespace, "__builtins__", __builtins__)
            variables.world.enter()
            variables.world.around = self._ambience
            self._ambience.restore(shadow.entry("ambient") or {}, variables)
            self._variables = variables
        self._variables.classes.step = f"{order.step}\0{order.code}"
        return self._variables

    def _keep_outcome(self, shadow: Shadow, order: Run, outcome: Outcome) -> None:
        """Record what a step returned, raised and drew."""
        failure = outcome.failure
        record: dict[str, Any] = {
            "code": order.code,
            "step": order.step,
            "ok": failure is None,
            "value": None,
            "figures": [figure.png for figure in outcome.figures],
        }
        if failure is not None:
            record["error"] = {
                "type": failure.type,
                "message": failure.message,
                "traceback": failure.traceback,
            }
        if outcome.value is not None:
            record["shown"] = describe(outcome.value)
        shadow.keep("last", value=record)
        cell = _cell_of(shadow, outcome.value)
        if cell is not None:
            shadow.write(("last", "value"), cell)


def _take(order: Run, variables: Variables) -> Outcome | None:
    """Set the variables that come with an order; return why not, if that cannot be."""
    try:
        given = {name: variables.shadow.cells.load(cell) for name, cell in order.put.items()}
        if order.pickled:
            given |= unpacked(order.pickled)
    except Exception as error:  # noqa: BLE001  # whatever classes of a user raise
        return Outcome(failure=failure_of(error))
    variables.namespace.update(given)
    return None


class SessionCodecs(Codecs):
    """Codecs that take for data what loses nothing by it.

    Instances of classes of the session do: a class is more than its name. So do arrays of objects
    that can change, which may be other people's too.
    """

    def lower(self, value: object) -> Tagged:
        if is_array(value) and _has_mutable(value):
            raise BadValue("an array has objects in it that can change", hint="it is kept as one")
        return super().lower(value)

    def lowering(self, kind: type) -> Any:
        if kind.__module__ == "__main__":
            raise BadValue(
                f"{kind.__qualname__} is a class of the session", hint="it is kept as an object"
            )
        return super().lowering(kind)


def _has_mutable(array: Any) -> bool:
    if not array.dtype.hasobject:
        return False
    return array.dtype.names is not None or not all(map(is_fixed, set(map(type, array.flat))))


def _cell_of(shadow: Shadow, value: object) -> bytes | None:
    """Return the value of a step as data, if it is data and not too long."""
    if value is None:
        return None
    try:
        cell = shadow.cells.put(value)
    except BadValue:
        return None
    return cell if shadow.cells.full_size(cell) <= _MOST_VALUE_BYTES else None


def _renew_streams() -> None:
    """Let Python write to the descriptors that this process has now."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = io.TextIOWrapper(
            os.fdopen(number, "wb", closefd=False),
            encoding="utf-8",
            errors="backslashreplace",
            line_buffering=True,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.stdin = Path(os.devnull).open()  # noqa: SIM115
