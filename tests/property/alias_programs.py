"""Random programs that share objects, played on a state and compared with one pickle of it.

A *program* is a list of steps: put a new object under a key, put one that is there into another
place, change one, remove a key, and the verbs of a state. After each verb, the objects in the state
must form the same graph as those in one pickle of the whole state, taken at the commit that the
state shows: the same content, and the same places that are one object.

`play` returns what is wrong, or None; `shrink` removes steps as long as the same is wrong.
"""

from __future__ import annotations

import copy
import pickle
import random
from array import array
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

import otolith
from otolith.errors import Error

Step: TypeAlias = tuple[Any, ...]
KEYS = "uvwxyz"


@dataclass
class Node:
    name: int
    parent: object = None
    kids: list[object] = field(default_factory=list)


@dataclass(frozen=True)
class Frozen:
    parts: object


class Own:
    """Not a model: it is pickled."""

    def __init__(self, name: int) -> None:
        self.name = name
        self.kids: list[object] = []
        self.extra: object = None


class Careful:
    """Says itself what of it is stored."""

    def __init__(self, name: int) -> None:
        self.name, self.kids, self.cache = name, list[object](), object()

    def __getstate__(self) -> Any:
        return {"name": self.name, "kids": self.kids}

    def __setstate__(self, state: Any) -> None:
        vars(self).update(state, cache=object())


PLAIN: dict[str, Callable[[int], Any]] = {
    "list": lambda n: [n],
    "dict": lambda n: {"z": n, "a": n},
    "nested": lambda n: {"z": [n], "a": {"b": n}},
    "set": lambda n: {n},
    "tuple": lambda n: (n, [n]),
    "bytearray": lambda n: bytearray([n]),
}
MODELS: dict[str, Callable[[int], Any]] = {
    "node": Node,
    "frozen": lambda n: Frozen([n]),
}
PICKLED: dict[str, Callable[[int], Any]] = {
    "own": Own,
    "careful": Careful,
    "defaultdict": lambda n: defaultdict(list, z=[n]),
    "ordered": lambda n: OrderedDict(z=n, a=[n]),
    "deque": lambda n: deque([[n]]),
    "array.array": lambda n: array("q", [n]),
}
ARRAYS: dict[str, Callable[[int], Any]] = {"array": lambda n: np.arange(n, n + 6.0)}


# Parts, changes, and comparison


def parts(value: Any) -> list[tuple[object, Any]]:
    """Return what is in a value, in an order that does not depend on that of dicts."""
    if isinstance(value, dict):
        return sorted(value.items(), key=lambda pair: repr(pair[0]))
    if isinstance(value, list | tuple | deque):
        return list(enumerate(value))
    if isinstance(value, Node | Frozen | Own | Careful):
        return sorted((k, v) for k, v in vars(value).items() if k != "cache")
    return []


def reachable(values: Iterable[Any]) -> list[Any]:
    """Return the objects in values that can be shared, each once."""
    found: dict[int, Any] = {}
    waiting = list(values)
    while waiting:
        value = waiting.pop(0)
        if id(value) in found or _is_value(value):
            continue
        found[id(value)] = value
        waiting += [part for _, part in parts(value)]
    return list(found.values())


def graph(values: dict[str, Any]) -> list[Any]:
    """Return the graph of values: its objects in the order they are met, and what is in each.

    Equal tuples need not be one object, so a tuple is part of what it is in. Arrays that share
    memory have its number in common.
    """
    numbers: dict[int, int] = {}
    memory: dict[int, int] = {}
    queue: list[Any] = []
    nodes: list[Any] = []

    def refer(value: Any) -> object:
        if _is_value(value):
            return repr(value)
        if isinstance(value, tuple):
            return ["tuple", *map(refer, value)]
        if _memory(value):  # two views that are alike may be one
            of = memory.setdefault(_memory(value), len(memory))
            return ["array", of, value.tolist()]
        if id(value) not in numbers:
            numbers[id(value)] = len(numbers)
            queue.append(value)
        return numbers[id(value)]

    roots = [(key, refer(values[key])) for key in sorted(values)]
    for value in queue:
        inner = [(key, refer(part)) for key, part in parts(value)]
        nodes.append((type(value).__name__, _leaf(value), inner))
    return [roots, nodes]


def _is_value(value: object) -> bool:
    return value is None or isinstance(value, int | str | float | bytes)


def _memory(value: Any) -> int:
    """Return the identity of the memory of an array, or 0."""
    if not isinstance(value, np.ndarray):
        return 0
    while isinstance(value.base, np.ndarray):
        value = value.base
    return id(value)


def _leaf(value: Any) -> object:
    if isinstance(value, set):
        return sorted(map(repr, value))
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, array):
        return value.tolist()
    return len(parts(value))


