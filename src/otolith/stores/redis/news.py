"""News of moved refs, by publish and subscribe.

A script that moves refs publishes their names, separated by NUL. Redis forgets a message that
nobody receives, so a subscription that lost its connection reports all names once it has another.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

from redis import exceptions

from otolith.errors import Closed, Unavailable
from otolith.stores.redis.client import Client, RedisConnection, pack

_PAUSE_SECONDS = 0.1


class RedisSubscription:
    """A wait for refs that move, over a connection of its own; one thread uses it."""

    def __init__(self, client: Client, prefix: str, names: Callable[[], list[str]]) -> None:
        self._client = client
        self._prefix = prefix
        self._names = names
        self._is_closed = False
        self._wire: RedisConnection | None = self._connected()

    def wait(self, timeout_seconds: float) -> set[str]:
        """Return the names of refs that may have moved since the last call.

        Raises:
            Unavailable: the server could not be reached until the time-out.
            Closed: the subscription or its store was closed.
        """
        deadline = monotonic() + timeout_seconds
        while True:
            self._check_open()
            if self._wire is None:
                return self._all_names(deadline)
            left = max(0.0, deadline - monotonic())
            try:
                message = self._message(self._wire, left)
            except (exceptions.RedisError, OSError):
                self._wire.disconnect()
                self._wire = None
                continue
            names = {name for name in message if name.startswith(self._prefix)}
            if names or monotonic() >= deadline:
                return names

    def close(self) -> None:
        """End the subscription. Closing twice is harmless."""
        self._is_closed = True
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.disconnect()

    def _check_open(self) -> None:
        self._client.check_open()
        if self._is_closed:
            raise Closed("this subscription was closed", hint="subscribe again")

    def _connected(self) -> RedisConnection:
        """Return a connection on which the server has confirmed the subscription."""
        wire = self._client.dial()
        with self._client.translated():
            wire.send_packed_command([pack(("SUBSCRIBE", self._client.channel))])
            wire.read_response(disable_decoding=True)
        return wire

    def _all_names(self, deadline: float) -> set[str]:
        """Connect again; what moved meanwhile is not known."""
        while True:
            try:
                self._wire = self._connected()
                return set(self._names())
            except Unavailable:
                if monotonic() >= deadline:
                    raise
                sleep(min(_PAUSE_SECONDS, max(0.0, deadline - monotonic())))

    def _message(self, wire: RedisConnection, left: float) -> list[str]:
        """Return the names of one message, or nothing after a time."""
        if not wire.can_read(timeout=left):
            return []
        reply: Any = wire.read_response(disable_decoding=True)
        return (
            [str(name, "utf-8") for name in reply[2].split(b"\0")] if reply[0] == b"message" else []
        )
