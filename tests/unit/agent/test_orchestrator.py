"""Orchestrator: each step a commit, what is done stays done, and every way to come to rest."""

from __future__ import annotations

import io
import threading
from dataclasses import replace
from typing import Any

import pytest

from otolith import Disk, Live, Versioned, events
from otolith import open as open_repo
from otolith.agent import (
    AgentState,
    Orchestrator,
    ScriptedModel,
    Tool,
    effects_after,
    ledger_in,
    list_runs,
    load_run,
    tool,
)
from otolith.agent.state import Progress
from otolith.conversation import Conversation, Message, Role, Text, ToolResult
from otolith.errors import (
    BadMessage,
    BadReply,
    Conflict,
    EffectUnknown,
    Invalid,
    KeyNotFound,
    MergeConflict,
    SchemaMismatch,
    Unsupported,
)
from tests.patience import HANG_SECONDS


class Counter(Orchestrator):
    """Counts to three, one a step."""

    def step(self, s: AgentState) -> AgentState:
        if s.phase == "planning":
            return s.to_executing()
        count = s.data.get("count", 0) + 1
        s = s.with_data(count=count)
        return s.to_done(f"counted {count}") if count == 3 else s.to_executing()


def loaded(orchestrator: Orchestrator, session: str = "a") -> AgentState:
    found = orchestrator.load(session)
    assert found is not None
    return found


@pytest.fixture
def repo():
    return open_repo("memory:")


# ---------------------------------------------------------------- steps


def test_every_step_is_a_commit_that_says_where_it_is(repo):
    outcome = Counter(repo).run("count", session="a")
    assert (outcome.ended, outcome.answer, outcome.steps) == ("done", "counted 3", 4)
    commits = list(repo.session("a").log())
    assert [commit.message for commit in commits] == [
        "step 4", "step 3", "step 2", "step 1", "begin main",
    ]  # fmt: skip
    assert commits[0].meta["phase"] == "done"
    assert list_runs(repo.session("a")) == ["main"]


def test_a_function_will_do_instead_of_a_class(repo):
    outcome = Orchestrator(repo, step=lambda s: s.to_executing().to_done("ok")).run("x")
    assert outcome.answer == "ok"


def test_what_has_ended_is_told_again_and_not_run_again(repo):
    Counter(repo).run("count", session="a")
    again = Counter(repo).run("count", session="a")
    assert (again.answer, again.steps) == ("counted 3", 0)
    assert Counter(repo).run("count", session="a", again=True).steps == 4


def test_the_next_task_goes_on_with_the_conversation(repo):
    Counter(repo).run("count", session="a")
    Counter(repo).run("count more", session="a")
    state = loaded(Counter(repo))
    said = [message.text for message in state.messages]
    assert said == ["count", "counted 3", "count more", "counted 3"]
    assert state.iteration == 8
    assert state.memory.goal == "count more"
    assert len(Conversation(repo.session("a"))) == 4


def test_another_task_does_not_come_in_between(repo):
    Counter(repo).run("count", session="a", max_steps=1)
    with pytest.raises(Conflict, match="in the middle"):
        Counter(repo).run("something else", session="a")


def test_sessions_do_not_know_of_each_other(repo):
    Counter(repo).run("count", session="a")
    assert Counter(repo).load("b") is None
    with pytest.raises(KeyNotFound):
        Counter(repo).resume("b")
    with pytest.raises(KeyNotFound):
        Counter(repo).run(session="b")


def test_what_a_step_writes_to_the_state_is_in_its_commit(repo):
    def step(s: AgentState) -> AgentState:
        made.state["seen"] = s.iteration
        return s.to_executing() if s.iteration < 2 else s.to_done("ok")

    made = Orchestrator(repo, step=step)
    made.run("x", session="a")
    state = repo.session("a")
    first = next(commit for commit in state.log() if commit.message == "step 1")
    assert state["seen"] == 2
    assert state.at(first)["seen"] == 0


