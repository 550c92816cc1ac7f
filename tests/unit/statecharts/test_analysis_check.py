"""Each finding is told of a chart that has it, and not of one that is nearly the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otolith.errors import StepFailed
from otolith.statecharts import AGENT, Chart
from otolith.statecharts.analysis import check
from tests.effort import lines_run
from tests.unit.statecharts.random_charts import EVENTS, GUARDS, answers, bind_guards, configs

FINAL = {"type": "final"}
COUNT = {"type": "xstate.assign", "context": {"n": {"@expr": "context.n + 1"}}}


def chart(states, **fields):
    return Chart.from_data({"id": "it", "initial": next(iter(states)), "states": states, **fields})


def told(found, kind):
    return [(each.severity, each.state) for each in found if each.kind == kind]


def kinds(states, **fields):
    return {each.kind for each in check(chart(states, **fields).compiled)}


def test_the_built_in_chart_has_no_findings():
    assert check(AGENT.compiled) == []


# ---------------------------------------------------------------- reaching


def test_a_state_that_nothing_leads_to_is_unreachable():
    bad = {"a": {"on": {"x": "b"}}, "b": FINAL, "c": {"on": {"x": "b"}}}
    good = {**bad, "a": {"on": {"x": "b", "y": "c"}}}

    assert told(check(chart(bad).compiled), "unreachable") == [("warning", "c")]
    assert kinds(good) == set()


def test_a_state_that_only_an_impossible_order_leads_to_is_unreachable():
    """Static ways lead to it; but the event that is needed was used up on the way."""

    def states(event):
        return {
            "a": {"on": {"x": "b"}},
            "b": {"always": [{"target": "c"}], "on": {event: "d"}},
            "c": {"on": {"x": "a"}},
            "d": {"on": {"x": "a"}},
        }

    assert told(check(chart(states("x")).compiled), "unreachable") == [("warning", "d")]
    assert kinds({**states("x"), "b": {"on": {"x": "d", "y": "c"}}}) == set()


def test_of_states_inside_one_another_the_outermost_unreachable_one_is_told():
    inner = {"initial": "d", "states": {"d": {"on": {"x": "e"}}, "e": {"on": {"x": "d"}}}}
    states = {"a": {"on": {"x": "b"}}, "b": {"on": {"x": "a"}}, "c": inner}

    assert told(check(chart(states).compiled), "unreachable") == [("warning", "c")]


def test_a_guard_is_never_taken_for_impossible():
    states = {"a": {"on": {"x": {"target": "b", "guard": "never"}}}, "b": {"on": {"x": "a"}}}

    assert "unreachable" not in kinds(states)


def test_a_state_without_a_way_out_is_a_dead_end():
    bad = {"a": {"on": {"x": "b", "y": "c"}}, "b": {}, "c": FINAL}

    assert told(check(chart(bad).compiled), "dead_end") == [("warning", "b")]
    assert kinds({**bad, "b": {"on": {"z": "a"}}}) == set()
    assert kinds({**bad, "b": FINAL}) == set()


def test_a_way_out_of_the_state_around_is_a_way_out():
    inner = {"initial": "c", "states": {"c": {}}, "on": {"x": "a"}}

    assert kinds({"a": {"on": {"x": "b"}}, "b": inner}) == set()


def test_a_state_that_deals_with_events_in_place_is_only_noted():
    states = {"a": {"on": {"x": "b"}}, "b": {"on": {"y": {"actions": COUNT}}}}

    found = check(chart(states, context={"n": 0}).compiled)

    assert told(found, "dead_end") == [("note", "b")]
    assert "only deals with y" in found[0].message


def test_a_region_that_gets_stuck_is_a_dead_end():
    def regions(off):
        first = {"initial": "on", "states": {"on": {"on": {"x": "off"}}, "off": off}}
        second = {"initial": "p", "states": {"p": {"on": {"y": "q"}}, "q": {"on": {"y": "p"}}}}
        return {"a": {"type": "parallel", "states": {"one": first, "two": second}}}

    assert told(check(chart(regions({})).compiled), "dead_end") == [("warning", "a.one.off")]
    assert kinds(regions({"on": {"z": "on"}})) == set()


def test_a_loop_that_never_ends_has_no_path_to_a_final_state():
    bad = {
        "a": {"on": {"x": "b", "y": "d"}},
        "b": {"on": {"x": "c"}},
        "c": {"on": {"x": "b"}},
        "d": FINAL,
    }

    assert told(check(chart(bad).compiled), "no_final") == [("warning", "b, c")]
    assert kinds({**bad, "c": {"on": {"x": "b", "y": "d"}}}) == set()


def test_a_chart_without_final_states_need_not_end():
    assert kinds({"a": {"on": {"x": "b"}}, "b": {"on": {"x": "a"}}}) == set()


def test_a_final_state_that_is_never_reached_is_told_of_the_start():
    found = check(chart({"a": {"on": {"x": "b"}}, "b": {"on": {"x": "a"}}, "c": FINAL}).compiled)

    assert told(found, "no_final") == [("warning", "a")]


# ---------------------------------------------------------------- rivals


def test_two_unguarded_transitions_for_one_event_compete():
    def states(second):
        return {
            "a": {"on": {"x": [{"target": "b"}, second]}},
            "b": {"on": {"x": "c"}},
            "c": {"on": {"x": "a"}},
        }

    assert told(check(chart(states({"target": "c"})).compiled), "nondeterminism") == [
        ("warning", "a")
    ]
    first = {"target": "c", "guard": {"@expr": "context.n > 1"}}
    good = {**states({}), "a": {"on": {"x": [first, {"target": "b"}]}}}
    assert kinds(good, context={"n": 0}) == set()


def test_transitions_of_two_regions_that_cannot_both_be_taken_compete():
    def states(event, guard=None):
        one = {"initial": "p", "states": {"p": {"on": {"x": {"target": "#it.b"}}}}}
        two = {
            "initial": "q",
            "states": {"q": {"on": {event: {"target": "#it.c", "guard": guard}}}},
        }
        around = {"type": "parallel", "states": {"one": one, "two": two}}
        return {"a": around, "b": {"on": {"x": "a"}}, "c": {"on": {"x": "a"}}}

    sure = check(chart(states("x")).compiled)
    maybe = check(chart(states("x", {"@expr": "context.n"}), context={"n": 0}).compiled)

    assert told(sure, "nondeterminism") == [("warning", "a.one.p, a.two.q")]
    assert told(maybe, "nondeterminism") == [("note", "a.one.p, a.two.q")]
    assert any("may compete" in each.message for each in maybe)
    assert kinds(states("y")) == set()


def test_a_transition_that_leaves_nothing_does_not_compete():
    one = {"initial": "p", "states": {"p": {"on": {"x": {"target": "#it.b"}}}}}
    two = {"initial": "q", "states": {"q": {"on": {"x": "q"}}}}
    around = {"type": "parallel", "states": {"one": one, "two": two}}

    assert kinds({"a": around, "b": {"on": {"x": "a"}}}) == set()


def test_transitions_that_stay_in_their_regions_do_not_compete():
    def region(name):
        return {"initial": "p", "states": {"p": {"on": {"x": "q"}}, "q": {"on": {"x": "p"}}}}

    states = {"a": {"type": "parallel", "states": {"one": region("one"), "two": region("two")}}}

    assert kinds(states) == set()


def test_an_earlier_unguarded_transition_shadows_a_guarded_one():
    guarded = {"target": "c", "guard": {"@expr": "context.n > 1"}}

    def states(*found):
        return {"a": {"on": {"x": list(found)}}, "b": {"on": {"x": "c"}}, "c": {"on": {"x": "a"}}}

    bad = check(chart(states({"target": "b"}, guarded), context={"n": 0}).compiled)

    assert told(bad, "shadowed") == [("warning", "a")]
    assert kinds(states(guarded, {"target": "b"}), context={"n": 0}) == set()


def test_an_outer_transition_that_inner_ones_always_precede_is_never_taken():
    def states(inner):
        states = {"p": {"on": {"x": "q"}}, "q": {"on": inner}}
        return {"a": {"initial": "p", "states": states, "on": {"x": "b"}}, "b": {"on": {"x": "a"}}}

    bad = check(chart(states({"x": "p"})).compiled)

    assert told(bad, "never_taken") == [("warning", "a")]
    assert kinds(states({"y": "p"})) == set()


# ---------------------------------------------------------------- steps that do not end


def test_an_eventless_cycle_never_rests():
    bad = {"a": {"on": {"x": "b"}}, "b": {"always": "c"}, "c": {"always": "b"}}
    good = {**bad, "c": {"on": {"y": "b"}}}

    assert told(check(chart(bad).compiled), "endless") == [("error", "a")]
    assert kinds(good) == set()


def test_an_eventless_cycle_at_the_start_never_rests():
    found = check(chart({"b": {"always": "c"}, "c": {"always": "b"}}).compiled)

    assert told(found, "endless") == [("error", "")]
    assert "at the start the chart never comes to rest: b -> c" in found[0].message


def test_an_eventless_cycle_with_a_guard_may_not_rest():
    guard = {"@expr": "context.n < 3"}

    def states(actions):
        return {
            "a": {"on": {"x": "b"}},
            "b": {"always": {"target": "c", "guard": guard, "actions": actions}},
            "c": {"always": "b"},
        }

    found = check(chart(states([]), context={"n": 0}).compiled)

    assert told(found, "endless") == [("warning", "a")]
    assert "may never come to rest" in found[0].message
    assert "endless" not in kinds(states(COUNT), context={"n": 0})


def test_an_event_that_raises_itself_never_rests():
    again = {"type": "xstate.raise", "event": "x"}
    bad = {"a": {"on": {"x": {"actions": again}}}}

    assert "endless" in kinds(bad)
    assert "endless" not in kinds({"a": {"on": {"y": {"actions": again}, "x": {"actions": []}}}})


# ---------------------------------------------------------------- time and history


def test_a_delay_of_a_state_that_is_always_left_at_once_never_passes():
    def states(guard):
        wait = {"always": {"target": "c", "guard": guard}, "after": {"100": "a"}}
        return {"a": {"on": {"x": "b"}}, "b": wait, "c": {"on": {"x": "a"}}}

    assert told(check(chart(states(None)).compiled), "after_never") == [("warning", "b")]
    assert "after_never" not in kinds(states({"@expr": "context.n"}), context={"n": 0})


def test_a_longer_delay_after_which_the_state_was_left_never_passes():
    def states(first):
        return {
            "a": {"after": {"100": first, "200": "c"}},
            "b": {"on": {"x": "a"}},
            "c": {"on": {"x": "a"}},
        }

    assert told(check(chart(states("b")).compiled), "after_never") == [("warning", "a")]
    guarded = {"target": "b", "guard": {"@expr": "context.n"}}
    assert kinds(states(guarded), context={"n": 0}) == set()


def test_a_history_that_always_remembers_does_not_need_its_default():
    def states(on):
        inner = {
            "p": {"on": {"n": "q"}},
            "q": {"on": {"n": "p"}},
            "h": {"type": "history", "target": "q"},
        }
        return {"a": {"initial": "p", "states": inner, "on": {"x": "b"}}, "b": {"on": on}}

    assert told(check(chart(states({"y": "a.h"})).compiled), "history_default") == [("note", "a.h")]
    early = {"s": {"on": {"y": "a.h", "x": "a"}}, **states({"y": "a.h"})}
    assert kinds(early) == set()


def test_a_history_that_nothing_leads_to_is_unreachable():
    inner = {"p": {"on": {"n": "q"}}, "q": {"on": {"n": "p"}}, "h": {"type": "history"}}
    states = {"a": {"initial": "p", "states": inner, "on": {"x": "b"}}, "b": {"on": {"y": "a"}}}

    assert told(check(chart(states).compiled), "unreachable") == [("warning", "a.h")]


# ---------------------------------------------------------------- names


def test_a_guard_that_is_not_bound_is_missing():
    states = {"a": {"on": {"x": {"target": "b", "guard": "is_ready"}}}, "b": {"on": {"x": "a"}}}
    it = chart(states)

    assert told(check(it.compiled), "missing_guard") == [("error", "a")]
    it.guard("is_ready")(lambda data, event: True)
    assert check(it.compiled) == []


def test_an_action_that_is_bound_neither_way_is_noted():
    def it():
        return chart(
            {"a": {"on": {"x": {"target": "b", "actions": "tell"}}}, "b": {"on": {"x": "a"}}}
        )

    unbound, pure, outside = it(), it(), it()
    pure.action("tell")(lambda data, event: None)

    @outside.effect
    def tell():
        """Nothing."""

    assert told(check(unbound.compiled), "missing_action") == [("note", "a")]
    assert check(pure.compiled) == check(outside.compiled) == []


def test_a_service_that_is_no_registered_chart_is_noted():
    invoke = {"src": "search", "onDone": "b"}
    it = chart({"a": {"invoke": invoke}, "b": {"on": {"x": "a"}}})

    assert told(check(it.compiled), "missing_service") == [("note", "a")]
    it.child("search", chart({"p": {"on": {"x": "q"}, "after": {"1": "q"}}, "q": FINAL}))
    assert check(it.compiled) == []


def test_data_that_is_never_declared_may_be_missing():
    states = {
        "a": {"on": {"x": {"target": "b", "guard": {"@expr": "context.n > 1"}}}},
        "b": {"on": {"x": "a"}},
    }

    found = check(chart(states).compiled)

    assert told(found, "undeclared") == [("warning", "a")]
    assert "may be missing" in found[0].message
    assert kinds(states, context={"n": 0}) == set()


SCXML = """<scxml xmlns="http://www.w3.org/2005/07/scxml" datamodel="ecmascript" initial="a">
  <datamodel><data id="n" expr="0"/></datamodel>
  <state id="a"><transition event="x" cond="{0} &gt; 1" target="b"/></state>
  <state id="b">
    <transition event="x" target="a"><assign location="{1}" expr="1"/></transition>
  </state>
