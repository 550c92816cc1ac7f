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


def has_inputs(prompt: str) -> bool:
    """Tell whether a prompt is that of a task with inputs."""
    return _HAS_INPUTS.search(prompt) is not None
