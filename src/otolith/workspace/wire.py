"""One end of a socket between a host and a worker: typed messages, file descriptors, sealed memory.

    8 bytes      the length of the body, big-endian; the highest bit: the body is in memory
    body         MessagePack; absent if it is in sealed memory, whose descriptor is the last one
    descriptors  attached to the first byte, and to no other

Rules that hold against a hostile sender:

1. Nothing waits for the sender. `poll` takes what has arrived and `send` writes what the socket
   accepts; on a non-blocking socket both leave the rest for later. The owner of the socket decides
   how long to wait, together with its clock and its other sockets.
2. Memory grows with what has arrived. A length is compared with the limit and reserves nothing.
3. Unexpected descriptors are closed: those that come with a later byte by the kernel, those that
   are too many or come with a broken message here.
4. What is not a message of the expected types is `Invalid`; the socket cannot be used after that.
5. Memory from a process that is not trusted is checked before it is read (`check_sealed`): it must
   be memory and not a pipe, file or folder; sealed, so that nobody can change it while it is read;
   as long as announced; and fully allocated. A sparse memory costs its maker nothing, and a reader
   all of it.
"""

from __future__ import annotations

import array
import fcntl
import mmap
import os
import socket
import stat
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from otolith.errors import Invalid, Unavailable

_HEADER_BYTES = 8
_MOST_FDS = 8
_LONG_BYTES = 1 << 20  # from this length on a message is sent as sealed memory, which is faster
_IN_MEMORY = 1 << 63
_READ_BYTES = 1 << 18
_POLL_BYTES = 4 << 20  # `poll` returns after reading so much, so that its caller sees the clock
_CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)

_SEALS = 0x1 | 0x2 | 0x4 | 0x8  # no more sealing, shrinking, growing or writing
_ADD_SEALS, _GET_SEALS = 1033, 1034
_BLOCK_BYTES = 512  # the unit of st_blocks, whatever the file system
_BUFFERS_PER_WRITE = 512  # the kernel takes up to 1,024 in one call

Received = TypeVar("Received")


class WireMessage(msgspec.Struct, tag=True, frozen=True):
    """The base of all messages; their classes are in `protocol.py`."""


class PeerGone(Unavailable):
    """The process at the other end has closed its socket or has ended."""

    kind = "worker_gone"

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="start a new one")


# Sealed memory


