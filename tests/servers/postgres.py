"""PostgreSQL servers that tests start themselves: a primary and, if asked for, standbys.

Anybody on this machine may connect as `postgres` without a password; the role `locked` needs one.
A server cannot run as root, so as root it runs as another user, in a folder which that user owns.
That folder is in memory, where there is room: a killed process loses nothing there either, and each
store takes some thirty files.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import psycopg
import pytest

from tests.patience import HANG_SECONDS
from tests.servers.process import Server, free_port, given_url, program, wait_until

PASSWORD = "correct horse"
PROGRAMS = "/usr/lib/postgresql/*/bin"

_HBA = """\
local all all trust
host all locked 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
host replication all 127.0.0.1/32 trust
"""
_QUIET = {
    "fsync": "on",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "autovacuum_naptime": "10s",
    "log_min_messages": "warning",
    "unix_socket_directories": "",
    "listen_addresses": "127.0.0.1",
    "cluster_name": "otolith",
}

_MEMORY, _ROOM_BYTES = Path("/dev/shm"), 4 << 30

_numbers = count()


class PostgresServer(Server):
    """One server. `settings` are those of postgresql.conf."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.settings = _QUIET | settings
        port = free_port()
        options = [f"--{name}={value}" for name, value in self.settings.items()]
        command = [program("postgres", PROGRAMS), "-D", f"{folder}/data", "-p", f"{port}"]
        super().__init__([*command, *options], folder, port=port, user=other_user())

    @property
    def url(self) -> str:
        """The address of its database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self, is_ready: object = None) -> None:
        """Start it, and wait until it answers queries."""
        super().start(self._answers)

    def kill(self) -> None:
        """End all of its processes at once, as a power cut would."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        for pid in map(int, [str(self.pid), *children]):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        super().kill()
        wait_until(lambda: not any(map(_is_running, children)), "the end of all processes")

    def ask(self, statement: str) -> list[tuple[object, ...]]:
        """Run one statement outside of a transaction."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def promote(self) -> None:
        """Make a standby the primary."""
        self.ask("select pg_promote(true, 60)")

    def _answers(self) -> bool:
        try:
            self.ask("select 1")
        except psycopg.OperationalError:
            return False
        return True


def _is_running(pid: str) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def other_user() -> int | None:
    """Return the user that servers run as: another one than root."""
    if os.getuid() != 0:
        return None
    names = {entry.pw_name: entry.pw_uid for entry in pwd.getpwall()}
    return names.get("postgres", names.get("nobody"))


@contextmanager
def postgres_server(*, on_disk: bool = False, **settings: str) -> Iterator[PostgresServer]:
    """Run a server with an empty database."""
    with _folder(on_disk=on_disk) as folder:
        _run("initdb", "-D", folder / "data", "-A", "trust", "-U", "postgres", "-E", "UTF8", "-N")
        hba = folder / "data/pg_hba.conf"
        hba.write_text(_HBA)
        server = PostgresServer(folder, **settings)
        server.start()
        try:
            server.ask(f"create role locked login password '{PASSWORD}'")
            yield server
        finally:
            _end(server)


@contextmanager
def standby_of(primary: PostgresServer, **settings: str) -> Iterator[PostgresServer]:
    """Run a standby that follows a primary, which calls it `standby`."""
    with _folder() as folder:
        source = f"host=127.0.0.1 port={primary.port} user=postgres application_name=standby"
        _run("pg_basebackup", "-D", folder / "data", "-d", source, "-R", "-c", "fast")
        server = PostgresServer(folder, **settings)
        server.start()
        try:
            yield server
        finally:
            _end(server)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a server for tests that leave it alone: one that is given, or a new one."""
    url = given_url("postgres")
    if url is not None:
        yield url
        return
    with postgres_server() as server:
        yield server.url


def fresh(url: str, **options: object) -> str:
    """Return the URL of a place on a server where nothing is yet."""
    options = {"schema": f"t{os.getpid()}_{next(_numbers)}", **options}
    words = "&".join(f"{name}={value}" for name, value in options.items())
    return f"{url}{'&' if '?' in url else '?'}{words}"


def _end(server: PostgresServer) -> None:
    server.stop(signal.SIGQUIT)  # what it has is thrown away: no need to write it down


@contextmanager
def _folder(*, on_disk: bool = False) -> Iterator[Path]:
    in_memory = not on_disk and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM_BYTES
    folder = Path(tempfile.mkdtemp(prefix="otolith-pg-", dir=_MEMORY if in_memory else None))
    user = other_user()
    if user is not None:
        os.chown(folder, user, user)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(name: str, *arguments: object) -> None:
    user = other_user()
    subprocess.run(
        [program(name, PROGRAMS), *map(str, arguments)],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd="/",
        user=user,
        group=user,
        timeout=HANG_SECONDS,
    )
