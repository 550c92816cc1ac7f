"""The talk with a worker while it runs a step: its questions answered, its output read, its time.

A worker is interrupted when its time is over, and killed when it does not react; or when the user
wishes so. Whatever it does to the line, the worst is that its step is lost.

Objects that arrive while a step is still being captured, made ready beside it.

Raw bytes of a state put together in sealed memory, for workers to map.

Nobody can change sealed memory, whoever has a descriptor of it, so one copy serves all workers of a
host. It is a cache within a limit: what is dropped is put together from its chunks again.

What a host answers to a worker: objects, memory, and whether a pickle can be trusted.

The foreman of a workspace: has a worker there for each step, briefs it, and lets it go.
"""

from __future__ import annotations

import os
import selectors
import signal
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import astuple, dataclass
from hmac import compare_digest
from pathlib import Path
from time import monotonic
from typing import Protocol, TypeAlias

from msgspec.structs import replace

from otolith.core import Branch, Cells, Claim, cell_claims, claims, totals
from otolith.errors import Error, Invalid
from otolith.stores import Prefetcher
from otolith.types import CHUNK_BYTES, Hash
from otolith.workspace.protocol import (
    Begin,
    Done,
    FromWorker,
    Gone,
    Handing,
    Map,
    Mapped,
    Objects,
    Ran,
    Read,
    Run,
    Vouch,
    Vouched,
    cut,
    seal,
)
from otolith.workspace.result_check import Look, Seen
from otolith.workspace.step import Output, Runner, Stop, Stopped, Wish
from otolith.workspace.variables import Tables
from otolith.workspace.worker_pool import WorkerLine, WorkerPool

_THREADS = 2


