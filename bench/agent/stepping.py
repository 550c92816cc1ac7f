"""Steps of an orchestrator, each a commit: what one takes when much was said before."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from time import process_time

import otolith
from bench.commits import label
from bench.ground import SESSION, Ground, tell
from bench.table import Budget, Row, compared
from bench.timing import Samples
from bench.words import MESSAGE_BYTES, Words
from otolith import agent, conversation

NOTE = (
    "One run of an orchestrator whose step says 500 bytes; a commit has the message, the head of"
    " the run and its events. In CPU time, between two commits."
)
_BEGIN = 10


def rows(ground: Ground) -> Iterator[Row]:
    count = ground.sizes.many_messages
    some = max(2, count // 20)
    tell(f"{count:,} steps of an orchestrator")
    with otolith.open(ground.place("steps"), durability="fast") as repo:
        took = _run(repo, count)
    first, last = _blocks(took[_BEGIN : _BEGIN + some]), _blocks(took[-some:])
    work = f"{label(count)} steps of an orchestrator: one more, committed"
    flat = Budget(1.5, "x", of="ratio")
    yield compared("step", work, last, f"step {_BEGIN} on", first, budget=flat, note=NOTE)


def _run(repo: otolith.Repo, count: int) -> list[float]:
    """Return the seconds of CPU time of each step."""
    words, times = Words(6), [process_time()]

    def step(s: agent.AgentState) -> agent.AgentState:
        text = conversation.Text(words.text(MESSAGE_BYTES))
        said = s.say(conversation.Message(conversation.Role.ASSISTANT, (text,)))
        return said if said.phase == "executing" else said.to_executing()

    runner = agent.Orchestrator(
        repo, step=step, on_step=lambda _: times.append(process_time()), progress=False
    )
    runner.run("talk", session=SESSION, max_steps=count)
    return [after - before for before, after in pairwise(times)]


def _blocks(took: list[float]) -> Samples:
    size = max(1, len(took) // 10)
    return Samples([took[at : at + size] for at in range(0, len(took), size)])
