"""A subscription to refs: etcd's watch, read by a thread.

The watch begins at the revision after the one that was current when the subscription was made, and
continues after a failure with the one after the last that it has seen: nothing is missed. A silence
of some seconds may be a member that is frozen, so then the next one is asked. If etcd has compacted
revisions that were not seen yet, all refs are reported.
"""

from __future__ import annotations

import http.client
import socket
from contextlib import suppress

import msgspec

from otolith.errors import Error
from otolith.stores.etcd.cluster import Cluster
from otolith.stores.etcd.gateway import Body, KeyEntry
from otolith.stores.etcd.key_layout import end_of
from otolith.stores.listened_news import Alarm, ListenedNews

_SILENCE_SECONDS = 5.0
_PAUSE_SECONDS = 0.1


class _Event(msgspec.Struct, frozen=True):
    kv: KeyEntry


class _News(msgspec.Struct, frozen=True):
    events: tuple[_Event, ...] = ()
    compact_revision: int = 0
    canceled: bool = False


class _Line(msgspec.Struct, frozen=True):
    result: _News = _News(canceled=True)


class EtcdWatch(ListenedNews):
    """The news of refs below one prefix, for one subscription."""

    thread_name = "otolith-etcd-watch"

    def __init__(self, cluster: Cluster, prefix: str) -> None:
        super().__init__()
        self._cluster = cluster
        self._start = cluster.keys.ref(prefix)
        self._next = 0
        self._connection: http.client.HTTPConnection | None = None

    def listen(self, alarm: Alarm) -> None:
        """Read the watch until the alarm; begin another one when it ends."""
        if self._next == 0:
            self._next = self._cluster.revision() + 1
        if self.has_missed:
            self._report_all()
        self.begin()
        while not alarm.wait(0) and not self.is_unwanted():
            with suppress(OSError, http.client.HTTPException, msgspec.DecodeError, Error):
                self._listen(alarm)
            if alarm.wait(_PAUSE_SECONDS):
                return

    def interrupt(self) -> None:
        """End the watch that is being read."""
        with self.changed:
            link = self._connection
            if link is not None and link.sock is not None:
                with suppress(OSError):
                    link.sock.shutdown(socket.SHUT_RDWR)

    def forget(self) -> None:
        """Start anew in a forked child: the connection is its parent's."""
        super().forget()
        self._connection = None

    def _listen(self, alarm: Alarm) -> None:
        request: Body = {
            "key": self._start,
            "range_end": end_of(self._start),
            "start_revision": str(self._next),
        }
        gateway = self._cluster.gateway
        body: Body = {"create_request": request}
        with gateway.stream("/v3/watch", body, timeout_seconds=_SILENCE_SECONDS) as (link, reply):
            with self.changed:
                self._connection = link
            if alarm.wait(0):  # it rang before there was anything to interrupt
                return
            while line := reply.readline():
                news = msgspec.json.decode(line, type=_Line, strict=False).result
                if news.canceled or news.compact_revision:
                    self._report_all()
                    return
                self.report(self._names({event.kv.key for event in news.events}))
                revisions = [event.kv.mod_revision for event in news.events]
                self._next = max([self._next, *(revision + 1 for revision in revisions)])

    def _report_all(self) -> None:
        self._next = self._cluster.revision() + 1
        self.report(self._names({entry.key for entry in self._cluster.scan(self._start)}))

    def _names(self, keys: set[bytes]) -> set[str]:
        return set(map(self._cluster.keys.name_of_ref, keys))
