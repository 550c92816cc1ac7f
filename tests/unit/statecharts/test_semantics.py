"""The rules of the SCXML algorithm, one test each."""

from __future__ import annotations

import pytest

from otolith.errors import StepFailed
from otolith.statecharts import Chart, ChartEvent


def scxml(body, **attributes):
    said = " ".join(f'{name}="{value}"' for name, value in attributes.items())
    return Chart.from_scxml(f'<scxml xmlns="http://www.w3.org/2005/07/scxml" {said}>{body}</scxml>')


def logged(step):
    """Return what the actions of a step said, in order."""
    return [effect.params["value"] for effect in step.effects if effect.kind == "log"]


def say(word):
    return f"<log expr=\"'{word}'\"/>"


def test_states_are_left_inside_out_then_the_transition_acts_then_states_are_entered_outside_in():
    chart = scxml(f"""
      <state id="a"><onexit>{say("out a")}</onexit>
        <transition event="go" target="b1">{say("between")}</transition>
        <state id="a1"><onexit>{say("out a1")}</onexit></state></state>
      <state id="b"><onentry>{say("in b")}</onentry>
        <state id="b1"><onentry>{say("in b1")}</onentry></state></state>""")

    moved = chart.step(chart.start().snapshot, "go")

    assert logged(moved) == ["out a1", "out a", "between", "in b", "in b1"]
    assert moved.trace[0].exited == ("a1", "a")
    assert moved.trace[0].entered == ("b", "b1")


def test_the_innermost_state_that_can_speaks():
    chart = scxml("""
      <state id="a"><transition event="go" target="outer"/>
        <state id="a1"><transition event="go" target="inner"/></state></state>
      <state id="inner"/><state id="outer"/>""")

    assert chart.step(chart.start().snapshot, "go").snapshot.phase == "inner"


def test_a_guard_that_says_no_lets_the_state_around_speak():
    chart = scxml("""
      <state id="a"><transition event="go" target="outer"/>
        <state id="a1"><transition event="go" cond="False" target="inner"/></state></state>
      <state id="inner"/><state id="outer"/>""")

    assert chart.step(chart.start().snapshot, "go").snapshot.phase == "outer"


def test_of_two_transitions_of_a_state_the_first_that_holds_is_taken():
    chart = scxml("""
      <datamodel><data id="n" expr="5"/></datamodel>
      <state id="a">
        <transition event="go" cond="n &lt; 3" target="few"/>
        <transition event="go" cond="n &lt; 9" target="some"/>
        <transition event="go" target="many"/></state>
      <state id="few"/><state id="some"/><state id="many"/>""")

    assert chart.step(chart.start().snapshot, "go").snapshot.phase == "some"


def test_regions_move_together():
    chart = scxml("""
      <parallel id="p">
        <state id="l"><state id="l1"><transition event="go" target="l2"/></state>
          <state id="l2"/></state>
        <state id="r"><state id="r1"><transition event="go" target="r2"/></state>
          <state id="r2"/></state></parallel>""")

    assert chart.step(chart.start().snapshot, "go").snapshot.configuration == ("l2", "r2")


def test_a_transition_out_of_a_parallel_state_preempts_a_later_region():
    chart = scxml("""
      <parallel id="p">
        <state id="l"><state id="l1"><transition event="go" target="away"/></state></state>
        <state id="r"><state id="r1"><transition event="go" target="r2"/></state>
          <state id="r2"/></state></parallel>
      <state id="away"/>""")

    assert chart.step(chart.start().snapshot, "go").snapshot.phase == "away"


def test_a_transition_further_inside_preempts_one_around_it():
    chart = scxml("""
      <parallel id="p"><transition event="go" target="away"/>
        <state id="l"><state id="l1"/></state>
        <state id="r"><state id="r1"><transition event="go" target="r2"/></state>
          <state id="r2"/></state></parallel>
      <state id="away"/>""")

    assert chart.step(chart.start().snapshot, "go").snapshot.configuration == ("l1", "r2")


def test_eventless_transitions_go_before_internal_events():
    chart = scxml("""
      <state id="a"><onentry><raise event="ping"/></onentry>
        <transition target="b"/><transition event="ping" target="wrong"/></state>
      <state id="b"><transition event="ping" target="right"/></state>
      <state id="right"/><state id="wrong"/>""")

    assert chart.start().snapshot.phase == "right"


def test_internal_events_go_before_external_ones():
    chart = scxml("""
      <state id="a"><onentry><send event="outside"/><raise event="inside"/></onentry>
        <transition event="*" target="b"/></state>
      <state id="b"><transition event="outside" target="right"/></state><state id="right"/>""")

    started = chart.start()

    assert [line.event for line in started.trace[1:]] == ["inside", "outside"]
    assert started.snapshot.phase == "right"


def test_an_external_self_transition_leaves_and_enters_again_and_an_internal_one_does_not():
    body = """
      <state id="a" initial="a1"><onentry><log expr="'in a'"/></onentry>
        <transition event="go" type="{kind}" target="a2"/>
        <state id="a1"/><state id="a2"/></state>"""
    external, internal = (scxml(body.format(kind=kind)) for kind in ("external", "internal"))

    assert logged(external.step(external.start().snapshot, "go")) == ["in a"]
    assert logged(internal.step(internal.start().snapshot, "go")) == []


