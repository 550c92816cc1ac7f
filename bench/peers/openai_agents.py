"""The session of OpenAI's Agents SDK: a row of JSON for each message, without history."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agents import SQLiteSession


class Session:
    """One session; a loop of its own awaits what the SDK offers only so."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._session = SQLiteSession("1", place)
        self._loop = asyncio.new_event_loop()

    def append(self, message: str) -> None:
        self._loop.run_until_complete(
            self._session.add_items([{"role": "user", "content": message}])
        )

    def settle(self) -> None:
        """Nothing waits outside of SQLite's WAL."""

    def close(self) -> None:
        self._session.close()
        self._loop.close()


def make():
    return Session
