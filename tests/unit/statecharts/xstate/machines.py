"""Random machines as XState's config, and scripts for them, drawn from a seed.

All that a config can say is drawn that both engines can play: nested, parallel and final states in
any place, history states with and without a type, guards, counters, raised events, timers,
services, eventless transitions with and without targets, and targets in all spellings. Every state
notes when it is entered and left, so that the order of actions is compared, too.
"""

from __future__ import annotations

import json
from hashlib import sha256
from random import Random
from typing import Any

EVENTS = ("a", "b", "c")
GUARDS = ("g", "h")
Config = dict[str, Any]
ScriptStep = dict[str, Any]


def draw_machine(seed: int) -> Config:
    """Return the machine of a seed."""
    return _Drawing(Random(f"machine {seed}")).machine()


def draw_script(seed: int, length: int) -> list[ScriptStep]:
    """Return the script of a seed: events, time, answers of services, each with those of guards."""
    chance = Random(f"script {seed}")
    found: list[ScriptStep] = []
    for _ in range(length):
        kind = chance.choice(["event"] * 6 + ["wait", "wait", "done", "fail"])
        value: Any = chance.choice(EVENTS)
        if kind == "wait":
            value = chance.choice([10, 20, 50])
        elif kind != "event":
            value = f"work{chance.randrange(8)}"
        found.append({kind: value, "truth": {name: chance.random() < 0.5 for name in GUARDS}})
    return found


def fingerprint(machine: Config, script: list[ScriptStep]) -> str:
    """Return a few letters that tell whether a seed still draws the same."""
    text = json.dumps([machine, script], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:12]


class _Drawing:
    """Draws one machine: first the states, then the transitions between them."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._states: list[tuple[Config, tuple[str, ...]]] = []
        self._ids: list[str] = []
        self._past: dict[str, tuple[str, ...]] = {}
        self._services = 0
        self._eventless = 0

    def machine(self) -> Config:
        is_parallel = self._chance.random() < 0.2
        root = self._container(3, (), is_parallel=is_parallel)
        # Of two in different regions, XState prefers the one whose state was entered earlier.
        has_regions = any(state.get("type") == "parallel" for state, _ in self._states)
        self._eventless = 1 if is_parallel or has_regions else len(self._states)
        for state, path in self._states:
            self._fill(state, path)
        if self._chance.random() < 0.3:
            root["on"] = {"c": self._transition(root, (), always=False)}
        return {"id": "m", "context": {"n": 0}, **root}

    def _container(self, depth: int, path: tuple[str, ...], *, is_parallel: bool) -> Config:
        chance = self._chance
        states: Config = {}
        for number in range(chance.randint(1 + (not path), 3)):
            key = f"s{len(self._ids)}" + (".x" if chance.random() < 0.1 else "")
            kinds = ["atomic"] * 5 + ["final"] * (1 + is_parallel) * bool(path or number)
            kinds += ["compound", "parallel"] * (depth > 0)
            states[key] = self._state(chance.choice(kinds), depth - 1, (*path, key))
        found: Config = {"states": states}
        if is_parallel:
            found["type"] = "parallel"
        else:
            found["initial"] = chance.choice(list(states))
        if chance.random() < 0.35:
            key = f"s{len(self._ids)}"
            states[key] = self._new({"history": chance.choice(["shallow", "deep"])})
            self._past[key] = path
            if is_parallel:  # the default would be the parallel state itself
                states[key]["target"] = next(iter(states)).replace(".", "\\.")
            if chance.random() < 0.5:
                states[key]["type"] = "history"
        return found

    def _state(self, kind: str, depth: int, path: tuple[str, ...]) -> Config:
        state = self._new({})
        if kind == "final":
            state["type"] = "final"
        elif kind != "atomic":
            state |= self._container(depth, path, is_parallel=kind == "parallel")
        self._states.append((state, path))
        return state

    def _new(self, state: Config) -> Config:
        state["id"] = f"s{len(self._ids)}"
        self._ids.append(state["id"])
        return state

    def _fill(self, state: Config, path: tuple[str, ...]) -> None:
        """Add the transitions, actions and services of a state."""
        chance, id = self._chance, state["id"]
        state["entry"], state["exit"] = [f"+{id}"], [f"-{id}"]
        if state.get("type") == "final":
            return
        for event in EVENTS:
            if chance.random() < 0.6:
                count = chance.randint(1, 2)
                configs = [self._transition(state, path, always=False) for _ in range(count)]
                state.setdefault("on", {})[event] = configs
        if state.get("states") and chance.random() < 0.6:
            state["onDone"] = self._transition(state, path, always=False)
        if self._eventless and chance.random() < 0.15:
            state["always"] = self._transition(state, path, always=True)
            self._eventless -= 1
        if chance.random() < 0.25:
            delay = chance.choice(["10", "20", "40"])
            state["after"] = {delay: self._transition(state, path, always=False)}
        if chance.random() < 0.2:
            done, fail = (self._transition(state, path, always=False) for _ in range(2))
            fail.pop("guard", None)  # a failure that nobody takes ends a machine of XState
            id = f"work{self._services}"
            state["invoke"] = {"id": id, "src": "work", "onDone": done, "onError": fail}
            self._services += 1

    def _transition(self, state: Config, path: tuple[str, ...], *, always: bool) -> Config:
        chance = self._chance
        found: Config = {}
        if chance.random() < 0.85:
            found["target"] = self._target(state, path)
        if chance.random() < 0.25:
            found["reenter"] = True
        if always or chance.random() < 0.4:
            found["guard"] = chance.choice([*GUARDS, "n=0", "n=1"])
        actions = [chance.choice(["count", "note", *(f"raise:{event}" for event in EVENTS)])]
        if chance.random() < 0.35:
            found["actions"] = actions
        return found

    def _target(self, state: Config, path: tuple[str, ...]) -> str:
        """Return a target in one of its spellings.

        XState reads `.` and `.child` of a state whose own key has a dot as other states. From
        inside its parent, a history state may lead to states that are entered and were not left.
        """
        chance = self._chance
        is_plain = bool(path) and "." not in path[-1]
        if is_plain and chance.random() < 0.1:
            return "."
        around = [id for id, above in self._past.items() if path[: len(above)] == above]
        ids = [id for id in self._ids if id not in around]
        inner = [key for key, each in state.get("states", {}).items() if each["id"] in ids]
        if is_plain and inner and chance.random() < 0.2:
            return "." + str(chance.choice(inner)).replace(".", "\\.")
        return f"#{chance.choice(ids)}"
