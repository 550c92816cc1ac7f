"""An HTTP endpoint of a provider: JSON in, JSON or a stream of events out, within a time.

What may pass is tried again (429, 5xx, a connection that breaks), with growing pauses, as long as
nothing of an answer was handed on. Redirects are not followed: they would carry the key elsewhere.
The key is in no repr, no error and no log: an answer that has it is stripped of it first, and an
error, with all that it was raised from, once more at the door (`secrets.py`).

What the bytes of an endpoint say: JSON, events of a stream, refusals, and when to come again.
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
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from otolith.agent.models.secrets import Secrets
from otolith.errors import BadReply, Busy, Denied, Error, Invalid, ModelFailed, TimedOut

_SHOWN_LETTERS = 300


def data_lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the data of each event of a stream; its lines are joined, as the standard says."""
    held, event = b"", []
    for piece in pieces:
        held += piece
        *lines, held = held.replace(b"\r\n", b"\n").split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                event.append(line[5:].removeprefix(b" "))
            elif not line and event:
                yield b"\n".join(event)
                event = []
    if held.startswith(b"data:"):
        event.append(held[5:].removeprefix(b" "))
    if event:
        yield b"\n".join(event)


def seconds_of(text: str | None, *, most: float) -> float | None:
    """Return how long to wait, given as seconds or as a date; None if neither is."""
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return min(max(0.0, seconds), most)


_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 30.0
_LARGEST_BYTES = 64 << 20
_PIECE_BYTES = 64 << 10
_SECRET_NAME = re.compile("key|token|secret|sig|pass|auth|code", re.IGNORECASE)


