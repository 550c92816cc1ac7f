"""open_run, open_runs: the runs of a state, by their flow or their key.

What `state.flow` and `state.flows` return.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from otolith.core import Backend, Branch, StateReader
from otolith.errors import Invalid
from otolith.flows.flow_definition import Flow
from otolith.flows.flow_run import FlowRun
from otolith.flows.storage import run_keys
from otolith.shapes import NOTHING, check_argument


def open_run(
    state: StateReader,
    flow: Flow | None,
    key: str | None,
    inputs: Mapping[str, Any],
    *,
    backend: Backend | None = None,
    open_state: Callable[[str], Branch] | None = None,
) -> FlowRun:
    """Return a run of a state; begin it if there is none, and a flow is given.

    Raises:
        KeyNotFound: there is no run of this key.
        Invalid: the inputs do not fit.
    """
    check_argument(flow, "flow", (Flow, NOTHING), "a Flow")
    check_argument(key, "key", (str, NOTHING), "a text")
    if flow is None and key is None:
        raise Invalid("flow: give a flow, or the key of a run", hint="state.flows() lists the runs")
    own = flow.name if key is None and flow is not None else str(key)
    run = FlowRun(state, own, flow, backend=backend, open_state=open_state)
    if flow is not None:
        run.begin(flow, inputs)
    elif inputs:
        raise Invalid("inputs are given without a flow", hint=f"state.flow(flow, key={own!r}, …)")
    else:
        run.progress()  # it can be read
    return run


def open_runs(
    state: StateReader,
    *,
    backend: Backend | None = None,
    open_state: Callable[[str], Branch] | None = None,
) -> list[FlowRun]:
    """Return all runs of a state, without their flows; none is read before it is asked for."""
    return [FlowRun(state, key, backend=backend, open_state=open_state) for key in run_keys(state)]
