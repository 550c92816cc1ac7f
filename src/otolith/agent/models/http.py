"""Endpoint: an HTTP address of a provider, with retries, time limits and hidden keys.

A request is JSON, a response JSON or a stream of server-sent events. Failures that may pass (429,
5xx, a broken connection, an overloaded server) are retried with growing pauses, or after the pause
that the endpoint asks for. Redirects are not followed: they would carry the key to another host.

The key is in no repr, no error and no log: it is removed from what an error quotes of a response,
and once more from an error, with all that it was raised from, when it leaves (`secrets.py`). An
answer is returned as it came: a key may be a word, such as the "ollama" of local servers. The
standard library is enough for this; the package has no HTTP dependency.

`HttpConnections` are those to one address. A proxy for `http` gets the whole URL of a request, one
for `https` makes a tunnel (CONNECT), inside which the server is checked as without a proxy.
Certificates are checked against those of the system, or a file of your own; OpenSSL reads
`SSL_CERT_FILE` and `SSL_CERT_DIR` by itself. A connection that has answered completely is kept for
a short while. A server may close it at any moment: a request that gets no answer on such a
connection is sent again, once, on a new one.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from email.utils import parsedate_to_datetime
from ipaddress import ip_address, ip_network
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit
from urllib.request import getproxies_environment
from weakref import finalize

from otolith.agent.models.secrets import Secrets
from otolith.errors import BadReply, Busy, Denied, Error, Invalid, ModelFailed, TimedOut
from otolith.shapes import check_argument

T = TypeVar("T")

_EXCERPT_LETTERS = 300
_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 30.0
"""The pauses of our own choice; an endpoint may ask for longer ones."""
_LARGEST_BYTES = 64 << 20
_PIECE_BYTES = 64 << 10
_SECRET_NAME = re.compile("key|token|secret|sig|pass|auth|code", re.IGNORECASE)
_IDLE_SECONDS = 15.0
"""How long a connection is kept; most servers wait longer."""
_MAX_IDLE = 4


class Endpoint:
    """An address of a provider, and how long it may take."""

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str],
        secret: str = "",
        timeout_seconds: float = 60.0,
        total_seconds: float = 600.0,
        retries: int = 3,
        max_pause_seconds: float = 300.0,
        proxy: str | None = None,
        ca_file: str = "",
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Describe an address; `timeout_seconds` limits a silence, `total_seconds` a response.

        An endpoint that asks for a pause (`Retry-After`) gets it, up to `max_pause_seconds`; if it
        asks for a longer one, it is not asked again. `proxy` is a URL, by default that of the
        environment (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`); "" is none. `ca_file` has the
        certificates to trust, by default those of the system.

        Raises:
            Invalid: a URL is not one of HTTP, or `ca_file` has no certificates.
        """
        check_argument(base_url, "base_url", str, "a text", hint="write https://host/v1")
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not _has_port(parts):
            shown = base_url.rpartition("@")[2].partition("?")[0]  # the rest may be secret
            raise Invalid(f"{shown!r} is not an HTTP address", hint="write https://host/v1")
        self.base_url = base_url.rstrip("/")
        self._parts = parts
        self._headers = {"Content-Type": "application/json", **headers}
        hidden = [each for each in (secret, parts.password, parts.query) if each]
        if proxy is None:
            proxy = environment_proxy(parts.scheme, parts.hostname)
        timeout = min(timeout_seconds, total_seconds)
        self._connections = HttpConnections(parts, proxy=proxy, ca_file=ca_file, timeout=timeout)
        user = [unquote(each) for each in (parts.password or parts.username,) if each]
        query = [text for name, text in parse_qsl(parts.query) if _SECRET_NAME.search(name)]
        self._secrets = Secrets([*hidden, *user, *query, *self._connections.secrets])
        self._timeout = timeout_seconds
        self._total = total_seconds
        self._retries = retries
        self._max_pause = max_pause_seconds
        self._sleep = sleep
        self._requested = threading.local()
        """The pause that the endpoint asked for in this thread with `Retry-After`: `seconds`."""
        self.retry_reason = ""
        """The failure because of which a request is being retried; "" if it is not."""

    def __repr__(self) -> str:
        return f"<Endpoint {self._parts.scheme}://{self._parts.netloc.rpartition('@')[2]}>"

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send a request and return the parsed response.

        Raises:
            BadReply: the response is not JSON.
            ModelFailed: it reports an error, or did not arrive.
        """
        with self.redacted_errors():
            return self.retry(lambda: self._post(path, body))

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        response = self._parse(b"".join(self._attempt(path, body)))
        if isinstance(response, dict) and response.get("error"):
            why = f"{self!r} answered: {self._error_text(response)}"
            raise ModelFailed(why, hint="try again")
        return response

    def events(self, path: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the parsed data of server-sent events until the stream ends or says `[DONE]`.

        This is one attempt: whoever reads the events knows whether another one makes sense.

        Raises:
            BadReply: the data of an event is not a JSON object.
            ModelFailed: the stream broke off.
        """
        for line in _event_data(self._attempt(path, body)):
            if line == b"[DONE]":
                return
            with self.redacted_errors():
                event = self._parse(line)
                if not isinstance(event, dict):
                    why = f"the data of an event must be an object, got {self._quote(line)}"
                    raise BadReply(why, hint="try again")
            yield event

    def retry(
        self, attempt: Callable[[], T], before_retry: Callable[[str], None] | None = None
    ) -> T:
        """Return the result of an attempt; repeat it after failures that may pass, with pauses.

        `before_retry` is called with the failure before each repetition.

        Raises:
            ModelFailed, Busy, TimedOut: the last attempt failed, or the pause that the endpoint
                asks for is too long.
        """
        pause = _FIRST_PAUSE_SECONDS
        for left in reversed(range(self._retries + 1)):
            self._requested.seconds = None
            try:
                return attempt()
            except (ModelFailed, Busy, TimedOut) as error:
                requested: float | None = self._requested.seconds
                if not left:
                    raise
                if requested is not None and requested > self._max_pause:
                    raise Busy(
                        f"{error.message}; it asks for a pause of {requested:,.0f} s",
                        hint="try again after that, or give a larger max_pause_seconds",
                    ) from error
                self.retry_reason = self._secrets.redact(error.message)
            if before_retry is not None:
                before_retry(self.retry_reason)
            self._sleep(pause * (0.5 + random.random()) if requested is None else requested)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        raise AssertionError("the last attempt returns or raises")

    def redacted_errors(self) -> AbstractContextManager[None]:
        """Return a context that removes the key from errors that leave it."""
        return self._secrets.redacted_errors()

    def excerpt(self, value: object, letters: int = _EXCERPT_LETTERS) -> str:
        """Return the beginning of a value's text for an error, without the key."""
        return self._secrets.redact(str(value)[:_PIECE_BYTES])[:letters]

    # Responses

    def _parse(self, data: bytes) -> Any:
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            why = f"the answer is not JSON: {self._quote(data)}"
        raise BadReply(why, hint="try again")  # without a cause: the parser's error holds the data

    def _error_text(self, response: dict[str, Any]) -> str:
        error = response.get("error", response)
        text = error.get("message") if isinstance(error, dict) else error
        return self.excerpt(text if isinstance(text, str) else error)

    def _quote(self, data: bytes) -> str:
        return repr(self.excerpt(data[:_PIECE_BYTES].decode("utf-8", "replace")))

    # Requests

    def _attempt(self, path: str, body: Mapping[str, Any]) -> Iterator[bytes]:
        """Send a request once, and yield the bytes of the response as they arrive."""
        try:
            yield from self._exchange(path, body)
        except TimeoutError as error:
            raise TimedOut(
                f"{self!r} was silent for {self._timeout:g} s, or took over {self._total:g} s",
                hint="try again, or give it more time",
            ) from error
        except Error:
            raise
        except (OSError, http.client.HTTPException) as error:
            raise ModelFailed(
                f"the connection to {self!r} failed: {self.excerpt(str(error) or repr(error))}",
                hint="check the address and the network, and try again",
            ) from error
        except ValueError as error:  # a host name or a query that no request can carry
            raise Invalid(
                f"no request can be sent to {self!r}: {self.excerpt(error)}",
                hint="check its address",
            ) from error

    def _exchange(self, path: str, body: Mapping[str, Any]) -> Iterator[bytes]:
        query = f"?{self._parts.query}" if self._parts.query else ""
        target = f"{self._parts.path.rstrip('/')}{path}{query}"
        deadline = time.monotonic() + self._total
        try:
            data = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        except (TypeError, ValueError) as error:
            raise Invalid(f"the request is not JSON: {error}", hint="check options=") from error
        with _close_after(self._total) as watch:
            connection, response = self._connections.request(target, data, self._headers, watch)
            with self._connections.lease(connection, response):
                if response.status != 200:
                    raise self._refusal(response)
                self.retry_reason = ""
                yield from _pieces(response, deadline)

    def _refusal(self, response: http.client.HTTPResponse) -> Error:
        """Return the error for a response whose status is not 200."""
        status, data = response.status, response.read(_PIECE_BYTES)
        reason = self._quote(data)
        with suppress(BadReply):
            answer = self._parse(data)
            reason = self._error_text(answer) if isinstance(answer, dict) else reason
        message = f"{self!r} answered {status}: {reason}"
        if status in (401, 403):
            return Denied(message, hint="check the key and what it may do")
        if status == 407:
            return Denied(message, hint="give the proxy as http://user:password@host:port")
        if status in _RETRIED or status >= 500:
            self._requested.seconds = _retry_after(response)
            if status == 429:
                return Busy(message, hint="wait, or ask for less")
            return ModelFailed(message, status=status, hint="try again")
        if 300 <= status < 400:
            return Invalid(message, hint="use the address that it redirects to")
        return Invalid(message, hint="check the model's name and the request")


