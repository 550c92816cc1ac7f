"""The life of a worker: it gets the settings of the session once, then runs one step at a time.

A step is: restore the state (`Worker._enter`), run the code (`execute`), capture its changes
(`capture.py`), and send the result to the host.
"""

from __future__ import annotations

import io
import os
import signal
import socket
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from pprint import pformat
from reprlib import Repr
from time import perf_counter
from typing import Any

from otolith.codecs import Codecs
from otolith.errors import BadValue, Invalid
from otolith.state.tracker.fingerprints import is_fixed
from otolith.state.tracker.shared_objects import is_array
from otolith.types import Tagged
from otolith.workspace.protocol import (
    CodeEnd,
    Figure,
    Run,
    StartSession,
    StepFailure,
    ToWorker,
    WorkerResult,
)
from otolith.workspace.sandbox import ResourceLimits
from otolith.workspace.wire import PeerGone, Wire
from otolith.workspace.worker.capture import Capture
from otolith.workspace.worker.namespace import Namespace
from otolith.workspace.worker.pickler import load_inputs
from otolith.workspace.worker.process_state import ProcessState
from otolith.workspace.worker.remote_state import RemoteHost, RemoteState
from otolith.workspace.worker.sources import Sources, names_needing_fetch
from otolith.workspace.worker.value_summary import describe, type_name
from otolith.workspace.worker.variables import Variables

_MOST_FIGURES = 50
_OURS = str(Path(__file__).parent)


@dataclass
class Execution:
    """How the code of a step ended."""

    value: Any = None
    failure: StepFailure | None = None
    was_interrupted: bool = False
    figures: list[Figure] = field(default_factory=list)


def execute(source: str, namespace: Namespace, sources: Sources) -> Execution:
    """Run code; whatever it raises is part of the result."""
    execution, worker = Execution(), os.getpid()
    try:
        compiled = sources.compile(source)
        for name in names_needing_fetch(compiled.body):
            namespace.fetch_if_unloaded(name)
        with _interruptible():
            exec(compiled.body, namespace)  # noqa: S102  # this is what a worker is for
            if compiled.value is not None:
                execution.value = eval(compiled.value, namespace)  # noqa: S307
    except BaseException as error:  # noqa: BLE001  # a step may raise anything, exits included
        execution.was_interrupted = isinstance(error, KeyboardInterrupt)
        execution.failure = failure_of(error)
    if os.getpid() != worker:
        os._exit(0)  # the code has forked, and this is the child
    _block_interrupts()
    execution.figures = _figures()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # code may have put anything there
            stream.flush()
    return execution


@contextmanager
def _interruptible() -> Iterator[None]:
    """Unblock interrupts; one that came before the code began to run is raised now."""
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        yield
    finally:
        _block_interrupts()


def _block_interrupts() -> None:
    """Let interrupts wait for the next step, and drop those that came too late."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def failure_of(error: BaseException) -> StepFailure:
    """Return an exception as text, with the frames of the session's code only."""
    trace = error.__traceback__
    while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<step "):
        trace = trace.tb_next
    lines = traceback.TracebackException(type(error), error, trace, compact=True)
    # Frames that fetch a variable are of no use to the author of the code.
    shown = [frame for frame in lines.stack if not frame.filename.startswith(_OURS)]
    lines.stack = traceback.StackSummary.from_list(shown)
    where = [frame.lineno for frame in lines.stack if frame.filename.startswith("<step ")]
    if isinstance(error, SyntaxError):
        where = [error.lineno]
    return StepFailure(
        type=type(error).__qualname__,
        message=_message_with_hint(error),
        traceback=_text(lambda: "".join(lines.format())),
        line=where[0] if where else None,
    )


def _message_with_hint(error: BaseException) -> str:
    """Return the message of an exception, with its hint if it has one."""
    message = _text(lambda: str(error))
    hint = getattr(error, "hint", "")
    is_hint = isinstance(hint, str) and hint and hint not in message
    return f"{message} ({hint})" if is_hint else message


