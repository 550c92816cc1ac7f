"""An etcd cluster of three members on this machine."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.servers.process import Server, free_port, given_url, program, wait_until

MEMBERS = 3
_numbers = count()


class EtcdCluster:
    """Members that elect a leader; each can be killed, frozen and started again."""

    def __init__(
        self,
        folder: Path,
        *,
        flags: tuple[str, ...] = (),
        members: int = MEMBERS,
        scheme: str = "http",
    ) -> None:
        binary = program("etcd")
        ports = [(free_port(), free_port()) for _ in range(members)]
        peers = ",".join(f"m{at}=http://127.0.0.1:{peer}" for at, (_, peer) in enumerate(ports))
        self.members: list[Server] = []
        for number, (port, peer) in enumerate(ports):
            place = folder / f"m{number}"
            place.mkdir()
            command: list[str | Path] = [
                *(binary, "--name", f"m{number}", "--data-dir", place / "data"),
                *(
                    f"--{kind}-client-urls={scheme}://127.0.0.1:{port}"
                    for kind in ("listen", "advertise")
                ),
                f"--listen-peer-urls=http://127.0.0.1:{peer}",
                f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
                f"--initial-cluster={peers}",
                *("--heartbeat-interval=50", "--election-timeout=500", "--log-level=error"),
                *flags,
            ]
            self.members.append(Server(command, place, port=port))

    @property
    def hosts(self) -> str:
        """The addresses of all members, as a URL has them."""
        return ",".join(f"127.0.0.1:{member.port}" for member in self.members)

    def url(self, objects: Path | str, prefix: str | None = None, **options: object) -> str:
        """Return the URL of a fresh prefix, with objects elsewhere."""
        prefix = prefix or f"test{next(_numbers)}"
        more = "".join(f"&{name}={value}" for name, value in options.items())
        return f"etcd://{self.hosts}?objects={objects}&prefix={prefix}{more}"

    def start(self) -> None:
        """Start all members, and wait until they have a leader."""
        for member in self.members:
            member.start(lambda: True)
        wait_until(lambda: self.leader() is not None, "a leader of etcd")

    def leader(self) -> Server | None:
        """Return the member that leads, if the others agree."""
        for member in self.members:
            with suppress(OSError, http.client.HTTPException, KeyError, ValueError):
                status = ask(member.port, "/v3/maintenance/status", {})
                if status["leader"] == status["header"]["member_id"]:
                    return member
        return None

    def stop(self) -> None:
        for member in self.members:
            member.kill()


def ask(port: int, path: str, body: dict[str, object]) -> dict[str, Any]:
    """Post a request to one member."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("POST", path, json.dumps(body))
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return answer


@contextmanager
def running(folder: Path, *, members: int = MEMBERS) -> Iterator[EtcdCluster]:
    """Start a cluster for as long as the block runs."""
    cluster = EtcdCluster(folder, members=members)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


class GivenCluster:
    """A cluster that somebody else runs."""

    def __init__(self, hosts: str) -> None:
        self.hosts = hosts

    url = EtcdCluster.url


@pytest.fixture(scope="session")
def etcd_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster | GivenCluster]:
    """A cluster that all tests share: none of them harms it."""
    if url := given_url("etcd"):
        yield GivenCluster(url.removeprefix("etcd://").partition("?")[0].strip("/"))
        return
    with running(tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster
