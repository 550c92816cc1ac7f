"""A chart written as XState's JSON is the same chart when it is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from otolith.errors import BadChart
from otolith.statecharts import AGENT, Chart
from otolith.statecharts.definition import (
    Assign,
    Definition,
    Expression,
    ForEach,
    If,
    Literal,
    State,
    Transition,
    hash_of,
)
from otolith.statecharts.formats.scxml_reader import read_scxml
from otolith.statecharts.formats.xstate_reader import read_xstate
from otolith.statecharts.formats.xstate_writer import to_xstate
from otolith.statecharts.snapshot import ChartSnapshot
from tests.unit.statecharts.drawn_charts import HOSTILE, charts, every_state

BOOKING: dict[str, Any] = {
    "id": "booking",
    "version": "2",
    "description": "Books a flight.",
    "context": {"tries": 0},
    "initial": "idle",
    "on": {"RESET": {"target": ".idle", "reenter": True}},
    "states": {
        "idle": {
            "tags": ["calm"],
            "meta": {"layout": {"x": 1}},
            "entry": ["greet"],
            "on": {"NEW": [{"target": "work", "guard": "has_goal"}, "closed"]},
        },
        "work": {
            "type": "parallel",
            "onDone": "closed",
            "states": {
                "plan": {
                    "initial": "draft",
                    "states": {
                        "draft": {"after": {"500": "ready"}},
                        "ready": {"on": {"BACK": "draft", "DONE": "end"}},
                        "end": {"type": "final"},
                        "last": {"type": "history", "history": "deep", "target": "draft"},
                    },
                },
                "watch": {"invoke": {"src": "bell", "onDone": "#booking.work.plan.ready"}},
            },
        },
        "closed": {"type": "final"},
    },
}


def _again(definition: Definition) -> Definition:
    return read_xstate(json.loads(json.dumps(to_xstate(definition))))


@settings(max_examples=settings().max_examples // 2, suppress_health_check=list(HealthCheck))
@given(charts())
def test_whatever_a_chart_does_it_does_when_read_again(definition: Definition) -> None:
    assert hash_of(_again(definition)) == hash_of(definition)


@settings(max_examples=settings().max_examples // 2, suppress_health_check=list(HealthCheck))
@given(charts())
def test_what_is_said_about_states_is_kept(definition: Definition) -> None:
    def said(chart: Definition) -> list[Any]:
        states = every_state(chart.root)[1:]
        ways = [way for state in states for way in state.transitions]
        remarks = [(state.description, state.tags, state.meta) for state in states]
        return [remarks, [(way.description, way.meta) for way in ways], chart.version]

    assert said(_again(definition)) == said(definition)


def test_a_chart_that_xstate_can_say_is_written_as_it_was() -> None:
    assert to_xstate(read_xstate(BOOKING)) == BOOKING


def test_the_agent_is_version_5_without_notes_of_ours() -> None:
    written = json.dumps(to_xstate(AGENT.definition))

    assert "otolith" not in written
    assert "@" not in written
    assert hash_of(_again(AGENT.definition)) == AGENT.hash


def test_the_content_of_scxml_is_read_back() -> None:
    text = """<scxml xmlns="http://www.w3.org/2005/07/scxml" datamodel="ecmascript">
      <datamodel><data id="n" expr="0"/><data id="empty"/></datamodel>
      <state id="a">
        <onentry>
          <if cond="n &lt; 3"><assign location="n" expr="n+1"/><else/><log expr="n"/></if>
        </onentry>
        <onentry><foreach array="[1]" item="n"><raise event="e"/></foreach></onentry>
        <transition event="e f.*" target="a"><script> n = 1 </script></transition>
        <transition cond="In('a')"/>
      </state></scxml>"""
    definition = read_scxml(text)

    again = _again(definition)

    assert hash_of(again) == hash_of(definition)
    kinds = [type(action) for block in again.root.children[0].entry for action in block]
    assert kinds == [If, ForEach]


def test_a_value_that_looks_like_an_expression_stays_a_value() -> None:
    literal = Literal({"@expr": "1 + 1", "deep": [{"@code": "x"}]})
    entry = ((Assign("n", literal), Assign("n", Expression("n + 1", "python"))),)
    start = Transition((), ("a",), is_internal=False)
    root = State("#m", "compound", (State("a", "atomic", entry=entry),), initial=start)

    assert _again(Definition("m", root)).root.children[0].entry == entry


def test_an_input_that_is_zero_is_written() -> None:
    invoke = {"id": "child", "src": "service", "input": 0}
    config = {"id": "m", "initial": "a", "states": {"a": {"invoke": invoke}}}
    assert to_xstate(read_xstate(config)) == config


def test_transitions_keep_the_order_they_are_tried_in() -> None:
    ways = tuple(
        Transition(events, ("a",), is_internal=True)
        for events in (("x", "y"), (), ("*",), ("x",), ("done.state.a",), ("y",))
    )
    start = Transition((), ("a",), is_internal=False)
    root = State("#m", "compound", (State("a", "atomic", transitions=ways),), initial=start)

    assert _again(Definition("m", root)).root.children[0].transitions == ways


@pytest.mark.parametrize("name", HOSTILE)
def test_a_state_may_be_called_anything(name: str) -> None:
    inner = State(f"in {name}", "atomic", transitions=(_to(name), _to("#m"), _to("b")))
    box = State(name, "compound", (inner,), initial=_start(inner.id))
    root = State("#m", "compound", (box, State("b", "atomic")), initial=_start(name))
    definition = Definition("m", root)

    assert _again(definition).root == root


def test_an_unknown_target_is_refused() -> None:
    broken = State("a", "atomic", transitions=(_to("nowhere"),))
    root = State("#m", "compound", (broken,), initial=_start("a"))

    with pytest.raises(BadChart, match="nowhere"):
        to_xstate(Definition("m", root))


def test_a_chart_read_again_takes_the_same_way() -> None:
    first, second = Chart.from_data(BOOKING), Chart(_again(read_xstate(BOOKING)))
    for chart in (first, second):
        chart.guard("has_goal")(lambda data, event: True)
    one, other = first.start().snapshot, second.start().snapshot
    for event in ("NEW", "after", "BACK", "RESET", "NEW", "after", "DONE"):
        one, other = _moved(first, one, event), _moved(second, other, event)
        assert one.configuration == other.configuration


def _moved(chart: Chart, snapshot: ChartSnapshot, event: str) -> ChartSnapshot:
    if event == "after":
        return chart.advance(snapshot, snapshot.time + 500_000).snapshot
    return chart.step(snapshot, event).snapshot


def _to(target: str) -> Transition:
    return Transition((f"to {target}",), (target,), is_internal=False)


def _start(target: str) -> Transition:
    return Transition((), (target,), is_internal=False)


@pytest.mark.parametrize(
    "notes",
    [
        {"chart": {"dialect": "perl"}},
        {"chart": {"matching": True}},
        {"chart": 5},
        {"data": 5},
        {"data": [[]]},
        {"entry": "x"},
        {"entry": [7]},
        {"output": []},
        {"initial": 5},
        {"invokes": [None, None]},
    ],
)
def test_notes_that_we_would_not_write_are_refused(notes: dict[str, Any]) -> None:
    config = {"id": "m", "initial": "a", "states": {"a": {}}, "meta": {"otolith": notes}}

    with pytest.raises(BadChart):
        read_xstate(config)
