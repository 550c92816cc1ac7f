"""The agent of the demo: a process that plans a trip, a commit for each step, until it is killed.

    python -m otolith.cli.demo.job STORE

It says `number id` when a step is committed. Started again, it goes on after the last one.
"""

from __future__ import annotations

import sys
import time

from otolith.core import Branch
from otolith.opening import open

SESSION = "trip-42"
CITIES = ("Lisbon", "Porto", "Sevilla", "Granada", "Valencia", "Marseille")
TASKS = ("look for trains to", "compare hotels in", "read reviews of", "reckon the days in")
STEPS = tuple(f"{task} {city}" for city in CITIES for task in TASKS)
_THINKING_SECONDS = 0.02


def work(url: str) -> None:
    """Do all steps that are not done yet."""
    with open(url, author="agent") as repo:
        state = repo.session(SESSION)
        if state.head is None:
            prepare(state)
        for number in range(int(str(state["done"])), len(STEPS)):
            step(state, number)


def prepare(state: Branch) -> None:
    """Give the agent a goal, a plan, and the memory it comes with."""
    state["goal"] = "two weeks by train along the coast, for less than 2000"
    state["plan/steps"] = list(STEPS)
    state["hotel"] = "undecided"
    state["memory"] = {f"fact-{n:03}": f"{_fact(n)} (seen {n} times)" for n in range(300)}
    state["done"] = 0
    print("0", state.commit("plan the trip").id, flush=True)


def step(state: Branch, number: int) -> None:
    """Do one step: think, write down what was found, commit, and only then say so."""
    task = STEPS[number]
    city = task.rpartition(" ")[2]
    time.sleep(_THINKING_SECONDS)
    state.list("events").append({"step": number + 1, "did": task, "found": _fact(number) * 4})
    state.counter("spent").add(7 + number * 5 % 11)
    state[f"found/{city}"] = f"{1 + number % len(TASKS)} of {len(TASKS)} questions answered"
    state["done"] = number + 1
    print(number + 1, state.commit(task).id, flush=True)


def _fact(number: int) -> str:
    kinds = ("prefers window seats", "dislikes early starts", "likes the sea", "walks a lot")
    return f"The traveller {kinds[number % len(kinds)]}; noted in conversation {number * 37 % 101}."


if __name__ == "__main__":
    work(sys.argv[1])
