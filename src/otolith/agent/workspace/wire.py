"""Messages between a host and a worker: typed, length-prefixed, with file descriptors beside them.

Whatever a worker sends is decoded into one of the classes below or refused: it is data and nothing
else. A message that carries descriptors sends them with its first byte.
"""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

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
