"""Endpoint: an HTTP address of a provider, with retries, time limits and hidden keys.

A request is JSON, a response JSON or a stream of server-sent events. Failures that may pass (429,
5xx, a broken connection) are retried with growing pauses, as long as no part of a response was
returned. Redirects are not followed: they would carry the key to another host.

The key is in no repr, no error and no log: it is removed from what an error quotes of a response,
and once more from an error, with all that it was raised from, when it leaves (`secrets.py`). An
answer is returned as it came: a key may be a word, such as the "ollama" of local servers. The
standard library is enough for this; the package has no HTTP dependency.
"""

from __future__ import annotations

import http.client
import json
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from email.utils import parsedate_to_datetime
from itertools import chain
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from otolith.agent.models.secrets import Secrets
from otolith.errors import BadReply, Busy, Denied, Error, Invalid, ModelFailed, TimedOut

_EXCERPT_LETTERS = 300
_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 30.0
_LARGEST_BYTES = 64 << 20
_PIECE_BYTES = 64 << 10
_SECRET_NAME = re.compile("key|token|secret|sig|pass|auth|code", re.IGNORECASE)


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
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Describe an address; `timeout_seconds` limits a silence, `total_seconds` a response.

        Raises:
            Invalid: the URL is not one of HTTP.
        """
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not _has_port(parts):
            shown = base_url.rpartition("@")[2].partition("?")[0]  # the rest may be secret
            raise Invalid(f"{shown!r} is not an HTTP address", hint="write https://host/v1")
        self.base_url = base_url.rstrip("/")
        self._parts = parts
        self._headers = {"Content-Type": "application/json", **headers}
        hidden = [each for each in (secret, parts.password, parts.query) if each]
        user = [unquote(each) for each in (parts.password or parts.username,) if each]
        query = [text for name, text in parse_qsl(parts.query) if _SECRET_NAME.search(name)]
        self._secrets = Secrets([*hidden, *user, *query])
        self._timeout = timeout_seconds
        self._total = total_seconds
        self._retries = retries
        self._sleep = sleep
        self._requested_pause: float | None = None
        """The pause that the endpoint asked for with `Retry-After`."""
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
            pieces = self._retry(lambda: iter([b"".join(self._attempt(path, body))]))
            response = self._parse(b"".join(pieces))
            if isinstance(response, dict) and response.get("error"):
                why = f"{self!r} answered: {self._error_text(response)}"
                raise ModelFailed(why, hint="try again")
            return response

    def events(self, path: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the parsed data of server-sent events until the stream ends or says `[DONE]`.

        Raises:
            BadReply: the data of an event is not a JSON object.
            ModelFailed: the stream broke off.
        """
        for line in _event_data(self._retry(lambda: self._attempt(path, body))):
            if line == b"[DONE]":
                return
            with self.redacted_errors():
                event = self._parse(line)
                if not isinstance(event, dict):
                    why = f"the data of an event must be an object, got {self._quote(line)}"
                    raise BadReply(why, hint="try again")
            yield event

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

    def _retry(self, attempt: Callable[[], Iterator[bytes]]) -> Iterator[bytes]:
        """Yield the pieces of an attempt; repeat it as long as none was yielded."""
        pause = _FIRST_PAUSE_SECONDS
        for left in reversed(range(self._retries + 1)):
            has_begun = False
            try:
                for piece in attempt():
                    has_begun, self.retry_reason = True, ""
                    yield piece
            except (ModelFailed, Busy, TimedOut) as error:
                if has_begun or not left:
                    raise
                self.retry_reason = self._secrets.redact(error.message)
                requested, self._requested_pause = self._requested_pause, None
                self._sleep(pause * (0.5 + random.random()) if requested is None else requested)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            else:
                return

    def _attempt(self, path: str, body: Mapping[str, Any]) -> Iterator[bytes]:
        """Send a request once, and yield the bytes of the response as they arrive."""
        host, port = self._parts.hostname or "", self._parts.port
        is_secure = self._parts.scheme == "https"
        make = http.client.HTTPSConnection if is_secure else http.client.HTTPConnection
        try:
            with closing(make(host, port, timeout=min(self._timeout, self._total))) as connection:
                yield from self._exchange(connection, path, body)
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

    def _exchange(
        self, connection: http.client.HTTPConnection, path: str, body: Mapping[str, Any]
    ) -> Iterator[bytes]:
        deadline, size = time.monotonic() + self._total, 0
        query = f"?{self._parts.query}" if self._parts.query else ""
        target = f"{self._parts.path.rstrip('/')}{path}{query}"
        try:
            data = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        except (TypeError, ValueError) as error:
            raise Invalid(f"the request is not JSON: {error}", hint="check options=") from error
        with _close_after(connection, self._total):
            connection.request("POST", target, data, self._headers)
            response = connection.getresponse()
            if response.status != 200:
                raise self._refusal(response)
            while piece := response.read1(_PIECE_BYTES):
                size += len(piece)
                if size > _LARGEST_BYTES:
                    raise BadReply("the answer is longer than 64 MiB", hint="ask for less")
                yield piece
                if time.monotonic() > deadline:
                    raise TimeoutError
            if response.length:  # `read1` does not notice a body that is too short
                raise http.client.IncompleteRead(b"", response.length)

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
        if status in _RETRIED or status >= 500:
            self._requested_pause = _retry_after(response.getheader("Retry-After"))
            if status == 429:
                return Busy(message, hint="wait, or ask for less")
            return ModelFailed(message, status=status, hint="try again")
        if 300 <= status < 400:
            return Invalid(message, hint="use the address that it redirects to")
        return Invalid(message, hint="check the model's name and the request")


@contextmanager
def _close_after(connection: http.client.HTTPConnection, seconds: float) -> Iterator[None]:
    """Close a connection after so long: one that drips is never silent for long.

    Raises:
        TimeoutError: it was closed.
    """
    is_late = threading.Event()

    def close() -> None:
        is_late.set()
        if connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, close)
    timer.daemon = True
    timer.start()
    try:
        yield
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


def _retry_after(value: str | None) -> float | None:
    """Return the seconds of a `Retry-After` header, which has seconds or a date."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return min(max(0.0, seconds), _LONGEST_PAUSE_SECONDS)


def _has_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False