def _text(make: Any) -> str:
    """Return a text that is valid UTF-8, whatever makes it."""
    try:
        return str(make()).encode("utf-8", "replace").decode()
    except Exception as error:  # noqa: BLE001  # str() of an exception may raise anything
        return f"<{type(error).__name__} while its text was made>"


def _figures() -> list[Figure]:
    """Return all open figures as PNG, and close them, as a notebook does after a cell."""
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return []
    found: list[Figure] = []
    for number in pyplot.get_fignums()[:_MOST_FIGURES]:
        sink = io.BytesIO()
        try:
            pyplot.figure(number).savefig(sink, format="png")
        except Exception:  # noqa: BLE001, S112  # drawing runs the user's code
            continue
        found.append(Figure(number, sink.getvalue()))
    pyplot.close("all")
    return found


_WIDTH = 100
_MOST_PARTS = 2000
_CONTAINERS = (dict, list, tuple, set, frozenset)


def show(value: object, *, most: int) -> str:
    """Return the text of a value, up to a limit. It raises nothing."""
    try:
        if _is_longer(value, most):
            text = _bounded(most).repr(value)
        elif isinstance(value, _CONTAINERS):
            text = pformat(value, width=_WIDTH, sort_dicts=False, compact=True)
        else:
            text = repr(value)
    except Exception as error:  # noqa: BLE001  # a repr is the user's, and may raise anything
        text = f"<{type_name(value)}, whose repr raised {type(error).__name__}>"
    text = text.encode("utf-8", "replace").decode()
    rest = len(text) - most
    return text if rest <= 0 else f"{text[:most]}\n… {rest:,} more characters"


def _is_longer(value: Any, most: int) -> bool:
    """Tell whether a value is too large for a full repr."""
    waiting: list[Iterable[Any]] = [[value]]
    left, seen = _MOST_PARTS, 0
    while waiting:
        for part in waiting.pop():
            left -= 1
            seen += len(part) if isinstance(part, str | bytes | bytearray) else 0
            if left < 0 or seen > most:
                return True
            if isinstance(part, dict):
                waiting += [part.keys(), part.values()]
            elif isinstance(part, _CONTAINERS):
                waiting.append(part)
    return False


def _bounded(most: int) -> Repr:
    """Return a Repr that shows the beginning of everything."""
    short = Repr()
    short.maxlist = short.maxtuple = short.maxset = short.maxfrozenset = 100
    short.maxdict = short.maxdeque = short.maxarray = 100
    short.maxstring = short.maxother = most
    short.maxlong = 1000
    short.maxlevel = 4
    return short


_MOST_VALUE_BYTES = 16 << 20


def serve_host(line: socket.socket) -> None:
    """Run steps until the host closes its socket.

    Raises:
        Invalid: the first message is not the settings of the session.
    """
    wire: Wire[ToWorker] = Wire(line, ToWorker)
    begin, _ = wire.receive()
    if not isinstance(begin, StartSession):
        raise Invalid(
            f"the first message must be StartSession, got {type(begin).__name__}", hint="a bug"
        )
    _reopen_streams()
    ResourceLimits(*begin.limits).apply()
    worker = Worker(RemoteHost(wire), begin)
    while True:
        try:
            order, _ = wire.receive()
        except PeerGone:
            return
        if isinstance(order, Run):
            wire.send(worker.run(order))


