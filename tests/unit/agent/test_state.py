"""AgentState: transitions make new values by the chart, and nothing old ever changes."""

from __future__ import annotations

import dataclasses
import json

import pytest

from otolith.agent import AgentState, Observation, WorkingMemory
from otolith.agent.state import _METHODS
from otolith.conversation import Message, Role, Text
from otolith.errors import BadValue, Corrupt, IllegalTransition, Invalid, SchemaMismatch
from otolith.statecharts import Phase


@pytest.fixture
def planning() -> AgentState:
    return AgentState.from_user_input("fly to NYC", session="trip")


@pytest.fixture
def executing(planning: AgentState) -> AgentState:
    return planning.to_executing()


def test_a_request_begins_planning_with_the_request_as_its_goal(planning):
    assert planning.phase is Phase.PLANNING
    assert planning.memory.goal == planning.task == "fly to NYC"
    assert [(message.role, message.text) for message in planning.messages] == [
        (Role.USER, "fly to NYC")
    ]


@pytest.mark.parametrize("text", ["", "   \n"])
def test_a_request_that_says_nothing_is_refused(text):
    with pytest.raises(Invalid, match="empty"):
        AgentState.from_user_input(text)


def test_the_way_to_the_end_goes_by_the_chart(executing):
    reflecting = executing.to_reflecting()
    assert reflecting.to_planning().phase is Phase.PLANNING
    assert reflecting.to_executing().phase is Phase.EXECUTING
    done = reflecting.to_done("booked")
    assert (done.phase, done.final_answer, done.messages[-1].text) == (
        Phase.DONE,
        "booked",
        "booked",
    )
    assert executing.to_error("no money").error == "no money"


@pytest.mark.parametrize(
    ("phase", "verb", "allowed"),
    [
        (Phase.PLANNING, "to_reflecting", {"plan_ready", "fail"}),
        (Phase.IDLE, "to_executing", {"new_task", "fail"}),
        (Phase.EXECUTING, "to_planning", {"step_complete", "needs_input", "observe"}),
    ],
)
def test_a_transition_that_the_chart_has_not_is_refused_and_says_which_it_has(phase, verb, allowed):
    state = AgentState("trip", phase=phase)
    with pytest.raises(IllegalTransition) as caught:
        getattr(state, verb)()
    assert allowed <= set(caught.value.allowed)


def test_what_is_over_accepts_nothing(executing):
    done = executing.to_done("booked")
    assert done.allowed == ()
    for again in (done.to_executing, lambda: done.to_error("late")):
        with pytest.raises(IllegalTransition):
            again()


def test_a_new_state_cannot_change_the_history_of_an_old_one(executing):
    before = executing.to_data()
    call = Observation("c1", "search", {"to": {"city": "NYC"}}, {"flights": [1, 2]})
    later = executing.record_observation(call).with_data(seen=[1]).remember(WorkingMemory(goal="x"))
    assert executing.to_data() == before
    with pytest.raises(TypeError):
        later.data["seen"].append(2)
    with pytest.raises(TypeError):
        call.result["flights"].append(3)
    with pytest.raises(TypeError):
        call.arguments["to"]["city"] = "LA"
    with pytest.raises(dataclasses.FrozenInstanceError):
        later.iteration = 9


def test_what_a_state_is_given_is_its_own(executing):
    given = {"flights": [1]}
    state = executing.with_data(found=given)
    given["flights"].append(2)
    assert state.data["found"] == {"flights": [1]}


def test_an_observation_is_a_record_and_legal_messages(executing):
    state = executing.record_observation(Observation("c1", "search", {"to": "NYC"}, [3]))
    assert state.memory.tool_calls[-1].result == [3]
    assert state.messages[-2].calls[0].id == state.messages[-1].results[0].call_id == "c1"
    assert state.messages[-1].results[0].content == "[3]"


def test_a_call_that_the_model_made_is_not_said_twice(executing):
    asked = Message(Role.ASSISTANT, (*_calls("a", "b"),))
    state = executing.say(asked)
    for id in ("a", "b"):
        state = state.record_observation(Observation(id, "search", error="no"))
    roles = [message.role for message in state.messages[-3:]]
    assert roles == [Role.ASSISTANT, Role.TOOL, Role.TOOL]
    assert state.messages[-1].results[0].is_error


