"""A chart joins a definition with functions, and says clearly what went wrong."""

from __future__ import annotations

from enum import Enum

import pytest

from otolith import Memory, Versioned
from otolith.errors import BadChart, BadValue, ChartMismatch, IllegalTransition, StepFailed
from otolith.statecharts import (
    AGENT,
    Chart,
    ChartClass,
    ChartEvent,
    ChartSnapshot,
    Effect,
    action,
    guard,
    to,
)


class Light(Enum):
    RED = "red"
    GREEN = "green"


def test_a_table_is_a_chart_and_its_star_is_any_state():
    chart = Chart.from_table(
        {(Light.RED, "go"): Light.GREEN, ("green", "stop"): "red", ("*", "fail"): "broken"},
        initial=Light.RED,
        final=["broken"],
    )
    green = chart.step(chart.start().snapshot, "go").snapshot

    assert green.phase == "green"
    assert chart.step(green, "fail").snapshot.status == "done"


def test_an_event_that_is_not_accepted_lists_what_is():
    planning = AGENT.step(AGENT.start().snapshot, "new_task").snapshot

    with pytest.raises(IllegalTransition) as caught:
        AGENT.step(planning, "task_complete")

    error = caught.value
    assert error.message == "planning does not accept task_complete; allowed: plan_ready, fail"
    assert (error.state, error.event, error.allowed) == (
        "planning",
        "task_complete",
        ("plan_ready", "fail"),
    )


def test_an_event_that_is_not_accepted_is_refused_every_time():
    idle = AGENT.start().snapshot
    for _ in range(3):
        with pytest.raises(IllegalTransition):
            AGENT.step(idle, "plan_ready")


def test_ids_that_are_made_up_are_never_made_up_again():
    chart = Chart.from_scxml("""
      <scxml><datamodel><data id="x"/></datamodel><state id="a">
        <transition event="go"><send idlocation="x" event="e" delay="1s"/></transition></state>
      </scxml>""")
    first = chart.step(chart.start().snapshot, "go").snapshot
    second = chart.step(ChartSnapshot.from_data(first.to_data()), "go").snapshot

    assert first.data["x"] != second.data["x"]
    assert len({timer.id for timer in second.timers}) == 2


def test_an_event_whose_guard_says_no_is_told_apart():
    chart = Chart.from_data(
        {
            "initial": "a",
            "context": {"n": 1},
            "states": {"a": {"on": {"go": {"target": "b", "guard": {"@expr": "n > 1"}}}}, "b": {}},
        }
    )

    with pytest.raises(IllegalTransition, match="guard"):
        chart.step(chart.start().snapshot, "go")


def test_a_chart_that_is_done_accepts_nothing():
    done = AGENT.step(AGENT.start().snapshot, "fail").snapshot

    with pytest.raises(IllegalTransition, match="done in error"):
        AGENT.step(done, "new_task")
    assert AGENT.allowed(done) == ()
    assert not AGENT.can(done, "new_task")


def test_an_agent_plans_works_asks_reflects_plans_again_and_is_done():
    snapshot = AGENT.start().snapshot
    phases = []
    for event in (
        *("new_task", "plan_ready", "step_complete", "needs_input", "input_received"),
        *("observe", "replan", "plan_ready", "observe", "task_complete"),
    ):
        snapshot = AGENT.step(snapshot, event).snapshot
        phases.append(snapshot.phase)

    assert phases == [
        *("planning", "executing", "executing", "waiting_feedback", "executing"),
        *("reflecting", "planning", "executing", "reflecting", "done"),
    ]
    assert snapshot.status == "done"


def test_asking_whether_it_can_asks_guards_and_changes_nothing():
    asked = []
    chart = Chart.from_data(
        {
            "initial": "a",
            "states": {"a": {"on": {"go": {"target": "b", "guard": "ready"}}}, "b": {}},
        }
    )

    @chart.guard
    def ready(data, event):
        asked.append(event.data)
        return event.data == {"x": 1}

    start = chart.start().snapshot

    assert chart.can(start, "go", {"x": 1})
    assert not chart.can(start, "go")
    assert not chart.can(start, "other")
    assert asked == [{"x": 1}, None]
    assert start.phase == "a"


class Booking(ChartClass):
    initial = "idle"
    context = {"tries": 0}  # noqa: RUF012 - a chart's class is read once

    class idle:  # noqa: N801 - a state is named as the chart names it
        new_task = to("planning", guard="has_goal", actions=["count", "call_model"])

    class planning:  # noqa: N801
        on = {"plan.ready": "done"}  # noqa: RUF012

    class done:  # noqa: N801
        type = "final"

    @guard
    def has_goal(data, event):  # noqa: N805 - it is called with data, not with a Booking
        return bool(event.data)

    @action
    def count(data, event):  # noqa: N805
        return {"tries": data["tries"] + 1}  # type: ignore[index]


