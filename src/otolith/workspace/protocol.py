"""The messages between host, fork server and worker.

The *host* is the process of the user. The *fork server* is started once for a session, inside the
sandbox, with everything imported; it forks a *worker* for each step, or one for many steps. A
worker requests what it reads from the host and sends back what it made; it cannot reach a store in
any other way.

Whatever a worker sends is decoded into one of the classes below or refused (`wire.py`): it is data
and nothing else. The fork server is trusted no more than a worker: it runs in the same sandbox, and
imports what steps have imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec

from otolith.types import Hash
from otolith.workspace.wire import WireMessage


class Host(Protocol):
    """The requests of a session to its host: objects, memory, and checks of signatures."""

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that exist, by hash."""

    def map(self, cell: bytes) -> tuple[int, int] | None:
        """Return a descriptor of the raw bytes of a cell and their length; None if refused."""

    def is_signed(self, place: str, cell: bytes, signature: bytes) -> bool:
        """Tell whether this repo has signed the pickle at a place."""

    def send_early(self, objects: Sequence[bytes]) -> bool:
        """Send objects before the end of a step; tell whether the host accepts that."""


class Fork(WireMessage, frozen=True):
    """Host to fork server: fork a worker. Descriptors: its socket, its stdout, its stderr."""


class Signal(WireMessage, frozen=True):
    """Host to fork server: send a signal to a worker."""

    pid: int
    number: int


class ImportModules(WireMessage, frozen=True):
    """Host to fork server: import these modules, so that workers start with them."""

    modules: list[str]


class EndOrphans(WireMessage, frozen=True):
    """Host to fork server: end processes that steps have started and left running."""


class Ready(WireMessage, frozen=True):
    """Fork server to host: everything is imported, and workers can be forked."""


class WorkerStart(WireMessage, frozen=True):
    """Fork server to host: the process id of the worker that `Fork` requested."""

    pid: int


class WorkerExit(WireMessage, frozen=True):
    """Fork server to host: a worker has ended, with this exit code or minus the signal."""

    pid: int
    code: int
    why: str = ""  # if the fork server ended it


class StartSession(WireMessage, frozen=True):
    """Host to worker: the settings of the session, sent once before the first step."""

    config: bytes
    work: str
    limits: list[int | None]
    resources: dict[str, str] = msgspec.field(default_factory=dict)
    shown_chars: int = 10_000


class Run(WireMessage, frozen=True):
    """Host to worker: run this code on a state, given by the root cells of its tables."""

    code: str
    step: int
    roots: dict[str, bytes] | None  # None: continue from the state that the last step left
    # Variables to set before the code runs: as cells, and as the pickle of a dict.
    put: dict[str, bytes] = msgspec.field(default_factory=dict)
    pickled: bytes = b""
    preloaded: list[bytes] = msgspec.field(default_factory=list)  # objects that are needed first


class ObjectsReply(WireMessage, frozen=True):
    """Host to worker: the first of the requested objects; None for one that does not exist.

    The worker requests the rest again. `more` has objects that it will probably need next.
    """

    found: list[bytes | None]
    more: list[bytes] = msgspec.field(default_factory=list)


class MemoryReply(WireMessage, frozen=True):
    """Host to worker: raw bytes in the memory whose descriptor is attached, or why not."""

    size_bytes: int
    refused: str = ""


class SignatureReply(WireMessage, frozen=True):
    """Host to worker: whether this repo has signed a pickle."""

    is_signed: bool


class Read(WireMessage, frozen=True):
    """Worker to host: return these objects."""

    hashes: list[bytes]


class Map(WireMessage, frozen=True):
    """Worker to host: return the raw bytes that this cell links to as one block of memory."""

    cell: bytes


class CheckSignature(WireMessage, frozen=True):
    """Worker to host: tell whether the pickle in this cell was signed for this place."""

    place: str
    cell: bytes
    signature: bytes


class NewObject(msgspec.Struct, array_like=True, frozen=True):
    """An object that a worker made, and the hash of an older one that it resembles."""

    data: bytes
    base: bytes | None = None


class Figure(msgspec.Struct, frozen=True):
    """A figure of matplotlib, drawn."""

    number: int
    png: bytes


class StepFailure(msgspec.Struct, frozen=True):
    """The exception that ended a step, as text; `type` is "WorkerDied" if its process died."""

    type: str
    message: str
    traceback: str
    line: int | None = None


class CodeEnd(WireMessage, frozen=True):
    """Worker to host: the code has run, and the capture of its changes begins."""


class EarlyObjects(WireMessage, frozen=True):
    """Worker to host: objects that the result will need, in sealed memory; it gets no reply."""

    sizes: list[int]


class WorkerResult(WireMessage, frozen=True):
    """Worker to host: the step is over; what it did, and the state after it."""

    ok: bool
    value: str | None
    failure: StepFailure | None
    was_interrupted: bool
    cells: dict[str, bytes | None]
    objects: list[NewObject]
    created: list[str]
    changed: list[str]
    deleted: list[str]
    lost: dict[str, str]
    loaded: list[str]
    pickles: list[str]
    figures: list[Figure]
    modules: list[str]
    seconds: dict[str, float]


ToForkServer: TypeAlias = Fork | Signal | ImportModules | EndOrphans
FromForkServer: TypeAlias = Ready | WorkerStart | WorkerExit
ToWorker: TypeAlias = StartSession | Run | ObjectsReply | MemoryReply | SignatureReply
FromWorker: TypeAlias = Read | Map | CheckSignature | CodeEnd | EarlyObjects | WorkerResult
