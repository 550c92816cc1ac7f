"""LangGraph's SqliteSaver: each step stores all channels (WAL, synchronous=FULL)."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver


class Saver:
    """One thread of checkpoints with two channels: a dict of keys, and messages."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._connection = sqlite3.connect(place, check_same_thread=False)
        self._saver = SqliteSaver(self._connection)
        self._channels: dict[str, Any] = {"state": {}, "messages": []}
        self._versions = dict.fromkeys(self._channels, "0")
        self._config: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
        self._step = 0

    def fill(self, items: dict[str, object]) -> None:
        self._channels["state"] |= items
        self._put("state")

    def change(self, key: str, value: object) -> None:
        self._channels["state"][key] = value
        self._put("state")

    def append(self, message: str) -> None:
        self._channels["messages"].append(message)
        self._put("messages")

    def settle(self) -> None:
        """Nothing waits outside of SQLite's WAL."""

    def close(self) -> None:
        self._connection.close()

    def _put(self, changed: str) -> None:
        self._step += 1
        versions: dict[str, Any] = {changed: f"{self._step:032}"}
        self._versions |= versions
        checkpoint: Any = empty_checkpoint() | {
            "id": str(uuid6(clock_seq=self._step)),
            "channel_values": self._channels,
            "channel_versions": dict(self._versions),
        }
        metadata: Any = {"source": "loop", "step": self._step}
        self._config = self._saver.put(self._config, checkpoint, metadata, versions)


def make():
    return Saver