class Worker:
    """A session in one process, for one step or for many."""

    def __init__(self, host: RemoteHost, begin: StartSession) -> None:
        self._host = host
        self._begin = begin
        sys.path.insert(0, begin.work)
        self._process = ProcessState(begin.work)
        self._variables: Variables | None = None

    def run(self, order: Run) -> WorkerResult:
        """Run one step and capture what it did."""
        began = perf_counter()
        variables = self._enter(order)
        refused = _set_inputs(order, variables)
        ready = perf_counter()
        execution = refused or execute(order.code, variables.namespace, variables.sources)
        ran = perf_counter()
        self._host.wire.send(CodeEnd())
        loaded = sorted(variables.index.keys() - variables.namespace.unloaded)
        self._process.collect_changes()
        captured = Capture(variables, order.step).run()
        variables.state.put("ambient", value=self._process.capture())
        self._store_last_step(variables.state, order, execution)
        tops = variables.state.changed_roots()
        made = variables.state.new_objects(tops)
        variables.state.settle(tops)
        seconds = {"restore": ready - began, "run": ran - ready, "capture": perf_counter() - ran}
        value = execution.value
        return WorkerResult(
            ok=execution.failure is None,
            value=None if value is None else show(value, most=self._begin.shown_chars),
            failure=execution.failure,
            was_interrupted=execution.was_interrupted,
            cells=tops,
            objects=made,
            created=captured.created,
            changed=captured.changed,
            deleted=captured.deleted,
            lost=captured.lost,
            loaded=loaded,
            pickles=captured.pickles,
            figures=execution.figures,
            modules=self._process.modules(),
            seconds=seconds,
        )

    def _enter(self, order: Run) -> Variables:
        """Return the variables of the state that an order names; a warm worker continues."""
        if order.roots is not None or self._variables is None:
            codecs = SessionCodecs()
            state = RemoteState(self._host, self._begin.config, codecs)
            state.start(order.roots or {}, order.preloaded)
            variables = Variables(state, self._host, codecs, self._begin.resources)
            dict.__setitem__(variables.namespace, "__name__", "__main__")
            dict.__setitem__(variables.namespace, "__builtins__", __builtins__)
            variables.context.enter()
            variables.context.process = self._process
            self._process.restore(
                state.entry("ambient") or {},
                namespace=variables.namespace,
                index=variables.index,
                sources=variables.sources,
                load=variables.load_and_bind,
            )
            self._variables = variables
        self._variables.classes.step = f"{order.step}\0{order.code}"
        return self._variables

    def _store_last_step(self, state: RemoteState, order: Run, execution: Execution) -> None:
        """Store the value, failure and figures of a step."""
        failure = execution.failure
        record: dict[str, Any] = {
            "code": order.code,
            "step": order.step,
            "ok": failure is None,
            "value": None,
            "figures": [figure.png for figure in execution.figures],
        }
        if failure is not None:
            record["error"] = {
                "type": failure.type,
                "message": failure.message,
                "traceback": failure.traceback,
            }
        if execution.value is not None:
            record["shown"] = describe(execution.value)
        state.put("last", value=record)
        cell = _cell_of(state, execution.value)
        if cell is not None:
            state.put_cell(("last", "value"), cell)


def _set_inputs(order: Run, variables: Variables) -> Execution | None:
    """Set the variables that come with an order; return the failure, if there is one."""
    try:
        given = {name: variables.state.cells.load(cell) for name, cell in order.put.items()}
        if order.pickled:
            given |= load_inputs(order.pickled)
    except Exception as error:  # noqa: BLE001  # classes of a user may raise anything
        return Execution(failure=failure_of(error))
    variables.namespace.update(given)
    return None


class SessionCodecs(Codecs):
    """Codecs that accept only what loses nothing as data.

    Instances of classes of the session would: a class is more than its name. So would arrays of
    objects that can change, which other variables may share.
    """

    def lower(self, value: object) -> Tagged:
        """Return a value as data, if nothing is lost by that."""
        if is_array(value) and _has_mutable(value):
            raise BadValue(
                "an array has objects in it that can change", hint="it is stored as an object"
            )
        return super().lower(value)

    def lowering(self, kind: type) -> Any:
        """Return how a type is lowered; classes of the session are not."""
        if kind.__module__ == "__main__":
            raise BadValue(
                f"{kind.__qualname__} is a class of the session", hint="it is stored as an object"
            )
        return super().lowering(kind)


def _has_mutable(array: Any) -> bool:
    if not array.dtype.hasobject:
        return False
    return array.dtype.names is not None or not all(map(is_fixed, set(map(type, array.flat))))


def _cell_of(state: RemoteState, value: object) -> bytes | None:
    """Return the cell of the value of a step, if it is data and not too long."""
    if value is None:
        return None
    try:
        cell = state.cells.put(value)
    except BadValue:
        return None
    return cell if state.cells.full_size(cell) <= _MOST_VALUE_BYTES else None


def _reopen_streams() -> None:
    """Open stdout and stderr on the descriptors that this process has now."""
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
