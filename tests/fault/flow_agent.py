"""A worker of a flow of agents and effects, which is killed somewhere, and started again.

python flow_agent.py STORE EFFECTS [POINT]

The run has a task that pays by `task.once`, one that pays by a tool of the ledger, two agents
beside each other that pay by their tools, and a step that joins them. Each effect is a line in
EFFECTS, written whole. At POINT, such as `once before`, the process kills itself, if EFFECTS does
not say that it has done so before: `before` an effect, `inside`, when it has happened and nobody
knows, or `after` it, when it is on record and its task has not landed.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import otolith
from otolith.agent import Agent, ScriptedModel, Tool, tool
from otolith.flows import Flow, ThreadExecutor, WorkerPresence

WHO = ("once", "ledger", "left", "right")
PLACES = ("before", "inside", "after")
POINTS = [f"{who} {place}" for who in WHO for place in PLACES]
TTL_SECONDS = 1.0


def note(place: str, line: str) -> None:
    """Write a line, whole or not at all."""
    file = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{line}\n".encode())
    os.close(file)


class Shop:
    """Effects, and the place where this process is to die."""

    def __init__(self, place: str, point: str = "") -> None:
        self._place = place
        self._point = point

    def lines(self) -> list[str]:
        """Return what has happened."""
        place = Path(self._place)
        return place.read_text().splitlines() if place.exists() else []

    def at(self, point: str) -> None:
        """Die here, once."""
        if point == self._point and f"died {point}" not in self.lines():
            note(self._place, f"died {point}")
            os.kill(os.getpid(), signal.SIGKILL)

    def pay(self, who: str) -> str:
        """Do what must not happen twice."""
        self.at(f"{who} before")
        note(self._place, f"paid {who}")
        self.at(f"{who} inside")
        return f"{who} paid"

    def found(self, who: str) -> str | None:
        """Look whether it has happened, as the shop would know."""
        return f"{who} paid" if f"paid {who}" in self.lines() else None

    def tool(self, who: str) -> Tool:
        """Return the effect as a tool."""

        @tool(name="charge", effects="once", asks=lambda key, arguments: self.found(who))
        def charge() -> str:
            """Pay."""
            return self.pay(who)

        return charge

    def agent(self, who: str) -> Agent:
        """Return an agent that pays, thinks, and says so; each question to its model is noted."""

        def step(number: int, line: Any) -> Any:
            def answer(messages):
                note(self._place, f"asked {who} {number}")
                if number == 1:
                    self.at(f"{who} after")
                return line

            return answer

        lines: list[Any] = [{"call": "charge"}, {"call": "look"}, f"{who} is done"]
        model = ScriptedModel([step(number, line) for number, line in enumerate(lines)])
        made = Agent(model, tools=[self.tool(who)])
        made.tool(lambda: "nothing", name="look")
        return made

    def flow(self) -> Flow:
        """Return the flow."""
        flow = Flow("shop")

        @flow.task(name="once")
        def once(task):
            found = task.once("pay", self.pay, "once", asks=lambda key: self.found("once"))
            self.at("once after")
            return found

        @flow.task(name="ledger")
        def ledger(task):
            found = task.call(self.tool("ledger"))
            self.at("ledger after")
            return found

        def buy() -> str:  # type: ignore[empty-body]
            """Buy it."""

        for who in ("left", "right"):
            flow.task(self.agent(who).task(buy), name=who)
        flow.task(lambda results: sorted(results.values()), name="all", after=WHO)
        return flow


def main(store: str, effects: str, point: str = "") -> None:
    """Work on the run until it is over."""
    shop = Shop(effects, point)
    with otolith.open(store) as repo, ThreadExecutor(3) as executor:
        run = repo.session("s").flow(shop.flow(), key="run")
        print("ready", flush=True)
        presence = WorkerPresence(repo.backend, "session/s/main", slots=3, ttl_seconds=TTL_SECONDS)
        seen = [0]

        def say(board) -> None:
            if board.counts["done"] > seen[0]:
                seen[0] = board.counts["done"]
                print(f"{seen[0]} done", flush=True)

        with presence:
            run.worker(executor, presence).work(on_turn=say)
        assert run.status == "done", run.progress().failures
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
