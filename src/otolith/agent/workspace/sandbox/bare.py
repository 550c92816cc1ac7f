"""The lowest rung: no walls, only the limits of `limits.py` and no way up to new privileges."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from otolith.agent.workspace.sandbox import kernel
from otolith.agent.workspace.sandbox.place import PRIVILEGES, PROMISES, Place, keep_word, promises


@dataclass(frozen=True, slots=True)
class Bare:
    """Code in it can do whatever the user can; it is for code that is trusted but may run away."""

    network: bool = False

    @property
    def name(self) -> str:
        return "limits"

    @property
    def stops(self) -> Mapping[str, bool]:
        kept = {PRIVILEGES} if sys.platform == "linux" else set()
        return promises(network=self.network, broken=set(PROMISES) - kept)

    def command(
        self,
        argv: Sequence[str],
        place: Place,
        *,
        environment: Mapping[str, str],
        keep_fds: Sequence[int],
    ) -> list[str]:
        keep_word(self, place)
        return list(argv)

    def enter(self, place: Place) -> None:
        if sys.platform == "linux":
            kernel.refuse_new_privileges()