def test_a_step_costs_what_changed(repo):
    def step(s: AgentState) -> AgentState:
        s = s.say(Message(Role.USER, (Text(f"{s.iteration} " * 100),))).to_executing()
        return s.to_done("ok") if s.iteration == 300 else s

    sizes: list[int] = []
    made = Orchestrator(repo, step=step)

    def weigh(s: AgentState) -> None:
        head = made.state.head
        assert head is not None
        assert head.stats is not None
        sizes.append(head.stats.bytes)

    made.on_step = weigh
    made.run("x", session="a", max_steps=None)
    early, late = sorted(sizes[20:60])[20], sorted(sizes[-60:-20])[20]
    assert late < 1.5 * early


# ---------------------------------------------------------------- failing


def test_a_step_that_raises_leaves_the_run_where_it_was(repo):
    broken = [True]

    def step(s: AgentState) -> AgentState:
        made.state["x"] = made.state.get("x", 0) + 1
        if s.iteration == 1 and broken:
            broken.clear()
            raise RuntimeError("the net is down")
        return s.to_executing() if s.iteration < 2 else s.to_done("ok")

    made = Orchestrator(repo, step=step)
    with pytest.raises(RuntimeError, match="the net is down") as caught:
        made.run("x", session="a")
    assert "stays at step 1" in caught.value.__notes__[0]
    told = events(repo.session("a"), kind="error")
    assert told[0].data["error"] == "RuntimeError: the net is down"
    assert made.run("x", session="a").answer == "ok"
    assert repo.session("a")["x"] == 3


def test_a_step_that_returns_something_else_is_told(repo):
    with pytest.raises(Invalid, match="must return an AgentState"):
        Orchestrator(repo, step=lambda s: None).run("x")  # type: ignore[arg-type]


def test_messages_cannot_be_taken_back(repo):
    with pytest.raises(Invalid, match="only grow"):
        Orchestrator(repo, step=lambda s: replace(s, messages=())).run("x")


def test_what_no_conversation_can_hold_is_refused_and_nothing_of_the_step_is_kept(repo):
    def step(s: AgentState) -> AgentState:
        made.state["x"] = 1
        return s.say(Message(Role.TOOL, (ToolResult("nobody asked", "3"),))).to_executing()

    state = repo.session("a")
    made = Orchestrator(state, step=step)
    with pytest.raises(BadMessage):
        made.run("x", session="a")
    assert state.is_clean
    assert "x" not in state
    assert loaded(made).iteration == 0


def test_without_a_step_there_is_nothing_to_run(repo):
    with pytest.raises(Unsupported, match="no step"):
        Orchestrator(repo).run("x")


def test_a_run_of_another_schema_version_is_refused(repo):
    Counter(repo).run("count", session="a", max_steps=1)
    state = repo.session("a")
    path = (".loop", "runs", "main", "head")
    head = state.cells.load(state.cell_at(path))
    state.write_reserved(path, state.cells.put(head | {"schema": 7}))
    state.commit("from the future")
    with pytest.raises(SchemaMismatch, match="must be 1, got 7"):
        Counter(repo).run("count", session="a")


# ---------------------------------------------------------------- limits, stopping, people


def test_a_run_ends_at_its_limits_and_can_go_on(repo):
    assert Counter(repo).run("count", session="a", max_steps=2).ended == "steps"
    assert Counter(repo).run("count", session="a", max_seconds=0).ended == "seconds"
    outcome = Counter(repo).resume("a")
    assert (outcome.ended, outcome.steps) == ("done", 2)
    with pytest.raises(Invalid):
        Counter(repo).run("x", max_steps=-1)


def test_another_thread_can_stop_a_run(repo):
    entered, go = threading.Event(), threading.Event()

    def step(s: AgentState) -> AgentState:
        entered.set()
        assert go.wait(HANG_SECONDS)
        return s.to_executing()

    made = Orchestrator(repo, step=step)
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(made.run("x", session="a")))
    thread.start()
    assert entered.wait(HANG_SECONDS)
    made.stop()
    assert made.is_stopping
    go.set()
    thread.join(HANG_SECONDS)
    assert [(each.ended, each.steps) for each in outcomes] == [("stopped", 1)]


