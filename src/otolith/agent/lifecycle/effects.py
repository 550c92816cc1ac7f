"""Effects: what a step asks the world to do, as data.

Nothing impure happens inside a step. What the chart wants done outside leaves it as a list of
effects, and the host carries them out after the snapshot was kept. The key of an effect is made of
the session's name, the number of the step and the place in its list: the same step done again
gives the same keys, so that a host can see what it did already. Two branches of one run make
steps of the same numbers: give each branch its own session name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from otolith.agent.lifecycle.values import EMPTY, freeze, thaw

EffectKind: TypeAlias = Literal["call", "send", "invoke", "stop", "log", "emit"]


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing to do outside.

    call: a named action, `params` are its arguments. send: an event for `target`. invoke and stop:
    begin and end the service `name`, known as `id`; it answers with `done.invoke.<id>` or
    `error.invoke.<id>`. log: a label and a value. emit: an event for listeners.
    """

    kind: EffectKind
    name: str
    key: str
    params: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    session: str = ""
    id: str | None = None
    target: str | None = None
    type: str | None = None

    def to_data(self) -> dict[str, Any]:
        """Return the effect as one plain dict."""
        return {
            "kind": self.kind,
            "name": self.name,
            "key": self.key,
            "params": thaw(self.params),
            "session": self.session,
            "id": self.id,
            "target": self.target,
            "type": self.type,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Effect:
        """Return the effect that `to_data` gave."""
        return cls(**{**data, "params": freeze(data["params"])})

    def with_key(self, key: str) -> Effect:
        """Return the same effect under another key: a host may know more than a chart does."""
        return replace(self, key=key)