</scxml>"""


@pytest.mark.parametrize(("read", "written", "state"), [("m", "n", "a"), ("n", "m", "b")])
def test_scxml_needs_what_it_reads_and_assigns_to_declared(read, written, state):
    found = check(Chart.from_scxml(SCXML.format(read, written)).compiled)

    assert told(found, "undeclared") == [("error", state)]
    assert check(Chart.from_scxml(SCXML.format("n", "n")).compiled) == []


def test_an_expression_that_cannot_be_read_is_told():
    found = check(Chart.from_scxml(SCXML.format("n +", "n")).compiled)

    assert [each.kind for each in found] == ["unreadable"]


def test_asking_for_a_state_that_is_not_there_is_told():
    def states(name):
        guard = {"@expr": f"In('{name}') && context.n > 0"}
        return {"a": {"on": {"x": {"target": "b", "guard": guard}}}, "b": {"on": {"x": "a"}}}

    assert kinds(states("c"), context={"n": 0}) == {"unknown_state"}
    assert kinds(states("b"), context={"n": 0}) == set()


def test_a_done_event_of_a_state_that_cannot_be_done_is_never_raised():
    def states(last):
        inner = {"p": {"on": {"x": "q"}}, "q": last}
        return {"a": {"initial": "p", "states": inner, "onDone": "b"}, "b": {"on": {"x": "a"}}}

    assert told(check(chart(states({"on": {"x": "p"}})).compiled), "never_raised") == [
        ("warning", "a")
    ]
    assert kinds(states(FINAL)) == set()


def test_an_event_that_is_raised_for_nobody_is_told():
    def states(event):
        tell = {"type": "xstate.raise", "event": event}
        return {"a": {"on": {"x": {"target": "b", "actions": tell}}}, "b": {"on": {"told": "a"}}}

    assert told(check(chart(states("tolled")).compiled), "never_handled") == [("warning", "a")]
    assert "never_handled" not in kinds(states("told"))


def test_a_chart_inside_is_checked_with_it():
    child = {"id": "inner", "initial": "p", "states": {"p": {"on": {"x": "q"}}, "q": {}}}
    it = chart(
        {"a": {"invoke": {"src": child, "id": "i"}, "on": {"x": "b"}}, "b": {"on": {"x": "a"}}}
    )

    assert told(check(it.compiled), "dead_end") == [("warning", "a/q")]


def test_what_was_not_explored_is_told_and_nothing_is_claimed_of_it():
    found = check(AGENT.compiled, max_configurations=2)

    assert [each.kind for each in found] == ["cut"]


def test_errors_come_first():
    states = {"a": {"on": {"x": {"target": "b", "guard": "g", "actions": "tell"}}}, "b": {}}

    assert [each.severity for each in check(chart(states).compiled)] == ["error", "warning", "note"]


# ---------------------------------------------------------------- never more than is proven


@settings(max_examples=2 * settings().max_examples)
@given(configs(guards=GUARDS, has_timers=True), st.data())
def test_what_is_said_never_to_happen_does_not_happen(config, data):
    it = Chart.from_data(config)
    truth = bind_guards(it)
    found = check(it.compiled)
    unreachable = {each.state for each in found if each.kind == "unreachable"}
    stuck = {each.state for each in found if each.kind == "dead_end"}
    idle = {
        int(each.place.split()[1])
        for each in found
        if each.kind in {"never_taken", "shadowed", "nondeterminism", "after_never"} and each.place
    }
    truth.update(data.draw(answers))
    try:
        step = it.start()
    except StepFailed:
        return
    for _ in range(15):
        for line in step.trace:
            assert unreachable.isdisjoint(line.entered)
            assert stuck.isdisjoint(line.exited) or step.snapshot.status == "done"
            assert idle.isdisjoint(line.taken)
        event = data.draw(st.sampled_from([*EVENTS, 5_000, 15_000, 2_000_000]))
        truth.update(data.draw(answers))
        try:
            if isinstance(event, int):
                step = it.advance(step.snapshot, step.snapshot.time + event)
            elif it.can(step.snapshot, event):
                it.is_strict = False
                step = it.step(step.snapshot, event)
        except StepFailed:
            continue


def test_ten_times_as_many_states_take_about_ten_times_as_long():
    def effort(count):
        table = {(f"s{at}", "go"): f"s{(at + 1) % count}" for at in range(count)}
        chart = Chart.from_table(table, initial="s0")
        found = []
        effort = lines_run(lambda: found.extend(chart.check()))
        assert found == []
        return effort

    effort(10)  # whatever is imported or cached at the first time

    assert effort(1_000) < 15 * effort(100)  # as it was, about a hundred times


@pytest.mark.parametrize("name", ["a", "a.b", "a.b.c", "b", "ab"])
@pytest.mark.parametrize("descriptor", ["*", "a", "a.*", "a.", "a.b", "a.b.*", "b.c"])
@pytest.mark.parametrize("matching", ["prefix", "exact"])
def test_an_event_counts_as_taken_exactly_if_a_transition_matches_it(name, descriptor, matching):
    chart = Chart.from_data(
        {
            "id": "m",
            "initial": "a",
            "meta": {"otolith": {"chart": {"matching": matching}}},
            "states": {
                "a": {
                    "entry": {"type": "xstate.raise", "event": name},
                    "on": {descriptor: {"target": "b"}},
                },
                "b": {},
            },
        }
    )
    is_taken = chart.compiled.matches(chart.compiled.transitions[0], name)

    assert ("never_handled" in {each.kind for each in chart.check()}) != is_taken