def seal(parts: Iterable[Sequence[bytes]]) -> tuple[int, int]:
    """Return a descriptor of sealed memory that holds these bytes, and their number.

    Raises:
        OSError: there is not enough memory.
    """
    descriptor = os.memfd_create("otolith", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        size = sum(_write_all(descriptor, buffers) for buffers in parts)
        fcntl.fcntl(descriptor, _ADD_SEALS, _SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, size


def check_sealed(descriptor: int, size: int) -> None:
    """Refuse what is not sealed memory of this size, before anything is mapped or copied.

    Raises:
        ValueError: it is something else, is not sealed, or has another size.
    """
    status = os.fstat(descriptor)
    try:
        seals = fcntl.fcntl(descriptor, _GET_SEALS) if stat.S_ISREG(status.st_mode) else None
    except OSError:  # a file system without seals
        seals = None
    if seals is None:
        raise ValueError("the descriptor is not one of memory")
    if seals & _SEALS != _SEALS:
        raise ValueError("the memory is not sealed: it can still be written to")
    if size < 1 or status.st_size != size:
        raise ValueError(f"the memory has {status.st_size:,} bytes, announced were {size:,}")
    if status.st_blocks * _BLOCK_BYTES < size:
        raise ValueError("the memory is sparse: most of it is not allocated")


def read_sealed(descriptor: int, sizes: Sequence[int]) -> list[bytes]:
    """Return the bytes in sealed memory, cut into pieces of these sizes.

    Raises:
        ValueError: it is not sealed, or its size is not the sum of the sizes.
    """
    size = sum(sizes)
    check_sealed(descriptor, size if min(sizes, default=0) > 0 else 0)
    pieces, start = [], 0
    with _map(descriptor, size) as memory:
        for each in sizes:
            pieces.append(memory[start : start + each])
            start += each
    return pieces


def _map(descriptor: int, size: int) -> mmap.mmap:
    """Map memory that was checked: memory that is not sealed can vanish while it is read."""
    return mmap.mmap(descriptor, size, prot=mmap.PROT_READ)


def _write_all(descriptor: int, buffers: Sequence[bytes]) -> int:
    """Write buffers to a descriptor; return the number of bytes."""
    for start in range(0, len(buffers), _BUFFERS_PER_WRITE):
        some = buffers[start : start + _BUFFERS_PER_WRITE]
        written = os.writev(descriptor, some)
        if written < sum(map(len, some)):  # more than the kernel takes in one call
            rest = memoryview(b"".join(some))[written:]
            while rest:
                rest = rest[os.write(descriptor, rest) :]
    return sum(map(len, buffers))


# Messages


@dataclass
class _QueuedMessage:
    """A message that is being sent: the bytes left, and the descriptors for its first byte."""

    rest: memoryview
    fds: list[int]
    owned: list[int]  # closed when the first byte is out

    def send_some(self, line: socket.socket) -> bool:
        """Send as much as the socket accepts; tell whether that was all."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", self.fds))]
        count = line.sendmsg([self.rest], rights if self.fds else [])
        if count:
            self.fds = []
            self.close()
        self.rest = self.rest[count:]
        return not self.rest

    def own_descriptors(self) -> None:
        """Duplicate the descriptors: the sender may close its own before they are sent."""
        self.fds = [fd if fd in self.owned else os.dup(fd) for fd in self.fds]
        self.owned = list(self.fds)

    def close(self) -> None:
        """Close the descriptors that belong to this message."""
        owned, self.owned = self.owned, []
        _close_all(owned)


class Wire(Generic[Received]):
    """One end of a socket on which messages of certain types arrive.

    A message may not be longer than `limit_bytes`, and may not have more than `most_fds`
    descriptors, including the one of its own memory.
    """

    def __init__(
        self,
        line: socket.socket,
        receives: Any,
        *,
        limit_bytes: int = 8 << 30,
        most_fds: int = _MOST_FDS,
    ) -> None:
        self.line = line
        self.limit_bytes = limit_bytes
        self._most_fds = most_fds
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(receives).decode
        self._outgoing: deque[_QueuedMessage] = deque()
        self._header = bytearray()
        self._body = bytearray()
        self._fds: list[int] = []

    @property
    def has_unsent(self) -> bool:
        """Whether a part of a message waits until the other side reads."""
        return bool(self._outgoing)

    def send(self, message: WireMessage, fds: Sequence[int] = ()) -> None:
        """Send a message, and copies of descriptors. On a non-blocking socket the rest may wait.

        Raises:
            PeerGone: the other side has closed its socket.
        """
        self._outgoing.append(self._pack(message, list(fds)))
        try:
            self.flush()
        finally:
            if self._outgoing:
                self._outgoing[-1].own_descriptors()

    def flush(self) -> bool:
        """Send what waits, as far as the other side reads; tell whether all is sent.

        Raises:
            PeerGone: the other side has closed its socket.
        """
        try:
            while self._outgoing:
                if self._outgoing[0].send_some(self.line):
                    self._outgoing.popleft()
        except BlockingIOError:
            return False
        except OSError as error:
            raise PeerGone(f"the other side has hung up: {error}") from error
        return True

    def _pack(self, message: WireMessage, fds: list[int]) -> _QueuedMessage:
        """Encode a message; a long one is put into sealed memory."""
        body = self._encode(message)
        if len(body) < _LONG_BYTES or not hasattr(os, "memfd_create"):
            return _QueuedMessage(
                memoryview(len(body).to_bytes(_HEADER_BYTES, "big") + body), fds, []
            )
        try:
            memory, size = seal([[body]])
        except OSError as error:
            raise PeerGone(f"there is no memory for a message: {error}") from error
        header = (size | _IN_MEMORY).to_bytes(_HEADER_BYTES, "big")
        return _QueuedMessage(memoryview(header), [*fds, memory], [memory])

    def receive(self) -> tuple[Received, list[int]]:
        """Wait for a message on a blocking socket; return it with its descriptors.

        Raises:
            PeerGone: the other side has closed its socket, or the socket has timed out.
            Invalid: what arrived is not a message.
        """
        while (found := self.poll()) is None:
            pass
        return found

    def poll(self) -> tuple[Received, list[int]] | None:
        """Read what has arrived; return a message if one is complete, else None.

        Raises:
            PeerGone: the other side has closed its socket.
            Invalid: what arrived is not a message.
        """
        try:
            return self._read_message()
        except BlockingIOError:
            return None
        except OSError as error:
            self._discard_partial()
            if isinstance(error, PeerGone):
                raise
            raise PeerGone(f"the other side has hung up: {error}") from error
        except BaseException:
            self._discard_partial()
            raise

    def _read_message(self) -> tuple[Received, list[int]] | None:
        """Read what has arrived; return a message if it is complete."""
        read_bytes = 0
        while read_bytes < _POLL_BYTES:
            missing = _HEADER_BYTES - len(self._header)
            if missing:
                # The kernel closes descriptors that come with a later byte.
                piece = self.line.recv(missing) if self._header else self._read_first_bytes()
                read_bytes += self._add(self._header, piece)
                if len(self._header) < _HEADER_BYTES:
                    continue
            size = int.from_bytes(self._header, "big")
            length = size & ~_IN_MEMORY
            if length > self.limit_bytes:
                raise Invalid(
                    f"a message may have {self.limit_bytes:,} bytes, this one has {length:,}",
                    hint="keep less in one step",
                )
            if size & _IN_MEMORY:
                return self._complete(self._decode_memory(length))
            if len(self._body) < size:
                piece = self.line.recv(min(size - len(self._body), _READ_BYTES))
                read_bytes += self._add(self._body, piece)
            if len(self._body) == size:
                return self._complete(self._decode_body(self._body))
        return None

    def _add(self, buffer: bytearray, piece: bytes) -> int:
        if not piece:
            raise PeerGone("the other side has hung up")
        buffer += piece
        return len(piece)

    def _read_first_bytes(self) -> bytes:
        """Read the first bytes of a message, with its descriptors."""
        room = socket.CMSG_SPACE(self._most_fds * array.array("i").itemsize)
        piece, ancillary, flags, _ = self.line.recvmsg(_HEADER_BYTES, room, _CLOSE_ON_EXEC)
        fds = array.array("i")
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
        self._fds = list(fds)
        if flags & socket.MSG_CTRUNC or len(fds) > self._most_fds:
            raise _bad_message(f"it has more than {self._most_fds} descriptors")
        return piece

    def _decode_memory(self, size: int) -> Received:
        """Decode a body in sealed memory, which is checked first."""
        if not self._fds:
            raise _bad_message("its body should be in memory, but no descriptor is attached")
        memory = self._fds.pop()
        try:
            check_sealed(memory, size)
            with _map(memory, size) as body:
                return self._decode_body(body)
        except (ValueError, OSError) as error:
            if isinstance(error, Invalid):
                raise
            raise _bad_message(str(error)) from None
        finally:
            os.close(memory)

    def _decode_body(self, body: Any) -> Received:
        """Decode a body; what does not fit one of the expected types is refused."""
        try:
            found: Received = self._decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError, MemoryError) as error:
            raise _bad_message(str(error)) from None
        return found

    def _complete(self, message: Received) -> tuple[Received, list[int]]:
        fds, self._fds = self._fds, []
        self._discard_partial()
        return message, fds

    def _discard_partial(self) -> None:
        """Forget the message that is being received, and close its descriptors."""
        fds, self._fds = self._fds, []
        _close_all(fds)
        self._header, self._body = bytearray(), bytearray()

    def close(self) -> None:
        """Close the socket; messages that were not sent yet are dropped."""
        self._discard_partial()
        for outgoing in self._outgoing:
            outgoing.close()
        self._outgoing.clear()
        self.line.close()


def _bad_message(why: str) -> Invalid:
    return Invalid(f"this is not a valid message: {why}", hint="do not write to the socket")


def _close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        with suppress(OSError):
            os.close(fd)
