"""News of moved refs, by publish and subscribe.

A script that moves refs publishes their names, separated by NUL. Redis forgets a message that
nobody receives, so whoever lost its connection reports all names once it has another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from otolith.errors import Error, Unavailable
from otolith.stores.listened_news import CHECK_SECONDS, Alarm, ListenedNews
from otolith.stores.redis.client import Client, RedisConnection, pack
from otolith.stores.redis.refs import ref_names

_PAUSE_SECONDS = 0.1
_REST_SECONDS = 5.0


class RedisNews(ListenedNews):
    """The subscriptions to a store on a server, over a connection of its own."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client

    def listen(self, alarm: Alarm) -> None:
        """Listen until the alarm; connect again when the connection is lost.

        Raises:
            Unavailable, Denied: the server cannot be listened to.
        """
        while not self._listen_once(alarm):
            if alarm.wait(_PAUSE_SECONDS):
                return

    def _listen_once(self, alarm: Alarm) -> bool:
        """Listen on one connection; return whether it ended with the alarm."""
        try:
            with self._connected() as wire:
                self.begin()
                has_rung = False
                while not has_rung and not self.is_unwanted():
                    self.report(_received(wire))
                    has_rung = alarm.wait(CHECK_SECONDS, _descriptor(wire))
        except Unavailable as error:
            self.has_missed, self.failure = True, error
            if not self.is_listening:
                raise
            return False
        return True

    @contextmanager
    def _connected(self) -> Iterator[RedisConnection]:
        """Lend a connection on which the server has confirmed the subscription."""
        wire = self._client.dial()
        try:
            with self._client.translated():
                wire.send_packed_command([pack(("SUBSCRIBE", self._client.channel))])
                wire.read_response(disable_decoding=True)
                if self.has_missed:
                    self.report(set(ref_names(self._client)))
                yield wire
        finally:
            wire.disconnect()


class RedisHints:
    """What the users of a cache announce, over a connection of its own; one thread uses it."""

    def __init__(self, client: Client, channel: str) -> None:
        self._client = client
        self._channel = channel
        self._wire: RedisConnection | None = None
        self._rests_until = 0.0

    def descriptor(self) -> int | None:
        """Return the socket; None while the server cannot be listened to."""
        if self._wire is None and monotonic() >= self._rests_until:
            try:
                self._wire = self._client.dial()
                with self._client.translated():
                    self._wire.send_packed_command([pack(("SUBSCRIBE", self._channel))])
                    self._wire.read_response(disable_decoding=True)
            except Error:
                self._lose()
        return None if self._wire is None else _descriptor(self._wire)

    def drain(self) -> None:
        """Read all messages that have come."""
        if self._wire is not None:
            try:
                with self._client.translated():
                    _received(self._wire)
            except Error:
                self._lose()

    def close(self) -> None:
        """End the connection."""
        if self._wire is not None:
            self._wire.disconnect()
            self._wire = None

    def _lose(self) -> None:
        self.close()
        self._rests_until = monotonic() + _REST_SECONDS


def _descriptor(wire: RedisConnection) -> int | None:
    link = wire._sock  # noqa: SLF001 - redis-py shows it nowhere else
    return None if link is None else link.fileno()


def _received(wire: RedisConnection) -> set[str]:
    """Return the names in all messages that have arrived."""
    names = set[str]()
    while wire.can_read(timeout=0):
        reply: Any = wire.read_response(disable_decoding=True)
        if reply[0] == b"message":
            names |= {str(name, "utf-8") for name in reply[2].split(b"\0")}
    return names
