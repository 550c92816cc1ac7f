"""One end of a line between a host and a worker: typed messages, with file descriptors beside them.

    8 bytes      the length of the body, big-endian; the highest bit: the body is in memory
    body         MessagePack; absent if it is in sealed memory, whose descriptor comes along last
    descriptors  with the first byte, and with no other

Rules that hold against a sender that means harm:

1. Nothing waits for the sender. `poll` takes in what has arrived, and `send` hands out what the
   line takes; both leave the rest for later if the line is a non-blocking one. Who waits, and for
   how long, is decided by whoever owns the line, beside its clock and its other lines.
2. Memory grows with what has arrived. A length is compared with the limit and reserves nothing.
3. Descriptors that nobody expects are closed: those that come with a later byte by the kernel,
   those that are too many or come with a broken message here.
4. What is not a message of the expected types is `Invalid`, and then the line is of no use.
"""

from __future__ import annotations

import array
import os
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from otolith.errors import Invalid, Unavailable
from otolith.workspace.sealed_memory import check_sealed, mapped, seal

_HEADER_BYTES = 8
_MOST_FDS = 8
_LONG_BYTES = 1 << 20
"""From this length on a message goes through memory that is handed over, which is faster."""

_IN_MEMORY = 1 << 63
_PIECE_BYTES = 1 << 18
_TURN_BYTES = 4 << 20
"""So much is taken in before whoever polls has a look at the clock again."""

_CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)

Received = TypeVar("Received")


class Message(msgspec.Struct, tag=True, frozen=True):
    """What is sent."""


class Gone(Unavailable):
    """The other side has hung up."""

    kind = "worker_gone"


@dataclass
class _Outgoing:
    """A message on its way out: what is left of it, and what goes with its first byte."""

    rest: memoryview
    fds: list[int]
    owned: list[int]  # closed when the first byte is out

    def step(self, line: socket.socket) -> bool:
        """Hand out as much as the line takes; tell whether that was all."""
        passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", self.fds))]
        count = line.sendmsg([self.rest], passed if self.fds else [])
        if count:
            self.fds = []
            self.close()
        self.rest = self.rest[count:]
        return not self.rest

    def keep(self) -> None:
        """Have descriptors of our own: the sender may close its own before they are sent."""
        self.fds = [fd if fd in self.owned else os.dup(fd) for fd in self.fds]
        self.owned = list(self.fds)

    def close(self) -> None:
        """Close what was only to be sent."""
        owned, self.owned = self.owned, []
        _close(owned)