def test_a_model_that_never_stops_talking_is_stopped_between_its_words(repo):
    def step(s: AgentState) -> AgentState:
        return s.say(made.complete(s.messages).message).to_executing()

    heard: list[str] = []

    def listen(piece: str) -> None:
        heard.append(piece)
        made.stop()

    made = Orchestrator(repo, step=step, model=ScriptedModel(["a b c d"]), on_text=listen)
    outcome = made.run("x", session="a")
    assert (outcome.ended, outcome.steps, heard) == ("stopped", 0, ["a "])
    assert loaded(made).iteration == 0


def test_a_question_pauses_the_run_until_somebody_answers(repo):
    def step(s: AgentState) -> AgentState:
        if s.phase == "planning":
            return s.to_executing().ask("Which seat?")
        return s.to_done(f"took {s.messages[-1].text}")

    made = Orchestrator(repo, step=step)
    paused = made.run("book", session="a")
    assert (paused.ended, paused.question) == ("paused", "Which seat?")
    assert made.run("book", session="a").ended == "paused"
    assert Orchestrator(repo, step=step).resume("a", "12A").answer == "took 12A"
    with pytest.raises(Invalid, match="no question to answer"):
        made.run(session="a", answer="12B")
    at_once = Orchestrator(repo, step=step, human=lambda question: "window")
    assert at_once.run("book", session="b").answer == "took window"


def test_progress_is_told_to_terminals_only(repo):
    stream = io.StringIO()
    state = AgentState.from_user_input("x")
    Progress(stream=stream).step(state, None)
    assert stream.getvalue() == ""
    Progress(stream=stream, is_wanted=True).step(state, None)
    assert "planning" in stream.getvalue()


@pytest.mark.parametrize(("columns", "most"), [(50, 49), (200, 120), (10, 40)])
def test_a_line_of_progress_is_one_line_of_the_terminal(monkeypatch, columns, most):
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = io.StringIO()
    state = AgentState.from_user_input("many words " * 30)
    Progress("finder", stream=stream, is_wanted=True).step(state, None)
    (line,) = stream.getvalue().splitlines()
    assert len(line) <= most
    assert line.startswith("[main/finder]")


def test_each_state_is_handed_over_when_it_is_kept(repo):
    seen: list[int] = []
    Counter(repo, on_step=lambda s: seen.append(s.iteration)).run("count")
    assert seen == [0, 1, 2, 3, 4]


# ---------------------------------------------------------------- effects


def shop(where, log, *, dies=(), **settings):
    """Return an orchestrator that pays in each of three steps, and dies at some of them."""

    def pay(amount: int, idempotency_key: str) -> str:
        log.append(("pay", amount, idempotency_key))
        if ("during", amount) in dies:
            raise KeyboardInterrupt
        return f"paid {amount}"

    def step(s: AgentState) -> AgentState:
        if s.phase == "planning":
            return s.to_executing()
        seen = made.call("pay", amount=s.iteration)
        if ("after", s.iteration) in dies:
            raise KeyboardInterrupt
        s = s.record_observation(seen)
        return s.to_done("ok") if s.iteration == 3 else s.to_executing()

    made = Orchestrator(where, step=step, tools=[Tool(pay, **settings)])
    return made


@pytest.mark.parametrize("effects", ["idempotent", "once"])
def test_a_call_that_has_ended_is_not_made_again_by_a_step_that_is(repo, effects):
    log: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        shop(repo, log, dies=[("after", 2)], effects=effects).run("buy", session="a")
    assert shop(repo, log, effects=effects).run("buy", session="a").answer == "ok"
    assert [amount for _, amount, _ in log] == [1, 2, 3]


def test_an_idempotent_call_that_was_cut_off_is_made_again_with_its_key(repo):
    log: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        shop(repo, log, dies=[("during", 2)], effects="idempotent").run("buy", session="a")
    shop(repo, log, effects="idempotent").run("buy", session="a")
    assert [amount for _, amount, _ in log] == [1, 2, 2, 3]
    assert log[1] == log[2]
    assert len({key for _, _, key in log}) == 3


