"""The layout of a chart: its states as bits, and configurations as masks of them."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

from otolith.agent.lifecycle.definition import Definition
from otolith.agent.lifecycle.nodes import Node, lay_out
from otolith.errors import Corrupt

CACHED = 4_096
"""How many entries a cache holds; the oldest makes room."""

K = TypeVar("K")
V = TypeVar("V")


class Layout:
    """The states of a definition in document order, and the ways between names and masks."""

    def __init__(self, definition: Definition) -> None:
        self.is_scxml = definition.is_scxml
        self.internal_kinds = {"compound"} if self.is_scxml else {"compound", "parallel"}
        """What an internal transition need not leave; in SCXML a parallel state is left."""
        self.order = lay_out(definition.root)
        self.nodes = {node.id: node for node in self.order}
        self.root = self.order[0]
        self.leaves = [node for node in self.order if node.is_leaf]
        self._masks: dict[tuple[str, ...], int] = {}
        self._names: dict[int, tuple[str, ...]] = {}

    def mask_of(self, configuration: tuple[str, ...]) -> int:
        """Return the mask of all active states, given those at the bottom.

        Raises:
            Corrupt: these states cannot be active together.
        """
        found = self._masks.get(configuration)
        if found is None:
            found = self._mask(configuration)
            keep(self._masks, configuration, found)
        return found

    def leaves_of(self, mask: int) -> tuple[str, ...]:
        """Return the active states at the bottom, in document order."""
        found = self._names.get(mask)
        if found is None:
            found = self._leaves(mask)
            keep(self._names, mask, found)
        return found

    def _mask(self, configuration: tuple[str, ...]) -> int:
        mask = 0
        for name in configuration:
            node = self.nodes.get(name)
            if node is None or not node.is_leaf:
                raise _impossible(configuration, f"{name!r} is no state that it could rest in")
            mask |= node.bit | node.above
        for node in self.nodes_of(mask):
            active = sum(1 for child in node.children if mask & child.bit)
            wanted = len(node.children) if node.kind == "parallel" else 1
            if not node.is_leaf and active != wanted:
                raise _impossible(configuration, f"{active} states are active in {node.id!r}")
        if not mask:
            raise _impossible(configuration, "nothing is active")
        return mask

    def _leaves(self, mask: int) -> tuple[str, ...]:
        return tuple(node.id for node in self.leaves if mask & node.bit)

    def nodes_of(self, mask: int) -> list[Node]:
        """Return the states of a mask in document order."""
        found: list[Node] = []
        while mask:
            bit = mask & -mask
            found.append(self.order[bit.bit_length() - 1])
            mask ^= bit
        return found


def keep(cache: dict[K, V], key: K, value: V) -> None:
    """Put something in a cache; when it is full, the oldest makes room."""
    if len(cache) >= CACHED:
        with suppress(RuntimeError, StopIteration, KeyError):  # another thread makes room just now
            del cache[next(iter(cache))]
    cache[key] = value


def _impossible(configuration: tuple[str, ...], why: str) -> Corrupt:
    return Corrupt(
        f"the configuration {', '.join(configuration) or '()'} is impossible: {why}",
        hint="the snapshot was changed by hand, or is of another chart",
    )
