"""xstate-statemachine: its synchronous interpreter, the quicker one of its two ways to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xstate_statemachine import MachineLogic, SyncInterpreter, create_machine

from bench.lifecycle.charts import Drawing
from bench.lifecycle.engines import Run


def make(drawing: Drawing) -> XState:
    return XState(drawing)


def _add(_: Any, context: dict[str, Any], *__: Any) -> None:
    context["count"] += 1


def _may(context: dict[str, Any], _: Any) -> bool:
    return bool(context["count"] < context["limit"])


class XState:
    def __init__(self, drawing: Drawing, *, data: Mapping[str, Any] | None = None) -> None:
        logic: Any = MachineLogic(actions={"add": _add}, guards={"may": _may})
        machine = create_machine(drawing.xstate(data=data), logic=logic)
        self.interpreter: Any = SyncInterpreter(machine).start()

    def run(self, events: Sequence[str]) -> Run:
        send = self.interpreter.send

        def run() -> None:
            for event in events:
                send(event)

        return run

    def places(self) -> set[str]:
        return {name.rpartition(".")[2] for name in self.interpreter.current_state_ids}

    def count(self) -> int:
        counted: int = self.interpreter.context.get("count", 0)
        return counted
