"""A local HTTP proxy: it leads every host to one server on this machine, whatever its name."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Proxy:
    """What the proxy was asked."""

    def __init__(self, port: int, password: str) -> None:
        self.port = port
        self.password = password
        """The value of Proxy-Authorization that it wants, if any."""
        self.asked: list[str] = []
        """The first line of each request."""
        self.url = ""


@contextmanager
def proxying(port: int, *, wants: str = "") -> Iterator[Proxy]:
    """Run a proxy that leads to a port of this machine."""
    proxy = Proxy(port, wants)

    class Handler(_Handler):
        told = proxy

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()


class _Handler(socketserver.StreamRequestHandler):
    told: Proxy

    def handle(self) -> None:
        line = self.rfile.readline().decode()
        headers = list(iter(self.rfile.readline, b"\r\n"))
        self.told.asked.append(line.strip())
        known = [each for each in headers if each.lower().startswith(b"proxy-authorization:")]
        if self.told.password and self.told.password.encode() not in b"".join(known):
            self.wfile.write(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n")
            return
        with socket.create_connection(("127.0.0.1", self.told.port)) as server:
            method, url, version = line.split()
            if method == "CONNECT":
                self.wfile.write(b"HTTP/1.1 200 Go on\r\n\r\n")
            else:
                path = "/" + url.split("/", 3)[3]
                others = b"".join(each for each in headers if each not in known)
                server.sendall(f"{method} {path} {version}\r\n".encode() + others + b"\r\n")
            self._lead(server)

    def _lead(self, server: socket.socket) -> None:
        def forward() -> None:
            with suppress(OSError, ValueError):  # the client is gone, or its file is closed
                while data := self.rfile.read1(1 << 16):
                    server.sendall(data)

        threading.Thread(target=forward, daemon=True).start()
        client: Any = self.connection
        with suppress(OSError):
            while data := server.recv(1 << 16):
                client.sendall(data)