def _pieces(response: http.client.HTTPResponse, deadline: float) -> Iterator[bytes]:
    """Yield the bytes of a response as they arrive.

    Raises:
        TimeoutError: the deadline has passed.
        BadReply: there are too many of them.
    """
    size = 0
    while piece := response.read1(_PIECE_BYTES):
        size += len(piece)
        if size > _LARGEST_BYTES:
            raise BadReply("the answer is longer than 64 MiB", hint="ask for less")
        yield piece
        if time.monotonic() > deadline:
            raise TimeoutError
    if response.length:  # `read1` does not notice a body that is too short
        raise http.client.IncompleteRead(b"", response.length)


@contextmanager
def _close_after(seconds: float) -> Iterator[Callable[[http.client.HTTPConnection], None]]:
    """Close the connection that is watched after so long: one that drips is never silent for long.

    Raises:
        TimeoutError: it was closed.
    """
    is_late = threading.Event()
    watched: list[http.client.HTTPConnection] = []

    def close() -> None:
        is_late.set()
        for connection in watched[-1:]:
            if connection.sock is not None:
                with suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, close)
    timer.daemon = True
    timer.start()
    try:
        yield watched.append
        if is_late.is_set():
            raise TimeoutError
    except (OSError, http.client.HTTPException) as error:
        if is_late.is_set():
            raise TimeoutError from error
        raise
    finally:
        timer.cancel()


