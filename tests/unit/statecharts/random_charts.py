"""Small random charts, as dicts in the shape of XState's config."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from otolith.statecharts import Chart

EVENTS = ("a", "b", "c")
GUARDS = ("g", "h")

answers = st.fixed_dictionaries({name: st.booleans() for name in GUARDS})


def bind_guards(chart: Chart) -> dict[str, bool]:
    """Bind the guards to a dict; they must not change their minds in the middle of a step."""
    truth = dict.fromkeys(GUARDS, False)
    for name in GUARDS:
        chart.guard(name)(lambda data, event, name=name: truth[name])
    return truth


@st.composite
def configs(
    draw: Any,
    *,
    guards: tuple[str, ...] = (),
    has_chains: bool = True,
    has_timers: bool = False,
    has_counter: bool = False,
) -> dict[str, Any]:
    """Return a chart of up to about ten states: nested, parallel, with history and final states.

    Without chains an event takes one microstep: nothing is eventless, raised or done.
    """
    names = iter(f"s{number}" for number in range(1_000))
    states = {next(names): draw(_trees(names, 2)) for _ in range(draw(st.integers(2, 4)))}
    config: dict[str, Any] = {"id": "random", "initial": "s0", "states": states}
    if states["s0"].get("type") == "final":
        states["s0"] = {}
    if has_counter:
        config["context"] = {"n": 0}
    ids: list[str] = []
    _name(config, ids)
    past = {f"#{each['id']}" for each in _below(config) if each.get("type") == "history"}
    for state in _below(config):
        if state.get("type") not in {"final", "history"}:
            kinds = _Kinds(guards, has_chains, has_timers, has_counter, past)
            _add_transitions(draw, state, ids, kinds)
    return config


class _Kinds(NamedTuple):
    guards: tuple[str, ...]
    has_chains: bool
    has_timers: bool
    has_counter: bool
    past: set[str]


@st.composite
def _trees(draw: Any, names: Any, depth: int) -> dict[str, Any]:
    kind = draw(
        st.sampled_from(["atomic"] * 5 + ["final"] + ["compound", "parallel"] * (depth > 0))
    )
    if kind == "atomic":
        return {}
    if kind == "final":
        return {"type": "final"}
    children = {next(names): draw(_trees(names, depth - 1)) for _ in range(draw(st.integers(1, 3)))}
    if kind == "parallel":
        for name, child in children.items():
            if child.get("type") == "final":
                children[name] = {}
    found: dict[str, Any] = {"states": children}
    if kind == "parallel":
        found["type"] = "parallel"
    else:
        found["initial"] = next(iter(children))
        if draw(st.booleans()):
            history = draw(st.sampled_from(["shallow", "deep"]))
            children[next(names)] = {"type": "history", "history": history}
    return found


def _name(state: dict[str, Any], ids: list[str]) -> None:
    for name, child in state.get("states", {}).items():
        child["id"] = name
        ids.append(name)
        _name(child, ids)


def _below(state: dict[str, Any]) -> list[dict[str, Any]]:
    children = list(state.get("states", {}).values())
    return children + [inner for child in children for inner in _below(child)]


def _add_transitions(draw: Any, state: dict[str, Any], ids: list[str], kinds: _Kinds) -> None:
    on: dict[str, Any] = {}
    own = None if state.get("type") == "parallel" else state["id"]
    for event in EVENTS:
        if found := draw(st.lists(_transitions(own, ids, kinds), max_size=2)):
            on[event] = found
    if on:
        state["on"] = on
    if kinds.has_chains and state.get("states") and draw(st.booleans()):
        state["onDone"] = draw(_transitions(own, ids, kinds))
    if kinds.has_chains and draw(st.integers(0, 5)) == 0:
        state["always"] = draw(_transitions(own, ids, kinds))
    if kinds.has_timers and draw(st.integers(0, 2)) == 0:
        delay = draw(st.sampled_from(["10", "20", "1500"]))
        state["after"] = {delay: draw(_transitions(own, ids, kinds))}


@st.composite
def _transitions(draw: Any, own: str | None, ids: list[str], kinds: _Kinds) -> dict[str, Any]:
    found: dict[str, Any] = {"target": f"#{draw(st.sampled_from(ids))}"}
    is_around = own is None or found["target"] in {f"#{own}", *kinds.past}
    if is_around or draw(st.integers(0, 4)) == 0:
        found["reenter"] = True
    if kinds.guards and draw(st.booleans()):
        found["guard"] = draw(st.sampled_from(kinds.guards))
    if kinds.has_counter and draw(st.booleans()):
        found["actions"] = {
            "type": "xstate.assign",
            "context": {"n": {"@expr": "(context.n + 1) % 3"}},
        }
    if kinds.has_counter and draw(st.booleans()):
        limit = draw(st.integers(0, 2))
        found["guard"] = {"@expr": f"context.n == {limit}"}
    if kinds.has_chains and draw(st.integers(0, 9)) == 0:
        event = draw(st.sampled_from(EVENTS))
        found.setdefault("actions", {"type": "xstate.raise", "event": event})
    return found
