"""The definition of a chart: what every format is read into, as plain frozen values.

Fields that do not change behaviour (descriptions, tags, meta, where it stood in the document) are
left out of comparison and of the chart's hash.

Two families disagree on defaults, so nothing is a default here: `Transition.is_internal` is always
said (SCXML: external; XState: internal), and `Definition.matching` says whether an event's name is
matched by its first words (SCXML) or as a whole (XState).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias
from typing import Literal as Word

Kind: TypeAlias = Word["atomic", "compound", "parallel", "final", "history"]
Matching: TypeAlias = Word["prefix", "exact"]
Binding: TypeAlias = Word["early", "late"]


def _remark(default: Any) -> Any:
    """Return a field that says something about the chart and does not change what it does."""
    return field(default=default, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Expression:
    """A text of the expression language, and the dialect it is written in."""

    text: str
    dialect: str = "python"


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that stands in the document as it is."""

    value: Any


Value: TypeAlias = Expression | Literal


@dataclass(frozen=True, slots=True)
class Param:
    """A named value handed along."""

    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class Payload:
    """What an event or a child chart is given: named values, or one value that is all of it."""

    params: tuple[Param, ...] = ()
    content: Value | None = None


@dataclass(frozen=True, slots=True)
class Named:
    """A guard that is a registered Python callable."""

    name: str
    params: tuple[Param, ...] = ()


Guard: TypeAlias = Expression | Named


@dataclass(frozen=True, slots=True)
class Assign:
    """Put a value at a place of the data."""

    location: str
    value: Value


@dataclass(frozen=True, slots=True)
class Script:
    """Assignments, written as a text."""

    text: str


@dataclass(frozen=True, slots=True)
class Raise:
    """Put an event on the internal queue."""

    event: str
    payload: Payload = Payload()


@dataclass(frozen=True, slots=True)
class Send:
    """Send an event: to this chart, its parent, a child or somebody outside; perhaps later."""

    event: Value | None
    target: Value | None = None
    type: Value | None = None
    id: str | None = None
    id_location: str | None = None
    delay: Value | None = None
    payload: Payload = Payload()


@dataclass(frozen=True, slots=True)
class Cancel:
    """Forget a delayed event that was not yet delivered."""

    id: Value


@dataclass(frozen=True, slots=True)
class Log:
    """Tell the host something, as an effect."""

    label: str
    value: Value | None


@dataclass(frozen=True, slots=True)
class Emit:
    """Tell listeners of the machine about an event, as an effect."""

    event: Value
    payload: Payload = Payload()


@dataclass(frozen=True, slots=True)
class Branch:
    """One arm of an `If`; without a guard it is the last one."""

    guard: Guard | None
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class If:
    """Do the actions of the first arm whose guard holds."""

    branches: tuple[Branch, ...]


@dataclass(frozen=True, slots=True)
class ForEach:
    """Do the actions once for each item of a list."""

    array: Value
    item: str
    index: str | None
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A named action: a registered pure function, or else an effect for the host."""

    name: str
    params: tuple[Param, ...] = ()


Action: TypeAlias = Assign | Script | Raise | Send | Cancel | Log | Emit | If | ForEach | Call
Block: TypeAlias = tuple[Action, ...]
"""Actions that succeed or fail together: an error ends its block, and no other."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A way out of a state; without events it is taken as soon as its guard holds."""

    events: tuple[str, ...]
    targets: tuple[str, ...]
    is_internal: bool
    guard: Guard | None = None
    actions: Block = ()
    delay: Value | None = None
    """Taken this long after its state was entered; `events` is then empty."""
    description: str = _remark("")
    meta: dict[str, Any] | None = field(default=None, compare=False, repr=False)
    place: str = _remark("")


@dataclass(frozen=True, slots=True)
class Invoke:
    """A child chart, or a service outside, that lives as long as its state is active."""

    id: str | None = None
    id_location: str | None = None
    source: Value | None = None
    """The name of a registered chart or of a service outside."""
    content: Value | Definition | None = None
    """The chart itself, or an expression whose value is one as SCXML text."""
    type: Value | None = None
    payload: Payload = Payload()
    finalize: Block | None = None
    is_forwarding: bool = False
    place: str = _remark("")


@dataclass(frozen=True, slots=True)
class Datum:
    """A variable a state declares, and what it starts with."""

    name: str
    value: Value | None
    place: str = _remark("")


@dataclass(frozen=True, slots=True)
class State:
    """A state and everything below it."""

    id: str
    kind: Kind
    children: tuple[State, ...] = ()
    initial: Transition | None = None
    """Where a compound state begins, and where a history state leads when nothing is recorded."""
    is_deep: bool = False
    transitions: tuple[Transition, ...] = ()
    entry: tuple[Block, ...] = ()
    exit: tuple[Block, ...] = ()
    invokes: tuple[Invoke, ...] = ()
    data: tuple[Datum, ...] = ()
    output: Payload | None = None
    tags: tuple[str, ...] = _remark(())
    meta: dict[str, Any] | None = field(default=None, compare=False, repr=False)
    description: str = _remark("")
    place: str = _remark("")


@dataclass(frozen=True, slots=True)
class Definition:
    """A whole chart: its root state and the rules it is read by."""

    name: str
    root: State
    dialect: str = "python"
    matching: Matching = "exact"
    binding: Binding = "early"
    is_scxml: bool = False
    """Errors become events always, and only declared data can be assigned to."""
    script: Block = ()
    version: str = _remark("")
    description: str = _remark("")
