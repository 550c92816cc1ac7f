"""How steps are run: in what sandbox, within which limits, in a new process each or in one."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from otolith.agent.workspace.sandbox import Limits
from otolith.errors import Invalid


@dataclass(frozen=True, kw_only=True)
class Runner:
    """What a step may use, and what confines it.

    `sandbox` is "auto" for the best that works here, or a name; "limits" confines nothing but what
    is counted. `mode` is "cold" for a new process to each step, or "warm" for one that stays; every
    step is committed either way. A step that takes longer than `wall_seconds` is interrupted, and
    what it reached is kept; `grace_seconds` later it is killed. Of what a step prints, and of what
    its value looks like, `output_bytes` and `shown_chars` are kept; the rest is counted.
    """

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
