"""`chat`, `events`, `resume`, `run` and `replay`: what agents said and did, in a terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from otolith import Disk, Versioned
from otolith.agent import Agent, Orchestrator, ScriptedModel
from tests.unit.cli.terminal import SEATS, data, run

# ---------------------------------------------------------------- chat


def test_what_was_said_is_shown(said):
    shown = run("chat", "show").output
    assert "Pay for the flight" in shown
    assert "-> pay {amount: 5}" in shown
    assert "<- receipt" in shown
    assert [m["role"] for m in data("chat", "show")["messages"]] == ["user", "assistant", "tool"]
    assert [m["index"] for m in data("chat", "show", "-n", 1)["messages"]] == [2]


def test_what_was_said_is_shown_as_it_was(said):
    began = json.loads(run("log", "--json").output)["commits"][-1]["id"]
    assert len(data("chat", "show", "--at", began)["messages"]) == 1


def test_what_was_said_is_found(said):
    assert data("chat", "search", "flight")["hits"][0]["index"] == 0
    assert run("chat", "search", "zebra").output == "nothing found\n"


def test_what_it_is_about_is_listed(said):
    assert data("chat", "topics")["topics"][0]["spans"][0][0] == 0
    assert "keywords" in run("chat", "topics").output


def test_what_a_model_would_be_sent_is_shown(said):
    found = data("chat", "context", "--budget", 500, "--for", "anthropic")
    assert [message["role"] for message in found["messages"]] == ["user", "assistant", "user"]
    assert found["tokens"] <= 500
    assert "of 500 tokens" in run("chat", "context", "--budget", 500).output
    assert run("chat", "context", "--budget", 1).exit_code != 0


def test_a_thread_that_is_not_there_is_told(said):
    result = run("chat", "show", "--thread", "other")
    assert result.exit_code == 3
    assert "the session has main" in result.stderr


# ---------------------------------------------------------------- events


def test_what_happened_is_listed(said):
    kinds = [event["kind"] for event in data("events")["events"]]
    assert kinds == ["input", "phase", "output", "tool_call", "phase"]
    assert [e["kind"] for e in data("events", "trip", "--kind", "tool_call")["events"]] == [
        "tool_call"
    ]
    assert len(data("events", "-n", 2)["events"]) == 2
    assert data("events", "--until", "2020-01-01")["events"] == []
    assert len(data("events", "--since", "2020-01-01T00:00")["events"]) == 5
    assert data("events", "--agent", "nobody")["events"] == []
    assert "tool_call" in run("events").output


def test_a_time_that_is_none_is_told(said):
    assert run("events", "--since", "2020-13-45").exit_code == 2


# ---------------------------------------------------------------- resume


def test_a_run_goes_on_with_the_users_code(said):
    assert "executing, step 1" in run("resume", "trip").output
    assert data("resume", "trip")["runs"]["main"]["phase"] == "executing"
    result = run("resume", "trip", "--with", "bot.py:agent")
    assert result.exit_code == 0, result.output
    assert "Paid 5 to the" in result.output
    assert "\x1b" not in result.output
    assert (said / "paid").read_text() == "5\n"
    assert data("resume", "trip", "--with", "bot.py:agent")["steps"] == 0


def test_a_question_is_answered_from_the_terminal(place):
    begin = "from bot import Asker; Asker('a.db').run('book', session='trip')"
    subprocess.run([sys.executable, "-c", begin], cwd=place, check=True)
    waiting = run("resume", "trip", "--with", "bot.py:Asker")
    assert (waiting.exit_code, "Which seat?" in waiting.output) == (8, True)
    assert run("resume", "trip", "--with", "bot:Asker", "--answer", "none").exit_code == 1


@pytest.mark.parametrize(
    "given", ["bot.py:nobody", "bot.py:broken", "nothing.py:x", "no.such.module:x", "bot.py"]
)
def test_code_that_is_not_there_is_told(said, given):
    result = run("resume", "trip", "--with", given)
    assert result.exit_code == 2
    assert "FILE.py:NAME" in result.stderr


def test_a_task_is_gone_on_with_as_a_task(place):
    (place / "tasks").mkdir()
    (place / "tasks" / "prices.py").write_text("ROWS = [1, 2]\n")
    (place / "tasks" / "seats.py").write_text(SEATS)
    begin = "import seats; seats.begin()"
    store = {**os.environ, "PYTHONPATH": str(place / "tasks")}
    subprocess.run([sys.executable, "-c", begin], cwd=place, env=store, check=True)
    result = run("resume", "trip", "--with", "tasks/seats.py:choose", "--answer", "yes")
    assert result.exit_code == 0, result.stderr
    assert "row: 2" in result.output


@pytest.mark.parametrize(
    ("text", "told"),
    [("x = 1\ny = x / 0", "ZeroDivisionError: division"), ("x = 1\ndef (", "SyntaxError: ")],
)
def test_code_that_cannot_be_loaded_is_told_as_the_users(said, text, told):
    (said / "bad.py").write_text(text)
    result = run("resume", "trip", "--with", "bad.py")
    assert result.exit_code == 1
    assert told in result.stderr
    assert 'bad.py", line 2' in result.stderr
    assert "importlib" not in result.stderr


def test_a_session_in_which_nothing_ran_is_told(place):
    with Versioned(Disk(place / "a.db"), session="trip") as state:
        state["x"] = 1
        state.commit("x")
    assert "there is no run" in run("resume", "trip").stderr


# ---------------------------------------------------------------- replay


def test_a_run_is_repeated_without_touching_the_world(said):
    run("resume", "trip", "--with", "bot.py:agent")
    assert "pay" in run("replay", "trip").output
    assert [r["step"] for r in data("replay", "trip")["replies"]] == [1, 2]
    repeated = data("replay", "trip", "--with", "bot.py:agent", "--to", "again")
    assert (repeated["ended"], repeated["replayed"], repeated["asked"]) == ("done", 2, 0)
    assert (said / "paid").read_text() == "5\n"
    fresh = data("replay", "trip", "--with", "bot.py:agent", "--to", "fresh", "--fresh")
    assert (fresh["branch"], fresh["replayed"], fresh["asked"]) == ("fresh", 0, 2)
    assert run("chat", "show").output == run("chat", "show", "--at", "main").output


# ---------------------------------------------------------------- going back


def test_rollback_lists_what_was_done_outside(said):
    shown = run("rollback", "@~3").output

    assert "These effects outside the store remain:\n  pay {amount: 5}\n" in shown


def test_undo_lists_what_was_done_outside(said):
    told = [run("undo").output for _ in range(3)]

    assert ["pay {amount: 5}" in each for each in told] == [False, False, True]


def test_going_back_lists_nothing_where_nothing_was_done(place):
    with Versioned(Disk(place / "a.db"), session="trip") as state:
        for number in range(3):
            state["n"] = number
            state.commit(str(number))

    assert "outside" not in run("rollback", "@~1").output + run("undo").output


# ---------------------------------------------------------------- run


def test_an_agent_is_begun_from_a_terminal_and_goes_on(place):
    with Versioned(Disk("a.db")) as state:
        state.commit("there is a store", allow_empty=True)
    done = run("run", "bot.py:agent", "Pay for the flight")
    assert (done.exit_code, done.output.splitlines()[0]) == (0, "done after 2 steps (2 in all)")
    again = run("run", "bot.py:agent", "Pay for the flight")
    assert again.output.splitlines()[0] == "done after 0 steps (2 in all)"
    assert (place / "paid").read_text() == "5\n"

    asked = run("run", "bot.py:Asker", "A seat", session="seat")
    assert (asked.exit_code, asked.output.splitlines()[1]) == (8, "Which seat?")


def test_a_task_is_begun_with_its_arguments(place):
    (place / "seats.py").write_text(SEATS)
    (place / "prices.py").write_text("ROWS = [1]\n")
    with Versioned(Disk("a.db")) as state:
        state.commit("there is a store", allow_empty=True)
    asked = run("run", "seats.py:choose", '{"rows": [1, 2]}')
    assert (asked.exit_code, asked.output.splitlines()[1]) == (8, "Now?")
    wrong = run("run", "seats.py:choose", "two rows")
    assert wrong.exit_code == 2
    assert '{"rows": …}' in wrong.stderr


@pytest.mark.parametrize("words", [["bot.py:agent"], ["bot.py", "Pay"]])
def test_what_is_to_be_run_must_be_said(place, words):
    result = run("run", *words)
    assert result.exit_code == 2
    assert "bot.py:" in result.stderr


def test_the_question_that_a_run_waits_with_is_shown(place):
    with Versioned(Disk("a.db"), session="trip") as state:
        Orchestrator(state, step=lambda s: s.to_executing().ask("Which seat?")).run("x")
    shown = run("resume", "trip")
    assert shown.exit_code == 8
    assert "Which seat?" in shown.output
    assert "--answer" in shown.output
    assert "Which seat?" in run("show").output
    assert run("resume").output == shown.output
    unheard = run("resume", "trip", "--answer", "aisle")
    assert unheard.exit_code == 2
    assert "--with" in unheard.stderr


@pytest.mark.parametrize("given", ["more.py:pay", "more.py:Needs", ".", ":x", "more.py:needs"])
def test_what_cannot_run_is_refused_before_anything_happens(said, given):
    (said / "more.py").write_text(
        "from otolith.agent import Orchestrator, tool\n"
        "@tool\ndef pay() -> str:\n    'Pay.'\n    open('ran', 'w').close()\n"
        "class Needs(Orchestrator):\n    def __init__(self, key): ...\n"
        "def needs(key): ...\n"
    )
    result = run("resume", "trip", "--with", given)
    assert result.exit_code == 2
    assert not (said / "ran").exists()


def test_a_run_is_not_ended_by_other_code(place):
    with Versioned(Disk("a.db"), session="trip") as state:
        Orchestrator(state, step=lambda s: s.to_executing().ask("Which seat?")).run("x")
    other = run("resume", "trip", "--with", "bot.py:Asker", "--answer", "aisle")
    assert other.exit_code == 2
    assert "Orchestrator began this run" in other.stderr
    forced = run("resume", "trip", "--with", "bot.py:Asker", "--answer", "aisle", "--force")
    assert forced.exit_code == 0


AGENTS = """
from otolith.agent import Agent, ScriptedModel
booker = Agent(ScriptedModel(["booked"]))
payer = Agent(ScriptedModel(["paid"]))
"""


def test_a_run_of_an_agent_is_not_resumed_by_another_agent(place):
    (place / "agents.py").write_text(AGENTS)
    run("init")
    begun = run("run", "agents.py:booker", "Book it", "--session", "trip", "--max-steps", "0")
    assert begun.exit_code == 8, begun.output

    other = run("resume", "trip", "--with", "agents.py:payer")

    assert other.exit_code == 2
    assert "agents:booker began this run, and agents.py:payer is agents:payer" in other.stderr
    assert "--force" in other.stderr
    assert run("resume", "trip", "--with", "agents.py:payer", "--force").exit_code == 0


def test_a_run_of_an_agent_is_resumed_by_it_however_it_is_named(place):
    (place / "agents.py").write_text(AGENTS)
    run("init")
    run("run", "agents.py:booker", "Book it", "--session", "trip", "--max-steps", "0")

    assert run("resume", "trip", "--with", "agents:booker").exit_code == 0


def test_a_run_that_an_agent_began_in_python_is_resumed_by_any_agent(place):
    (place / "agents.py").write_text(AGENTS)
    run("init")
    with Versioned(Disk("a.db"), session="trip") as state:
        Agent(ScriptedModel(["x"])).run("Book it", state, max_steps=0)

    assert run("resume", "trip", "--with", "agents.py:payer").exit_code == 0


def test_a_replay_finds_a_branch_of_its_own_each_time(said):
    branches = [data("replay", "trip", "--with", "bot.py:agent")["branch"] for _ in range(2)]
    assert branches[1] == f"{branches[0]}-2"
    assert run("replay", "trip", "--run", "nobody").exit_code == 3
    assert run("replay", "trip", "--at", "zzz").exit_code == 3


def test_a_group_of_verbs_by_itself_is_explained(place):
    for group in ("chat", "chart"):
        result = run(group)
        assert result.exit_code == 0
        assert result.output.startswith("Usage:")
