"""Answers of people: each is for one question, also if it is sent twice."""

from __future__ import annotations

from typing import Any

import pytest

from otolith import Live, Versioned
from otolith.agent import Agent, AgentState, Orchestrator, Outcome, ScriptedModel
from otolith.errors import Conflict, Invalid


def asks(s: AgentState) -> AgentState:
    """Ask three questions, and end with the answers."""
    told: list[str] = []
    for message in s.messages:
        if str(message.role) == "user":
            told = [] if message.text == s.task else [*told, message.text]
    s = s.to_executing() if s.phase == "planning" else s
    questions = ["Delete the backup?", "Delete the PRODUCTION database?", "Sure?"]
    return s.to_done(told) if len(told) == 3 else s.ask(questions[len(told)])


def process(state: Any) -> Orchestrator:
    """Return an orchestrator that has shown nothing to anybody."""
    return Orchestrator(state, step=asks)


@pytest.fixture(params=[Versioned, Live])
def state(request) -> Any:
    return request.param()


def answer_each(made: Orchestrator, outcome: Outcome, *words: str) -> Outcome:
    for word in words:
        outcome = made.run(answer=word, to=outcome.question_id)
    return outcome


def test_a_script_answers_question_after_question(state):
    made = process(state)
    outcome = answer_each(made, made.run("clean up"), "yes", "no", "no")
    assert outcome.answer == ["yes", "no", "no"]


def test_the_first_question_is_answered_by_another_process_without_its_id(state):
    process(state).run("clean up")
    assert process(state).run(answer="yes").question == "Delete the PRODUCTION database?"


def test_an_answer_that_is_sent_twice_does_not_answer_the_next_question(state):
    process(state).run("clean up")
    process(state).run(answer="yes")
    with pytest.raises(Conflict, match=r"PRODUCTION") as caught:
        process(state).run(answer="yes")
    loaded = process(state).load()
    assert loaded is not None
    assert loaded.question_id in str(caught.value)
    assert loaded.question == "Delete the PRODUCTION database?"


def test_a_server_that_gets_an_answer_twice_does_not_answer_the_next_question(state):
    server = process(state)  # it has returned the next question, to a client that never saw it
    server.run("clean up")
    server.run("clean up", answer="yes")
    server.load()
    with pytest.raises(Conflict, match=r"an answer must name its question.*PRODUCTION"):
        server.run("clean up", answer="yes")


def test_an_agent_that_gets_an_answer_twice_does_not_answer_the_next_question(state):
    ask = {"call": "ask_user", "question": "Sure?"}
    agent = Agent(ScriptedModel([ask, ask, "done"]), can_ask=True)
    agent.run("clean up", state)
    second = agent.run(state=state, answer="yes")
    with pytest.raises(Conflict, match="an answer must name its question"):
        agent.run(state=state, answer="yes")
    assert agent.run(state=state, answer="yes", to=second.question_id).answer == "done"


def test_an_answer_names_its_question(state):
    first = process(state).run("clean up")
    second = process(state).run("clean up", answer="yes", to=first.question_id)
    assert first.question_id != second.question_id
    with pytest.raises(Conflict, match=f"question {first.question_id} is not open"):
        process(state).run("clean up", answer="yes", to=first.question_id)
    third = process(state).resume(answer="no", to=second.question_id)
    assert process(state).run(answer="no", to=third.question_id).answer == ["yes", "no", "no"]


def test_the_next_task_may_ask_the_same_again(state):
    ids: list[str] = []
    for _ in range(2):
        outcome: Outcome = process(state).run("clean up", again=True)
        while outcome.question:
            ids.append(outcome.question_id)
            outcome = process(state).run(answer="no", to=outcome.question_id)
    assert len(set(ids)) == len(ids) > 3


def test_a_question_without_an_answer_is_refused(state):
    asked = process(state).run("clean up")
    with pytest.raises(Invalid, match="is given no answer"):
        process(state).run("clean up", to=asked.question_id)


def test_a_sub_agent_with_several_questions_is_answered_by_its_parent():
    def step(o: Orchestrator, s: AgentState) -> AgentState:
        answer = None if s.phase == "planning" else s.messages[-1].text
        s = s.to_executing() if s.phase == "planning" else s
        sub = o.delegate(process(None), "clean up", name="cleaner", answer=answer)
        return s.ask(sub.question) if sub.question else s.to_done(sub.answer)

    made = Orchestrator(Versioned(), step=step)
    outcome = answer_each(made, made.run("have it cleaned"), "yes", "no", "no")
    assert outcome.answer == ["yes", "no", "no"]
