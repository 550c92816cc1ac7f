"""What a step of a workspace came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from otolith.agent.workspace.messages import Failure
from otolith.agent.workspace.stop import Stopped
from otolith.core import Commit


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
