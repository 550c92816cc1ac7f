"""News of moved refs, by publish and subscribe.

A script that moves refs publishes their names, separated by NUL. Redis forgets a message that
nobody receives, so whoever lost its connection reports all names once it has another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from otolith.errors import Unavailable
from otolith.stores.listened_news import CHECK_SECONDS, Alarm, ListenedNews
from otolith.stores.redis.client import Client, RedisConnection, pack
from otolith.stores.redis.refs import ref_names

_PAUSE_SECONDS = 0.1


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
