"""PgBouncer in front of a Postgres server, which gives each transaction another connection.

It refuses to run as root, as Postgres does, and then runs as the same other user.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.servers.postgres import other_user
from tests.servers.process import Server, free_port, program

CONNECTIONS = 4  # to the server, so that clients change places all the time

_SETTINGS = """\
[databases]
postgres = host=127.0.0.1 port={server} user=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 500
server_round_robin = 1
ignore_startup_parameters = extra_float_digits
log_connections = 0
log_disconnections = 0
"""


@contextmanager
def pgbouncer(server_port: int) -> Iterator[str]:
    """Run a pooler in front of a server, and yield the URL of its database."""
    folder = Path(tempfile.mkdtemp(prefix="otolith-pgbouncer-"))
    port, user = free_port(), other_user()
    settings = folder / "pgbouncer.ini"
    settings.write_text(_SETTINGS.format(server=server_port, port=port, connections=CONNECTIONS))
    if user is not None:
        os.chown(folder, user, user)
    command: list[str | Path] = [program("pgbouncer", "/usr/sbin"), settings]
    server = Server(command, folder, port=port, user=user)
    try:
        server.start()
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def pooler_url(postgres_url: str) -> Iterator[str]:
    """The URL of the server for all tests, behind a pooler."""
    port = urlsplit(postgres_url).port
    if port is None or "127.0.0.1" not in postgres_url:
        pytest.skip("the pooler needs a Postgres server on this machine")
    with pgbouncer(port) as url:
        yield url
