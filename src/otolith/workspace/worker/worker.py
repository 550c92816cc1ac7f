"""The life of a worker: told once what there is, then a step at a time, each handed over.

`execute` runs the code of a step and collects its value, what it raised and what it drew; `show`
puts a value into words, as a notebook would, up to a limit.
"""

from __future__ import annotations

import io
import os
import signal
import socket
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from pprint import pformat
from reprlib import Repr
from time import perf_counter
from typing import Any

from otolith.codecs import Codecs
from otolith.errors import BadValue, Invalid
from otolith.state.tracking.fingerprints import is_fixed
from otolith.state.tracking.shared_objects import is_array
from otolith.types import Tagged
from otolith.workspace.protocol import (
    CodeFinished,
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
from otolith.workspace.worker.captured import describe, type_name
from otolith.workspace.worker.namespace import Namespace
from otolith.workspace.worker.pickler import unpacked
from otolith.workspace.worker.process_state import Ambience
from otolith.workspace.worker.remote_state import Shadow
from otolith.workspace.worker.remote_store import RemoteHost
from otolith.workspace.worker.sources import Sources, untrapped
from otolith.workspace.worker.variables import Variables

_MOST_FIGURES = 50
_OURS = str(Path(__file__).parent)


@dataclass
class Outcome:
    """How a step ended."""

    value: Any = None
    failure: StepFailure | None = None
    was_interrupted: bool = False
    figures: list[Figure] = field(default_factory=list)


def execute(source: str, namespace: Namespace, sources: Sources) -> Outcome:
    """Run code. Whatever it raises is part of the outcome."""
    outcome, worker = Outcome(), os.getpid()
    try:
        compiled = sources.compile(source)
        for name in untrapped(compiled.body):
            namespace.warm_if_cold(name)
        with _interruptible():
            exec(compiled.body, namespace)  # noqa: S102  # this is what a worker is for
            if compiled.value is not None:
                outcome.value = eval(compiled.value, namespace)  # noqa: S307
    except BaseException as error:  # noqa: BLE001  # a step may raise anything, exits included
        outcome.was_interrupted = isinstance(error, KeyboardInterrupt)
        outcome.failure = failure_of(error)
    if os.getpid() != worker:
        os._exit(0)  # it was forked by the code, and came out of it like its parent
    _hold_interrupts()
    outcome.figures = _figures()
    _flush()
    return outcome


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let interrupts through; one that came before the code began to run comes now."""
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        yield
    finally:
        _hold_interrupts()


def _hold_interrupts() -> None:
    """Let those that come from now on wait for the next step; drop those that came too late."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def failure_of(error: BaseException) -> StepFailure:
    """Return what is told of an exception: of its frames, those of the session's code."""
    trace = error.__traceback__
    while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<step "):
        trace = trace.tb_next
    lines = traceback.TracebackException(type(error), error, trace, compact=True)
    # Of how a variable is fetched, the code that used it need not know.
    shown = [frame for frame in lines.stack if not frame.filename.startswith(_OURS)]
    lines.stack = traceback.StackSummary.from_list(shown)
    where = [frame.lineno for frame in lines.stack if frame.filename.startswith("<step ")]
    if isinstance(error, SyntaxError):
        where = [error.lineno]
    return StepFailure(
        type=type(error).__qualname__,
        message=_message(error),
        traceback=_text(lambda: "".join(lines.format())),
        line=where[0] if where else None,
    )


def _message(error: BaseException) -> str:
    said = _text(lambda: str(error))
    hint = getattr(error, "hint", "")
    return f"{said} ({hint})" if isinstance(hint, str) and hint and hint not in said else said


def _text(ask: Any) -> str:
    try:
        return str(ask()).encode("utf-8", "replace").decode()
    except Exception as error:  # noqa: BLE001  # the words of somebody else's exception
        return f"<{type(error).__name__} while it was put into words>"


def _figures() -> list[Figure]:
    """Return what was drawn, and close it, as a notebook does at the end of a cell."""
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


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001, S112  # code may have put anything there
            continue


_WIDTH = 100
_MOST_PARTS = 2000
_CONTAINERS = (dict, list, tuple, set, frozenset)


def show(value: object, *, most: int) -> str:
    """Return what a value looks like; what is left out is said. Nothing that it raises gets out."""
    try:
        text = _shown_text(value, most)
    except Exception as error:  # noqa: BLE001  # a repr is the user's, and may raise anything
        text = f"<{type_name(value)}, whose repr raised {type(error).__name__}>"
    text = text.encode("utf-8", "replace").decode()
    rest = len(text) - most
    return text if rest <= 0 else f"{text[:most]}\n… {rest:,} more characters"


def _shown_text(value: object, most: int) -> str:
    if _is_longer(value, most):
        return _bounded(most).repr(value)
    if isinstance(value, _CONTAINERS):
        return pformat(value, width=_WIDTH, sort_dicts=False, compact=True)
    return repr(value)


def _is_longer(value: Any, most: int) -> bool:
    """Tell whether a value has so many parts that it must not be put into words as a whole."""
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
    """Return what shows the beginning of everything, with dots where something is left out."""
    short = Repr()
    short.maxlist = short.maxtuple = short.maxset = short.maxfrozenset = 100
    short.maxdict = short.maxdeque = short.maxarray = 100
    short.maxstring = short.maxother = most
    short.maxlong = 1000
    short.maxlevel = 4
    return short


_MOST_VALUE_BYTES = 16 << 20


def live(line: socket.socket) -> None:
    """Do what the host says until it hangs up."""
    wire: Wire[ToWorker] = Wire(line, ToWorker)
    begin, _ = wire.receive()
    if not isinstance(begin, StartSession):
        raise Invalid(f"a worker begins with Begin, not {type(begin).__name__}", hint="a bug")
    _renew_streams()
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
    """One session in one process."""

    def __init__(self, host: RemoteHost, begin: StartSession) -> None:
        self._host = host
        self._begin = begin
        sys.path.insert(0, begin.work)
        self._ambience = Ambience(begin.work)
        self._variables: Variables | None = None

    def run(self, order: Run) -> WorkerResult:
        """Run one step and capture what it did."""
        began = perf_counter()
        variables = self._entered(order)
        refused = _take(order, variables)
        ready = perf_counter()
        outcome = refused or execute(order.code, variables.namespace, variables.sources)
        ran = perf_counter()
        self._host.wire.send(CodeFinished())
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
        return WorkerResult(
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
            shadow.start(order.roots or {}, order.preloaded)
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
