"""The names by which XState's JSON calls the states of a definition."""

from __future__ import annotations

import re
from collections.abc import Iterator

from otolith.agent.lifecycle.definition import Definition, State

Path = tuple[str, ...]
_NOT_A_KEY = re.compile(r"[.\\]|^#|^__proto__$|^\s|\s$|^$")


def free_name(definition: Definition) -> str:
    """Return the id of the machine: its name, unless a state has it already."""
    name = definition.name or "machine"
    taken = {state.id for state, _ in _walk(definition.root)}
    while name in taken:
        name += "_"
    return name


class Targets:
    """Keys and ids of states, and how one is named from another.

    `keys` are what states are called in their parent; `explicit` are the ids that must be said,
    because they are not the path of keys.
    """

    def __init__(self, root: State, name: str) -> None:
        self._root = root
        self._name = name
        self.keys: dict[str, str] = {}
        self._paths: dict[str, Path] = {root.id: ()}
        for state, parent in _walk(root):
            self._add(state, parent)
        paths = self._paths.items()
        self.explicit = {id for id, path in paths if path and ".".join(path) != id}
        if any(self._is_unclear(id) for id in self._paths):
            self.explicit = self._paths.keys() - {root.id}

    def _add(self, state: State, parent: State) -> None:
        above = self._paths[parent.id]
        key = state.id.removeprefix(f"{'.'.join(above)}.") if above else state.id
        if _NOT_A_KEY.search(key):
            key = re.sub(r"\W+", "_", key).strip("_") or "state"
        taken = {self.keys.get(child.id) for child in parent.children}
        while key in taken:
            key += "_"
        self.keys[state.id] = key
        self._paths[state.id] = (*above, key)

    def _is_unclear(self, id: str) -> bool:
        """Whether the path from the machine's name could be read as one from another state."""
        words = [*self._name.split("."), *self._paths[id]]
        return any(".".join(words[:length]) in self.explicit for length in range(1, len(words) + 1))

    def written(self, source: State, target: str) -> str:
        """Return how a transition of a state names its target."""
        here, there = self._paths[source.id], self._paths[target]
        if here and there and here[:-1] == there[:-1]:
            return there[-1]
        if len(there) > len(here) and there[: len(here)] == here:
            return "." + ".".join(there[len(here) :])
        if target in self.explicit and (len(self.explicit) == len(self.keys) or "." not in target):
            return f"#{target}"
        return "#" + ".".join((self._name, *there))

    def inside(self, state: State, target: str) -> str:
        """Return how a state names one inside of it where it begins."""
        return ".".join(self._paths[target][len(self._paths[state.id]) :])


def _walk(state: State) -> Iterator[tuple[State, State]]:
    for child in state.children:
        yield child, state
        yield from _walk(child)
