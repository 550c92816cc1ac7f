"""Going on after whatever went wrong: nothing staged is lost, no call doubled, no run stuck."""

from __future__ import annotations

import json
import threading
from itertools import count
from typing import Any

import pytest

from otolith import Disk, Live, Versioned
from otolith import open as open_repo
from otolith.agent import (
    Agent,
    AgentState,
    LedgerEntry,
    Orchestrator,
    ScriptedModel,
    Tool,
    effects_after,
    ledger_in,
)
from otolith.agent.journal import Journal, StepBase
from otolith.conversation import Message, Role, ToolResult
from otolith.errors import BadMessage, Busy, Conflict, Full, Invalid
from tests.patience import HANG_SECONDS


@pytest.fixture
def state() -> Versioned:
    return Versioned()


def failing_commits(monkeypatch: pytest.MonkeyPatch, start: str, error: BaseException) -> None:
    """Let the first commit whose message begins so fail."""
    real, left = Versioned.commit, [error]

    def commit(self: Versioned, message: str = "", **more: Any) -> Any:
        if message.startswith(start) and left:
            raise left.pop()
        return real(self, message, **more)

    monkeypatch.setattr(Versioned, "commit", commit)


class Payer(Orchestrator):
    """Pays once, in one step."""

    def step(self, s: AgentState) -> AgentState:
        seen = self.call("pay", amount=300)
        return s.record_observation(seen).to_executing().to_done(seen.text)


def payer(where: Any, paid: list[int], **settings: Any) -> Payer:
    def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    return Payer(where, tools=[Tool(pay, effects="once", **settings)])


# ---------------------------------------------------------------- what is staged


def test_what_the_user_staged_before_a_run_is_not_lost_when_a_step_fails(state):
    def step(s: AgentState) -> AgentState:
        made.state["its own"] = 1
        if s.phase == "planning":
            return s.to_executing()
        raise ValueError("no")

    made = Orchestrator(state, step=step)
    made.run("x", max_steps=1)
    state["mine"] = 1
    with pytest.raises(ValueError, match="no"):
        made.run("x")
    assert state["mine"] == 1


