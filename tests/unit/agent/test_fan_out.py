"""Fan-out: sub-agents work at the same time, within one budget, and what conflicts is told."""

from __future__ import annotations

from threading import Barrier, Lock
from time import sleep

import pytest

import otolith
from otolith.agent import Agent, Orchestrator, Reply, TokenUsage, fan_out
from otolith.conversation import Message, Role, Text, ToolCall
from otolith.errors import Invalid


@pytest.fixture
def repo(tmp_path):
    with otolith.open(str(tmp_path / "team.db")) as repo:
        yield repo


@pytest.fixture
def team(repo):
    team = repo.team("research", member="lead")
    team.transact(lambda state: state.update(plan="A", notes=[]), "begin")
    return team


def answer(text, tokens=10):
    return Reply(Message(Role.ASSISTANT, (Text(text),)), TokenUsage(tokens - 1, 1), "stop")


def done(s, text):
    executing = s if s.phase.value == "executing" else s.to_executing()
    return executing.to_reflecting().to_done(text)


def writer(path, value):
    """Return an agent without a model that writes a value in one step."""

    def step(self, s):
        self.state[path] = value
        return done(s, f"wrote {path}")

    return Orchestrator(step=step)


def test_each_works_on_a_branch_and_all_is_merged(team):
    def step(self, s):
        self.state.list("notes").append(self.name)
        self.state[f"by/{self.name}"] = s.task
        return done(s, s.task)

    tasks = {name: (Orchestrator(step=step), f"task of {name}") for name in ("a", "b", "c")}
    found = fan_out(team, tasks)
    assert found.is_done
    assert {name: each.answer for name, each in found.outcomes.items()} == {
        name: f"task of {name}" for name in "abc"
    }
    team.state.refresh()
    assert sorted(team.state["notes"]) == ["a", "b", "c"]
    assert team.state["by"] == {name: f"task of {name}" for name in "abc"}
    authors = {commit.author for commit in team.state.log(path="by/b")}
    assert authors == {"b"}
    assert {each.name for each in team.members()} == {"lead", "a", "b", "c"}


def test_what_conflicts_goes_to_the_inbox(team):
    found = fan_out(team, {"a": (writer("plan", "B"), "b"), "b": (writer("plan", "C"), "c")})
    (conflict,) = found.conflicts
    assert conflict.path == "plan"
    assert {conflict.ours, conflict.theirs} == {"B", "C"}
    assert [each.id for each in team.inbox] == [conflict.id]
    assert found.is_done


def test_they_run_at_the_same_time(team):
    barrier = Barrier(3, timeout=60)

    def step(self, s):
        barrier.wait()
        return done(s, "met")

    found = fan_out(team, {name: (Orchestrator(step=step), "meet") for name in "abc"})
    assert [each.answer for each in found.outcomes.values()] == ["met"] * 3


def test_tokens_are_counted_in_the_team_and_a_budget_ends_all_runs(team):
    def model(messages, tools):
        return Reply(
            Message(Role.ASSISTANT, (ToolCall("1", "look", {}),)), TokenUsage(90, 10), "tool_use"
        )

    def look() -> str:
        """Look."""
        return "nothing"

    tasks = {name: (Agent(model, tools=[look]), "look around") for name in "ab"}
    found = fan_out(team, tasks, budget=500)
    assert not found.is_done
    assert {each.ended for each in found.outcomes.values()} == {"stopped"}
    assert 500 <= found.spent <= 600
    team.state.refresh()
    assert team.state["budgets/fan-out"] == found.spent
    again = fan_out(team, tasks, budget=500)
    assert (again.spent, again.is_done) == (
        found.spent,
        False,
    )  # nothing was left, nothing was asked
    more = fan_out(team, tasks, budget=800)
    assert 800 <= more.spent <= 900


def test_a_scarce_tool_is_used_in_turn(team):
    lock, inside, most = Lock(), [], []

    def browse(number: int) -> str:
        """Browse."""
        with lock:
            inside.append(1)
            most.append(len(inside))
        sleep(0.005)
        with lock:
            inside.pop()
        return "seen"

    def step(self, s):
        for number in range(3):
            self.call("browse", number=number)
        return done(s, "ok")

    agent = Orchestrator(step=step, tools=[browse])
    found = fan_out(team, dict.fromkeys("abcd", (agent, "browse")), queues={"browse": 1})
    assert found.is_done
    assert {*most} == {1}
    assert len(most) >= 4


def test_made_again_it_resumes_what_is_not_over_and_repeats_nothing(team):
    calls = []

    def step(self, s):
        calls.append(self.name)
        self.state.counter("steps").add(1)
        if self.name == "b" and calls.count("b") == 1:
            self.stop()
            return s.to_executing()
        return done(s, "ok")

    tasks = {name: (Orchestrator(step=step), "work") for name in "ab"}
    first = fan_out(team, tasks)
    assert (first.outcomes["a"].ended, first.outcomes["b"].ended) == ("done", "stopped")
    second = fan_out(team, tasks)
    assert second.is_done
    assert sorted(calls) == ["a", "b", "b"]
    third = fan_out(team, tasks)
    assert third.is_done
    assert sorted(calls) == ["a", "b", "b"]
    team.state.refresh()
    assert team.state["steps"] == 3


def test_one_that_fails_does_not_end_the_others(team):
    def fail(self, s):
        raise ValueError("hm")

    team.add("gone")
    team.remove("gone")
    tasks = {
        "good": (writer("x", 1), "write"),
        "bad": (Orchestrator(step=fail), "fail"),
        "gone": (writer("y", 1), "write"),
    }
    found = fan_out(team, tasks)
    assert found.outcomes["good"].ended == "done"
    assert isinstance(found.failures["bad"], ValueError)
    assert "gone was removed" in str(found.failures["gone"])
    assert not found.is_done
    assert team.state.refresh() is not None
    assert (team.state["x"], "y" in team.state) == (1, False)


@pytest.mark.parametrize(
    ("tasks", "options"),
    [
        ({}, {}),
        ({"a": "do it"}, {}),
        ({"a": (writer("x", 1), 7)}, {}),
        ({"a": (writer("x", 1), "t")}, {"budget": "much"}),
        ({"a": (writer("x", 1), "t")}, {"at_once": 0}),
        ({"a": (writer("x", 1), "t")}, {"queues": {"browser": 1}}),
        ([], {}),
    ],
)
def test_arguments_that_make_no_sense_are_refused(team, tasks, options):
    with pytest.raises(Invalid):
        fan_out(team, tasks, **options)
