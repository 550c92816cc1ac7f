"""A process that dies before or after any write of a run: the next one goes on as if it had not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from otolith import Versioned
from otolith.agent import AgentState, Orchestrator, Outcome, Tool, ledger_in
from otolith.stores import Batch, MemoryStore


class Died(BaseException):
    """What a process would not live to see."""


class Mortal(MemoryStore):
    """A store whose process dies at one of its writes, before or after it."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.dies_at: int | None = None
        self.is_written = False

    def write(self, batch: Batch) -> None:
        self.writes += 1
        if self.dies_at is not None and self.writes >= self.dies_at:
            if self.is_written and self.writes == self.dies_at:
                super().write(batch)
            raise Died
        super().write(batch)

    def close(self) -> None:
        """Stay as it is, for the next process."""


class World:
    """What tools did to it, and how often."""

    def __init__(self) -> None:
        self.paid: Counter[str] = Counter()
        self.posted: Counter[str] = Counter()

    def tools(self) -> list[Tool]:
        def pay(amount: int, idempotency_key: str) -> str:
            self.paid[idempotency_key] += 1
            return f"paid {amount}"

        def post(text: str, idempotency_key: str) -> str:
            self.posted[idempotency_key] += 1
            return f"posted {text}"

        def asks(key: str, arguments: Any) -> str | None:
            return f"paid {arguments['amount']}" if self.paid[key] else None

        return [Tool(pay, effects="once", asks=asks), Tool(post, effects="idempotent")]


class Buyer(Orchestrator):
    """Pays, asks which colour, and pays again."""

    def step(self, s: AgentState) -> AgentState:
        self.state["bought"] = [*self.state.get("bought", []), s.iteration]
        if s.phase == "planning":
            return s.record_observation(self.call("pay", amount=10)).to_executing().ask("colour?")
        seen = self.call("pay", amount=11)
        return s.record_observation(seen).to_done(f"a {s.messages[-1].text} one")


class Boss(Orchestrator):
    """Thinks, acts, delegates, asks the user what the other wants to know, and hands that on."""

    buyer: Buyer

    def step(self, s: AgentState) -> AgentState:
        self.state["steps"] = [*self.state.get("steps", []), s.iteration]
        if s.iteration == 0:
            return s.say(self.complete(s.messages).message).to_executing()
        if s.iteration == 1:
            for name, given in (("post", {"text": "hi"}), ("pay", {"amount": 1})):
                s = s.record_observation(self.call(name, **given))
            return s.to_executing()
        if s.iteration == 2:
            return s.ask(self.delegate(self.buyer, "buy", name="buyer").question)
        answer = s.messages[-1].text
        return s.to_done(self.delegate(self.buyer, "buy", name="buyer", answer=answer).answer)


def driven(store: Mortal, world: World) -> tuple[Outcome, Versioned]:
    """Let a process do all of it, or what is left of it."""
    state = Versioned(store)
    boss = Boss(state, tools=world.tools(), model=lambda messages: "I think.")
    boss.buyer = Buyer(tools=world.tools())
    outcome = boss.run("go")
    return (boss.run(answer="red") if outcome.ended == "paused" else outcome), state


def mortals() -> Iterator[Mortal]:
    """Yield a store for each death there can be."""
    whole = Mortal()
    driven(whole, World())
    for at in range(1, whole.writes + 1):
        for is_written in (False, True):
            store = Mortal()
            store.dies_at, store.is_written = at, is_written
            yield store


def test_whatever_write_a_process_dies_at_the_next_one_goes_on():
    plain, _ = driven(Mortal(), World())
    count = 0
    for store in mortals():
        world = World()
        with pytest.raises(Died):
            driven(store, world)
        store.dies_at = None
        outcome, state = driven(store, world)

        assert (outcome.ended, outcome.answer) == ("done", "a red one")
        assert state["steps"] == [0, 1, 2, 3]
        assert state["bought"] == [0, 1]
        assert sorted(world.paid.values()) == [1, 1, 1]
        assert len(world.posted) == 1  # perhaps twice, with one key
        assert {entry.status for entry in ledger_in(state)} == {"done"}
        assert [m.text for m in outcome.state.messages] == [m.text for m in plain.state.messages]
        count += 1
    assert count > 40
