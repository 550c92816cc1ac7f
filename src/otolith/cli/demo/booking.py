"""The booking of the demo: a scripted model that looks for trains and pays, until it is killed.

    python -m otolith.cli.demo.booking STORE RECEIPTS

RECEIPTS stands for the world: paying appends a line to it. The first process says `paid` when it
has paid and waits to be killed, before anybody could write down that it did.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from otolith.agent import Agent, Outcome, ScriptedModel
from otolith.opening import open

SESSION = "booking"
TASK = "Book the night train to Lisbon"
_LONG_SECONDS = 60


def agent_with(receipts: Path) -> Agent:
    """Return the agent: its model says the same in every process."""
    model = ScriptedModel(
        [
            {"call": "find_trains", "to": "Lisbon"},
            {"call": "pay", "train": "310", "price": 89},
            "Booked: train 310 to Lisbon, at 21:25, for 89.",
        ]
    )
    agent = Agent(model, instructions="You book trains.")

    @agent.tool
    def find_trains(to: str) -> list[dict[str, Any]]:
        """Find night trains."""
        return [{"train": "310", "to": to, "leaves": "21:25", "price": 89}]

    def has_paid(key: str, arguments: Mapping[str, Any]) -> str | None:
        return "paid" if receipts.exists() and key in receipts.read_text() else None

    @agent.tool(effects="once", asks=has_paid)
    def pay(train: str, price: int, idempotency_key: str) -> str:
        """Pay for a train."""
        is_first = not receipts.exists()
        with receipts.open("a") as file:
            file.write(f"{idempotency_key} train {train} {price}\n")
        if is_first:
            print("paid", flush=True)
            time.sleep(_LONG_SECONDS)
        return "paid"

    return agent


def work(url: str, receipts: Path) -> Outcome:
    """Book the train, or go on with it."""
    with open(url, author="agent") as repo:
        return agent_with(receipts).acting(repo).run(TASK, session=SESSION)


if __name__ == "__main__":
    print(work(sys.argv[1], Path(sys.argv[2])).answer, flush=True)