def test_a_call_that_can_be_asked_about_is_asked_about(repo):
    log: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        shop(repo, log, dies=[("during", 2)], effects="once").run("buy", session="a")
    asked: list[Any] = []

    def asks(key, arguments):
        asked.append((key, arguments))
        return "found: paid 2"

    outcome = shop(repo, log, effects="once", asks=asks).run("buy", session="a")
    assert asked == [(log[1][2], {"amount": 2})]
    assert [amount for _, amount, _ in log] == [1, 2, 3]
    assert outcome.state.memory.tool_calls[1].result == "found: paid 2"


def test_a_call_that_did_not_happen_is_made(repo):
    log: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        shop(repo, log, dies=[("during", 2)], effects="once").run("buy", session="a")
    shop(repo, log, effects="once", asks=lambda key, arguments: None).run("buy", session="a")
    assert [amount for _, amount, _ in log] == [1, 2, 2, 3]


def test_whether_a_call_happened_is_for_the_user_to_say_if_nobody_knows(repo):
    log: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        shop(repo, log, dies=[("during", 2)], effects="once").run("buy", session="a")
    again = shop(repo, log, effects="once")
    with pytest.raises(EffectUnknown, match="may have happened"):
        again.run("buy", session="a")
    with pytest.raises(EffectUnknown, match="may have happened") as caught:
        again.run("buy", session="a")
    assert len(log) == 2
    told = events(repo.session("a"), kind="effect_unknown")
    assert "settle" in told[0].data["error"]
    again.settle(caught.value.key, happened=False, session="a")
    assert again.run("buy", session="a").answer == "ok"
    assert [amount for _, amount, _ in log] == [1, 2, 2, 3]
    with pytest.raises(KeyNotFound):
        again.settle(caught.value.key, happened=True, session="a")


def test_a_call_of_which_asking_fails_stays_unknown(repo):
    log: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        shop(repo, log, dies=[("during", 1)], effects="once").run("buy", session="a")

    def asks(key, arguments):
        raise OSError("the bank is closed")

    with pytest.raises(Conflict, match="the bank is closed"):
        shop(repo, log, effects="once", asks=asks).run("buy", session="a")


def test_what_a_step_staged_before_it_was_cut_off_is_gone_but_its_effects_are_not(repo):
    log: list[Any] = []
    made = shop(repo, log, dies=[("after", 1)], effects="once")
    real: Any = made.step

    def step(s: AgentState) -> AgentState:
        made.state["steps"] = made.state.get("steps", 0) + 1
        after: AgentState = real(s)
        return after

    made.step = step
    with pytest.raises(KeyboardInterrupt):
        made.run("buy", session="a")
    state = repo.session("a")
    assert state["steps"] == 1
    assert [entry.status for entry in ledger_in(state)] == ["done"]


def test_a_value_that_was_handed_out_before_a_call_is_still_the_one_after_it(repo):
    def step(s: AgentState) -> AgentState:
        rows = made.state.setdefault("rows", [])
        made.call("pay", amount=s.iteration)
        rows.append(s.iteration)
        return s.to_done("ok") if s.iteration == 3 else s.to_executing()

    made = shop(repo, [], effects="once")
    made.step = step
    made.run("buy", session="a")
    assert repo.session("a")["rows"] == [0, 1, 2, 3]


def test_going_back_lists_what_stays_in_the_world(repo):
    log: list[Any] = []
    made = shop(repo, log, effects="once")
    made.run("buy", session="a")
    state = repo.session("a")
    second = next(commit for commit in state.log() if commit.message == "step 2")
    assert [entry.arguments["amount"] for entry in effects_after(state, second)] == [2, 3]
    left = made.rollback(second, session="a")
    assert [entry.arguments["amount"] for entry in left] == [2, 3]
    assert len(events(repo.session("a"), kind="effect_left")) == 2
    # and once more, when the ledger itself has gone back
    state.refresh()
    assert [entry.arguments["amount"] for entry in effects_after(state, second)] == [2, 3]
    made.run("buy", session="a")
    keys = [key for _, _, key in log]
    assert len(keys) == len(set(keys)) == 5  # done again on purpose: other calls, other keys