class Wire(Generic[Received]):
    """One end of a line over which messages of some types come in.

    No message may be longer than `limit_bytes`, and none may bring more than `most_fds`
    descriptors, the one of its own memory included.
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
        self._outgoing: deque[_Outgoing] = deque()
        self._header = bytearray()
        self._body = bytearray()
        self._fds: list[int] = []

    # Sending

    @property
    def has_unsent(self) -> bool:
        """Whether something waits until the other side reads."""
        return bool(self._outgoing)

    def send(self, message: Message, fds: Sequence[int] = ()) -> None:
        """Send a message, and copies of descriptors. On a non-blocking line the rest may wait.

        Raises:
            Gone: nobody is there any more.
        """
        self._outgoing.append(self._packed(message, list(fds)))
        try:
            self.flush()
        finally:
            if self._outgoing:
                self._outgoing[-1].keep()

    def flush(self) -> bool:
        """Send what waits, as far as the other side reads; tell whether all is sent.

        Raises:
            Gone: nobody is there any more.
        """
        try:
            while self._outgoing:
                if self._outgoing[0].step(self.line):
                    self._outgoing.popleft()
        except BlockingIOError:
            return False
        except OSError as error:
            raise Gone(f"the other side has hung up: {error}", hint="start a new one") from error
        return True

    def _packed(self, message: Message, fds: list[int]) -> _Outgoing:
        body = self._encode(message)
        if len(body) < _LONG_BYTES or not hasattr(os, "memfd_create"):
            return _Outgoing(memoryview(len(body).to_bytes(_HEADER_BYTES, "big") + body), fds, [])
        try:
            memory, size = seal([[body]])
        except OSError as error:
            raise Gone(f"no memory for a message: {error}", hint="start a new one") from error
        header = (size | _IN_MEMORY).to_bytes(_HEADER_BYTES, "big")
        return _Outgoing(memoryview(header), [*fds, memory], [memory])

    # Receiving

    def receive(self) -> tuple[Received, list[int]]:
        """Wait for a message on a blocking line; return it with the descriptors that came along.

        Raises:
            Gone: nobody is there any more, or not in the time that the line has.
            Invalid: what came is no message.
        """
        while (found := self.poll()) is None:
            pass
        return found

    def poll(self) -> tuple[Received, list[int]] | None:
        """Take in what has arrived; return a message if one is complete, else None.

        Raises:
            Gone: nobody is there any more.
            Invalid: what came is no message.
        """
        try:
            return self._taken()
        except BlockingIOError:
            return None
        except OSError as error:
            self._drop()
            if isinstance(error, Gone):
                raise
            raise Gone(f"the other side has hung up: {error}", hint="start a new one") from error
        except BaseException:
            self._drop()
            raise

    def _taken(self) -> tuple[Received, list[int]] | None:
        taken = 0
        while taken < _TURN_BYTES:
            taken += self._take_header()
            if len(self._header) < _HEADER_BYTES:
                continue
            size = self._checked_size()
            if size & _IN_MEMORY:
                return self._complete(self._from_memory(size & ~_IN_MEMORY))
            if len(self._body) < size:
                taken += self._take_body(size - len(self._body))
            if len(self._body) == size:
                return self._complete(self._decoded(self._body))
        return None

    def _take_header(self) -> int:
        missing = _HEADER_BYTES - len(self._header)
        if not missing:
            return 0
        # The kernel closes descriptors that come with a later byte.
        piece = self.line.recv(missing) if self._header else self._first_bytes()
        if not piece:
            raise Gone("the other side has hung up", hint="start a new one")
        self._header += piece
        return len(piece)

    def _first_bytes(self) -> bytes:
        room = socket.CMSG_SPACE(self._most_fds * array.array("i").itemsize)
        piece, ancillary, flags, _ = self.line.recvmsg(_HEADER_BYTES, room, _CLOSE_ON_EXEC)
        fds = array.array("i")
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
        self._fds = list(fds)
        if flags & socket.MSG_CTRUNC or len(fds) > self._most_fds:
            raise _no_message(f"it brings more than {self._most_fds} descriptors")
        return piece

    def _take_body(self, missing: int) -> int:
        piece = self.line.recv(min(missing, _PIECE_BYTES))
        if not piece:
            raise Gone("the other side has hung up in mid-sentence", hint="start a new one")
        self._body += piece
        return len(piece)

    def _checked_size(self) -> int:
        size = int.from_bytes(self._header, "big")
        if size & ~_IN_MEMORY > self.limit_bytes:
            raise Invalid(
                f"a message of {size & ~_IN_MEMORY:,} bytes is too long,"
                f" it may have {self.limit_bytes:,}",
                hint="keep less in one step",
            )
        return size

    def _from_memory(self, size: int) -> Received:
        if not self._fds:
            raise _no_message("it says that it is in memory, and brings none")
        memory = self._fds.pop()
        try:
            check_sealed(memory, size)
            with mapped(memory, size) as body:
                return self._decoded(body)
        except (ValueError, OSError) as error:
            if isinstance(error, Invalid):
                raise
            raise _no_message(str(error)) from None
        finally:
            os.close(memory)

    def _decoded(self, body: Any) -> Received:
        try:
            found: Received = self._decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError, MemoryError) as error:
            raise _no_message(str(error)) from None
        return found

    def _complete(self, message: Received) -> tuple[Received, list[int]]:
        fds, self._fds = self._fds, []
        self._drop()
        return message, fds

    def _drop(self) -> None:
        """Forget what has arrived of a message."""
        fds, self._fds = self._fds, []
        _close(fds)
        self._header, self._body = bytearray(), bytearray()

    def close(self) -> None:
        """Hang up; what has not been sent yet is not sent."""
        self._drop()
        for outgoing in self._outgoing:
            outgoing.close()
        self._outgoing.clear()
        self.line.close()


def _no_message(why: str) -> Invalid:
    return Invalid(f"this is no message: {why}", hint="do not write to the line")


def _close(fds: Sequence[int]) -> None:
    for fd in fds:
        with suppress(OSError):
            os.close(fd)
