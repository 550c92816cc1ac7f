"""Charts inside charts, and services outside, live as long as the state that invoked them."""

from __future__ import annotations

import json

import pytest

from otolith.errors import BadChart, IllegalTransition
from otolith.statecharts import Chart, ChartEvent, ChartSnapshot

PARENT = """
<scxml xmlns="http://www.w3.org/2005/07/scxml">
  <datamodel><data id="price"/></datamodel>
  <state id="asking"><onexit><log expr="'parent left'"/></onexit>
    <invoke id="quote"><param name="base" expr="20"/>
      <finalize><assign location="price" expr="_event.data.price"/></finalize>
      <content><scxml><datamodel><data id="base" expr="1"/></datamodel>
        <state id="thinking"><onexit><log expr="'child left'"/>
            <send target="#_parent" event="last.words"/></onexit>
          <transition event="hurry" target="told"><send target="#_parent" event="quoted">
            <param name="price" expr="base + 1"/></send></transition></state>
        <final id="told"/></scxml></content></invoke>
    <transition event="go"><send target="#_quote" event="hurry"/></transition>
    <transition event="quoted" cond="price == 21" target="waiting"/>
    <transition event="leave" target="end"/></state>
  <state id="waiting"><transition event="done.invoke.quote" target="end"/></state>
  <state id="end"><transition event="last.words" target="wrong"/></state>
  <state id="wrong"/>
</scxml>"""


def logged(step):
    return [effect.params["value"] for effect in step.effects if effect.kind == "log"]


def test_a_child_is_given_values_and_answers_and_its_answer_is_seen_before_guards_are_asked():
    chart = Chart.from_scxml(PARENT)
    moved = chart.step(chart.start(session="s").snapshot, "go")

    assert moved.snapshot.data["price"] == 21
    assert [line.session for line in moved.trace] == ["", "quote", "", ""]


def test_leaving_the_state_ends_the_child_in_order_and_its_last_words_are_not_heard():
    chart = Chart.from_scxml(PARENT)
    moved = chart.step(chart.start().snapshot, "leave")

    assert logged(moved) == ["parent left", "child left"]
    assert moved.snapshot.phase == "end"
    assert moved.snapshot.children == ()


def test_a_child_survives_being_written_down():
    chart = Chart.from_scxml(PARENT)
    text = json.dumps(chart.start(session="s").snapshot.to_data())
    other = Chart.from_scxml(PARENT)

    moved = other.step(ChartSnapshot.from_data(json.loads(text)), "go")

    assert moved.snapshot.data["price"] == 21


def test_a_registered_chart_is_invoked_by_its_name_and_its_output_comes_back():
    adder = Chart.from_data(
        {
            "id": "adder",
            "initial": "end",
            "context": {"n": 1},
            "states": {"end": {"type": "final"}},
            "output": {"sum": {"@expr": "context.n + 1"}},
        }
    )
    chart = Chart.from_data(
        {
            "initial": "adding",
            "states": {
                "adding": {
                    "invoke": {
                        "id": "a",
                        "src": "adder",
                        "input": {"n": 41},
                        "onDone": {
                            "target": "done",
                            "actions": [
                                {
                                    "type": "@xstate.assign",
                                    "context": {"r": {"@expr": "event.output"}},
                                }
                            ],
                        },
                    }
                },
                "done": {},
            },
        }
    )
    chart.child("adder", adder)

    assert chart.start().snapshot.data["r"] == {"sum": 42}


def test_a_service_outside_is_an_effect_and_answers_with_an_event():
    chart = Chart.from_data(
        {
            "initial": "calling",
            "states": {
                "calling": {
                    "invoke": {"id": "m", "src": "model", "input": {"q": 1}, "onDone": "told"},
                    "on": {"stop": "told"},
                },
                "told": {},
            },
        }
    )
    started = chart.start(session="s")

    (effect,) = started.effects
    assert (effect.kind, effect.name, effect.id, effect.params) == (
        "invoke",
        "model",
        "m",
        {"input": {"q": 1}},
    )
    answer = ChartEvent("done.invoke.m", {"a": 2}, invokeid="m")
    assert chart.step(started.snapshot, answer).snapshot.phase == "told"
    (stop,) = chart.step(started.snapshot, "stop").effects
    assert (stop.kind, stop.id) == ("stop", "m")


