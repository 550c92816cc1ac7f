"""Agents adapt to a user: what is known is in the prompt, and what the user says is learned."""

from __future__ import annotations

import pytest

import otolith
from otolith.agent import Agent, ScriptedModel, load_run
from otolith.conversation import Role
from otolith.errors import Invalid, Unavailable


class Listener:
    """A model that notes the instructions it gets, and answers from a script."""

    name = "listener"

    def __init__(self, *replies):
        self._script = ScriptedModel(replies)
        self.instructions: list[str] = []

    def complete(self, messages, *, tools=(), on_text=None):
        first = messages[0]
        self.instructions.append(first.text if first.role is Role.SYSTEM else "")
        return self._script.complete(messages, tools=tools, on_text=on_text)


@pytest.fixture
def repo():
    with otolith.open("memory:") as repo:
        yield repo


@pytest.fixture
def ann(repo):
    return repo.user("ann").profile


def test_the_model_is_told_what_is_known(repo, ann):
    ann.set("seat", "aisle")
    model = Listener("Booked.")

    Agent(model, instructions="You book trips.", profile=ann).run("Book it", repo.session("trip"))

    (said,) = model.instructions
    assert said.startswith("You book trips.\n\nPreferences of the user.")
    assert '- "seat": "aisle"' in said


def test_without_a_profile_nothing_is_said(repo):
    model = Listener("Booked.")

    Agent(model).run("Book it", repo.session("trip"))

    assert model.instructions == [""]


def test_the_next_run_is_told_what_changed(repo, ann):
    model = Listener("Yes.", "Yes.")
    agent = Agent(model, profile=ann)
    ann.set("seat", "aisle")
    agent.run("Book it", repo.session("one"))
    ann.set("seat", "window")
    agent.run("Book it", repo.session("two"))

    assert '"aisle"' in model.instructions[0]
    assert '"window"' in model.instructions[1]


def test_a_run_keeps_what_it_was_told(repo, ann):
    ann.set("seat", "aisle")
    state = repo.session("trip")
    model = Listener({"call": "search"}, "Booked.")
    agent = Agent(model, profile=ann)

    @agent.tool
    def search() -> str:
        """Search."""
        ann.set("seat", "window")
        return "found"

    agent.run("Book it", state)

    assert model.instructions[0] == model.instructions[1]
    run = load_run(state)
    assert run is not None
    assert '"aisle"' in run.data["profile"]


def test_what_the_user_says_is_learned_and_committed(repo, ann):
    agent = Agent(ScriptedModel(["Booked."]), profile=ann)

    agent.run("I always want an aisle seat. Book me a flight to Rome.", repo.session("trip"))

    found = repo.user("ann").profile
    assert found.prefer("seat").value == "aisle"
    assert found.history("seat")[0].quote.startswith("I always want an aisle seat")
    assert found.state.head.message == "learned in trip"


def test_what_the_model_says_is_not_learned(repo, ann):
    agent = Agent(ScriptedModel(["I always want a window seat."]), profile=ann)

    agent.run("Hello", repo.session("trip"))

    assert ann.keys() == []


def test_an_answer_of_the_user_is_learned_while_the_run_waits_for_another(repo, ann):
    asking = [
        {"call": "ask_user", "question": "Where to?"},
        {"call": "ask_user", "question": "When?"},
    ]
    agent = Agent(ScriptedModel(asking), can_ask=True, profile=ann)
    state = repo.session("trip")

    first = agent.run("Book it", state)
    agent.run(None, state, answer="Rome. I never fly at night.", to=first.question_id)

    assert ann.keys() != []


def test_without_consent_nothing_is_learned_and_the_run_is_done(repo, ann):
    ann.consent("learning", granted=False)
    ann.commit("no")
    agent = Agent(ScriptedModel(["Booked."]), profile=ann)

    outcome = agent.run("I always want an aisle seat.", repo.session("trip"))

    assert outcome.ended == "done"
    assert ann.keys() == []


def test_what_others_have_staged_is_not_committed(repo, ann):
    ann.set("hotel", "quiet")
    agent = Agent(ScriptedModel(["Booked."]), profile=ann)

    agent.run("I always want an aisle seat.", repo.session("trip"))

    assert ann.state.head is None
    assert set(ann.keys()) == {"hotel", "seat"}


def test_a_profile_that_cannot_be_written_leaves_the_run_done(repo, ann, monkeypatch):
    agent = Agent(ScriptedModel(["Booked."]), profile=ann)
    state = repo.session("trip")

    def failing(*_, **__):
        raise Unavailable("the store is away")

    monkeypatch.setattr(ann, "commit", failing)
    outcome = agent.run("I always want an aisle seat.", state)

    assert outcome.ended == "done"
    (event,) = state.events[-1:]
    assert "the store is away" in str(event.data)


def test_the_budget_of_the_profile_holds(repo, ann):
    for number in range(100):
        ann.set(f"key {number}", "x" * 30)
    model = Listener("Booked.")

    Agent(model, profile=ann, profile_tokens=60).run("Book it", repo.session("trip"))

    assert len(model.instructions[0].splitlines()) <= 4


@pytest.mark.parametrize("profile", ["ann", 5, {"seat": "aisle"}])
def test_what_is_not_a_profile_is_refused(profile, repo):
    with pytest.raises(Invalid, match=r"repo\.user\(id\)\.profile"):
        Agent(ScriptedModel(["x"]), profile=profile).run("Hello", repo.session("trip"))


def test_a_session_that_was_told_of_a_user_is_found_when_the_user_is_erased(repo, ann):
    ann.set("seat", "aisle")
    ann.commit("set")
    Agent(ScriptedModel(["Booked."]), profile=ann).run("Book it", repo.session("trip"))

    with pytest.raises(Invalid, match="sessions are linked to ann: trip"):
        ann.erase()
    assert ann.erase(sessions="delete").erased