# Steps


def put_into(target: Any, part: Any, number: int) -> bool:
    """Put an object into another one; tell whether that was possible."""
    if isinstance(target, Own) and number % 2:
        target.extra = part
    elif isinstance(target, Node) and number % 2:
        target.parent = part
    elif isinstance(target, Node | Own | Careful):
        target.kids.append(part)
    elif isinstance(target, list | deque):
        target.append(part)
    elif isinstance(target, dict):
        target[f"k{number % 3}"] = part
    else:
        return False
    return True


def _targets(value: Any) -> list[Any]:
    return [value, value.kids] if isinstance(value, Node | Own | Careful) else [value]


def change(target: Any, number: int) -> None:
    """Change an object in place."""
    if isinstance(target, set):
        target.add(number)
    elif isinstance(target, bytearray | array | list | deque):
        target.append(number)
    elif isinstance(target, dict):
        target["m"] = number
    elif isinstance(target, Node | Own | Careful):
        target.name = number
    elif isinstance(target, np.ndarray):
        target[0] = number


def take_out(target: Any) -> None:
    """Remove the last part of an object."""
    if isinstance(target, list | deque) and target:
        target.pop()
    elif isinstance(target, dict) and target:
        target.popitem()
    elif isinstance(target, Node):
        target.parent = None


class Program:
    """One program at work on a state of its own."""

    def __init__(self, kinds: dict[str, Callable[[int], Any]], *, cycles: bool) -> None:
        self.repo = otolith.open("memory:")
        self.state = self.repo.session("programs")
        self.kinds = kinds
        self.cycles = cycles
        self.shown: dict[str, list[Any]] = {}
        self.commits: list[str] = []
        self.forks = 0

    def values(self, state: Any = None) -> dict[str, Any]:
        """Return the values of a state by name."""
        here = self.state if state is None else state
        return {key: here[key] for key in here}

    def objects(self) -> list[Any]:
        """Return the objects in the state."""
        return reachable(self.values().values())[:40]

    def run(self, step: Step) -> str | None:
        """Run one step; return what is wrong."""
        verb, *arguments = step
        try:
            found = getattr(self, f"do_{verb}")(*arguments)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is wrong
            found = f"{type(error).__name__}: {str(error)[:90]}"
        return None if found is None else f"{verb}: {found}"

    # Edits

    def do_set(self, key: str, kind: str, number: int) -> None:
        self.state[key] = self.kinds[kind](number)

    def do_alias(self, key: str, source: int) -> None:
        if found := self.objects():
            self.state[key] = found[source % len(found)]

    def do_copy(self, key: str, source: int) -> None:
        if found := self.objects():
            self.state[key] = copy.deepcopy(found[source % len(found)])

    def do_nest(self, target: int, source: int, number: int) -> None:
        if not (found := self.objects()):
            return
        inner, outer = found[source % len(found)], found[target % len(found)]
        within = reachable([inner])
        if not self.cycles and any(each is part for each in within for part in _targets(outer)):
            return
        if isinstance(inner, np.ndarray) and inner.base is not None:
            return  # a pickle has no views
        put_into(outer, inner, number)

    def do_change(self, target: int, number: int) -> None:
        if found := self.objects():
            change(found[target % len(found)], number)

    def do_cut(self, target: int) -> None:
        if found := self.objects():
            take_out(found[target % len(found)])

    def do_del(self, key: str) -> None:
        if key in self.state:
            del self.state[key]

    def do_views(self, number: int) -> None:
        self.state["a"] = np.arange(number, number + 8.0)
        self.state["b"] = self.state["a"][1:5]

    # Verbs

    def do_commit(self) -> str | None:
        now = graph(self.values())
        if not any(_memory(each) for each in self.objects()):
            again = graph(pickle.loads(pickle.dumps(self.values())))
            assert now == again, "the graph of a pickle is another one"
        commit = self.state.commit("a step")
        known = self.shown.setdefault(commit.id, now)
        if commit.id not in self.commits:
            self.commits.append(commit.id)
        if known != now:
            return "a change was not seen"
        return self._compare(self.values(), commit.id) or self._idle()

    def do_rollback(self, number: int) -> str | None:
        if not self.commits:
            return None
        target = self.commits[number % len(self.commits)]
        commit = self.state.rollback(target, discard=True)
        self.shown.setdefault(commit.id, self.shown[target])
        return self._compare(self.values(), target)

    def do_undo(self) -> str | None:
        if self.state.head is None or len(self.commits) < 2:
            return None
        try:
            self.state.undo()
        except Error:
            return None
        return self._compare(self.values(), None)

    def do_discard(self) -> str | None:
        self.state.discard()
        return self._compare(self.values(), None)

    def do_refresh(self, key: str, source: int, number: int) -> str | None:
        """Let another handle share or change an object, and follow it."""
        if self.state.head is None:
            return None
        self.state.discard()
        self.values()
        other = self.repo.session(self.state.session)
        found = reachable(self.values(other).values())[:40]
        if not found:
            return None
        other[key] = found[source % len(found)]
        change(found[number % len(found)], number)
        now = graph(self.values(other))
        commit = other.commit("by another")
        assert commit is not None
        self.shown.setdefault(commit.id, now)
        self.commits.append(commit.id)
        self.state.refresh()
        return self._compare(self.values(), commit.id)

    def do_reopen(self) -> str | None:
        if self.state.head is None:
            return None
        self.state = self.repo.session(self.state.session)
        return self._compare(self.values(), None) or self._idle()

    def do_fork(self) -> str | None:
        if self.state.head is None:
            return None
        self.state.discard()
        self.forks += 1
        return self._compare(self.values(self.state.fork(f"fork-{self.forks}")), None)

    def do_at(self, number: int) -> str | None:
        if not self.commits:
            return None
        target = self.commits[number % len(self.commits)]
        return self._compare(self.state.at(target).to_dict(), target)

    def _idle(self) -> str | None:
        """Tell whether reading alone makes a commit."""
        return None if self.state.is_clean else "reading changed the state"

    def _compare(self, values: dict[str, Any], commit: str | None) -> str | None:
        if commit is None:
            if self.state.head is None or self.state.head.id not in self.shown:
                return None
            commit = self.state.head.id
        expected, found = self.shown[commit], graph(values)
        if found == expected:
            return None
        is_content = _content(found) != _content(expected)
        return "other content" if is_content else "other objects are one"


