"""What a step printed: passed on as it comes, and kept up to a limit."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable
from typing import TypeAlias

OnOutput: TypeAlias = Callable[[str, str], None]
"""Called with the name of a stream, "stdout" or "stderr", and a piece of text."""

_PIECE_BYTES = 1 << 16


class Output:
    """One stream."""

    def __init__(self, name: str, *, limit_bytes: int, listener: OnOutput | None) -> None:
        self._name = name
        self._limit = limit_bytes
        self._listener = listener
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._kept: list[str] = []
        self._size = 0
        self._dropped = 0

    def read(self, descriptor: int) -> bool:
        """Take in what is there; tell whether there may be more."""
        try:
            piece = os.read(descriptor, _PIECE_BYTES)
        except BlockingIOError:
            return False
        self._take(piece)
        return bool(piece)

    def drain(self, descriptor: int) -> None:
        """Take in all that is there by now, within reason: somebody may go on printing for ever."""
        for _ in range(1024):
            if not self.read(descriptor):
                return

    def _take(self, piece: bytes) -> None:
        room = max(0, self._limit - self._size)
        self._size += len(piece)
        self._dropped += max(0, len(piece) - room)
        text = self._decoder.decode(piece[:room])
        if text:
            self._kept.append(text)
            if self._listener is not None:
                self._listener(self._name, text)

    def text(self) -> str:
        """Return what was printed, and how much of it is left out."""
        text = "".join(self._kept)
        return f"{text}\n… {self._dropped:,} more bytes were printed" if self._dropped else text
