"""A step of a workspace: how it is run (`Runner`) and stopped (`Stop`), and what it came to."""

from __future__ import annotations

import codecs
import os
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from otolith.codecs import migration
from otolith.core import Commit
from otolith.errors import Invalid
from otolith.workspace.protocol import Failure
from otolith.workspace.sandbox import Limits

Stopped: TypeAlias = Literal["interrupted", "timed out", "killed", "over disk limit"]
"""What ended a step early: the user, its time, the user who had enough of it, or what it wrote."""

Wish: TypeAlias = Literal["interrupted", "killed"]


class Stop:
    """What is wished for, and a line that wakes whoever runs the step.

    Nothing here takes a lock: a signal handler may come in the middle of anything.
    """

    def __init__(self) -> None:
        self.line, self._bell = socket.socketpair()
        self.line.settimeout(0)
        self._bell.settimeout(0)
        self._wishes: list[Wish] = []
        self._is_step_running = False

    def begin(self) -> None:
        """Take wishes from now on."""
        self.wishes()
        self._is_step_running = True

    def end(self) -> None:
        """Take none any more."""
        self._is_step_running = False

    def ask(self, wish: Wish) -> bool:
        """Tell whether there is a step to stop; it will be."""
        if not self._is_step_running:
            return False
        self._wishes.append(wish)
        with suppress(OSError):  # it rings already, or the workspace was closed
            self._bell.send(b".")
        return True

    @property
    def is_kill_wished(self) -> bool:
        """Whether the step is to be killed; the wish stays until it is taken."""
        return "killed" in self._wishes

    def wishes(self) -> list[Wish]:
        """Return what was wished for since the last time."""
        with suppress(BlockingIOError):
            self.line.recv(4096)
        count = len(self._wishes)
        taken, self._wishes[:count] = self._wishes[:count], []
        return taken

    def close(self) -> None:
        """Hang up."""
        self.end()
        self.line.close()
        self._bell.close()


@dataclass(frozen=True)
class Files:
    """Files of the work folder that a step added, changed or removed."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    skipped: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed or self.skipped)


@dataclass(frozen=True)
class Picture:
    """A figure that was drawn."""

    png: bytes

    def save(self, path: str | Path) -> None:
        """Write it to a file."""
        Path(path).write_bytes(self.png)

    def _repr_png_(self) -> bytes:
        return self.png


@dataclass(frozen=True)
class Step:
    """One run of code: how it ended, what it showed, and what it did to the state."""

    ok: bool
    value: Any  # as data, where it is data; otherwise None, and `shown` says what it was
    shown: str | None
    stdout: str
    stderr: str
    error: Failure | None
    created: tuple[str, ...]
    changed: tuple[str, ...]
    deleted: tuple[str, ...]
    lost: dict[str, str]
    files: Files
    figures: tuple[Picture, ...]
    commit: Commit | None
    timing: dict[str, float]
    sandbox: str
    loaded: tuple[str, ...] = ()
    stopped: Stopped | None = None  # what ended it before its time, if something did

    def __repr__(self) -> str:
        why = self.stopped or (self.error.type if self.error else "?")
        outcome = "ok" if self.ok else f"failed: {why}"
        said = f" = {self.shown[:60]}" if self.shown else ""
        return f"<Step {self.commit.id[:10] if self.commit else '-'} {outcome}{said}>"


@dataclass(frozen=True, kw_only=True)
class Runner:
    """What a step may use, and what confines it.

    `sandbox` is "auto" for the best that works here, or a name; "limits" confines nothing but what
    is counted. `mode` is "cold" for a new process to each step, or "warm" for one that stays; every
    step is committed either way. A step that takes longer than `wall_seconds` is interrupted, and
    what it reached is kept; `grace_seconds` later it is killed. Of what a step prints, and of what
    its value looks like, `output_bytes` and `shown_chars` are kept; the rest is counted.

    A step that makes its work folder grow by more than `disk_bytes` is killed, and nothing of it is
    kept; `file_bytes` limits one file. Where a sandbox has a /tmp of its own, which is in memory,
    it holds `disk_bytes` as well. `handover_bytes` limits what a step may hand over to be stored.
    """

    __otolith_version__: ClassVar[int] = 2  # Runners can be kept in a state, like any value

    sandbox: str = "auto"
    image: str | None = None
    mode: Literal["cold", "warm"] = "cold"
    network: bool = False
    wall_seconds: float = 600.0
    grace_seconds: float = 5.0
    capture_seconds: float = 600.0
    memory_bytes: int | None = None
    cpu_seconds: int | None = None
    file_bytes: int | None = None
    disk_bytes: int | None = 8 << 30
    processes: int | None = 256
    open_files: int | None = 1024
    output_bytes: int = 1 << 20
    shown_chars: int = 10_000
    handover_bytes: int = 8 << 30
    python: str = sys.executable
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.mode not in ("cold", "warm"):
            raise Invalid(f"mode={self.mode!r} is not known", hint="use 'cold' or 'warm'")
        for name in ("wall_seconds", "grace_seconds", "capture_seconds", "shown_chars"):
            if not getattr(self, name) > 0:
                raise Invalid(f"{name} must be more than nothing", hint="leave it out")
        if self.disk_bytes is not None and self.disk_bytes < 1:
            raise Invalid(
                f"disk_bytes must be at least 1, got {self.disk_bytes}", hint="None is no limit"
            )

    @property
    def limits(self) -> Limits:
        """What a worker may use."""
        return Limits(
            memory_bytes=self.memory_bytes,
            cpu_seconds=self.cpu_seconds,
            file_bytes=self.file_bytes,
            processes=self.processes,
            open_files=self.open_files,
        )


@migration(Runner, 1, 2)
def _with_a_disk_limit(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "disk_bytes": Runner.disk_bytes}


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
