"""A new run of a flow: what is checked before it begins, and what is stored of it then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from otolith.errors import BadValue, Invalid
from otolith.flows.flow_definition import Flow, check_count
from otolith.flows.storage import HEAD, INPUTS, RunHead, StoredFlow


def check_begin(flow: Flow, inputs: Mapping[str, Any]) -> None:
    """Refuse a run that cannot begin.

    Raises:
        Invalid: inputs are missing or unknown, or the flow has no tasks or too many.
    """
    flow.check_inputs(inputs)
    if not flow.tasks:
        raise Invalid(f"flow {flow.name} has no tasks", hint="@flow.task adds one")
    check_count(len(flow.tasks))


def put_run(stored: StoredFlow, flow: Flow, inputs: Mapping[str, Any], now: int) -> bool:
    """Stage a new run, unless there is one of its key by now; return whether there was none.

    Raises:
        BadValue: an input cannot be stored.
    """
    if stored.exists:
        return False
    head = RunHead(flow.name, now, resources=flow.resources, rates=flow.rates)
    stored.put(head.to_data(), HEAD)
    for name, value in inputs.items():
        try:
            stored.put(value, INPUTS, name)
        except BadValue as error:
            message = f"the input {name} cannot be stored: {error.message}"
            raise BadValue(message, hint=error.hint) from None
    tasks = enumerate(flow.tasks.items())
    stored.put_plan((name, replace(task.spec, number=number)) for number, (name, task) in tasks)
    return True


def check_inputs(stored: StoredFlow, inputs: Mapping[str, Any]) -> None:
    """Refuse other inputs than those that a run was begun with.

    Raises:
        Invalid: some are others.
    """
    cells = stored.state.cells
    other = [
        name
        for name, value in inputs.items()
        if not cells.same(cells.put(value), stored.cell(INPUTS, name))
    ]
    if other:
        raise Invalid(
            f"run {stored.key} was begun with another {', '.join(other)}",
            hint=f"leave it out, or begin another run: state.flow(flow, key=…, {other[0]}=…)",
        )
