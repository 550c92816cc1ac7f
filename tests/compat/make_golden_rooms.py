"""Makes the golden store of the rooms: `python tests/compat/make_golden_rooms.py`.

`format-v1.db` proves the format of values that users bring. This one proves names: every room
stores values of our own classes as `module:Qualname`, and a workspace session stores pickles that
name functions of ours. Wherever modules move, these names must still resolve. The store was written
before the first move; written again it would hold today's names and prove nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ["OTOLITH_KEY"] = "07" * 32  # the tests' key: pickles are read only by who signed them

import otolith
from otolith.agent import Agent, AgentState, Orchestrator, ScriptedModel, TokenUsage, tool
from otolith.conversation import Attachment, Role, Text, ToolCall
from otolith.memory import ToolRecord
from otolith.statecharts import AGENT, Chart, Phase
from otolith.workspace import Runner

GOLDEN_ROOMS = Path(__file__).with_name("golden") / "rooms-v1.db"

BOOKING: dict[str, Any] = {
    "id": "booking",
    "initial": "choosing",
    "context": {"tries": 0},
    "states": {
        "choosing": {"on": {"book": {"target": "booked", "actions": ["send_mail"]}}},
        "booked": {"type": "final"},
    },
}

CELLS = (
    """
import functools, collections, enum, dataclasses, math
prices = [120, 80]
def total(extra=0):
    return sum(prices) + extra
class Trip:
    kind = "trip"
    def __init__(self, city): self.city = city
    def __repr__(self): return f"Trip({self.city})"
    @property
    def loud(self): return self.city.upper()
    @staticmethod
    def fare(): return sum(prices)
    @classmethod
    def home(cls): return cls("Rome")
trip = Trip("NYC")
again = trip
""",
    """
class Seat(enum.Enum):
    AISLE = 1
@dataclasses.dataclass
class Leg:
    trip: Trip
    seat: Seat = Seat.AISLE
leg = Leg(trip)
def adder(step):
    count = 0
    def add():
        nonlocal count
        count += step
        return count
    return add
add = adder(5); add()
@functools.lru_cache(maxsize=None)
def square(n): return n * n
square(7); square(8)
math.answer = 42
""",
    """
import numpy as np
base = np.arange(12.0).reshape(3, 4)
row = base[1]
column = np.arange(6)[::2]
fixed = np.arange(3); fixed.flags.writeable = False
try:
    {}["missing"]
except KeyError as caught:
    error = ValueError("bad", 3)
    error.legs = [leg]
rest = iter([1, 2, 3]); next(rest)
later = functools.partial(total, extra=1)
box = [trip, base, total]
open("note.txt", "w").write("kept")
""",
)


@tool(effects="once")
def pay(amount: int, idempotency_key: str) -> str:
    """Pay for the flight."""
    return f"paid {amount}"


class Booker(Orchestrator):
    """A run that pays, then pauses with a question."""

    def step(self, s: AgentState) -> AgentState:
        if s.phase == "planning":
            return s.plan("pay", "ask").to_executing()
        if "pay" in s.memory.pending:
            return s.record_observation(self.call("pay", amount=300)).done("pay")
        if "ask" in s.memory.pending:
            return s.done("ask").ask("Aisle or window?")
        return s.to_done(f"{s.messages[-1].text}, paid once")


def own_values() -> dict[str, Any]:
    """Return values of our own classes, as users put them under keys of theirs."""
    memory = otolith.open("memory:", clock=lambda: 0).session("scratch").memory
    memory.goal = "fly to NYC"
    memory.plan(["search", "book"])
    memory.note("airline", "Delta")
    return {
        "usage": TokenUsage(3, 4),
        "said": [Role.USER, Text("hello")],
        "record": ToolRecord("c1", "search", {"to": "NYC"}, result=["DL 47"], duration_ms=4.0),
        "phase": {"now": Phase.PLANNING},
        "task": memory.task,
        "steps": list(memory.steps),
        "note": memory.recall("airline")[0],
        "runner": Runner(python="python3"),
        "pickled": SimpleNamespace(usage=TokenUsage(5, 6), roles=[Role.TOOL]),
    }


def model() -> ScriptedModel:
    return ScriptedModel(
        [
            {"call": "average", "numbers": [1, 2, 3]},
            {"call": "give_result", "result": 2.0},
        ]
    )


def tell(repo: Any) -> None:
    """Write a session for each room."""
    _conversation(repo.session("talk"))
    _agents(repo)
    _charts(repo.session("charts"))
    own = repo.session("own")
    for name, value in own_values().items():
        own[name] = value
    own.commit("values of our own classes")
    with repo.session("code").workspace() as work:
        for cell in CELLS:
            step = work.run(cell)
            assert step.ok, step.error


def _conversation(state: Any) -> None:
    chat, memory = state.conversation, state.memory
    chat.system("You book flights.")
    chat.user([Text("My passport:"), Attachment("image/png", b"\x89PNG...", name="me.png")])
    chat.assistant(tool_calls=[ToolCall("c1", "search", {"to": "NYC"})], reasoning="No date.")
    chat.tool("c1", {"flights": [{"airline": "Delta", "price": 482}]})
    chat.assistant("Delta flies for 482.")
    memory.goal = "fly to NYC under 500"
    memory.plan(["search", "book"])
    memory.done("search", "one flight")
    memory.note("airline", "Delta", importance=0.9, source="user")
    memory.record(ToolRecord("c1", "search", {"to": "NYC"}, result=["DL 47"], duration_ms=412.0))
    memory.gather(destination="NYC")
    state.commit("asked")


def _agents(repo: Any) -> None:
    paused = Booker(repo, tools=[pay]).run("Book a flight", session="run")
    assert paused.question == "Aisle or window?"
    agent = Agent(model())

    @agent.tool
    def average(numbers: list[float]) -> float:
        """Return the mean of numbers."""
        return sum(numbers) / len(numbers)

    @agent.task
    def analyse(data: list[float]) -> float:  # type: ignore[empty-body]
        """Describe the data."""

    assert analyse([1, 2, 3], state=repo.session("task")) == 2.0


def _charts(state: Any) -> None:
    machine = state.lifecycle(AGENT)
    machine.send("new_task", goal="fly to NYC")
    state.lifecycle(Chart.from_data(BOOKING), name="booking").send("book", price=300)
    state.commit("booked")


def main() -> None:
    if GOLDEN_ROOMS.exists():
        sys.exit(f"{GOLDEN_ROOMS.name} is there; it is never written again")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / GOLDEN_ROOMS.name
        repo = otolith.open(place, author="golden")
        tell(repo)
        repo.close()
        shutil.copyfile(place, GOLDEN_ROOMS)
    print(f"{GOLDEN_ROOMS.name}: {GOLDEN_ROOMS.stat().st_size} bytes")


if __name__ == "__main__":
    main()