def test_the_failure_of_a_child_is_an_event_for_its_parent():
    child = Chart.from_data({"initial": "a", "states": {"a": {"entry": ["break_it"]}}})

    @child.action
    def break_it(data, event):
        raise RuntimeError("no")

    chart = Chart.from_data(
        {
            "initial": "a",
            "states": {"a": {"invoke": {"id": "c", "src": "child", "onError": "b"}}, "b": {}},
        }
    )
    chart.child("child", child)

    assert chart.start().snapshot.phase == "b"


def test_a_child_that_failed_stays_as_it_is_when_written_down():
    child = Chart.from_data(
        {
            "initial": "a",
            "states": {"a": {"on": {"go": {"target": "b", "actions": ["break_it"]}}}, "b": {}},
        }
    )
    child.action("break_it")(lambda data, event: 1 / 0)
    chart = Chart.from_data(
        {
            "initial": "a",
            "states": {"a": {"invoke": {"id": "c", "src": "child", "autoForward": True}}},
        }
    )
    chart.child("child", child)

    broken = chart.step(chart.start().snapshot, "go").snapshot
    restored = ChartSnapshot.from_data(json.loads(json.dumps(broken.to_data())))

    assert [each.snapshot.status for each in broken.children if each.snapshot] == ["error"]
    assert restored == broken
    with pytest.raises(IllegalTransition):
        chart.step(restored, "go")


def test_two_children_cannot_have_one_name():
    chart = Chart.from_data(
        {
            "type": "parallel",
            "states": {
                "a": {"invoke": {"id": "x", "src": "s"}},
                "b": {
                    "invoke": {"id": "x", "src": "s"},
                    "on": {"error.execution": {"actions": ["e"]}},
                },
            },
        }
    )

    assert [effect.kind for effect in chart.start().effects] == ["invoke", "call"]


def test_a_child_timer_counts_for_the_whole():
    chart = Chart.from_data(
        {
            "initial": "a",
            "states": {
                "a": {
                    "invoke": {
                        "id": "c",
                        "src": {
                            "initial": "x",
                            "states": {"x": {"after": {"1000": "y"}}, "y": {"type": "final"}},
                        },
                        "onDone": "b",
                    }
                },
                "b": {},
            },
        }
    )
    start = chart.start().snapshot

    assert start.next_due == 1_000_000
    assert chart.advance(start, 1_000_000).snapshot.phase == "b"


def test_events_are_forwarded_where_the_chart_says_so():
    chart = Chart.from_scxml("""
      <scxml><state id="a">
        <invoke id="c" autoforward="true"><content><scxml>
          <state id="x"><transition event="knock" target="y"/></state><final id="y"/>
        </scxml></content></invoke>
        <transition event="done.invoke.c" target="b"/></state><state id="b"/></scxml>""")

    assert chart.step(chart.start().snapshot, "knock").snapshot.phase == "b"


def test_what_cannot_be_reached_is_an_error_of_communication():
    chart = Chart.from_scxml("""
      <scxml><state id="a"><onentry><send target="#_nobody" event="hello"/></onentry>
        <transition event="error.communication" target="b"/></state><state id="b"/></scxml>""")

    assert chart.start().snapshot.phase == "b"


def test_charts_do_not_invoke_themselves_without_end():
    chart = Chart.from_data(
        {
            "initial": "a",
            "states": {"a": {"invoke": {"id": "me", "src": "me", "onError": "b"}}, "b": {}},
        }
    )
    chart.child("me", chart)

    assert chart.start().snapshot.status == "running"


def test_a_bad_chart_inside_a_chart_is_refused_with_its_place():
    with pytest.raises(BadChart, match=r"line 2.*nowhere"):
        Chart.from_scxml("""<scxml><state id="a"><invoke><content>
          <scxml><state id="x"><transition event="e" target="nowhere"/></state></scxml>
        </content></invoke></state></scxml>""")