def _content(found: list[Any]) -> list[Any]:
    """Return what is in the places of a graph, without following cycles."""
    roots, nodes = found

    def show(reference: Any, depth: int) -> Any:
        if isinstance(reference, list) and reference[0] == "array":
            return reference[2]
        if isinstance(reference, list):
            return [show(each, depth) for each in reference]
        if not isinstance(reference, int) or depth == 6:
            return reference if isinstance(reference, str) else "..."
        name, leaf, inner = nodes[reference]
        return [name, leaf, [(key, show(part, depth + 1)) for key, part in inner]]

    return [(key, show(reference, 0)) for key, reference in roots]


def play(steps: list[Step], kinds: dict[str, Callable[[int], Any]], *, cycles: bool) -> str | None:
    """Play a program; return what is wrong, or None."""
    program = Program(kinds, cycles=cycles)
    wrongs = (program.run(step) for step in steps)
    return next((wrong for wrong in wrongs if wrong is not None), None)


def generate(seed: int, kinds: dict[str, Callable[[int], Any]], length: int = 30) -> list[Step]:
    """Return a random program."""
    chance = random.Random(seed)
    names = sorted(kinds)
    steps: list[Step] = [
        ("set", key, chance.choice(names), chance.randrange(3)) for key in chance.sample(KEYS, 3)
    ]

    def number() -> int:
        return chance.randrange(40)

    makers: list[tuple[int, Callable[[], Step]]] = [
        (4, lambda: ("set", chance.choice(KEYS), chance.choice(names), chance.randrange(3))),
        (5, lambda: ("alias", chance.choice(KEYS), number())),
        (1, lambda: ("copy", chance.choice(KEYS), number())),
        (4, lambda: ("nest", number(), number(), number())),
        (4, lambda: ("change", number(), number())),
        (1, lambda: ("cut", number())),
        (1, lambda: ("del", chance.choice(KEYS))),
        (5, lambda: ("commit",)),
        (2, lambda: ("rollback", number())),
        (1, lambda: ("undo",)),
        (2, lambda: ("discard",)),
        (1, lambda: ("refresh", chance.choice(KEYS), number(), number())),
        (2, lambda: ("reopen",)),
        (1, lambda: ("fork",)),
        (1, lambda: ("at", number())),
    ]
    if "array" in kinds:
        makers.append((1, lambda: ("views", number())))
    weights = [weight for weight, _ in makers]
    for _ in range(length):
        ((_, make),) = chance.choices(makers, weights)
        steps.append(make())
    return steps


def shrink(steps: list[Step], wrong: str, run: Callable[[list[Step]], str | None]) -> list[Step]:
    """Remove steps as long as the same is wrong."""
    is_shorter = True
    while is_shorter:
        is_shorter = False
        for at in range(len(steps) - 1, -1, -1):
            fewer = steps[:at] + steps[at + 1 :]
            if run(fewer) == wrong:
                steps, is_shorter = fewer, True
    return steps