def test_a_transition_without_a_target_leaves_nothing():
    chart = scxml("""
      <datamodel><data id="n" expr="0"/></datamodel>
      <state id="a"><onexit><log expr="'left'"/></onexit>
        <transition event="go"><assign location="n" expr="n + 1"/></transition></state>""")

    moved = chart.step(chart.start().snapshot, "go")

    assert (logged(moved), moved.snapshot.data["n"], moved.snapshot.phase) == ([], 1, "a")


def test_an_event_is_meant_by_its_first_words():
    chart = scxml(
        '<state id="a"><transition event="error.disk" target="b"/></state><state id="b"/>'
    )
    start = chart.start().snapshot

    assert chart.step(start, "error.disk.full").snapshot.phase == "b"
    assert chart.step(start, "error.diskette").snapshot.phase == "a"


def test_a_final_state_tells_that_the_state_around_it_is_done_with_its_data():
    chart = scxml("""
      <state id="a"><transition event="done.state.a" target="b">
          <log expr="_event.data.sum"/></transition>
        <state id="a1"><transition event="go" target="a2"/></state>
        <final id="a2"><donedata><param name="sum" expr="1 + 2"/></donedata></final></state>
      <state id="b"/>""")

    moved = chart.step(chart.start().snapshot, "go")

    assert (moved.snapshot.phase, logged(moved)) == ("b", [3])


def test_a_parallel_state_is_done_when_all_of_its_regions_are():
    chart = scxml("""
      <parallel id="p"><transition event="done.state.p" target="end"/>
        <state id="l"><state id="l1"><transition event="left" target="l2"/></state>
          <final id="l2"/></state>
        <state id="r"><state id="r1"><transition event="right" target="r2"/></state>
          <final id="r2"/></state></parallel>
      <final id="end"/>""")

    one = chart.step(chart.start().snapshot, "left").snapshot
    both = chart.step(one, "right").snapshot

    assert one.configuration == ("l2", "r1")
    assert (both.configuration, both.status) == (("end",), "done")


def test_a_parallel_state_of_parallel_states_is_done_too():
    chart = scxml("""
      <parallel id="p"><transition event="done.state.p" target="end"/>
        <parallel id="q">
          <state id="l"><state id="l1"><transition event="go" target="l2"/></state>
            <final id="l2"/></state></parallel></parallel>
      <final id="end"/>""")

    assert chart.step(chart.start().snapshot, "go").snapshot.status == "done"


def test_a_chart_that_is_done_leaves_its_states_and_keeps_its_output():
    chart = scxml("""
      <state id="a"><transition event="go" target="end"/></state>
      <final id="end"><onexit><log expr="'left'"/></onexit>
        <donedata><content expr="'sum'"/></donedata></final>""")

    moved = chart.step(chart.start().snapshot, "go")

    assert (moved.snapshot.status, moved.snapshot.output, logged(moved)) == (
        "done",
        "sum",
        ["left"],
    )


def test_shallow_history_remembers_the_child_and_deep_history_the_leaf():
    body = """
      <state id="a"><transition event="away" target="b"/>
        <history id="h" type="{kind}"><transition target="a1"/></history>
        <state id="a1"><transition event="next" target="a22"/></state>
        <state id="a2" initial="a21"><state id="a21"/><state id="a22"/></state></state>
      <state id="b"><transition event="back" target="h"/></state>"""
    found = {}
    for kind in ("shallow", "deep"):
        chart = scxml(body.format(kind=kind))
        snapshot = chart.start().snapshot
        for event in ("next", "away", "back"):
            snapshot = chart.step(snapshot, event).snapshot
        found[kind] = snapshot.phase

    assert found == {"shallow": "a21", "deep": "a22"}


def test_history_without_a_past_takes_its_default():
    chart = scxml("""
      <state id="b"><transition event="back" target="h"/></state>
      <state id="a" initial="a1"><state id="a1"/><state id="a2"/>
        <history id="h"><transition target="a2"><log expr="'default'"/></transition></history>
      </state>""")

    moved = chart.step(chart.start().snapshot, "back")

    assert (moved.snapshot.phase, logged(moved)) == ("a2", ["default"])


def test_a_state_left_in_the_same_step_is_remembered_before_history_is_asked():
    chart = scxml("""
      <state id="a" initial="h"><transition event="again" target="a"/>
        <history id="h"><transition target="a1"/></history>
        <state id="a1"><transition event="next" target="a2"/></state><state id="a2"/></state>""")
    second = chart.step(chart.start().snapshot, "next").snapshot

    assert chart.step(second, "again").snapshot.phase == "a2"


def test_a_block_that_fails_ends_there_and_the_next_block_runs():
    chart = scxml("""
      <state id="a">
        <onentry><log expr="nobody"/><log expr="'never'"/></onentry>
        <onentry><log expr="'still'"/></onentry>
        <transition event="error.execution" target="b"/></state><state id="b"/>""")

    started = chart.start()

    assert (logged(started), started.snapshot.phase) == (["still"], "b")


