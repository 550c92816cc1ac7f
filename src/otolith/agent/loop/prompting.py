"""What a model is told of a task: what to do, the name of the task, and its inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

_HAS_INPUTS = re.compile(r"\n\nTask: \w+\n\w+ = ")


def prompt_of(text: str, name: str, inputs: Mapping[str, Any]) -> str:
    """Return the prompt of a task, given its inputs as plain data."""
    lines = [f"{each} = {msgspec.json.encode(value).decode()}" for each, value in inputs.items()]
    return "\n".join([f"{text}\n\nTask: {name}", *lines])


def inputs_in(prompt: str) -> dict[str, Any]:
    """Return the inputs that a prompt tells, as plain data; none if it is not that of a task."""
    found = _HAS_INPUTS.search(prompt)
    if found is None:
        return {}
    lines = prompt[found.start() + 2 :].split("\n")[1:]  # one for each: JSON has none of its own
    pairs = (line.partition(" = ") for line in lines)
    return {name: msgspec.json.decode(value) for name, _, value in pairs}


def has_inputs(prompt: str) -> bool:
    """Tell whether a prompt is that of a task with inputs."""
    return _HAS_INPUTS.search(prompt) is not None
