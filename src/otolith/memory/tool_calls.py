"""The log of tool calls: it grows at its end, and a record is read when it is asked for.

memory.record(ToolRecord("c1", "search", {"to": "NYC"}, result=3))
memory.tool_calls[-1].observation        # "3"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

from otolith.core import Path, StateReader
from otolith.errors import BadValue
from otolith.shapes import NOTHING, Shape, fields
from otolith.types import short_repr

_REQUIRED: Shape = {"id": str, "name": str}
_OPTIONAL: Shape = {
    "arguments": dict,
    "result": object,
    "error": (str, NOTHING),
    "duration_ms": (float, NOTHING),
    "time": int,
}
_PAGE = 64
"""How many records are read at once."""


@short_repr("name", "arguments", "result", "error")
@dataclass(frozen=True, slots=True)
class ToolRecord:
    """One call of a tool, with its result or error."""

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    result: Any = None
    error: str | None = None
    duration_ms: float | None = None
    time: int = 0
    """When it was recorded, in microseconds since 1970."""

    @property
    def succeeded(self) -> bool:
        """Whether there was no error."""
        return not self.error

    @property
    def observation(self) -> str:
        """The text a model gets: the result, or that the tool failed and why."""
        if self.error:
            return f"[Tool Error] {self.name} failed: {self.error}"
        return str(self.result)

    def to_data(self) -> dict[str, Any]:
        """Return plain data; empty fields are left out."""
        data = {name: getattr(self, name) for name in (*_REQUIRED, *_OPTIONAL)}
        data["arguments"] = dict(self.arguments)
        return {n: v for n, v in data.items() if n in _REQUIRED or not _is_empty(n, v)}

    @classmethod
    def from_data(cls, data: Any) -> ToolRecord:
        """Return the record that `to_data` made into data.

        Raises:
            Corrupt: the data is not a record of a call.
        """
        return cls(**fields(data, "a record of a call", _REQUIRED, _OPTIONAL, is_open=True))


def _is_empty(name: str, value: object) -> bool:
    return value is None or (name in ("arguments", "time") and not value)


class ToolLog(Sequence[ToolRecord]):
    """The tool calls of a state, the oldest first; a slice is a list."""

    def __init__(self, state: StateReader, path: Path) -> None:
        self._state = state
        self._path = path

    def __len__(self) -> int:
        with self._state.lock:
            cell = self._state.cell_at(self._path)
            return 0 if cell is None else self._state.cells.length(cell)

    @overload
    def __getitem__(self, at: int) -> ToolRecord: ...
    @overload
    def __getitem__(self, at: slice) -> list[ToolRecord]: ...
    def __getitem__(self, at: int | slice) -> ToolRecord | list[ToolRecord]:
        with self._state.lock:
            length = len(self)
            if isinstance(at, slice):
                start, stop, step = at.indices(length)
                if step == 1:
                    return self._read(start, stop)
                return [self._read(place, place + 1)[0] for place in range(start, stop, step)]
            if not -length <= at < length:
                raise IndexError(f"tool call {at} is out of range: {length} calls were recorded")
            return self._read(at % length, at % length + 1)[0]

    def __iter__(self) -> Iterator[ToolRecord]:
        length = len(self)
        for start in range(0, length, _PAGE):
            yield from self[start : min(start + _PAGE, length)]

    def __repr__(self) -> str:
        return f"<ToolLog {len(self)} calls>"

    def append(self, record: ToolRecord, now: int) -> ToolRecord:
        """Stage a record at the end, and return it; one without a time gets the time `now`.

        Raises:
            BadValue: its arguments are not a dict.
        """
        if not isinstance(record.arguments, Mapping):
            raise BadValue(
                f"arguments must be a dict, got {record.arguments!r}", hint="give them by name"
            )
        record = record if record.time else replace(record, time=now)
        state = self._state
        with state.lock:
            state.extend_reserved(self._path, [state.cells.put(record.to_data())])
        return record

    def named(self, name: str) -> list[ToolRecord]:
        """Return the calls of one tool."""
        return [record for record in self if record.name == name]

    def _read(self, start: int, stop: int) -> list[ToolRecord]:
        cell, cells = self._state.cell_at(self._path), self._state.cells
        if cell is None or start >= stop:
            return []
        found = list(cells.elements(cell, start, stop))
        cells.prefetch(found)
        return [ToolRecord.from_data(cells.load(each)) for each in found]