class Arrivals:
    """What has arrived of one step. Two threads look at it and let the store get ready for it."""

    def __init__(self, cells: Cells, *, limit_bytes: int) -> None:
        self._look = Look(cells.salt)
        self._store = cells.objects.stored.store
        self._left_bytes = limit_bytes
        self._pool: ThreadPoolExecutor | None = None
        self._coming: list[Future[list[Seen]]] = []

    def add(self, descriptor: int, sizes: Sequence[int]) -> None:
        """Take objects from sealed memory.

        Raises:
            Invalid: there are more than one step may hand over.
        """
        self._left_bytes -= sum(map(abs, sizes))
        if self._left_bytes < 0:
            os.close(descriptor)
            raise Invalid("a step hands over too much", hint="keep less in one step")
        self._pool = self._pool or ThreadPoolExecutor(_THREADS, "otolith-arrivals")
        self._coming.append(self._pool.submit(self._take, descriptor, sizes))

    def all(self) -> list[Seen]:
        """Return everything, in the order in which it came.

        Raises:
            Invalid: something was not what a worker may hand over.
        """
        return [seen for each in self._coming for seen in each.result()]

    def close(self) -> None:
        """Wait for the threads, and end them."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=False)

    def _take(self, descriptor: int, sizes: Sequence[int]) -> list[Seen]:
        try:
            pieces = cut(descriptor, sizes)
        except (OSError, ValueError) as error:
            raise Invalid(f"{error}", hint="nothing was committed") from None
        finally:
            os.close(descriptor)
        if isinstance(self._store, Prefetcher):
            return list(map(self._look, pieces, self._store.expect(pieces)))
        return list(map(self._look, pieces))


class Pieces:
    """Memory by the cell whose raw bytes are in it."""

    def __init__(self, *, limit_bytes: int = 2 << 30) -> None:
        self._limit = limit_bytes
        self._known: OrderedDict[bytes, tuple[int, int]] = OrderedDict()
        self._total = 0

    def get(self, cells: Cells, cell: bytes) -> tuple[int, int]:
        """Return a descriptor of the raw bytes of a cell, and how many there are.

        Raises:
            Invalid: they are not raw bytes.
        """
        if cell not in self._known:
            made, size = _put_together(cells, cell)
            self._make_room(size)
            self._known[cell] = made, size
            self._total += size
        self._known.move_to_end(cell)
        return self._known[cell]

    def close(self) -> None:
        """Give all memory back."""
        self._make_room(self._limit + self._total)

    def _make_room(self, size: int) -> None:
        while self._known and self._total + size > self._limit:
            _, (descriptor, freed) = self._known.popitem(last=False)
            os.close(descriptor)
            self._total -= freed


def _is_raw(cells: Cells, cell: bytes) -> bool:
    """Tell by its first element whether a list may be raw bytes; only that is read."""
    first = next(iter(cells.elements(cell, 0, 1)), None)
    if first is not None and cells.kind(first) == "list":
        first = next(iter(cells.elements(first, 0, 1)), None)
    return first is not None and cells.kind(first) == "bytes"


def _put_together(cells: Cells, cell: bytes) -> tuple[int, int]:
    if not _is_raw(cells, cell):
        raise Invalid("a list is no raw bytes", hint="read it chunk by chunk")
    return seal(_raws(cells.load_all(cells.elements(cell))))


def _raws(parts: list[object]) -> list[list[bytes]]:
    """Return raw bytes, each as its chunks: one, or the many that a long text is cut into."""
    raws: list[list[bytes]] = []
    for each in [parts] if parts and type(parts[0]) is bytes else parts:
        if type(each) is not list or any(type(chunk) is not bytes for chunk in each):
            raise Invalid("a list is no raw bytes", hint="read it chunk by chunk")
        if any(len(chunk) != CHUNK_BYTES for chunk in each[:-1]):
            raise Invalid("raw bytes are cut at other places", hint="read it chunk by chunk")
        raws.append(each)
    return raws


Sign: TypeAlias = Callable[[str, bytes], bytes]
"""Returns what proves that this repo has put some content into a place."""


_LIST = b"l"
_ALONG_BYTES = 4 << 20
_MAPPED_BYTES = 1 << 20
_READ_FIRST = ("vars", "ambient", "classes", "data", "objects", "signatures")


def _is_short(claim: Claim) -> bool:
    return claim.totals.size < _MAPPED_BYTES


def _is_short_list(data: bytes) -> bool:
    """Tell whether an object is a list, and not one of those that are mapped."""
    total = totals(data) if data[:1] == _LIST else None
    return total is not None and total.size < _MAPPED_BYTES


class FromState:
    """Answers from a state: what is stored, and what is staged."""

    def __init__(self, state: Branch, sign: Sign) -> None:
        self._state = state
        self._sign = sign
        self._pieces = Pieces()

    def read(self, hashes: list[bytes]) -> list[bytes | None]:
        """Return objects, None where there is none."""
        objects = self._state.cells.objects
        wanted = [hash for hash in map(Hash, hashes) if hash in objects.fresh]
        fresh = {hash: objects.fresh[hash].data for hash in wanted}
        missing = [Hash(hash) for hash in hashes if hash not in fresh]
        found = fresh | (objects.stored.store.read(missing) if missing else {})
        return [found.get(Hash(hash)) for hash in hashes]

    def tops(self, roots: Mapping[str, bytes]) -> list[bytes]:
        """Return the objects at the top of tables, which a worker reads before anything else."""
        claimed = [claim for name in _READ_FIRST for claim in cell_claims(roots.get(name, b"\xc0"))]
        found = self.read([claim.hash for claim in claimed if _is_short(claim)])
        return [data for data in found if data is not None]

    def below(self, found: list[bytes | None]) -> list[bytes]:
        """Return what is below short lists: whoever reads one mostly reads all of it."""
        more: list[bytes] = []
        waiting = [data for data in found if data is not None and _is_short_list(data)]
        size = 0
        while waiting and size < _ALONG_BYTES:
            wanted = [claim.hash for data in waiting for claim in claims(data) if _is_short(claim)]
            answers = self.read(list(wanted))
            waiting = [data for data in answers if data is not None]
            more += waiting
            size += sum(map(len, waiting))
        return more

    def piece(self, cell: bytes) -> tuple[int, int] | None:
        """Return a descriptor of raw bytes in one piece, and how many; None if there is none."""
        try:
            return self._pieces.get(self._state.cells, cell)
        except (Error, OSError, AttributeError, ValueError, IndexError):
            return None

    def vouches(self, place: str, cell: bytes, signature: bytes) -> bool:
        """Tell whether this repo has put a pickle into its place."""
        return compare_digest(self._sign(place, cell), signature)

    def arrivals(self, limit_bytes: int) -> Arrivals:
        """Return what takes the objects of a step that come before its end."""
        return Arrivals(self._state.cells, limit_bytes=limit_bytes)

    def close(self) -> None:
        """Give all memory back."""
        self._pieces.close()


class Answers(Protocol):
    """What a worker may ask for."""

    def read(self, hashes: list[bytes]) -> list[bytes | None]: ...
    def below(self, found: list[bytes | None]) -> list[bytes]: ...
    def piece(self, cell: bytes) -> tuple[int, int] | None: ...
    def vouches(self, place: str, cell: bytes, signature: bytes) -> bool: ...
    def arrivals(self, limit_bytes: int) -> Arrivals: ...


@dataclass
class StepEnd:
    """How a talk ended: with what was done, or with why there is nothing."""

    done: Done | None
    stopped: Stopped | None = None
    why: str = ""
    arrived: Sequence[Seen] = ()  # before the end
    is_settled: bool = True  # False: an interrupt may be on its way to the worker yet


class StepExchange:
    """One step of one worker."""

    def __init__(
        self, crew: WorkerPool, worker: WorkerLine, answers: Answers, runner: Runner, stop: Stop
    ) -> None:
        self._crew = crew
        self._worker = worker
        self._answers = answers
        self._runner = runner
        self._stop = stop
        self._stopped: Stopped | None = None
        self._interrupts = 0
        self._has_run = False
        self._next: Callable[[], None] = self._interrupt
        self._deadline = monotonic() + runner.wall_seconds
        self._done: Done | None = None
        self._arrivals = answers.arrivals(runner.handover_bytes)

    def run(self, order: Run, output: Output, errors: Output) -> StepEnd:
        """Let the worker run a step; return when it is done, or is no more."""
        worker = self._worker
        try:
            worker.wire.send(order)
            self._listen(output, errors)
            arrived = self._arrivals.all()
        except Gone:
            arrived = []
        except Invalid as error:
            self._crew.signal(worker, signal.SIGKILL)
            return StepEnd(None, self._stopped, error.message)
        finally:
            self._arrivals.close()
        output.drain(worker.output)
        errors.drain(worker.errors)
        if self._done is None:
            return StepEnd(None, self._stopped, self._cause())
        is_stopped = not self._done.ok
        is_settled = self._interrupts == int(self._done.was_interrupted)
        stopped = self._stopped if is_stopped else None
        return StepEnd(self._done, stopped, arrived=arrived, is_settled=is_settled)

    def _listen(self, output: Output, errors: Output) -> None:
        worker, crew = self._worker, self._crew
        with selectors.DefaultSelector() as waiting:
            waiting.register(worker.wire.line, selectors.EVENT_READ, self._answer)
            for stream, descriptor in ((output, worker.output), (errors, worker.errors)):
                waiting.register(descriptor, selectors.EVENT_READ, (stream, descriptor))
            control = crew.control
            if control is not None:
                waiting.register(control, selectors.EVENT_READ, crew.hear)
            waiting.register(self._stop.line, selectors.EVENT_READ, self._heed)
            self._heed()  # what was wished for while the worker was made
            while self._done is None and worker.ended is None:
                self._wait(waiting)

    def _wait(self, waiting: selectors.BaseSelector) -> None:
        ready = waiting.select(max(0.0, self._deadline - monotonic()))
        for key, _ in ready:
            if isinstance(key.data, tuple):
                stream, descriptor = key.data
                if not stream.read(descriptor):
                    waiting.unregister(descriptor)
            else:
                key.data()
        if monotonic() >= self._deadline:
            self._next()

    def _heed(self) -> None:
        """Do what the user wishes. Code that has run is not interrupted: it is being captured."""
        for wish in self._stop.wishes():
            if wish == "killed":
                self._stopped = wish
                self._kill()
            elif not self._has_run:
                self._stopped = wish
                self._send_interrupt()

    def _send_interrupt(self) -> None:
        self._interrupts += 1
        self._crew.signal(self._worker, signal.SIGINT)

    def _interrupt(self) -> None:
        self._stopped = "timed out"
        self._send_interrupt()
        self._deadline, self._next = monotonic() + self._runner.grace_seconds, self._kill

    def _kill(self) -> None:
        self._crew.signal(self._worker, signal.SIGKILL)
        self._deadline, self._next = monotonic() + self._runner.grace_seconds, self._give_up

    def _give_up(self) -> None:
        self._crew.close()

    def _answer(self) -> None:
        question, descriptors = self._worker.wire.receive()
        if isinstance(question, Handing) and len(descriptors) == 1:
            self._arrivals.add(descriptors.pop(), question.sizes)
        for descriptor in descriptors:  # it has none to send
            os.close(descriptor)
        if isinstance(question, Done):
            self._done = question
        elif isinstance(question, Ran):
            self._has_run = True
            self._deadline = monotonic() + self._runner.capture_seconds
            self._next = self._kill
        else:
            self._reply(question)

    def _reply(self, question: FromWorker) -> None:
        wire, answers = self._worker.wire, self._answers
        if isinstance(question, Read):
            found = answers.read(question.hashes)
            wire.send(Objects(found, answers.below(found)))
        elif isinstance(question, Map):
            memory = answers.piece(question.cell)
            if memory is None:
                wire.send(Mapped(0, "it is not to be had in one piece"))
            else:
                wire.send(Mapped(memory[1]), [memory[0]])
        elif isinstance(question, Vouch):
            is_signed = answers.vouches(question.place, question.cell, question.signature)
            wire.send(Vouched(is_signed))

    def _cause(self) -> str:
        code = self._worker.ended
        if code is None and self._crew.control is not None:
            self._worker.wire.close()
            code = self._wait_for_end()
        if self._stopped == "killed":
            return "it was killed"
        if self._stopped == "timed out":
            return f"it took longer than {self._runner.wall_seconds:g} s and did not stop"
        if self._worker.why:
            return self._worker.why
        if code is not None and code < 0:
            return f"its process was ended by {_signal_name(-code)}"
        return f"its process ended with exit code {code}"

    def _wait_for_end(self) -> int | None:
        with selectors.DefaultSelector() as waiting:
            control = self._crew.control
            if control is None:
                return self._worker.ended
            waiting.register(control, selectors.EVENT_READ)
            deadline = monotonic() + self._runner.grace_seconds
            while self._worker.ended is None and monotonic() < deadline:
                if waiting.select(max(0.0, deadline - monotonic())):
                    self._crew.hear()
        return self._worker.ended


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class StepRunner:
    """The processes of a workspace: none until there is a step to run."""

    def __init__(self, state: Branch, path: Path, runner: Runner, answers: FromState) -> None:
        self._state = state
        self._tables = Tables(state)
        self._path = path
        self._runner = runner
        self._answers = answers
        self._stop = Stop()
        self.crew: WorkerPool | None = None
        self._folder_number = 0
        self._worker: WorkerLine | None = None
        self._worker_head: str | None = None  # the commit that a warm worker is at

    def work(self, order: Run, output: Output, errors: Output) -> StepEnd:
        """Let a worker do a step. If this is left by an exception, nothing of the step remains."""
        self._stop.begin()
        try:
            ending = self._talk(order, output, errors)
        except BaseException:
            self._give_up()
            raise
        finally:
            self._stop.end()
        if ending.done is None or self._runner.mode == "cold" or not ending.is_settled:
            self.dismiss()
        elif self.crew is not None:
            self.crew.sweep()
        return ending

    def ask(self, wish: Wish) -> bool:
        """Stop the step that runs; tell whether there is one."""
        return self._stop.ask(wish)

    def arrived(self, commit: str, modules: list[str]) -> None:
        """Note the commit of the last step; a worker for the next one is made meanwhile."""
        if self._worker is not None:
            self._worker_head = commit
        elif self.crew is not None:
            self.crew.make_ready(modules)

    def dismiss(self) -> None:
        """Let the worker go, if there is one."""
        worker, self._worker, self._worker_head = self._worker, None, None
        if worker is not None:
            worker.close()

    def _give_up(self) -> None:
        """End everything: who was about to say what is not known any more."""
        self.dismiss()
        if self.crew is not None:
            self.crew.close()

    def close(self) -> None:
        """End all processes."""
        self.dismiss()
        if self.crew is not None:
            self.crew.close()
        self._stop.close()

    @property
    def sandbox(self) -> str:
        """What steps run in, or what was asked for if none has run yet."""
        return self.crew.sandbox.name if self.crew is not None else self._runner.sandbox

    def _talk(self, order: Run, output: Output, errors: Output) -> StepEnd:
        crew = self._crew_here()
        worker = self._worker_for(crew)
        head = self._state.head
        if head is not None and self._worker_head == head.id:
            order = replace(order, roots=None)
        else:
            order = replace(order, along=self._answers.tops(order.roots or {}))
        talk = StepExchange(crew, worker, self._answers, self._runner, self._stop)
        return talk.run(order, output, errors)

    def _crew_here(self) -> WorkerPool:
        """Return the crew; if the folder is another one than it was, a new one that sees it."""
        self._path.mkdir(parents=True, exist_ok=True)
        folder = self._path.stat().st_ino
        if self.crew is not None and folder != self._folder_number:
            self.dismiss()
            self.crew.close()
            self.crew = None
        self._folder_number = folder
        self.crew = self.crew or WorkerPool(self._runner, self._path)
        return self.crew

    def _worker_for(self, crew: WorkerPool) -> WorkerLine:
        if self._worker is not None:
            crew.catch_up()
        if self._worker is None or self._worker.ended is not None:
            self.dismiss()
            self._worker = crew.fork(self._tables.modules)
            self._worker.wire.send(
                Begin(
                    salt=self._state.cells.salt,
                    config=self._tables.config(),
                    work=str(self._path),
                    limits=list(astuple(self._runner.limits)),
                    resources=self._tables.resources,
                    shown_chars=self._runner.shown_chars,
                )
            )
        return self._worker