def test_ctrl_c_in_the_commit_of_a_step_leaves_nothing_of_it(state, monkeypatch):
    def step(s: AgentState) -> AgentState:
        made.state["n"] = made.state.get("n", 0) + 1
        return s.to_executing()

    made = Orchestrator(state, step=step)
    failing_commits(monkeypatch, "step 1", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        made.run("x", max_steps=1)
    assert state.is_clean
    assert "n" not in state
    made.run("x", max_steps=1)
    assert state["n"] == 1


def test_a_call_that_could_not_be_written_down_was_not_made_and_is_not_begun(state, monkeypatch):
    paid: list[int] = []
    made = payer(state, paid)
    failing_commits(monkeypatch, "begun", Full("no room", hint="make some"))
    with pytest.raises(Full):
        made.run("x")
    assert (paid, ledger_in(state)) == ([], [])
    assert made.run("x").answer == "paid"
    assert paid == [300]


def test_a_failure_that_cannot_be_recorded_does_not_hide_what_failed(state, monkeypatch):
    def step(s: AgentState) -> AgentState:
        raise ValueError("the first")

    failing_commits(monkeypatch, "step 1 failed", Full("no room"))
    with pytest.raises(ValueError, match="the first") as caught:
        Orchestrator(state, step=step).run("x")
    assert any("no room" in note for note in caught.value.__notes__)


def test_what_was_said_before_a_run_is_known_to_it_at_once(state):
    state.conversation.system("You book flights.")
    state.conversation.user("hello")
    state.commit()
    seen = []

    def step(s: AgentState) -> AgentState:
        seen.append([message.text for message in s.messages])
        return s.to_executing()

    made = Orchestrator(state, step=step)
    made.run("x", max_steps=1)
    made.run("x", max_steps=1)  # as another process would: everything is read
    assert seen == [["You book flights.", "hello", "x"]] * 2
    assert len(state.conversation) == 3
    inputs = [event for event in state.events if event.kind == "input"]
    assert [event.data["text"] for event in inputs] == ["x"]


# ---------------------------------------------------------------- calls


def test_calls_in_another_order_are_still_the_same_calls(state):
    paid: list[int] = []

    def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    orders = [[1, 2], [2, 1]]

    def step(s: AgentState) -> AgentState:
        order = orders.pop(0)
        for amount in order:
            made.call("pay", amount=amount)
        if orders:
            raise KeyboardInterrupt
        return s.to_executing().to_done("ok")

    made = Orchestrator(state, step=step, tools=[Tool(pay, effects="once")])
    with pytest.raises(KeyboardInterrupt):
        made.run("x")
    made.run("x")
    assert paid == [1, 2]


def test_the_same_call_twice_in_a_step_is_two_calls(state):
    paid: list[int] = []

    def pay(amount: int) -> int:
        paid.append(amount)
        return len(paid)

    def step(s: AgentState) -> AgentState:
        both = [made.call("pay", amount=1).result for _ in range(2)]
        if len(paid) == 2 and not told:
            told.append(both)
            raise KeyboardInterrupt
        return s.to_executing().to_done(both)

    told: list[Any] = []
    made = Orchestrator(state, step=step, tools=[Tool(pay, effects="once")])
    with pytest.raises(KeyboardInterrupt):
        made.run("x")
    assert made.run("x").answer == [1, 2]
    assert paid == [1, 1]


def test_a_call_that_was_begun_and_that_other_code_does_not_come_back_to_is_told(state):
    amounts = [1, 2]

    def pay(amount: int) -> str:
        if amount == 1:
            raise KeyboardInterrupt
        return "paid"

    def step(s: AgentState) -> AgentState:
        made.call("pay", amount=amounts.pop(0))
        return s.to_executing().to_done("ok")

    made = Orchestrator(state, step=step, tools=[Tool(pay, effects="once")])
    with pytest.raises(KeyboardInterrupt):
        made.run("x")
    made.run("x")
    told = [event.data for event in state.events if event.kind == "effect_unknown"]
    assert [each["key"] for each in told] == [entry.key for entry in made.unknown_effects()]
    assert len(told) == 1


@pytest.mark.parametrize("error", [TimeoutError("slow"), OSError("gone")])
def test_a_tool_that_gave_up_waiting_may_have_acted(state, error):
    def pay(amount: int) -> str:
        raise error

    Payer(state, tools=[Tool(pay, effects="once")]).run("x")
    entry = ledger_in(state)[0]
    assert entry.status == ("unknown" if isinstance(error, TimeoutError) else "failed")
    assert bool(effects_after(state, list(state.log())[-1])) == (entry.status == "unknown")


class Ugly:
    """Cannot be looked at."""

    def __repr__(self) -> str:
        raise ValueError("no")


def around() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


def nested(depth: int) -> Any:
    made: Any = 1
    for _ in range(depth):
        made = [made]
    return made


@pytest.mark.parametrize(
    "result", [around(), nested(300), {(1, 2): 3}, Ugly(), "half \ud83d", 2**80, object(), {1, 2}]
)
def test_what_a_tool_returns_cannot_undo_that_it_was_called(state, result):
    def pay(amount: int) -> Any:
        return result

    outcome = Payer(state, tools=[Tool(pay, effects="once")]).run("x")
    assert outcome.ended == "done"
    assert [entry.status for entry in ledger_in(state)] == ["done"]


# ---------------------------------------------------------------- models


def test_a_step_that_chokes_on_an_answer_asks_anew(state):
    answers = ["no json", '{"a": 1}']

    def step(s: AgentState) -> AgentState:
        return s.to_executing().to_done(json.loads(made.complete(s.messages).text))

    made = Orchestrator(state, step=step, model=lambda messages: answers.pop(0))
    with pytest.raises(ValueError, match="Expecting value"):
        made.run("x")
    assert made.run("x").answer == {"a": 1}


def test_an_answer_that_something_was_done_for_stays_the_answer(state):
    answers, paid = ["300", "301"], []
    fails = [True]

    def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    def step(s: AgentState) -> AgentState:
        made.call("pay", amount=int(made.complete(s.messages).text))
        if fails:
            fails.clear()
            raise ValueError("after it was paid")
        return s.to_executing().to_done("ok")

    made = Orchestrator(
        state, step=step, model=lambda _: answers.pop(0), tools=[Tool(pay, effects="once")]
    )
    with pytest.raises(ValueError, match="after it was paid"):
        made.run("x")
    made.run("x")
    assert paid == [300]


def test_answers_are_known_by_what_was_asked_and_not_by_when(state):
    asked: list[str] = []
    orders = [["one", "two"], ["two", "one"]]

    def answer(messages: Any) -> str:
        asked.append(messages[-1].text)
        return f"to {messages[-1].text}"

    def step(s: AgentState) -> AgentState:
        order = orders.pop(0)
        found = {text: made.complete(made_of(text)).text for text in order}
        if orders:
            raise KeyboardInterrupt
        return s.to_executing().to_done(found)

    def made_of(text: str) -> Any:
        return AgentState.from_user_input(text).messages

    made = Orchestrator(state, step=step, model=answer)
    with pytest.raises(KeyboardInterrupt):
        made.run("x")
    assert made.run("x").answer == {"one": "to one", "two": "to two"}
    assert asked == ["one", "two"]


# ---------------------------------------------------------------- who runs


def test_one_orchestrator_does_not_run_two_sessions_at_once():
    inside, go_on = threading.Event(), threading.Event()

    def step(s: AgentState) -> AgentState:
        inside.set()
        go_on.wait(HANG_SECONDS)
        made.state["who"] = s.session
        return s.to_executing().to_done("ok")

    repo = open_repo("memory:")
    made = Orchestrator(repo, step=step)
    thread = threading.Thread(target=made.run, args=("x",), kwargs={"session": "a"})
    thread.start()
    inside.wait(HANG_SECONDS)
    with pytest.raises(Busy, match="runs already"):
        made.run("x", session="b")
    go_on.set()
    thread.join()
    assert repo.session("a")["who"] == "a"
    assert made.run("x", session="b").ended == "done"


def test_a_call_that_another_run_is_in_the_middle_of_is_left_to_it():
    repo, paid = open_repo("memory:"), []
    inside, go_on = threading.Event(), threading.Event()

    def slow(amount: int) -> str:
        paid.append(amount)
        inside.set()
        go_on.wait(HANG_SECONDS)
        return "paid"

    def quick(amount: int) -> str:
        paid.append(amount)
        return "paid"

    def never(key: str, arguments: Any) -> None:
        """Say that it did not happen: it has not, yet."""

    first = Payer(repo, tools=[Tool(slow, name="pay", effects="once")])
    thread = threading.Thread(target=first.run, args=("x",))
    thread.start()
    inside.wait(HANG_SECONDS)
    second = Payer(repo, tools=[Tool(quick, name="pay", effects="once", asks=never)])
    with pytest.raises(Busy, match="in the middle of pay"):
        second.run("x")
    go_on.set()
    thread.join()
    assert second.run("x").answer == "paid"
    assert paid == [300]


def test_two_that_began_a_step_at_different_commits_do_not_both_act():
    """Somebody commits between the two: what they do must not get two different keys."""
    repo, paid = open_repo("memory:"), []

    def step(s: AgentState) -> AgentState:
        other = repo.session("main")
        other["x"] = 1
        other.commit("in between")
        second.run("x")
        made.call("pay", amount=300)
        return s.to_executing().to_done("first")

    def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    second = payer(repo, paid)
    made = Orchestrator(repo, step=step, tools=[Tool(pay, effects="once")])
    with pytest.raises(Conflict, match="another process"):
        made.run("x")
    assert paid == [300]


def test_sessions_of_a_state_without_history_are_apart():
    made = Orchestrator(Live(), step=lambda s: s.to_executing().to_done(s.session))
    assert [made.run("x", session=name).answer for name in ("a", "b")] == ["a", "b"]


def test_a_task_that_begins_again_says_so_in_its_commit(state):
    made = Orchestrator(state, step=lambda s: s.to_executing().to_done("ok"))
    made.run("x")
    made.run("x", again=True)
    said = [commit.message for commit in state.log()]
    assert said == ["step 2", "begin main", "step 1", "begin main"]


def test_an_answer_that_was_given_before_is_told_so(state):
    def step(s: AgentState) -> AgentState:
        return s.to_executing().ask("which?") if s.phase == "planning" else s.to_done("ok")

    made = Orchestrator(state, step=step)
    made.run("x")
    made.run(answer="this")
    with pytest.raises(Invalid, match="no question to answer") as caught:
        made.run(answer="this")
    assert "leave out the answer" in caught.value.hint


def test_a_step_that_no_conversation_can_hold_is_an_event_too(state):
    def step(s: AgentState) -> AgentState:
        return s.say(Message(Role.TOOL, (ToolResult("nobody asked", "3"),))).to_executing()

    with pytest.raises(BadMessage):
        Orchestrator(state, step=step).run("x")
    assert [event.kind for event in state.events][-1] == "error"


def test_a_call_that_another_begins_right_after_one_has_looked_is_not_made_twice(monkeypatch):
    repo, paid = open_repo("memory:"), []
    is_begun, may_end = threading.Event(), threading.Event()

    def pay(amount: int) -> str:
        paid.append(amount)
        is_begun.set()
        may_end.wait(HANG_SECONDS)
        return "paid"

    first = payer(repo, paid)
    second = Payer(repo, tools=[Tool(pay, effects="once")])
    other = threading.Thread(target=second.run, args=("x",))
    look = Journal.known_call

    def look_then_wait(self: Journal, entry: LedgerEntry, base: StepBase) -> Any:
        found = look(self, entry, base)
        if threading.current_thread() is not other and not other.is_alive():
            other.start()
            assert is_begun.wait(HANG_SECONDS)
        return found

    monkeypatch.setattr(Journal, "known_call", look_then_wait)
    with pytest.raises(Conflict, match="another process"):
        first.run("x")
    may_end.set()
    other.join(HANG_SECONDS)

    assert paid == [300]
    assert second.run("x").answer == "paid"


def test_two_processes_that_begin_one_step_at_different_commits_are_told_apart(tmp_path):
    """Whoever commits last was not there when the other began: the two must not become a third."""
    with Versioned(Disk(tmp_path / "a.db")) as one, Versioned(Disk(tmp_path / "a.db")) as two:
        Orchestrator(one, step=lambda s: s).run("go", max_steps=0)
        two.refresh()
        first, second = Journal(one, "main"), Journal(two, "main")
        bases = [StepBase(0, f"{number}" * 64, one.ref) for number in (1, 2)]
        with (
            pytest.raises(Conflict, match="another process"),
            second._writing("begun", kind="note", base=bases[1]),
        ):
            first.record_event("note", "begun", base=bases[0])
        assert first.base(0) == second.base(0) == bases[0]


# ---------------------------------------------------------------- a task that was abandoned


def mailer(where: Any, sent: list[str], fails: list[bool]) -> Orchestrator:
    """Sends a mail, and fails afterwards as long as it is to."""

    def send(to: str) -> str:
        sent.append(to)
        return f"mail {len(sent)}"

    def step(o: Orchestrator, s: AgentState) -> AgentState:
        seen = o.call("send", to="bob")
        if fails:
            raise RuntimeError("later trouble")
        return s.to_executing().to_done(seen.result)

    return Orchestrator(where, step=step, tools=[Tool(send, effects="once")])


@pytest.mark.parametrize("where", [Versioned, Live])
def test_the_task_after_an_abandoned_one_makes_its_own_effects(where):
    sent: list[str] = []
    fails = [True]
    made = mailer(where(), sent, fails)
    with pytest.raises(RuntimeError):
        made.run("mail bob about lunch")
    made.abandon()
    fails.clear()
    assert made.run("mail bob about dinner").answer == "mail 2"
    assert made.run("mail bob about dinner").answer == "mail 2"


def test_an_abandoned_task_that_begins_again_makes_its_effects_again(state):
    sent: list[str] = []
    fails = [True]
    made = mailer(state, sent, fails)
    with pytest.raises(RuntimeError):
        made.run("mail bob")
    made.abandon()
    fails.clear()
    assert made.run("mail bob", again=True).answer == "mail 2"


def test_the_task_after_an_abandoned_one_asks_the_model_itself(state):
    replies = ["to the first", "to the second"]
    fails = [True]

    def step(o: Orchestrator, s: AgentState) -> AgentState:
        reply = o.complete([])
        if fails:
            raise KeyboardInterrupt
        return s.to_executing().to_done(reply.text)

    made = Orchestrator(state, step=step, model=lambda _: replies.pop(0))
    with pytest.raises(KeyboardInterrupt):
        made.run("first")
    made.abandon()
    fails.clear()
    assert made.run("second").answer == "to the second"


def test_a_result_of_a_step_that_was_cut_off_is_not_dated_before_its_call():
    ticks = count(1_000)
    state = Versioned(clock=lambda: next(ticks))
    interrupts = [KeyboardInterrupt()]
    agent = Agent(ScriptedModel([[{"call": "send"}, {"call": "wait"}], "done"]))

    @agent.tool(effects="once")
    def send() -> str:
        return "sent"

    @agent.tool
    def wait() -> str:
        if interrupts:
            raise interrupts.pop()
        return "waited"

    with pytest.raises(KeyboardInterrupt):
        agent.run("mail bob", state)
    assert agent.run("mail bob", state).answer == "done"

    times = [message.time for message in state.conversation]
    assert len(times) == 5
    assert times == sorted(times)