class Endpoint:
    """Where a provider is, and how long it may take."""

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
        """Make one; `timeout_seconds` is for a silence, `total_seconds` for a whole answer.

        Raises:
            Invalid: the URL is not one of HTTP.
        """
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not _has_port(parts):
            raise Invalid(f"{_bare(base_url)!r} is no address", hint="write https://host/v1")
        self.base_url = base_url.rstrip("/")
        self._parts = parts
        self._headers = {"Content-Type": "application/json", **headers}
        self._hidden = [each for each in (secret, parts.password, parts.query) if each]
        self._secrets = Secrets([*self._hidden, *_hidden_in(parts)])
        self._timeout = timeout_seconds
        self._total = total_seconds
        self._retries = retries
        self._sleep = sleep
        self._pause_asked: float | None = None
        """How long the endpoint wants to be left alone."""
        self.trouble = ""
        """Why it is being tried again, if it is."""

    def __repr__(self) -> str:
        return f"<Endpoint {self._parts.scheme}://{self._parts.netloc.rpartition('@')[2]}>"

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return what the endpoint answers, parsed.

        Raises:
            BadReply: it is not JSON.
        """
        with self._secrets.kept():
            found = self._parsed(self._whole(path, body))
            if isinstance(found, dict) and found.get("error"):
                raise ModelFailed(f"{self!r} answered: {self._told(found)}", hint="try again")
            return found

    def events(self, path: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the data of server-sent events, parsed, until the stream ends or says `[DONE]`.

        Raises:
            BadReply: an event is not JSON.
            ModelFailed: the stream broke off.
        """
        for line in data_lines(self._tried(path, body)):
            if line == b"[DONE]":
                return
            with self._secrets.kept():
                data = self._scrubbed(line)
                event = self._parsed(data)
                if not isinstance(event, dict):
                    raise BadReply(f"an event is no object: {self._shown(data)}", hint="try again")
            yield event

    def discreet(self) -> AbstractContextManager[None]:
        """Return what keeps the key out of errors that pass: of whatever is made of an answer."""
        return self._secrets.kept()

    def excerpt(self, value: object, letters: int = _SHOWN_LETTERS) -> str:
        """Return the beginning of a value's text, for an error, without the key."""
        return self._secrets.clean(str(value)[:_PIECE_BYTES])[:letters]

    def _parsed(self, data: bytes) -> Any:
        """Return what JSON says, without the key in whatever way it is written there."""
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            why = f"the answer is not JSON: {self._shown(data)}"
        else:
            return self._stripped(found) if b"\\" in data else found
        raise BadReply(why, hint="try again")  # from nothing: the parser's error holds the answer

    def _stripped(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._scrubbed(value.encode("utf-8", "replace")).decode()
        if isinstance(value, list):
            return [self._stripped(each) for each in value]
        if isinstance(value, dict):
            return {self._stripped(key): self._stripped(each) for key, each in value.items()}
        return value

    def _told(self, answer: dict[str, Any]) -> str:
        """Return what an answer says that is no answer."""
        error = answer.get("error", answer)
        text = error.get("message") if isinstance(error, dict) else error
        return self.excerpt(text if isinstance(text, str) else error)

    def _shown(self, data: bytes) -> str:
        """Return the beginning of bytes as a person can read it."""
        return repr(self.excerpt(data[:_PIECE_BYTES].decode("utf-8", "replace")))

    def _whole(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Return the bytes of an answer; if they do not come whole, try again."""
        for pause in self._pauses():
            try:
                found = b"".join(self._pieces(path, body))
            except (ModelFailed, Busy, TimedOut) as error:
                if pause is None:
                    raise
                self._wait(pause, error.message)
            else:
                self.trouble = ""
                return self._scrubbed(found)
        raise AssertionError("the last try raises")

    def _tried(self, path: str, body: Mapping[str, Any]) -> Iterator[bytes]:
        """Yield the bytes of an answer; as long as there are none, try again."""
        for pause in self._pauses():
            has_begun = False
            try:
                for piece in self._pieces(path, body):
                    has_begun, self.trouble = True, ""
                    yield piece
            except (ModelFailed, Busy, TimedOut) as error:
                if has_begun or pause is None:
                    raise
                self._wait(pause, error.message)
            else:
                return

    def _wait(self, pause: float, trouble: str) -> None:
        """Wait before another try."""
        self.trouble = self._secrets.clean(trouble)
        asked, self._pause_asked = self._pause_asked, None
        self._sleep(pause if asked is None else asked)

    def _pauses(self) -> Iterator[float | None]:
        pause = _FIRST_PAUSE_SECONDS
        for _ in range(self._retries):
            yield pause * (0.5 + random.random())
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        yield None

    def _pieces(self, path: str, body: Mapping[str, Any]) -> Iterator[bytes]:
        """Yield the bytes of one answer as they arrive."""
        try:
            with closing(self._connection()) as connection:
                yield from self._answer(connection, path, body)
        except TimeoutError as error:
            raise TimedOut(
                f"{self!r} was silent for {self._timeout:g} s, or took over {self._total:g} s",
                hint="try again, or give it more time",
            ) from error
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, Error):
                raise
            raise ModelFailed(
                f"{self!r} broke off: {self.excerpt(str(error) or repr(error))}",
                hint="check the address and the network, and try again",
            ) from error
        except ValueError as error:  # a name or a query that no request can carry
            if isinstance(error, Error):
                raise
            raise Invalid(
                f"{self!r} cannot be asked: {self.excerpt(error)}", hint="check its address"
            ) from error

    def _answer(
        self, connection: http.client.HTTPConnection, path: str, body: Mapping[str, Any]
    ) -> Iterator[bytes]:
        deadline, size = time.monotonic() + self._total, 0
        try:
            data = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        except (TypeError, ValueError) as error:
            raise Invalid(f"the request is not JSON: {error}", hint="check options=") from error
        with _cut_off(connection, self._total):
            connection.request("POST", self._path(path), data, self._headers)
            answer = connection.getresponse()
            if answer.status != 200:
                raise self._refusal(answer)
            while piece := answer.read1(_PIECE_BYTES):
                size += len(piece)
                if size > _LARGEST_BYTES:
                    raise BadReply("the answer does not end", hint="ask for less")
                yield piece
                if time.monotonic() > deadline:
                    raise TimeoutError
            if answer.length:  # `read1` says nothing of a body that is too short
                raise http.client.IncompleteRead(b"", answer.length)

    def _path(self, path: str) -> str:
        asked = f"?{self._parts.query}" if self._parts.query else ""
        return f"{self._parts.path.rstrip('/')}{path}{asked}"

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        seconds = min(self._timeout, self._total)
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=seconds)
        return http.client.HTTPConnection(host, port, timeout=seconds)

    def _refusal(self, answer: http.client.HTTPResponse) -> Error:
        status = answer.status
        said = f"{self!r} answered {status}: {self._reason(answer.read(_PIECE_BYTES))}"
        if status in (401, 403):
            return Denied(said, hint="check the key and what it may do")
        if status in _AGAIN or status >= 500:
            error: Error = ModelFailed(said, status=status, hint="try again")
            if status == 429:
                error = Busy(said, hint="wait, or ask for less")
            self._pause_asked = seconds_of(
                answer.getheader("Retry-After"), most=_LONGEST_PAUSE_SECONDS
            )
            return error
        if 300 <= status < 400:
            return Invalid(said, hint="give the address that it redirects to")
        return Invalid(said, hint="check the model's name and the request")

    def _reason(self, answer: bytes) -> str:
        """Return why a request was refused, in the words of whoever refused it."""
        data = self._scrubbed(answer)
        try:
            found = self._parsed(data)
        except BadReply:
            return self._shown(data)
        return self._told(found) if isinstance(found, dict) else self._shown(data)

    def _scrubbed(self, data: bytes) -> bytes:
        """Return an answer without the key, before anything of it is cut off or told."""
        for secret in self._hidden:
            data = data.replace(secret.encode(), b"***")
        return data


@contextmanager
def _cut_off(connection: http.client.HTTPConnection, seconds: float) -> Iterator[None]:
    """End a connection after so long: one that drips is never silent for long."""
    is_late = threading.Event()

    def end() -> None:
        is_late.set()
        if connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
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


def clean_key(key: str) -> str:
    """Return an API key without the line break that files end with.

    Raises:
        Invalid: no header can carry it; it is not shown.
    """
    bare = key.strip()
    if not bare.isascii() or not bare.isprintable():
        raise Invalid("the API key has signs that no key has", hint="read it from its file again")
    return bare


def _bare(url: str) -> str:
    """Return an address without what may be secret in it."""
    return url.rpartition("@")[2].partition("?")[0]


def _hidden_in(parts: SplitResult) -> list[str]:
    """Return what an address has that looks like a secret, one by one."""
    found = [unquote(each) for each in (parts.password or parts.username,) if each]
    asked = parse_qsl(parts.query)
    return found + [value for name, value in asked if value and _SECRET_NAME.search(name)]


def _has_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False
