"""Flow tools: a flow that a model may call.

agent = Agent(model, tools=[flow_tool(trip, state)])
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from otolith.agent.function_schema import function_annotations
from otolith.agent.tools import KEY_PARAMETER, Tool
from otolith.errors import Invalid, Unavailable
from otolith.flows import Flow, FlowRun, RunProgress
from otolith.session import Versioned
from otolith.shapes import NOTHING, check_argument

RUN = "run"
_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]+")
_NAME_LETTERS, _KEY_LETTERS = 150, 16


def flow_tool(
    flow: Flow,
    state: Versioned,
    *,
    result: str | None = None,
    workers: int = 1,
    name: str | None = None,
    description: str | None = None,
) -> Tool:
    """Return a tool that does a flow in a state, and returns what its last tasks returned.

    Its parameters are the inputs of the flow. `result` names the task whose result is returned, by
    default those are all tasks that nothing comes after. The key of the run is that of the call: if
    the process dies, the call is made again, and the run goes on. A run that waits for a person is
    returned as such, with its key as `run`: called with it, the tool looks again.

    Raises:
        Invalid: a task of the flow has a parameter that no model can give, or that is called `run`.
    """
    check_argument(flow, "flow", Flow, "a Flow")
    check_argument(state, "state", Versioned, "a state")
    check_argument(result, "result", (str, NOTHING), "the name of a task")

    def work(**given: Any) -> Any:
        key = given.pop(KEY_PARAMETER)
        own = f"{flow.name[:_NAME_LETTERS]} {key[:_KEY_LETTERS]}"
        run = state.flow(flow, key=given.pop(RUN) or own, **given)
        return _results(run, run.work(workers, progress=False), result)

    parameters = _parameters(flow)
    work.__name__ = _NOT_IN_NAME.sub("_", flow.name)[:64] or "flow"
    work.__doc__ = description or f"Do all of {flow.name}, and return what it came to."
    work.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [each.replace(annotation=each.empty) for each, _ in parameters.values()]
    )
    work.__annotations__ = {each: hint for each, (_, hint) in parameters.items()}
    return Tool(work, name=name, effects="idempotent")


def _parameters(flow: Flow) -> dict[str, tuple[inspect.Parameter, Any]]:
    """Return the parameters of the tool of a flow, each with its type."""
    kind = inspect.Parameter.KEYWORD_ONLY
    found: dict[str, tuple[inspect.Parameter, Any]] = {}
    wanted = flow.inputs()
    if clash := {RUN, KEY_PARAMETER} & wanted.keys():
        raise Invalid(
            f"flow {flow.name} has an input {min(clash)}, which its tool has for itself",
            hint="give the input another name",
        )
    for task in flow.functions.values():
        hints = function_annotations(inspect.unwrap(task.function)) if task.function else {}
        for each in task.parameters.values():
            if each.name in wanted and each.name not in found:
                default = each.empty if wanted[each.name] else each.default
                made = inspect.Parameter(each.name, kind, default=default)
                found[each.name] = made, hints.get(each.name, Any)
    found[RUN] = inspect.Parameter(RUN, kind, default=""), str
    found[KEY_PARAMETER] = inspect.Parameter(KEY_PARAMETER, kind), str
    return found


def _results(run: FlowRun, progress: RunProgress, result: str | None) -> Any:
    """Return what a run came to, or that it waits for a person.

    Raises:
        Unavailable: it has failed, or was cancelled.
    """
    if progress.status == "waiting":
        return {"waits for": dict(progress.questions), RUN: run.key}
    if progress.status != "done":
        why = "; ".join(f"{name}: {error}" for name, error in progress.failures.items())
        raise Unavailable(f"{run.key} is {progress.status}: {why or 'see its tasks'}")
    if result is not None:
        return run.result(result)
    last = [name for name in run.graph.names if not run.graph.unlocks(name)]
    return run.result(last[0]) if len(last) == 1 else {name: run.result(name) for name in last}
