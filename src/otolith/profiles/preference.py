"""Preference: what is believed about a user, on what basis, and the evidence behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from otolith.profiles.evidence import Evidence
from otolith.types import short_repr

Basis = Literal["set", "learned", "default"]


class RunnerUp(NamedTuple):
    """The second best value."""

    value: Any
    confidence: float


@short_repr("key", "value", "confidence", "basis", "context")
@dataclass(frozen=True, slots=True)
class Preference:
    """What is believed about one key."""

    key: str
    value: Any
    confidence: float
    """How probable it is that the user chooses this next; 1 if it was set, 0 for a default."""
    basis: Basis
    since: datetime | None = None
    """Since when it holds; None for a default."""
    runner_up: RunnerUp | None = None
    context: str = ""
    """The context in which it was found; empty if it holds always."""
    _sources: Callable[[], list[str]] = field(default=list, repr=False, compare=False)

    @property
    def evidence(self) -> list[str]:
        """The ids of the commits with the evidence for it, the oldest first."""
        return self._sources()


class EvidenceLine(NamedTuple):
    """A piece of evidence, with its commit and whether it counts."""

    evidence: Evidence
    commit: str
    """The id of its commit; empty if it is staged."""
    counts: bool
    """Whether it is used: not if the user does not agree, or if it is too old."""

    def __str__(self) -> str:
        each = self.evidence
        sign = "-" if each.weight < 0 else "+"
        what = f"{each.kind} {each.option}" if each.kind != "unset" else "unset"
        parts = [
            f"{each.when:%Y-%m-%d %H:%M}",
            what,
            "" if each.kind in {"set", "unset"} else f"{sign}{abs(each.weight):g}",
            f"when: {each.context}" if each.context else "",
            f'"{each.quote}"' if each.quote else "",
            f"from {each.source}" if each.source else "",
            "" if self.counts else "(not used)",
            f"[{self.commit[:12]}]" if self.commit else "[staged]",
        ]
        return "  ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a preference is what it is."""

    preference: Preference
    lines: tuple[EvidenceLine, ...]
    """All evidence of the key, the oldest first."""

    def __str__(self) -> str:
        found = self.preference
        runner = found.runner_up
        more = f"; then {runner.value!r} ({runner.confidence:.0%})" if runner else ""
        head = f"{found.key}: {found.value!r}, {found.basis}, {found.confidence:.0%}{more}"
        return "\n".join([head, *(f"  {line}" for line in self.lines)])


@short_repr("key", "old", "new", "basis", "context")
@dataclass(frozen=True, slots=True)
class PreferenceChange:
    """A change of what a user prefers."""

    key: str
    old: Any
    """What held before; None for nothing."""
    new: Any
    """What holds since; None if it was unset."""
    time: int
    """In microseconds since 1970."""
    basis: Basis
    evidence: tuple[Evidence, ...] = ()
    """What it is known from."""
    context: str = ""

    @property
    def when(self) -> datetime:
        """Its time."""
        return datetime.fromtimestamp(self.time / 1_000_000, UTC)


@short_repr("key", "values", "context")
@dataclass(frozen=True, slots=True)
class Contradiction:
    """Evidence that speaks against what was set, or two statements that cannot both hold."""

    key: str
    values: tuple[Any, ...]
    """What was set or said first, and what speaks against it."""
    evidence: tuple[Evidence, ...]
    question: str
    """What to ask the user; `profile.set` settles it."""
    context: str = ""


def instant(time: int) -> datetime:
    """Return a time in microseconds since 1970 as a time of Python."""
    return datetime.fromtimestamp(time / 1_000_000, UTC)


def values_of(found: Sequence[Evidence]) -> tuple[Any, ...]:
    """Return the different values of evidence, in order."""
    return tuple({each.option: each.value for each in found}.values())
