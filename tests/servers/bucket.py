"""An S3 server for tests, moto's, and a proxy in front of it that knows requests.

moto compares the condition of a put and then stores it, without a lock: two puts at the same time
could both succeed. A real bucket decides one after the other, so here one request is served at a
time. Run as a program, this file is that server:
`python -m tests.servers.bucket PORT`.
"""

from __future__ import annotations

import hmac
import http.client
import os
import secrets
import shutil
import sys
import threading
import urllib.request
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from time import sleep
from typing import Any, Self

import pytest

from otolith.stores.bucket import packs, upkeep, writer
from otolith.stores.bucket.client import BucketClient
from tests.servers.process import Server, free_port, given_url

BUCKET = "otolith-tests"
ACCESS_KEY = "tester"
SECRET_KEY = "a-secret-that-nobody-shows"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    "AWS_REGION": "us-east-1",
    "AWS_METADATA_ENDPOINT": "http://127.0.0.1:1",  # nothing outside of this machine is asked
}
_AZURE_KEY = b64encode(SECRET_KEY.encode() * 2).decode()
_numbers = count()
_ROOT = str(Path(__file__).parents[2])


class BucketServer:
    """An S3 server with one bucket. Each call of `url` names a prefix of its own."""

    def __init__(self, endpoint: str, bucket: str = BUCKET) -> None:
        self.endpoint = endpoint
        self.bucket = bucket

    @property
    def port(self) -> int:
        """The port on this machine."""
        return int(self.endpoint.rpartition(":")[2])

    def url(self, prefix: str | None = None, *, port: int | None = None, timeout: int = 10) -> str:
        """Return the URL of a store that does not exist yet, or that of a prefix."""
        name = prefix if prefix is not None else f"store-{next(_numbers)}"
        endpoint = self.endpoint if port is None else f"http://127.0.0.1:{port}"
        return f"s3://{self.bucket}/{name}?endpoint={endpoint}&timeout={timeout}"

    def make_bucket(self, name: str) -> None:
        """Make a bucket."""
        request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")
        urllib.request.urlopen(request).close()


@contextmanager
def running_server(folder: Path, **environment: str) -> Iterator[BucketServer]:
    """Start a server for as long as it lasts; credentials are in the environment."""
    port = free_port()
    command = [sys.executable, "-m", "tests.servers.bucket", str(port)]
    server = Server(command, folder, port=port, environment={"PYTHONPATH": _ROOT, **environment})
    server.start()
    try:
        found = BucketServer(f"http://127.0.0.1:{port}")
        found.make_bucket(BUCKET)
        yield found
    finally:
        server.kill()


class GivenBucket:
    """A bucket on a real server that somebody else runs. What tests leave in it is removed."""

    def __init__(self, url: str) -> None:
        self._base, _, self._options = url.partition("?")
        self._run = secrets.token_hex(4)
        self._urls: list[str] = []

    def url(self) -> str:
        """Return the URL of a store that does not exist yet."""
        place = f"{self._base.rstrip('/')}/{self._run}-{next(_numbers)}"
        self._urls.append(f"{place}?{self._options}".rstrip("?"))
        return self._urls[-1]

    def clear(self) -> None:
        """Remove all keys of all stores."""
        for url in self._urls:
            client = BucketClient(url)
            client.delete_many(each.key for each in client.list_keys())
            client.close()


@pytest.fixture(scope="session")
def bucket_place(request: pytest.FixtureRequest) -> Iterator[BucketServer | GivenBucket]:
    """Where tests make stores that leave their server alone: a given bucket, or a new server."""
    url = given_url("bucket")
    if url is None:
        yield request.getfixturevalue("bucket_server")
        return
    given = GivenBucket(url)
    yield given
    given.clear()


@pytest.fixture(scope="session")
def bucket_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BucketServer]:
    """A server for all tests of this process."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            if given_url("bucket") is None or name not in os.environ:  # any credentials will do
                patch.setenv(name, value)
        with running_server(tmp_path_factory.mktemp("bucket")) as found:
            yield found


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything moves into packs soon, and packs are merged soon."""
    monkeypatch.setattr(writer, "INLINE_BYTES", 500)
    monkeypatch.setattr(upkeep, "RECENT_BYTES", 3000)
    monkeypatch.setattr(upkeep, "PACK_BYTES", 20_000)
    monkeypatch.setattr(packs, "FRAME_BYTES", 2000)
    monkeypatch.setattr(packs, "LARGE_BYTES", 3000)


@pytest.fixture(scope="session")
def azure_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    """Azurite, Microsoft's emulator, which `python3 dev.py setup` installs where npm is."""
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("azurite-blob is not here: npm install -g azurite brings it")
    folder, port = tmp_path_factory.mktemp("azurite"), free_port()
    command: list[str | Path] = [
        program,
        "--blobHost",
        "127.0.0.1",
        "--blobPort",
        str(port),
        "--location",
        folder,
    ]
    options = ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    accounts = {"AZURITE_ACCOUNTS": f"{ACCESS_KEY}:{_AZURE_KEY}"}
    server = Server([*command, *options], folder, port=port, environment=accounts)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCESS_KEY)
        patch.setenv("AZURE_STORAGE_ACCOUNT_KEY", _AZURE_KEY)
        found = AzureServer(f"http://127.0.0.1:{port}/{ACCESS_KEY}")
        found.make_container(BUCKET)
        yield found
    server.kill()


