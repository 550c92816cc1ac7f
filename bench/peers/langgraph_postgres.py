"""LangGraph's PostgresSaver: each step stores the channels that changed, in one pipeline."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import psycopg
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg.rows import dict_row


class ServerSaver:
    """One thread of checkpoints with one channel: a dict of keys."""

    def __init__(self, url: str) -> None:
        options: Any = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        self._connection = psycopg.connect(url, **options)  # as from_conn_string does
        self._saver = PostgresSaver(self._connection)
        self._saver.setup()
        self._state: dict[str, object] = {}
        self._config: Any = {"configurable": {"thread_id": uuid4().hex, "checkpoint_ns": ""}}
        self._step = 0

    def fill(self, items: dict[str, object]) -> None:
        self._state |= items
        self._put()

    def change(self, key: str, value: object) -> None:
        self._state[key] = value
        self._put()

    def close(self) -> None:
        self._connection.close()

    def _put(self) -> None:
        self._step += 1
        versions: dict[str, Any] = {"state": f"{self._step:032}"}
        checkpoint: Any = empty_checkpoint() | {
            "id": str(uuid6(clock_seq=self._step)),
            "channel_values": {"state": self._state},
            "channel_versions": versions,
        }
        metadata: Any = {"source": "loop", "step": self._step}
        self._config = self._saver.put(self._config, checkpoint, metadata, versions)


def make():
    return ServerSaver
