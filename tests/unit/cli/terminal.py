"""A terminal for tests: runs verbs on a store `a.db`, with code of a user to run."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from otolith.cli import program

BOT = """
from otolith.agent import Agent, AgentState, Orchestrator, ScriptedModel

calls = []
agent = Agent(ScriptedModel([{"call": "pay", "amount": 5}, "Paid 5 to the \\x1b[31mairline."]))

@agent.tool(effects="once")
def pay(amount: int) -> str:
    "Pay."
    with open("paid", "a") as file:
        file.write(f"{amount}\\n")
    return "receipt"

class Asker(Orchestrator):
    def step(self, s: AgentState) -> AgentState:
        if s.phase == "planning":
            return s.to_executing().ask("Which seat?")
        return s.to_error("no seats") if s.messages[-1].text == "none" else s.to_done("ok")

def broken():
    return 3
"""

SEATS = """
from dataclasses import dataclass
from otolith import Disk, Versioned
from otolith.agent import Agent, Orchestrator, ScriptedModel
from prices import ROWS

agent = Agent(
    ScriptedModel(
        [
            {"call": "ask_user", "question": "Now?"},
            "seat 2",
            {"call": "give_result", "result": {"row": 2}},
        ]
    ),
    can_ask=True,
)

@dataclass
class Seat:
    row: int

@agent.task
def choose(rows: list[int]) -> Seat:
    "Choose a seat."

def begin():
    with Versioned(Disk("a.db"), session="trip") as state:
        choose.run(ROWS, state=state)
"""


def run(*words: object, session: str = "trip") -> Result:
    return CliRunner().invoke(program, ["--store", "a.db", "-s", session, *map(str, words)])


def data(*words: object) -> dict[str, Any]:
    result = run(*words, "--json")
    assert result.output, result.stderr
    found: dict[str, Any] = json.loads(result.output)
    return found
