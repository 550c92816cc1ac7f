"""A step of a workspace: how it is run (`Runner`), how it is stopped, and its result (`Step`)."""

from __future__ import annotations

import codecs
import os
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from otolith.codecs import migration
from otolith.core import Commit
from otolith.errors import Invalid
from otolith.workspace.protocol import StepFailure
from otolith.workspace.sandbox import ResourceLimits

StopReason: TypeAlias = Literal["interrupted", "timed out", "killed", "over disk limit"]
"""Why a step ended early: `interrupt()`, its time limit, `kill()`, or what it wrote to the disk."""

StopRequest: TypeAlias = Literal["interrupted", "killed"]

OutputListener: TypeAlias = Callable[[str, str], None]
"""Called with the name of a stream, "stdout" or "stderr", and a piece of text."""

_READ_BYTES = 1 << 16
_MOST_READS = 1024


class StopRequests:
    """Requests of the user to stop the running step, and a socket that wakes its runner.

    Nothing here takes a lock: a signal handler may interrupt any line.
    """

    def __init__(self) -> None:
        self.line, self._bell = socket.socketpair()
        self.line.settimeout(0)
        self._bell.settimeout(0)
        self._requests: list[StopRequest] = []
        self._is_step_running = False

    def begin_step(self) -> None:
        """Accept requests from now on."""
        self.take()
        self._is_step_running = True

    def end_step(self) -> None:
        """Accept no more requests."""
        self._is_step_running = False

    def add(self, request: StopRequest) -> bool:
        """Request a stop; tell whether a step is running."""
        if not self._is_step_running:
            return False
        self._requests.append(request)
        with suppress(OSError):  # the runner is awake already, or the workspace was closed
            self._bell.send(b".")
        return True

    @property
    def has_kill(self) -> bool:
        """Whether the step is to be killed; the request stays until it is taken."""
        return "killed" in self._requests

    def take(self) -> list[StopRequest]:
        """Return the requests since the last call."""
        with suppress(BlockingIOError):
            self.line.recv(4096)
        count = len(self._requests)
        taken, self._requests[:count] = self._requests[:count], []
        return taken

    def close(self) -> None:
        """Close both sockets."""
        self.end_step()
        self.line.close()
        self._bell.close()


