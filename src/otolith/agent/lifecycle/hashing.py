"""The hash of a chart: of what it does, whatever it looks like."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from blake3 import blake3

from otolith.agent.lifecycle.definition import Definition


def hash_of(definition: Definition) -> str:
    """Return 32 hex digits that change when, and only when, behaviour may have changed."""
    text = json.dumps(_plain(definition), sort_keys=True, separators=(",", ":"))
    return blake3(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field for field in dataclasses.fields(value) if field.compare]
        found = {field.name: _plain(getattr(value, field.name)) for field in fields}
        return {"": type(value).__name__, **found}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value