def test_a_class_is_a_chart_with_its_functions_bound():
    chart = Booking.chart
    moved = chart.step(chart.start(session="b").snapshot, "new_task", {"goal": "fly"})

    assert (moved.snapshot.phase, moved.snapshot.data["tries"]) == ("planning", 1)
    assert [effect.name for effect in moved.effects] == ["call_model"]
    assert chart.step(moved.snapshot, "plan.ready").snapshot.status == "done"


def broken(**more):
    chart = Chart.from_data(
        {
            "id": "m",
            "initial": "a",
            "context": {"n": 0},
            "states": {
                "a": {
                    "on": {
                        "go": {"target": "b", "actions": ["count", "explode"]},
                        "ask": {"target": "b", "guard": "unsure"},
                        "who": {"target": "b", "guard": "nobody"},
                        **more,
                    }
                },
                "b": {},
                "c": {},
            },
        }
    )

    @chart.action
    def count(data, event):
        return {"n": data["n"] + 1}

    @chart.action
    def explode(data, event):
        raise RuntimeError("boom")

    @chart.guard
    def unsure(data, event):
        return data["missing"]

    return chart


@pytest.mark.parametrize(
    ("event", "place"), [("go", "action explode"), ("ask", "guard unsure"), ("who", "a on who")]
)
def test_a_guard_or_action_that_fails_names_its_place_and_the_machine_stays(event, place):
    chart = broken()
    before = chart.start().snapshot
    kept = before.to_data()

    with pytest.raises(StepFailed, match=place) as caught:
        chart.step(before, event)

    assert place in caught.value.place
    assert before.to_data() == kept


def test_a_chart_that_listens_for_errors_gets_them_as_events():
    chart = broken(**{"error.execution": "c"})
    start = chart.start().snapshot

    assert chart.step(start, "ask").snapshot.phase == "c"


def test_listening_for_a_childs_error_is_not_listening_for_ones_own():
    chart = broken(**{"error.invoke.x": "c", "*": "c"})

    with pytest.raises(StepFailed, match="explode"):
        chart.step(chart.start().snapshot, "go")


def test_names_of_the_system_cannot_be_given():
    with pytest.raises(BadValue, match="system"):
        AGENT.start({"_event": 1})


def test_events_can_be_members_of_an_enum():
    class Signal(str, Enum):  # noqa: UP042 - what older code has
        GO = "go"

    chart = Chart.from_table({("a", Signal.GO): "b", ("b", "go"): "a"}, initial="a")
    first = chart.step(chart.start().snapshot, Signal.GO)
    second = chart.step(first.snapshot, Signal.GO)
    third = chart.step(second.snapshot, Signal.GO)

    assert [step.snapshot.phase for step in (first, second, third)] == ["b", "a", "b"]
    assert type(third.trace[0].event) is str


def test_an_action_must_return_updates():
    chart = Chart.from_data({"initial": "a", "states": {"a": {"on": {"go": {"actions": ["odd"]}}}}})
    chart.action("odd")(lambda data, event: 3)

    with pytest.raises(StepFailed, match="must return a dict or None, got"):
        chart.step(chart.start().snapshot, "go")


def test_effects_are_data_with_keys_that_are_the_same_when_the_step_is_done_again():
    chart = Chart.from_data(
        {
            "initial": "a",
            "states": {
                "a": {"on": {"go": {"actions": ["one", {"type": "two", "params": {"x": 1}}]}}}
            },
        }
    )
    start = chart.start(session="trip").snapshot

    once, twice = chart.step(start, "go"), chart.step(start, "go")
    next_time = chart.step(once.snapshot, "go")

    assert once == twice
    assert [effect.key for effect in once.effects] == ["trip:1:0", "trip:1:1"]
    assert not {e.key for e in once.effects} & {e.key for e in next_time.effects}
    assert [Effect.from_data(effect.to_data()) for effect in once.effects] == list(once.effects)


def test_what_is_sent_outside_leaves_as_an_effect():
    chart = Chart.from_scxml("""
      <scxml><state id="a"><onentry>
        <send event="hello" target="mailto:me@a.org"><param name="x" expr="1"/></send>
        <send event="later" target="mailto:me@a.org" delay="1s"/></onentry></state></scxml>""")
    started = chart.start()

    (effect,) = started.effects
    assert (effect.kind, effect.name, effect.target) == ("send", "hello", "mailto:me@a.org")
    assert effect.params == {"data": {"x": 1}}
    assert [e.name for e in chart.advance(started.snapshot, 1_000_000).effects] == ["later"]


def test_a_way_to_send_that_nobody_registered_is_an_error_and_one_that_was_is_an_effect():
    text = """
      <scxml><state id="a"><transition event="go"><send type="sms" event="hi"/></transition>
        <transition event="error.execution" target="b"/></state><state id="b"/></scxml>"""
    known, unknown = Chart.from_scxml(text), Chart.from_scxml(text)
    known.outlet("sms")

    assert unknown.step(unknown.start().snapshot, "go").snapshot.phase == "b"
    assert [e.type for e in known.step(known.start().snapshot, "go").effects] == ["sms"]


