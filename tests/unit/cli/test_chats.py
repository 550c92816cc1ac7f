"""`chat`, `memory` and `replay`: what was said, thought, planned and asked, in a terminal."""

from __future__ import annotations

import pytest

from otolith import Disk, Versioned
from otolith.agent import Agent, Orchestrator, ScriptedModel
from otolith.conversation import Reasoning, Text
from tests.unit.cli.terminal import data, run


@pytest.fixture
def thought(place):
    """A session with a goal, a plan, notes, and two threads; a model has thought in one."""
    with Versioned(Disk("a.db"), session="trip") as state:
        state.conversation.user("Book a flight")
        state.conversation.assistant((Reasoning("Which one?\nThe cheap one."), Text("Booked.")))
        state.conversation.thread("side").user("Any news?")
        state.memory.start("fly home")
        state.memory.plan(["search", "book"])
        state.memory.done("search", "three found")
        state.memory.gather(price=120)
        state.memory.note("seat", "aisle", source="user")
        state.commit("begin")
        state.memory.goal = "stay"
        state.commit("other plans")
    return place


def test_what_a_model_thought_is_shown_and_marked(thought):
    shown = run("chat", "show").output.splitlines()
    assert shown[-3:] == ["    (thinks) Which one?", "    (thinks) The cheap one.", "    Booked."]


def test_threads_are_listed(thought):
    lines = run("chat", "threads").output.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["thread", "messages"],
        ["main", "2"],
        ["side", "1"],
    ]
    found = data("chat", "threads")["threads"]
    assert [(each["name"], each["messages"]) for each in found] == [("main", 2), ("side", 1)]
    assert all(each["last"] >= each["began"] > 0 for each in found)


def test_what_an_agent_has_in_mind_is_shown(thought):
    shown = run("memory", "--at", "@~1").output
    plan = "Plan\n  [x] search  (three found)\n  [ ] book\n"
    assert shown.startswith(f"fly home  (in_progress)\n{plan}")
    assert "price  120" in shown
    assert 'seat  "aisle"' in shown
    assert "from user" in shown
    assert run("memory", "trip").output.startswith("stay  (")


def test_what_an_agent_has_in_mind_is_data(thought):
    found = data("memory")
    assert found["task"]["goal"] == "stay"
    assert [step["state"] for step in found["plan"]] == ["done", "pending"]
    assert found["notes"][0]["value"] == "aisle"


def test_an_empty_mind_is_told(place):
    with Versioned(Disk("a.db"), session="trip") as state:
        state.commit("begin", allow_empty=True)
    assert run("memory").output == "working memory is empty\n"


# ---------------------------------------------------------------- runs


def test_a_run_that_is_over_shows_its_answer_and_all_of_it_in_short(place):
    answer = "\n".join(["x" * 900, *map(str, range(30))])
    with Versioned(Disk("a.db"), session="trip") as state:
        ends = Orchestrator(state, step=lambda s: s.to_executing().to_done(answer))
        ends.run("Tell me " + "everything " * 90)
    lines = run("resume", "trip").output.splitlines()
    assert len(lines) == 14
    assert len(lines[0]) < 160
    assert lines[1].startswith("  xxx")
    assert len(lines[1]) < 410
    assert lines[-1] == "  … (19 more lines)"


class Boss(Orchestrator):
    """Lets a sub-agent do all the work."""

    def step(self, s):
        worker = Agent(ScriptedModel(["It is sunny."]))
        told = self.delegate(worker, "Look out", name="worker").answer
        return s.to_executing().to_done(told)


def test_a_record_without_answers_names_the_runs_that_have_some(place):
    with Versioned(Disk("a.db"), session="trip") as state:
        Boss(state).run("What is the weather?")
    shown = run("replay", "trip").output.splitlines()
    assert shown[0] == "run main asked no model"
    assert shown[1] == "  worker did: otolith --store a.db replay trip --run worker"
    assert "It is sunny." in run("replay", "trip", "--run", "worker").output