def test_late_binding_gives_a_variable_its_value_when_its_state_is_entered():
    body = """
      <state id="a"><transition event="go" target="b"/></state>
      <state id="b"><datamodel><data id="n" expr="7"/></datamodel></state>"""
    late, early = scxml(body, binding="late"), scxml(body, binding="early")

    assert late.start().snapshot.data["n"] is None
    assert late.step(late.start().snapshot, "go").snapshot.data["n"] == 7
    assert early.start().snapshot.data["n"] == 7


def test_for_each_goes_through_the_list_as_it_was():
    chart = scxml("""
      <datamodel><data id="items">[1, 2]</data><data id="sum" expr="0"/></datamodel>
      <state id="a"><onentry><foreach array="items" item="each" index="at">
        <assign location="items" expr="items + [9]"/>
        <assign location="sum" expr="sum + each * 10 + at"/></foreach></onentry></state>""")

    data = chart.start().snapshot.data

    assert (data["sum"], data["items"], data["each"], data["at"]) == (31, [1, 2, 9, 9], 2, 1)


def test_the_first_arm_that_holds_is_done():
    chart = scxml("""
      <datamodel><data id="n" expr="2"/></datamodel>
      <state id="a"><onentry><if cond="n == 1"><log expr="'one'"/>
        <elseif cond="n == 2"/><log expr="'two'"/><else/><log expr="'more'"/></if></onentry>
      </state>""")

    assert logged(chart.start()) == ["two"]


def test_a_state_is_active_when_its_entry_actions_run_and_its_children_are_not_yet():
    chart = scxml("""
      <state id="a"><onentry><log expr="In('a')"/><log expr="In('a1')"/></onentry>
        <state id="a1"/></state>""")

    assert logged(chart.start()) == [True, False]


def test_variables_of_the_system_cannot_be_assigned_to():
    chart = scxml("""
      <state id="a"><onentry><assign location="_sessionid" expr="'mine'"/></onentry>
        <transition event="error.execution" target="b"/></state><state id="b"/>""")

    assert chart.start().snapshot.phase == "b"


def test_an_endless_chain_of_eventless_transitions_names_the_states_it_goes_round_in():
    chart = scxml("""
      <state id="rest"><transition event="go" target="ping"/></state>
      <state id="ping"><transition target="pong"/></state>
      <state id="pong"><transition target="ping"/></state>""")
    before = chart.start().snapshot

    with pytest.raises(StepFailed, match=r"ping -> pong|pong -> ping"):
        chart.step(before, "go")

    assert before.phase == "rest"
    assert chart.step(before, "other").snapshot.phase == "rest"


def test_two_events_that_cause_each_other_do_not_run_for_ever():
    chart = scxml('<state id="a"><transition event="go"><send event="go"/></transition></state>')

    with pytest.raises(StepFailed, match="without coming to rest"):
        chart.step(chart.start().snapshot, "go")


def test_an_event_without_a_name_is_refused():
    chart = scxml('<state id="a"/>')

    with pytest.raises(ValueError, match="name"):
        chart.step(chart.start().snapshot, ChartEvent(""))


def test_an_internal_transition_to_itself_enters_nothing_above_or_beside() -> None:
    chart = Chart.from_data(
        {
            "id": "x",
            "type": "parallel",
            "states": {
                "a": {"initial": "a1", "states": {"a1": {"on": {"go": "a2"}}, "a2": {}}},
                "b": {"initial": "b1", "on": {"again": "#x.b"}, "states": {"b1": {}}},
            },
        }
    )
    moved = chart.step(chart.start().snapshot, "go").snapshot
    assert chart.step(moved, "again").snapshot.configuration == ("a.a2", "b.b1")


def test_in_xstate_the_closer_name_goes_first() -> None:
    on = {"*": "any", "order.*": "some", "order.paid": "one", "y": "one"}
    states = {
        "a": {"on": on, "after": {"10": "late"}},
        "any": {},
        "some": {},
        "one": {},
        "late": {},
    }
    chart = Chart.from_data({"id": "c", "initial": "a", "states": states})
    first = chart.start().snapshot
    sent = ("x", "order.x", "order.paid", "y")
    phases = [chart.step(first, event).snapshot.phase for event in sent]
    assert phases == ["any", "some", "one", "one"]
    assert chart.advance(first, 20_000).snapshot.phase == "late"


def test_a_region_is_not_lost_to_a_transition_beside_it() -> None:
    regions = {"r1": {"on": {"c": {"target": "#p", "reenter": True}}}, "r2": {"on": {"c": "r2"}}}
    parallel = {"id": "p", "type": "parallel", "on": {"d": ".r2"}, "states": regions}
    chart = Chart.from_data({"id": "x", "initial": "p", "states": {"p": parallel}})
    start = chart.start().snapshot
    for event in ("c", "d"):
        assert chart.step(start, event).snapshot.configuration == ("p.r1", "p.r2")