def test_a_tool_that_raises_is_an_observation_and_no_end(repo):
    @tool
    def search(text: str) -> str:
        """Search."""
        raise ZeroDivisionError("no results to divide by")

    def step(s: AgentState) -> AgentState:
        seen = made.call("search", text="x")
        return s.record_observation(seen).to_executing().to_done(seen.error)

    made = Orchestrator(repo, step=step, tools=[search])
    assert made.run("x").answer == "ZeroDivisionError: no results to divide by"


def test_a_call_that_must_not_happen_twice_and_timed_out_is_unknown(repo):
    gate = threading.Event()

    def pay(amount: int) -> None:
        """Pay slowly."""
        gate.wait(HANG_SECONDS)

    def step(s: AgentState) -> AgentState:
        seen = made.call("pay", amount=1)
        return s.record_observation(seen).to_executing().to_done(seen.error)

    made = Orchestrator(repo, step=step, tools=[Tool(pay, effects="once", timeout_seconds=0.05)])
    answer = made.run("x", session="a").answer
    gate.set()
    assert "not known whether it happened" in answer
    assert [entry.status for entry in made.unknown_effects("a")] == ["unknown"]


# ---------------------------------------------------------------- models


def test_a_model_is_not_asked_again_by_a_step_that_was_cut_off(repo):
    model = ScriptedModel(["first", "second"])
    dies = [True]

    def step(s: AgentState) -> AgentState:
        reply = made.complete(s.messages)
        if dies:
            dies.clear()
            raise KeyboardInterrupt
        return s.say(reply.message).to_executing().to_done(reply.text)

    made = Orchestrator(repo, step=step, model=model)
    with pytest.raises(KeyboardInterrupt):
        made.run("x", session="a")
    assert made.run("x", session="a").answer == "first"
    assert len(model.asked) == 1


def test_another_question_is_asked_even_if_the_step_was_cut_off(repo):
    questions = ["one", "two"]
    model = ScriptedModel([lambda messages: f"answer to {messages[-1].text}"])

    def step(s: AgentState) -> AgentState:
        reply = made.complete([Message(Role.USER, (Text(questions.pop(0)),))])
        if questions:
            raise KeyboardInterrupt
        return s.to_executing().to_done(reply.text)

    made = Orchestrator(repo, step=step, model=model)
    with pytest.raises(KeyboardInterrupt):
        made.run("x", session="a")
    assert made.run("x", session="a").answer == "answer to two"


def test_a_model_that_fails_leaves_a_run_that_can_go_on(repo):
    model = ScriptedModel([BadReply("nonsense")])

    def step(s: AgentState) -> AgentState:
        return s.to_executing().to_done(made.complete(s.messages).text)

    made = Orchestrator(repo, step=step, model=model)
    with pytest.raises(BadReply):
        made.run("x", session="a")
    model.lines = ["sense"]
    assert made.run("x", session="a").answer == "sense"


def test_without_a_model_nobody_can_be_asked(repo):
    made = Orchestrator(repo, step=lambda runs, s: s.to_done(runs.complete(s.messages).text))
    with pytest.raises(Invalid, match="no model"):
        made.run("x")


# ---------------------------------------------------------------- sub-agents


def test_a_sub_agent_works_on_a_fork_and_hands_back_a_merge(repo):
    def search(s: AgentState) -> AgentState:
        helper_state = repo.session("a", branch=branches()[0])
        assert helper_state is not None
        return s.to_executing().to_done("three flights")

    class Finder(Orchestrator):
        def step(self, s: AgentState) -> AgentState:
            self.state["found"] = 3
            return search(s)

    class Boss(Orchestrator):
        def step(self, s: AgentState) -> AgentState:
            if s.phase == "planning":
                self.state["asked"] = True
                return s.to_executing()
            outcome = self.delegate(Finder(), "find flights", name="finder")
            assert "found" not in self.state
            return s.to_done(outcome.answer)

    def branches():
        return [name for name in repo.branches("a") if name != "main"]

    outcome = Boss(repo).run("fly", session="a")
    state = repo.session("a")
    assert outcome.answer == "three flights"
    assert (state["found"], state["asked"]) == (3, True)
    assert list_runs(state) == ["finder", "main"]
    assert [m.text for m in Conversation(state, thread="finder").messages()] == [
        "find flights",
        "three flights",
    ]
    assert loaded(Boss(repo)).memory.goal == "fly"