def _calls(*ids: str):
    from otolith.conversation import ToolCall

    return [ToolCall(id, "search") for id in ids]


def test_a_question_pauses_and_its_answer_goes_on(executing):
    asked = executing.ask("Window or aisle?")
    assert asked.is_paused
    assert asked.question == "Window or aisle?"
    on = asked.answered("aisle")
    assert (on.phase, on.question) == (Phase.EXECUTING, "")
    assert [message.text for message in on.messages[-2:]] == ["Window or aisle?", "aisle"]


def test_a_state_comes_back_from_json_as_it_was(executing):
    memory = WorkingMemory(goal="g").plan(["a", "b"]).done("a").note("k", {"x": [1]})
    state = executing.remember(memory).record_observation(Observation("c", "t", {"n": 1}, "ok"))
    state = state.with_data(n=1).to_error("broken")
    again = AgentState.from_data(json.loads(json.dumps(state.to_data())))
    assert again == state
    assert again.memory.pending == ("b",)


@pytest.mark.parametrize("version", [0, 2, 99, None, "1"])
def test_a_state_of_another_schema_version_is_refused_and_says_what_to_do(executing, version):
    with pytest.raises(SchemaMismatch, match="schema version") as caught:
        AgentState.from_data(executing.to_data() | {"schema": version})
    assert "migrations" in caught.value.hint


def test_a_migration_leads_from_an_older_schema(executing, monkeypatch):
    old = executing.to_data() | {"schema": 0}
    old["goal_text"] = old.pop("task")
    monkeypatch.setitem(
        AgentState.migrations, 0, lambda data: data | {"task": data.pop("goal_text")}
    )
    assert AgentState.from_data(old).task == "fly to NYC"


@pytest.mark.parametrize("gone", ["phase", "messages", "memory", "session"])
def test_data_that_lacks_something_is_corrupt(executing, gone):
    data = executing.to_data()
    del data[gone]
    with pytest.raises(Corrupt, match="not the data"):
        AgentState.from_data(data)


def test_what_is_no_data_is_refused_as_it_goes_in(executing):
    with pytest.raises(BadValue):
        executing.with_data(now=object())


def test_a_step_that_is_not_planned_cannot_be_done():
    with pytest.raises(Invalid, match="no step"):
        WorkingMemory().plan(["a"]).done("b")


def test_an_answer_that_was_said_is_not_said_again(executing):
    said = executing.say(Message(Role.ASSISTANT, (Text("booked"),)))
    assert len(said.to_done("booked").messages) == len(said.messages)


def test_a_step_that_is_not_allowed_says_which_methods_are():
    fresh = AgentState.from_user_input("x")
    with pytest.raises(IllegalTransition) as caught:
        fresh.to_done("at once")
    assert "to_executing()" in caught.value.hint
    ended = fresh.to_executing().to_done("ok")
    with pytest.raises(IllegalTransition):
        ended.to_executing()


def test_every_event_of_the_chart_has_a_method():
    for phase in Phase:
        assert all(event in _METHODS for event in AgentState("s", phase).allowed)


def test_what_is_planned_done_and_noted_can_be_chained_with_what_was_seen():
    seen = Observation("c1", "pay", {"amount": 3}, "paid")
    start = AgentState.from_user_input("fly").plan("pay", "go").to_executing()
    after = start.record_observation(seen).done("pay").note("seat", "aisle")

    assert after.memory.tool_calls == (seen,)
    assert (after.memory.pending, after.memory.notes) == (("go",), {"seat": "aisle"})
    assert start.memory.pending == ("pay", "go")


@pytest.mark.parametrize("data", [[1], "x", None, {}, {"schema": 1}])
def test_what_is_no_state_is_told(data):
    with pytest.raises((Corrupt, SchemaMismatch)):
        AgentState.from_data(data)


@pytest.mark.parametrize("field", ["task", "error", "question"])
def test_texts_of_a_state_are_texts(field):
    data = AgentState.from_user_input("fly").to_data()
    with pytest.raises(Corrupt, match=f"the {field} of"):
        AgentState.from_data(data | {field: 7})
