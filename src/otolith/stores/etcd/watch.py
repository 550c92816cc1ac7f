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
from threading import Condition, Thread
from time import monotonic

import msgspec

from otolith.errors import Closed, Error
from otolith.stores.etcd.cluster import Cluster
from otolith.stores.etcd.gateway import Body, KeyEntry
from otolith.stores.etcd.key_layout import end_of

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


class EtcdSubscription:
    """A wait for refs that move; one thread uses it."""

    def __init__(self, cluster: Cluster, prefix: str) -> None:
        self._cluster = cluster
        self._start = cluster.keys.ref(prefix)
        self._next = cluster.revision() + 1
        self._changed = Condition()
        self._names: set[str] = set()
        self._closed = False
        self._connection: http.client.HTTPConnection | None = None
        self._thread = Thread(target=self._run, name="otolith etcd watch", daemon=True)
        self._thread.start()

    def wait(self, timeout_seconds: float) -> set[str]:
        """Return the names of refs that may have moved; after the time-out, none."""
        deadline = monotonic() + timeout_seconds
        with self._changed:
            while not self._names and not self._closed and (left := deadline - monotonic()) > 0:
                self._changed.wait(left)
            if self._closed:
                raise Closed("this subscription was closed", hint="subscribe again")
            names, self._names = self._names, set()
            return names

    def close(self) -> None:
        """End the subscription. Closing twice is harmless."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            if self._connection is not None and self._connection.sock is not None:
                with suppress(OSError):
                    self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def _run(self) -> None:
        while not self._closed:
            with suppress(OSError, http.client.HTTPException, msgspec.DecodeError, Error):
                self._listen()
            with self._changed:
                if not self._closed:
                    self._changed.wait(_PAUSE_SECONDS)

    def _listen(self) -> None:
        request: Body = {
            "key": self._start,
            "range_end": end_of(self._start),
            "start_revision": str(self._next),
        }
        gateway = self._cluster.gateway
        body: Body = {"create_request": request}
        with gateway.stream("/v3/watch", body, timeout_seconds=_SILENCE_SECONDS) as (link, reply):
            with self._changed:
                self._connection = link
                if self._closed:
                    return
            while line := reply.readline():
                news = msgspec.json.decode(line, type=_Line, strict=False).result
                if news.canceled or news.compact_revision:
                    self._report_all()
                    return
                self._report({event.kv.key for event in news.events})
                revisions = [event.kv.mod_revision for event in news.events]
                self._next = max([self._next, *(revision + 1 for revision in revisions)])

    def _report_all(self) -> None:
        self._next = self._cluster.revision() + 1
        self._report({entry.key for entry in self._cluster.scan(self._start)})

    def _report(self, keys: set[bytes]) -> None:
        if keys:
            with self._changed:
                self._names |= set(map(self._cluster.keys.name_of_ref, keys))
                self._changed.notify_all()