def test_a_sub_agent_goes_on_when_the_step_that_asked_it_is_cut_off(repo):
    begun: list[int] = []
    dies = [True]

    class Finder(Orchestrator):
        def step(self, s: AgentState) -> AgentState:
            begun.append(s.iteration)
            return s.to_done("found") if s.iteration == 2 else s.to_executing()

    class Boss(Orchestrator):
        def step(self, s: AgentState) -> AgentState:
            outcome = self.delegate(Finder(), "find", name="finder")
            if dies:
                dies.clear()
                raise KeyboardInterrupt
            return s.to_executing().to_done(outcome.answer)

    with pytest.raises(KeyboardInterrupt):
        Boss(repo).run("fly", session="a")
    assert Boss(repo).run("fly", session="a").answer == "found"
    assert begun == [0, 1, 2]


def test_a_sub_agent_that_is_not_merged_yet_is_merged_by_the_next_process(repo, monkeypatch):
    class Finder(Orchestrator):
        def step(self, s: AgentState) -> AgentState:
            self.state["found"] = 3
            return s.to_executing().to_done("found")

    class Boss(Orchestrator):
        def step(self, s: AgentState) -> AgentState:
            return s.to_executing().to_done(self.delegate(Finder(), "find", name="finder").answer)

    def die(*given, **more):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Versioned, "merge", die)
        with pytest.raises(KeyboardInterrupt):
            Boss(repo).run("fly", session="a")
    assert "found" not in repo.session("a")
    assert Boss(repo).run("fly", session="a").steps == 0
    assert repo.session("a")["found"] == 3


def test_two_processes_do_not_run_one_session_at_once_unnoticed(repo):
    def step(s: AgentState) -> AgentState:
        if not other:
            other.append(1)
            Orchestrator(repo, step=step).run("x", session="a", max_steps=1)
        return s.with_data(by=len(other)).to_executing()

    other: list[int] = []
    with pytest.raises(Conflict, match="another process"):
        Orchestrator(repo, step=step).run("x", session="a", max_steps=1)
    state = loaded(Orchestrator(repo, step=step))
    assert (state.iteration, len(state.messages)) == (1, 1)


def test_a_run_can_be_looked_at_as_it_was(repo):
    Counter(repo).run("count", session="a")
    state = repo.session("a")
    second = next(commit for commit in state.log() if commit.message == "step 2")
    then = load_run(state.at(second))
    assert then is not None
    assert (then.iteration, then.data["count"]) == (2, 1)


def test_a_merge_that_needs_a_decision_is_told_and_can_be_made_by_hand(repo):
    class Finder(Orchestrator):
        def step(self, s: AgentState) -> AgentState:
            self.state["price"] = 1
            return s.to_executing().to_done("found")

    class Boss(Orchestrator):
        def step(self, s: AgentState) -> AgentState:
            self.state["price"] = 2
            self.delegate(Finder(), "find", name="finder")
            return s.to_executing().to_done("done")

    boss = Boss(repo)
    with pytest.raises(MergeConflict) as caught:
        boss.run("fly", session="a")
    assert caught.value.paths == ("price",)
    state = repo.session("a")
    branch = caught.value.hint.split("'")[1]
    state.merge(branch)
    state.resolve_conflict("price", take="theirs")
    state.commit("decided")
    assert Boss(repo).run("fly", session="a").answer == "done"
    assert repo.session("a")["price"] == 1


# ---------------------------------------------------------------- where


