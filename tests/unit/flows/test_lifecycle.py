"""The life of a task: the table is a statechart, and an illegal event says what helps."""

from __future__ import annotations

import pytest

from otolith.errors import IllegalTransition
from otolith.flows import STATUSES, TASK_TABLE, Flow, FlowTask
from otolith.flows.lifecycle import next_status
from otolith.statecharts import Chart

EVENTS = sorted({event for _, event in TASK_TABLE})


def test_the_table_is_a_statechart_without_a_final_state():
    chart = Chart.from_table(TASK_TABLE, initial="pending", final=())

    assert {each.id for each in chart.compiled.nodes.values() if each.kind == "atomic"} == {
        *STATUSES
    }


@pytest.mark.parametrize("status", STATUSES)
def test_the_machine_of_the_table_goes_where_a_task_goes(state, status):
    for event in EVENTS:
        chart = Chart.from_table(TASK_TABLE, initial=status, final=(), name=f"{status} {event}")
        machine = state.lifecycle(chart, name=f"{status} {event}".replace(" ", "-"))
        assert machine.can(event) == ((status, event) in TASK_TABLE)
        if machine.can(event):
            machine.send(event)
            assert machine.phase == next_status("a", status, event)
        else:
            with pytest.raises(IllegalTransition) as caught:
                next_status("a", status, event)
            assert {*caught.value.allowed} == {each for each in EVENTS if machine.can(each)}


@pytest.mark.parametrize(
    ("status", "helps"),
    [
        ("done", "run.retry('a') does it again"),
        ("waiting", "run.answer('a', …) answers what it asks"),
        ("running", "a worker has it: wait for its end, or stop it by run.cancel('a')"),
        ("pending", "run.work() does it when all that it comes after is done"),
    ],
)
def test_an_illegal_event_says_what_helps(status, helps):
    with pytest.raises(IllegalTransition) as caught:
        next_status("a", status, "no event")

    assert caught.value.hint == helps


def test_what_cannot_be_answered_says_what_helps(state):
    flow = Flow("f")
    flow.task(lambda: 1, name="one")
    flow.add(FlowTask("sign", goal="Sign it", after="one"))
    run = state.flow(flow)

    with pytest.raises(IllegalTransition, match="sign is pending, and asks nothing") as caught:
        run.answer("sign", True)
    assert caught.value.hint == "run.work() does it when all that it comes after is done"
