"""What is found out about variables while they are captured, before it is written down."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Captured:
    """What became of the variables."""

    created: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)
    pickles: list[str] = field(default_factory=list)


@dataclass
class Notes:
    """One look in progress."""

    step: int
    done: Captured = field(default_factory=Captured)
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)  # of what is here
    about: dict[str, dict[str, Any]] = field(default_factory=dict)  # what is known of new objects