@dataclass(frozen=True)
class FileChanges:
    """The files of the work folder that were added, changed or removed.

    `skipped` are those that no state stores, each with the reason.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    skipped: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed or self.skipped)


@dataclass(frozen=True)
class Picture:
    """A figure that a step drew, as PNG; notebooks display it."""

    png: bytes

    def __repr__(self) -> str:
        return f"<Picture {len(self.png):,} bytes of PNG>"

    def save(self, path: str | Path) -> None:
        """Write the picture to a file."""
        Path(path).write_bytes(self.png)

    def _repr_png_(self) -> bytes:
        return self.png


@dataclass(frozen=True)
class Step:
    """The result of running code once: how it ended, what it printed, and what it changed.

    `value` is that of the last expression if it is data; `shown` is its text in any case. `commit`
    is None if the process of the step died: then nothing of it is stored.
    """

    ok: bool
    value: Any
    shown: str | None
    stdout: str
    stderr: str
    error: StepFailure | None
    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    lost: dict[str, str] = field(default_factory=dict)  # variables that could not be stored, why
    files: FileChanges = field(default_factory=FileChanges)
    figures: tuple[Picture, ...] = ()
    commit: Commit | None = None
    timing: dict[str, float] = field(default_factory=dict)
    sandbox: str = ""
    loaded: tuple[str, ...] = ()  # variables that the step has read
    stopped: StopReason | None = None  # why it ended early, if it did

    def __repr__(self) -> str:
        why = self.stopped or (self.error.type if self.error else "?")
        outcome = "ok" if self.ok else f"failed: {why}"
        value = f" = {self.shown[:60]}" if self.shown else ""
        return f"<Step {self.commit.id[:10] if self.commit else '-'} {outcome}{value}>"


_COUNTS = ("output_bytes", "shown_chars", "handover_bytes")
_OPTIONAL_COUNTS = (
    "memory_bytes", "cpu_seconds", "file_bytes", "disk_bytes", "processes", "open_files",
)  # fmt: skip
"""The limits of a runner that may be None, for none."""


def _is_number(value: object, kinds: type | tuple[type, ...] = (int, float)) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


@dataclass(frozen=True, kw_only=True)
class Runner:
    """How steps are run: their sandbox, their limits, and one process for each or for many.

    `sandbox` is "auto" for the best that works here, or a name; "limits" has resource limits only.
    `mode` is "cold" for a new process for each step, or "warm" for one that stays; every step is
    committed either way. A step that takes longer than `wall_seconds` is interrupted, and what it
    has done is stored; `grace_seconds` later it is killed. Of what a step prints, and of the text
    of its value, `output_bytes` and `shown_chars` are stored; the rest is counted.

    A step that makes its work folder grow by more than `disk_bytes` is killed, and nothing of it is
    stored; `file_bytes` limits one file. In a sandbox with its own /tmp, which is in memory, that
    holds `disk_bytes` as well. `handover_bytes` limits what a step may send to be stored.

        Runner(sandbox="bubblewrap", wall_seconds=60, memory_bytes=4 << 30)
    """

    __otolith_version__: ClassVar[int] = 2  # a state can store a Runner, like any value

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
        for name in ("wall_seconds", "grace_seconds", "capture_seconds"):
            value = getattr(self, name)
            if not _is_number(value) or not value > 0:
                raise Invalid(
                    f"{name} must be a number of seconds above 0, got {value!r}",
                    hint="leave it out",
                )
        for name in (*_COUNTS, *_OPTIONAL_COUNTS):
            value = getattr(self, name)
            is_unlimited = value is None and name in _OPTIONAL_COUNTS
            if not is_unlimited and (not _is_number(value, int) or value < 1):
                raise Invalid(
                    f"{name} must be a whole number of at least 1, got {value!r}",
                    hint="2 << 30 is 2 GiB"
                    if name.endswith("bytes")
                    else "leave it out for the default",
                )

    def __repr__(self) -> str:
        """Show what is not the default; of the environment, the names only."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        shown = {name: value for name, value in given.items() if value != getattr(_USUAL, name)}
        if "environment" in shown:
            shown["environment"] = sorted(self.environment)
        return f"Runner({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @property
    def limits(self) -> ResourceLimits:
        """The limits that the kernel enforces on a worker."""
        return ResourceLimits(
            memory_bytes=self.memory_bytes,
            cpu_seconds=self.cpu_seconds,
            file_bytes=self.file_bytes,
            processes=self.processes,
            open_files=self.open_files,
        )


_USUAL = Runner()


@migration(Runner, 1, 2)
def _add_disk_limit(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "disk_bytes": Runner.disk_bytes}


class OutputStream:
    """The text that a step prints to one stream, up to a limit."""

    def __init__(self, name: str, *, limit_bytes: int, listener: OutputListener | None) -> None:
        self._name = name
        self._limit = limit_bytes
        self._listener = listener
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pieces: list[str] = []
        self._size = 0

    def read(self, descriptor: int) -> bool:
        """Read what has arrived; tell whether there may be more."""
        try:
            piece = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        text = self._decoder.decode(piece[: max(0, self._limit - self._size)])
        self._size += len(piece)
        if text:
            self._pieces.append(text)
            if self._listener is not None:
                self._listener(self._name, text)
        return bool(piece)

    def drain(self, descriptor: int) -> None:
        """Read all that has arrived, within reason: a process may continue to print forever."""
        for _ in range(_MOST_READS):
            if not self.read(descriptor):
                return

    def text(self) -> str:
        """Return what was printed, and how much of it was dropped."""
        text, dropped = "".join(self._pieces), self._size - self._limit
        return f"{text}\n… {dropped:,} more bytes were printed" if dropped > 0 else text


class StepOutput(NamedTuple):
    """Both streams of a step."""

    stdout: OutputStream
    stderr: OutputStream

    @classmethod
    def limited(cls, limit_bytes: int, listener: OutputListener | None) -> StepOutput:
        """Return two empty streams, each with a limit."""
        names = ("stdout", "stderr")
        return cls(
            *(OutputStream(each, limit_bytes=limit_bytes, listener=listener) for each in names)
        )
