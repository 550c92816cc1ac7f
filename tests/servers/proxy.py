"""A proxy between a client and a server, which loses replies, stalls, or cuts connections.

It listens on a port of this machine and passes bytes on; `rules` decides what becomes of them.
`round_trips` counts how often the direction changed from client to server: what a client sends
before it waits for an answer is one round trip.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from time import sleep
from typing import Literal, Self

Fault = Literal["pass", "lose replies", "stall", "refuse"]


class Proxy:
    """Passes connections on to a server on this machine, until told otherwise by `fault`.

    "lose replies" sends requests on and ends the connection instead of the reply, "stall" keeps
    everything back for as long as it lasts, "refuse" ends every connection. `delay_seconds` is how
    long everything is under way, in each direction.
    """

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.fault: Fault = "pass"
        self.delay_seconds = 0.0
        self.round_trips = 0
        self.sent_bytes = 0
        self.received_bytes = 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End all connections, and accept no more."""
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """End all current connections."""
        with self._lock:
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.fault == "refuse":
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._server))
            except OSError:
                client.close()
                continue
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open |= {client, server}
            is_waiting = threading.Event()  # set while the server has the turn
            for source, target, is_reply in ((client, server, False), (server, client, True)):
                threading.Thread(
                    target=self._pump, args=(source, target, is_reply, is_waiting), daemon=True
                ).start()

    def _pump(
        self,
        source: socket.socket,
        target: socket.socket,
        is_reply: bool,
        is_waiting: threading.Event,
    ) -> None:
        with suppress(OSError):
            while (data := source.recv(1 << 16)) and self._passes(is_reply):
                self._count(len(data), is_reply, is_waiting)
                if self.delay_seconds:
                    sleep(self.delay_seconds)
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        with self._lock:
            self._open -= {source, target}

    def _passes(self, is_reply: bool) -> bool:
        while self.fault == "stall":
            sleep(0.01)
        return self.fault != "refuse" and not (is_reply and self.fault == "lose replies")

    def _count(self, size: int, is_reply: bool, is_waiting: threading.Event) -> None:
        if is_reply:
            is_waiting.clear()
            self.received_bytes += size
            return
        if not is_waiting.is_set():
            is_waiting.set()
            self.round_trips += 1
        self.sent_bytes += size
