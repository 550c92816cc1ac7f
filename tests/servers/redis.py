"""Redis servers: one that all tests of a module share, and ones to kill, freeze and fill.

Each test takes a prefix of its own: `fresh`.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from tests.journey.documents import blocks
from tests.servers.certificates import Certificate
from tests.servers.process import Server, free_port, given_url, program

PAGE = Path(__file__).parents[2] / "docs/how-to/your-own-store.md"

_NUMBERS = count()
_RUN = token_hex(4)


class RedisServer(Server):
    """One server on a free port of this machine. It stores nothing unless its options say so."""

    def __init__(
        self,
        folder: Path,
        *,
        certificate: Certificate | None = None,
        binary: str = "redis-server",
        **options: object,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.has_tls = certificate is not None
        port = free_port()
        settings: dict[str, object] = {"save": "", "appendonly": "no"}
        settings |= {name.replace("_", "-"): value for name, value in options.items()}
        settings |= {"port": port, "bind": "127.0.0.1", "dir": folder}
        if certificate is not None:
            settings |= {
                "port": 0,
                "tls-port": port,
                "tls-cert-file": certificate.certificate,
                "tls-key-file": certificate.key,
                "tls-ca-cert-file": certificate.authority,
                "tls-auth-clients": "no",
            }
        words = [str(word) for name, value in settings.items() for word in (f"--{name}", value)]
        super().__init__([program(binary), *words], folder, port=port)

    @property
    def url(self) -> str:
        """The address, for a test that accepts what a failover can lose."""
        return f"redis://127.0.0.1:{self.port}/0?failover=accepted"

    def run(self) -> None:
        """Start it, and wait until it has loaded what it stores."""
        is_ready = lambda: self.tell("PING").startswith((b"+PONG", b"-NOAUTH"))  # noqa: E731
        self.start(None if self.has_tls else is_ready)

    def tell(self, *words: str) -> bytes:
        """Send a command as a user would type it; return the first line of the reply."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as wire:
                wire.sendall(" ".join(words).encode() + b"\r\n")
                return wire.makefile("rb").readline().strip()
        except OSError as error:
            return str(error).encode()


@contextmanager
def redis_server(folder: Path, **options: Any) -> Iterator[RedisServer]:
    """Run a server, and end it."""
    server = RedisServer(folder, **options)
    try:
        server.run()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that stores nothing: one of ours, unless somebody else runs one."""
    pytest.importorskip("redis")
    if given := given_url("redis"):
        yield given
        return
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server.url


@pytest.fixture(scope="session")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Valkey server, if there is one: Debian has it from version 13 on."""
    if given := given_url("valkey"):
        yield given
        return
    if shutil.which("valkey-server") is None:
        pytest.skip("valkey-server is not here, nor is OTOLITH_TEST_VALKEY set")
    folder = tmp_path_factory.mktemp("valkey")
    with redis_server(folder, binary="valkey-server") as server:
        yield server.url


def fresh(url: str) -> str:
    """Return the address of a store that nobody has used."""
    return f"{url}{'&' if '?' in url else '?'}prefix=test-{_RUN}-{next(_NUMBERS)}"


def shown_class(title: str, name: str) -> Any:
    """Return a class out of a titled block of the page about stores of one's own."""
    (block,) = [block for block in blocks(PAGE.read_text()) if block.title == title]
    namespace: dict[str, Any] = {"__name__": title.removesuffix(".py")}
    exec(compile("\n" * (block.line - 1) + block.text, PAGE, "exec"), namespace)
    return namespace[name]
