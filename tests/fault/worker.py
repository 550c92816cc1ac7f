"""A process that runs an orchestrator whose tools count their calls, until it is killed or done.

python worker.py STORE CALLS

Every tool appends a line to CALLS, as one write: its name, its key and the step. A line `step N` is
written as a step begins, `kept N` when its commit has returned.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from otolith import Disk
from otolith.agent import AgentState, Orchestrator, ScriptedModel, Tool

STEPS = 12


class Worker(Orchestrator):
    """Thinks, pays once, posts idempotently and looks around, in every step."""

    calls = ""

    def tell(self, line: str) -> None:
        """Append a line, whole or not at all."""
        file = os.open(self.calls, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{line}\n".encode())
        os.close(file)

    def step(self, s: AgentState) -> AgentState:
        """Do one round."""
        self.tell(f"step {s.iteration}")
        if s.iteration == 0:
            return s.remember(s.memory.plan([f"round {n}" for n in range(1, STEPS)])).to_executing()
        assert self.state is not None
        self.state["rounds"] = self.state.get("rounds", 0) + 1  # must never count a step twice
        reply = self.complete(s.messages, tools=())
        s = s.say(reply.message)
        for name in ("look", "post", "pay"):
            s = s.record_observation(self.call(name, step=s.iteration))
        s = s.remember(s.memory.done(f"round {s.iteration}"))
        return s.to_done("all paid") if s.iteration == STEPS - 1 else s.to_executing()


def worker_for(store: Any, calls: str) -> Worker:
    """Return a worker whose tools write to a file."""

    def look(step: int) -> int:
        worker.tell(f"look - {step}")
        return step

    def post(step: int, idempotency_key: str) -> int:
        worker.tell(f"post {idempotency_key} {step}")
        return step

    def pay(step: int, idempotency_key: str) -> int:
        worker.tell(f"pay {idempotency_key} {step}")
        return step

    def paid(key: str, arguments: Mapping[str, Any]) -> int | None:
        lines = Path(calls).read_text().splitlines()
        return arguments["step"] if f"pay {key} {arguments['step']}" in lines else None

    def think(messages: Any) -> str:
        worker.tell("think - -")
        return f"thought {sum(message.role == 'assistant' for message in messages)}"

    worker = Worker(
        store,
        model=ScriptedModel([think] * (10 * STEPS)),
        tools=[
            Tool(look),
            Tool(post, effects="idempotent"),
            Tool(pay, effects="once", asks=paid),
        ],
        on_step=lambda s: worker.tell(f"kept {s.iteration}"),
    )
    worker.calls = calls
    return worker


def main(store: str, calls: str) -> None:
    """Work."""
    worker = worker_for(Disk(store), calls)
    tell = worker.on_step

    def kept(s: AgentState) -> None:
        assert tell is not None
        tell(s)
        sys.stdout.write(f"kept {s.iteration}\n")
        sys.stdout.flush()

    worker.on_step = kept
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    outcome = worker.run("pay them all", session="work")
    sys.stdout.write(f"{outcome.ended}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