def test_a_run_can_be_kept_in_one_state_or_nowhere(tmp_path):
    with Versioned(Disk(tmp_path / "a.db"), session="mine") as state:
        assert Counter(state).run("count").answer == "counted 3"
        with pytest.raises(Invalid, match="session mine"):
            Counter(state).run("count", session="other")
    assert Counter().run("count").answer == "counted 3"
    live = Live()
    assert Counter(live).run("count").answer == "counted 3"
    assert [event.kind for event in live.events][-1] == "success"
    assert Counter(live).run("count").steps == 0


def test_a_path_is_enough_to_keep_runs(tmp_path):
    Counter(str(tmp_path / "a.db")).run("count", session="a", max_steps=2)
    assert Counter(str(tmp_path / "a.db")).resume("a").answer == "counted 3"


def test_a_task_that_is_not_over_can_be_given_up(repo):
    def step(s: AgentState) -> AgentState:
        return s.to_executing().ask("which?") if s.task == "first" else s.to_executing().to_done(1)

    made = Orchestrator(repo, step=step)
    made.run("first", session="a")
    with pytest.raises(Conflict, match="in the middle of 'first'"):
        made.run("second", session="a")
    made.abandon("a", "no longer wanted")
    assert made.run(session="a").error == "no longer wanted"
    assert made.run("second", session="a").answer == 1
    with pytest.raises(KeyNotFound):
        made.abandon("b")


def test_an_answer_to_nothing_and_an_answer_to_something_else_are_refused(repo):
    def step(s: AgentState) -> AgentState:
        return s.to_executing().ask("which?")

    made = Orchestrator(repo, step=step)
    with pytest.raises(Invalid, match="nothing has begun"):
        made.run("first", session="a", answer="this")
    made.run("first", session="a")
    with pytest.raises(Conflict, match="the question is about 'first'"):
        made.run("second", session="a", answer="this")


def test_a_run_that_is_stopped_before_it_begins_ends_at_once(repo):
    made = Orchestrator(repo, step=lambda s: s.to_executing().to_done("ok"))
    made.stop()
    assert made.run("x", session="a").ended == "stopped"
    assert made.run("x", session="a").ended == "done"


def test_a_step_that_is_a_coroutine_says_what_to_write(repo):
    class Asynchronous(Orchestrator):
        async def step(self, s: AgentState) -> AgentState:  # type: ignore[override]
            return s

    with pytest.raises(Invalid) as caught:
        Asynchronous(repo).run("x", session="a")
    assert "without async" in caught.value.hint


def test_a_tool_that_is_not_there_is_told_to_whoever_writes_the_step(repo):
    class Caller(Orchestrator):
        def step(self, s: AgentState) -> AgentState:
            return s.to_executing().to_done(self.call("pay", amount=1).text)

    with pytest.raises(KeyNotFound, match="no tool 'pay'"):
        Caller(repo).run("x", session="a")


def test_a_name_that_cannot_name_a_branch_can_name_a_sub_agent(repo):
    class Boss(Orchestrator):
        def step(self, s: AgentState) -> AgentState:
            sub = Orchestrator(step=lambda s: s.to_executing().to_done("two"))
            found = self.delegate(sub, "find", name="find flights")
            return s.to_executing().to_done(found.answer)

    assert Boss(repo, name="my agent").run("x", session="a").answer == "two"


def test_progress_shows_no_escapes_and_needs_no_terminal(repo, monkeypatch, capsys):
    def step(s: AgentState) -> AgentState:
        return s.to_executing().ask("\x1b[2Jwhich?")

    Orchestrator(repo, step=step, progress=True).run("x", session="a")
    shown = capsys.readouterr().err
    assert "which?" in shown
    assert "\x1b" not in shown
    monkeypatch.setattr("sys.stderr", None)
    assert Orchestrator(repo, step=step).run("x", session="b").ended == "paused"


def test_an_outcome_is_shown_on_one_line(repo):
    made = Orchestrator(repo, step=lambda s: s.to_executing().to_done("word " * 100))
    assert repr(made.run("x", session="a")).startswith("<Outcome done after 1 steps: word word")
    assert len(repr(made.run("x", session="a"))) < 130
