"""What the public objects look like at a prompt: one line that says what they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from otolith import Chart, Disk, Runner, Versioned
from otolith.agent import Agent, ScriptedModel, ledger_in, replay, replies_in
from otolith.care import verify
from otolith.core import Snapshot

LONG = "a word\n" * 400


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Versioned]:
    with Versioned(Disk(tmp_path / "a.db", durability="fast"), author="ada") as state:
        yield state


def of_history(state: Versioned) -> Iterator[object]:
    state["plan"] = LONG
    made = state.commit(LONG)
    yield from (made, state.at(made), Snapshot(state.cells, made))
    yield state.events.append("note", text=LONG)
    yield from state.status()
    state.commit("noted")
    other = state.fork("other")
    state["plan"], other["plan"] = LONG + "ours", LONG + "theirs"
    state.commit("ours")
    other.commit("theirs")
    yield state.merge(other)
    yield from state.conflicts
    state.discard()
    yield from (state, state.at("@"), state.repo, state.events, verify(state.repo))


def of_a_conversation(state: Versioned) -> Iterator[object]:
    chat = state.conversation
    yield chat.user(LONG)
    yield chat
    yield from chat.search("word")
    message = chat[0]
    yield from (message, *message.parts, chat.context(500))


def of_a_memory(state: Versioned) -> Iterator[object]:
    memory = state.memory
    memory.goal = LONG
    memory.plan([LONG[:200], "book"])
    memory.note("seat", LONG)
    yield from (memory, memory.task, *memory.steps, *memory.notes.all())
    yield from memory.recall("word")


def of_a_run(state: Versioned) -> Iterator[object]:
    agent = Agent(ScriptedModel([{"call": "look", "where": LONG}, LONG]))

    @agent.tool(effects="once")
    def look(where: str) -> str:
        """Look."""
        return where

    orchestrator = agent.orchestrator(state)
    outcome = orchestrator.run(LONG, session=state.session)
    found = outcome.state
    yield from (agent, orchestrator, outcome, found, found.memory, *found.memory.tool_calls)
    yield from found.messages
    yield from (call for message in found.messages for call in (*message.calls, *message.results))
    yield from (*ledger_in(state), *replies_in(state, "main"))
    yield from (each.reply for each in replies_in(state, "main"))
    first = [commit for commit in state.log() if commit.meta.get("run") == "main"][-1]
    yield replay(orchestrator, state, at=first, branch="again")


def of_a_workspace(state: Versioned) -> Iterator[object]:
    runner = Runner(sandbox="limits", environment={"KEY": "secret"})
    with state.workspace(runner=runner) as work:
        yield from (runner, work, work.run(f"x = {LONG!r}; y = list(range(10_000))"))
        yield from (*work.vars(), *work.diff())


def of_a_chart(state: Versioned) -> Iterator[object]:
    rows = {(f"s{number}", "go"): f"s{number + 1}" for number in range(100)}
    chart = Chart.from_table(rows, initial="s0", data={"text": LONG})
    machine = state.lifecycle(chart)
    yield from (chart, chart.definition, machine, machine.send("go"), machine.snapshot)
    yield from (chart.simulate(["go"]), *chart.paths())


@pytest.mark.parametrize(
    "objects", [of_a_chart, of_history, of_a_conversation, of_a_memory, of_a_run, of_a_workspace]
)
def test_an_object_is_one_line_at_a_prompt(state, objects):
    for each in objects(state):
        text = repr(each)
        assert len(text) <= 200, text
        assert "\n" not in text
        assert type(each).__name__ in text
        assert not (text.startswith("<otolith") and " object at 0x" in text), text


def test_a_repr_says_what_is_there_and_leaves_out_what_is_not(state):
    state["x"] = 1
    made = state.commit("asked")
    assert repr(made) == f"<Commit {made.short} message='asked' author='ada'>"
    assert repr(state.conversation.user("hi")) == "<Message user text='hi'>"
    assert repr(Runner(sandbox="limits")) == "Runner(sandbox='limits')"


def test_a_repr_of_a_runner_does_not_tell_secrets():
    assert repr(Runner(environment={"KEY": "secret"})) == "Runner(environment=['KEY'])"


def test_an_outcome_printed_is_one_line_and_its_answer_is_whole(state):
    orchestrator = Agent(ScriptedModel([LONG])).orchestrator(state)

    outcome = orchestrator.run("go", session=state.session)

    assert outcome.answer == LONG
    assert len(str(outcome)) <= 80
    assert str(outcome).startswith("a word a word")
    assert repr(outcome) == f"<Outcome done after {outcome.steps} steps: {outcome}>"


def test_an_outcome_without_anything_to_say_ends_there(state):
    orchestrator = Agent(ScriptedModel([LONG])).orchestrator(state)

    outcome = orchestrator.run("go", session=state.session, max_steps=0)

    assert repr(outcome) == "<Outcome steps after 0 steps>"