class AzureServer:
    """A server that speaks Azure, with one container."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    def url(self) -> str:
        """Return the URL of a store that does not exist yet."""
        return f"az://{BUCKET}/store-{next(_numbers)}?endpoint={self.endpoint}"

    def make_container(self, name: str) -> None:
        """Make a container, which obstore cannot."""
        date, version = formatdate(usegmt=True), "2021-08-06"
        about = f"x-ms-date:{date}\nx-ms-version:{version}"
        place = f"/{ACCESS_KEY}/{ACCESS_KEY}/{name}\nrestype:container"
        signed = "PUT" + "\n" * 12 + about + "\n" + place
        mac = hmac.digest(b64decode(_AZURE_KEY), signed.encode(), "sha256")
        headers = {
            "x-ms-date": date,
            "x-ms-version": version,
            "Authorization": f"SharedKey {ACCESS_KEY}:{b64encode(mac).decode()}",
            "Content-Length": "0",
        }
        address = f"{self.endpoint}/{name}?restype=container"
        request = urllib.request.Request(address, method="PUT", headers=headers)
        urllib.request.urlopen(request).close()


@dataclass(frozen=True)
class Request:
    """A request that passes the proxy."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def key(self) -> str:
        """The last part of the path, without a query."""
        return self.path.partition("?")[0].rpartition("/")[2]

    @property
    def is_swap(self) -> bool:
        """Whether it replaces the root."""
        return self.method == "PUT" and self.key == "root"


class BucketProxy:
    """Passes requests on; `rule` says for each what becomes of it.

    None passes a request, a number is the status of the answer instead, "lose" passes it on and
    ends the connection instead of the reply, "stall" waits until the rule changes.
    `levels` counts requests that began when no other was under way: what is sent in parallel is one
    level. `delay_seconds` is how long each request takes on its way; `dropped_headers` (in lower
    case) do not reach the server.
    """

    def __init__(self, port: int) -> None:
        self._server = port
        self.rule: Callable[[Request], int | str | None] = lambda _: None
        self.requests: list[Request] = []
        self.levels = 0
        self.sent_bytes = 0
        self.received_bytes = 0
        self.delay_seconds = 0.0
        self.dropped_headers: set[str] = set()
        self._under_way = 0
        self._lock = threading.Lock()
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.port = self._http.server_port
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def reset(self) -> None:
        """Count from zero."""
        self.requests, self.levels, self.sent_bytes, self.received_bytes = [], 0, 0, 0

    def begin(self, request: Request) -> int | str | None:
        """Count a request; return what becomes of it."""
        with self._lock:
            self.requests.append(request)
            self.sent_bytes += len(request.body)
            self.levels += self._under_way == 0
            self._under_way += 1
        sleep(self.delay_seconds)
        while (fate := self.rule(request)) == "stall":
            sleep(0.01)
        return fate

    def end(self, received_bytes: int) -> None:
        """Count an answer."""
        with self._lock:
            self.received_bytes += received_bytes
            self._under_way -= 1

    def forward(self, request: Request) -> tuple[int, list[tuple[str, str]], bytes]:
        """Ask the server."""
        connection = http.client.HTTPConnection("127.0.0.1", self._server)
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in {"connection", "content-length", *self.dropped_headers}
        }
        try:
            connection.request(request.method, request.path, request.body, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.rule = lambda _: 503
        self._http.shutdown()
        self._http.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: BucketProxy

    def handle_one(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        request = Request(self.command, self.path, dict(self.headers.items()), body)
        fate = self.owner.begin(request)
        headers: list[tuple[str, str]] = []
        status, data = 0, b"<Error><Code>Injected</Code></Error>"
        try:
            if isinstance(fate, int):
                status = fate
            else:
                status, headers, data = self.owner.forward(request)
        finally:
            self.owner.end(len(data))
        if fate == "lose":
            self.close_connection = True
            self.connection.close()
            return
        self._reply(status, headers, data)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):  # every method is passed on alike
            return self.handle_one
        raise AttributeError(name)

    def _reply(self, status: int, headers: Iterable[tuple[str, str]], data: bytes) -> None:
        self.send_response_only(status)
        is_head = self.command == "HEAD"
        for name, value in headers:
            if name.lower() not in {"connection", "transfer-encoding"} and (
                is_head or name.lower() != "content-length"
            ):
                self.send_header(name, value)
        if not is_head and status != http.HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if not is_head:
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Write nothing."""


def serve(port: int) -> None:
    """Serve S3 on this machine until the process ends."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, run_simple

    application = DomainDispatcherApplication(create_backend_app)
    one_at_a_time = threading.Lock()

    def locked(environ: dict[str, Any], start: Any) -> list[bytes]:
        with one_at_a_time:
            return [b"".join(application(environ, start))]

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"  # clients reuse their connections, as with a real bucket

        def log_request(self, *_: object) -> None:
            """Write nothing."""

    run_simple("127.0.0.1", port, locked, threaded=True, request_handler=Quiet)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