def _event_data(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the data of each server-sent event; several `data:` lines are joined by line breaks."""
    rest, event = b"", []
    for piece in chain(pieces, (b"\n\n",)):  # the last event may lack its empty line
        rest += piece
        *lines, rest = rest.replace(b"\r\n", b"\n").split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                event.append(line[5:].removeprefix(b" "))
            elif not line and event:
                yield b"\n".join(event)
                event = []


def _retry_after(response: http.client.HTTPResponse) -> float | None:
    """Return the pause that a response asks for; `Retry-After` has seconds, or a date."""
    milliseconds, value = response.getheader("Retry-After-Ms"), response.getheader("Retry-After")
    try:
        if milliseconds is not None:
            return max(0.0, float(milliseconds) / 1000)
        return None if value is None else max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value or "").timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _has_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False


# Connections


WatchConnection: TypeAlias = Callable[[http.client.HTTPConnection], None]


class _IdleConnection(NamedTuple):
    connection: http.client.HTTPConnection
    since: float
    process: int
    """Its owner: after a fork, two processes would talk on one connection."""


class HttpConnections:
    """Connections to one address."""

    def __init__(self, url: SplitResult, *, proxy: str, ca_file: str, timeout: float) -> None:
        """Describe an address; `proxy` is a URL, or nothing.

        Raises:
            Invalid: the proxy is not one of HTTP, or the file has no certificates.
        """
        self._url = url
        self._timeout = timeout
        self._is_secure = url.scheme == "https"
        self._proxy = _proxy(proxy) if proxy else None
        self._context = _tls_context(ca_file) if self._is_secure else None
        self._idle: deque[_IdleConnection] = deque()
        finalize(self, _close_all, self._idle)

    @property
    def secrets(self) -> list[str]:
        """The texts by which the proxy knows who asks."""
        if self._proxy is None or self._proxy.username is None:
            return []
        raw = self._proxy.password or self._proxy.username
        name, password = unquote(self._proxy.username), unquote(self._proxy.password or "")
        return [raw, unquote(raw), f"{name}:{password}"]

    def request(
        self, target: str, data: bytes, headers: Mapping[str, str], watch: WatchConnection
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Send a POST request; return the connection, and the response as far as its head.

        `watch` gets each connection before it is used.
        """
        idle = self._take()
        if idle is not None:
            watch(idle)
            with suppress(http.client.RemoteDisconnected, ConnectionError, ssl.SSLError):
                return idle, self._send(idle, target, data, headers)
            idle.close()  # the server has closed it meanwhile
        connection = self._open()
        watch(connection)
        try:
            return connection, self._send(connection, target, data, headers)
        except BaseException:
            connection.close()
            raise

    @contextmanager
    def lease(
        self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse
    ) -> Iterator[None]:
        """Return a context in which a response is read; then its connection is kept, or closed."""
        is_reusable = False
        try:
            yield
            if response.length == 0:  # all of it was read, which `read1` does not notice
                response.close()
            is_reusable = response.isclosed() and not response.will_close
        finally:
            if is_reusable and len(self._idle) < _MAX_IDLE:
                self._idle.append(_IdleConnection(connection, time.monotonic(), os.getpid()))
            else:
                connection.close()

    def _take(self) -> http.client.HTTPConnection | None:
        while self._idle:
            try:
                found = self._idle.pop()
            except IndexError:  # another thread has it
                break
            is_fresh = time.monotonic() - found.since < _IDLE_SECONDS
            if found.process != os.getpid():
                continue  # closing it would end the connection of the parent
            if is_fresh and found.connection.sock is not None:
                return found.connection
            found.connection.close()
        return None

    def _open(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        through = self._proxy
        at = (host, port) if through is None else (through.hostname or "", through.port)
        if not self._is_secure:
            return http.client.HTTPConnection(*at, timeout=self._timeout)
        made = http.client.HTTPSConnection(*at, timeout=self._timeout, context=self._context)
        if through is not None:
            made.set_tunnel(host, port, headers=_proxy_headers(through))
        return made

    def _send(
        self,
        connection: http.client.HTTPConnection,
        target: str,
        data: bytes,
        headers: Mapping[str, str],
    ) -> http.client.HTTPResponse:
        if self._proxy is not None and not self._is_secure:
            place = self._url.netloc.rpartition("@")[2]
            target = f"http://{place}{target}"
            headers = {**headers, **_proxy_headers(self._proxy)}
        connection.request("POST", target, data, dict(headers))
        return connection.getresponse()


def _close_all(idle: deque[_IdleConnection]) -> None:
    for each in idle:
        if each.process == os.getpid():
            each.connection.close()


def environment_proxy(scheme: str, host: str) -> str:
    """Return the proxy for a host, as the environment has it; nothing if there is none.

    The names are `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, also in small letters.
    This machine itself is never reached through a proxy.
    """
    proxies = getproxies_environment()
    if _is_excluded(host, proxies.get("no", "")):
        return ""
    return proxies.get(scheme, proxies.get("all", ""))


def _is_excluded(host: str, names: str) -> bool:
    """Return whether a host is this machine, or one of the names, domains or networks in a list."""
    try:
        address = ip_address(host)
    except ValueError:
        address = None
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    for name in filter(None, (each.strip().lower().lstrip(".") for each in names.split(","))):
        if name == "*" or host.lower() == name or host.lower().endswith(f".{name}"):
            return True
        with suppress(ValueError):
            if address is not None and address in ip_network(name, strict=False):
                return True
    return False


def _proxy(url: str) -> SplitResult:
    """Return the parts of the URL of a proxy; one without a scheme is one of HTTP.

    Raises:
        Invalid: it is not one of HTTP.
    """
    parts = urlsplit(url if "://" in url else f"http://{url}")
    try:
        is_valid = parts.scheme == "http" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        shown = url.rpartition("@")[2]  # the rest may be secret
        raise Invalid(
            f"a proxy must be http://host:port, got {shown!r}",
            hint="give proxy=, or set HTTPS_PROXY and NO_PROXY",
        )
    return parts


def _proxy_headers(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    known = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(known.encode()).decode()}"}


def _tls_context(ca_file: str) -> ssl.SSLContext:
    """Return how servers are checked: by the certificates of a file, or those of the system.

    Raises:
        Invalid: the file cannot be read, or has no certificates.
    """
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise Invalid(
            f"ca_file must be a file of certificates in PEM, got {ca_file!r}: {error}",
            hint="give the bundle of your network",
        ) from error
