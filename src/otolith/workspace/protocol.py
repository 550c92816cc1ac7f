"""What host, nursery and worker say to each other.

The *host* is the process of the user. The *nursery* is started once for a session, inside the
sandbox, with everything imported; it forks a *worker* for each step, or for many. A worker asks the
host for what it reads and hands over what it made; it has no other way to a store.

Messages between a host and a worker: typed, length-prefixed, with file descriptors beside them.

Whatever a worker sends is decoded into one of the classes below or refused: it is data and nothing
else. A message that carries descriptors sends them with its first byte.

Memory that is handed from process to process, sealed so that nobody can change it any more.
"""

from __future__ import annotations

import array
import fcntl
import mmap
import os
import socket
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from otolith.errors import Invalid, Unavailable

_HEADER_BYTES = 8
_MOST_FDS = 8
_LONG_BYTES = 1 << 20
"""From this length on a message goes through memory that is handed over, which is faster."""

_IN_MEMORY = 1 << 63

Received = TypeVar("Received")


class Message(msgspec.Struct, tag=True, frozen=True):
    """What is sent."""


class Gone(Unavailable):
    """The other side has hung up."""

    kind = "worker_gone"


class Wire(Generic[Received]):
    """One end of a line over which messages of some types come in."""

    def __init__(self, line: socket.socket, receives: Any, *, limit_bytes: int = 8 << 30) -> None:
        self.line = line
        self._limit = limit_bytes
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(receives).decode

    def send(self, message: Message, fds: Sequence[int] = ()) -> None:
        """Send a message, and copies of descriptors.

        Raises:
            Gone: nobody is there any more.
        """
        body = self._encode(message)
        memory = _in_memory(body) if len(body) >= _LONG_BYTES else None
        size = len(body) | (0 if memory is None else _IN_MEMORY)
        try:
            self._send_header(size, [*fds, *([] if memory is None else [memory])])
            if memory is None:
                self.line.sendall(body)
        except OSError as error:
            raise Gone(f"the other side has hung up: {error}", hint="start a new one") from error
        finally:
            if memory is not None:
                os.close(memory)

    def _send_header(self, size: int, fds: Sequence[int]) -> None:
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.line.sendmsg([size.to_bytes(_HEADER_BYTES, "big")], ancillary)

    def receive(self) -> tuple[Received, list[int]]:
        """Wait for a message; return it with the descriptors that came along.

        Raises:
            Gone: nobody is there any more.
            Invalid: what came is no message.
        """
        header, fds = self._header()
        size = int.from_bytes(header, "big")
        memory = fds.pop() if size & _IN_MEMORY and fds else None
        size &= ~_IN_MEMORY
        if size > self._limit:
            _close([*fds, *([] if memory is None else [memory])])
            raise Invalid(f"a message of {size:,} bytes is too long", hint="keep less in one step")
        try:
            body = self._exactly(size) if memory is None else _read_memory(memory, size)
            return self._decode(body), fds
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            _close(fds)
            raise Invalid(f"this is no message: {error}", hint="do not write to the line") from None

    def close(self) -> None:
        """Hang up."""
        self.line.close()

    def _header(self) -> tuple[bytes, list[int]]:
        room = socket.CMSG_SPACE(_MOST_FDS * array.array("i").itemsize)
        try:
            data, ancillary, _, _ = self.line.recvmsg(_HEADER_BYTES, room)
        except OSError as error:
            raise Gone(f"the other side has hung up: {error}", hint="start a new one") from error
        fds = array.array("i")
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
        if not data:
            raise Gone("the other side has hung up", hint="start a new one")
        return data + self._exactly(_HEADER_BYTES - len(data)), list(fds)

    def _exactly(self, size: int) -> bytearray:
        body = bytearray(size)
        view, at = memoryview(body), 0
        while at < size:
            try:
                count = self.line.recv_into(view[at:])
            except OSError as error:
                raise Gone(f"the other side has hung up: {error}", hint="begin anew") from error
            if not count:
                raise Gone("the other side has hung up in mid-sentence", hint="start a new one")
            at += count
        return body


def _in_memory(body: bytes) -> int | None:
    """Return a descriptor of memory with these bytes; None where the system has no such thing."""
    if not hasattr(os, "memfd_create"):
        return None
    memory = os.memfd_create("otolith-message", os.MFD_CLOEXEC)
    rest = memoryview(body)
    while rest:
        rest = rest[os.write(memory, rest) :]
    return memory


def _read_memory(memory: int, size: int) -> bytearray:
    """Return a copy of memory that the other side could still write to."""
    body = bytearray(size)
    view, at = memoryview(body), 0
    try:
        while at < size and (count := os.preadv(memory, [view[at:]], at)):
            at += count
    finally:
        os.close(memory)
    return body


def _close(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)


class Fork(Message, frozen=True):
    """Host to nursery: fork a worker; its line, and where its output goes, come along."""


class Signal(Message, frozen=True):
    """Host to nursery: send a signal to a worker."""

    pid: int
    number: int


class Learn(Message, frozen=True):
    """Host to nursery: import these, so that workers find them imported."""

    modules: list[str]


class Sweep(Message, frozen=True):
    """Host to nursery: end what steps have started and left behind."""


class Ready(Message, frozen=True):
    """Nursery to host: everything is imported; what is known of Python here."""

    python: str
    sandbox: str