def versions():
    old = Chart.from_data(
        {"id": "m", "initial": "a", "states": {"a": {"on": {"go": "b"}}, "b": {}}}
    )
    new = Chart.from_data(
        {
            "id": "m",
            "version": "2",
            "initial": "a",
            "states": {"a": {"on": {"go": "c"}}, "c": {}},
        }
    )
    return old, new


def test_a_migration_carries_a_snapshot_over():
    old, new = versions()
    snapshot = old.step(old.start().snapshot, "go").snapshot
    new.migrate_from(old.hash, lambda kept: kept._replace(configuration=("c",)))

    moved = new.migrate(snapshot)

    assert (moved.phase, moved.chart, moved.version) == ("c", new.hash, "2")
    assert new.migrate(moved) is moved


def test_without_a_migration_or_with_one_that_does_not_fit_a_snapshot_is_refused():
    old, new = versions()
    snapshot = old.step(old.start().snapshot, "go").snapshot

    with pytest.raises(ChartMismatch, match="no migration"):
        new.migrate(snapshot)
    new.migrate_from(old.hash, lambda kept: kept)
    with pytest.raises(ChartMismatch, match="no state b"):
        new.migrate(snapshot)


def test_data_given_at_the_start_goes_before_the_charts_own():
    chart = Chart.from_data({"initial": "a", "context": {"n": 1, "m": 2}, "states": {"a": {}}})

    assert chart.start({"n": 5, "k": 6}).snapshot.data == {"n": 5, "m": 2, "k": 6}


def test_caches_do_not_grow_without_end():
    chart = Chart.from_data(
        {"initial": "a", "states": {"a": {"on": {"*": "b"}}, "b": {"on": {"*": "a"}}}}
    )
    snapshot = chart.start().snapshot
    for number in range(9_000):
        snapshot = chart.step(snapshot, f"event {number}").snapshot

    it = chart.compiled
    sizes = [len(cache) for cache in (it.plain_steps, it.not_plain, it._candidates, it.plans)]
    assert max(sizes) <= 4_096
    assert snapshot.seq == 9_000


def test_events_can_be_given_whole():
    chart = Chart.from_data(
        {"initial": "a", "states": {"a": {"on": {"go": {"actions": ["note"]}}}}}
    )
    chart.action("note")(lambda data, event: {"from": event.origin})

    moved = chart.step(chart.start().snapshot, ChartEvent("go", origin="somebody"))

    assert moved.snapshot.data == {"from": "somebody"}


def test_a_table_needs_pairs_and_names():
    with pytest.raises(BadChart, match="not a pair"):
        Chart.from_table({"a": "b"}, initial="a")  # type: ignore[dict-item]
    with pytest.raises(BadChart, match="not a name"):
        Chart.from_table({("a", "e"): 3}, initial="a")


# ---------------------------------------------------------------- tables that end

TICKETS = {("open", "take"): "taken", ("taken", "drop"): "open", ("taken", "close"): "closed"}


def last(chart, *events):
    snapshot = chart.start().snapshot
    for event in events:
        snapshot = chart.step(snapshot, event).snapshot
    return snapshot


@pytest.mark.parametrize(
    ("final", "status"), [(None, "done"), ({"closed"}, "done"), ((), "running")]
)
def test_a_table_ends_where_no_row_leads_out_or_where_it_says(final, status):
    chart = Chart.from_table(TICKETS, initial="open", final=final)

    assert last(chart, "take").status == "running"
    assert last(chart, "take", "close").status == status


def test_a_table_with_rows_for_all_states_has_no_other_ends_than_it_says():
    chart = Chart.from_table({**TICKETS, ("*", "reset"): "open"}, initial="open")

    assert last(chart, "take", "close", "reset").phase == "open"


def test_a_machine_of_a_table_from_before_it_had_ends_is_opened_and_has_ended():
    state = Versioned(Memory())
    machine = state.lifecycle(Chart.from_table(TICKETS, initial="open", final=()))
    machine.send("take")
    chart = Chart.from_table(TICKETS, initial="open")

    assert not state.lifecycle(chart).is_done
    state.lifecycle(chart).send("close")
    assert state.lifecycle(chart).is_done

    other = Versioned(Memory())
    resting = other.lifecycle(Chart.from_table(TICKETS, initial="open", final=()))
    resting.send("take")
    resting.send("close")
    assert not resting.is_done
    assert other.lifecycle(chart).is_done


def test_the_initial_state_of_a_table_occurs_in_it():
    with pytest.raises(BadChart, match="the initial state 'opne' does not occur") as caught:
        Chart.from_table(TICKETS, initial="opne")
    assert caught.value.hint == "its states are open, taken, closed"