class Forked(Message, frozen=True):
    """Nursery to host: the worker that was asked for, by its id."""

    pid: int


class Ended(Message, frozen=True):
    """Nursery to host: a worker is no more; its exit code, or minus the signal that ended it."""

    pid: int
    code: int
    why: str = ""  # where the nursery ended it


class Begin(Message, frozen=True):
    """Host to worker: what a worker is told once."""

    salt: int
    config: bytes
    work: str
    limits: list[int | None]
    resources: dict[str, str] = msgspec.field(default_factory=dict)
    shown_chars: int = 10_000


class Run(Message, frozen=True):
    """Host to worker: run this code on a state, given as the cells at its top."""

    code: str
    step: int
    roots: dict[str, bytes] | None  # None: go on from what you handed over last
    # Variables to set first: as cells, and as the pickle of a dict.
    put: dict[str, bytes] = msgspec.field(default_factory=dict)
    pickled: bytes = b""
    along: list[bytes] = msgspec.field(default_factory=list)  # objects that will be asked for first


class Objects(Message, frozen=True):
    """Host to worker: the objects that were asked for, in order; None where there is none.

    More come along that will be asked for next.
    """

    found: list[bytes | None]
    more: list[bytes] = msgspec.field(default_factory=list)


class Mapped(Message, frozen=True):
    """Host to worker: raw bytes in one piece, in the memory that comes along; or why not."""

    size_bytes: int
    refused: str = ""


class Vouched(Message, frozen=True):
    """Host to worker: whether a pickle is one that this repo has signed."""

    is_signed: bool


class Read(Message, frozen=True):
    """Worker to host: give me these objects."""

    hashes: list[bytes]


class Map(Message, frozen=True):
    """Worker to host: give me the raw bytes that this cell links to, in one piece."""

    cell: bytes


class Vouch(Message, frozen=True):
    """Worker to host: is this pickle, given by its place and cell, one that was signed here?"""

    place: str
    cell: bytes
    signature: bytes


class Handed(msgspec.Struct, array_like=True, frozen=True):
    """An object that a worker made, and an older one that it resembles."""

    data: bytes
    base: bytes | None = None


class Figure(msgspec.Struct, frozen=True):
    """A picture that was drawn."""

    number: int
    png: bytes


class Failure(msgspec.Struct, frozen=True):
    """What code raised."""

    type: str
    message: str
    traceback: str
    line: int | None = None


class Ran(Message, frozen=True):
    """Worker to host: the code has run; what it did is being captured."""


class Handing(Message, frozen=True):
    """Worker to host: objects that what I will hand over needs; their bytes are in sealed memory.

    There is no answer to it.
    """

    sizes: list[int]


class Done(Message, frozen=True):
    """Worker to host: the step is over; what it did, and the state after it."""

    ok: bool
    value: str | None
    value_type: str | None
    failure: Failure | None
    was_interrupted: bool
    cells: dict[str, bytes | None]
    objects: list[Handed]
    created: list[str]
    changed: list[str]
    deleted: list[str]
    lost: dict[str, str]
    loaded: list[str]
    pickles: list[str]
    figures: list[Figure]
    modules: list[str]
    seconds: dict[str, float]


ToNursery: TypeAlias = Fork | Signal | Learn | Sweep
FromNursery: TypeAlias = Ready | Forked | Ended
ToWorker: TypeAlias = Begin | Run | Objects | Mapped | Vouched
FromWorker: TypeAlias = Read | Map | Vouch | Ran | Handing | Done


_SEALS = 0x1 | 0x2 | 0x4 | 0x8  # nobody seals, shrinks, grows or writes to it any more
_ADD_SEALS, _GET_SEALS = 1033, 1034
_AT_ONCE = 512  # the system takes up to 1,024 pieces in one call


def seal(parts: Iterable[Sequence[bytes]]) -> tuple[int, int]:
    """Return a descriptor of memory with these bytes, and how many there are.

    Raises:
        OSError: there is no memory to be had.
    """
    descriptor = os.memfd_create("otolith", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        size = sum(_write(descriptor, some) for some in parts)
        fcntl.fcntl(descriptor, _ADD_SEALS, _SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, size


def cut(descriptor: int, sizes: Sequence[int]) -> list[bytes]:
    """Return the bytes in memory that somebody has sealed, cut into pieces.

    Raises:
        ValueError: it is not sealed, or is not as long as the pieces are together.
    """
    size = sum(sizes)
    if fcntl.fcntl(descriptor, _GET_SEALS) & _SEALS != _SEALS:
        raise ValueError("memory that was handed over can still be written to")
    if min(sizes, default=0) < 1 or os.fstat(descriptor).st_size != size:
        raise ValueError("memory that was handed over has another size than was said")
    pieces, at = [], 0
    with mmap.mmap(descriptor, size, prot=mmap.PROT_READ) as memory:
        for each in sizes:
            pieces.append(memory[at : at + each])
            at += each
    return pieces


def _write(descriptor: int, parts: Sequence[bytes]) -> int:
    for start in range(0, len(parts), _AT_ONCE):
        some = parts[start : start + _AT_ONCE]
        written, whole = os.writev(descriptor, some), sum(map(len, some))
        if written < whole:  # more than the system takes in one call
            rest = memoryview(b"".join(some))[written:]
            while rest:
                rest = rest[os.write(descriptor, rest) :]
    return sum(map(len, parts))
