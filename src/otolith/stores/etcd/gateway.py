"""etcd over HTTP: the JSON gateway that every member of a cluster has beside gRPC.

A call goes to the member that answered last. If that one fails, or is silent for a while, it goes
to the next, until one answers or the time is over; that is soon, if no member is there at all. So a
call can reach etcd more than once, and this file never knows whether one whose reply was lost took
effect: **whoever calls must only send what is harmless to repeat**, and gets
`GatewayReply.repeated` to find out which of the attempts it was. A refusal after a lost reply
becomes `Unavailable`, for the same reason.

etcd itself retries nothing: "leader changed", "request timed out" and "no leader" are replies that
leave the outcome open, and are treated like a lost connection.

Connections stay open and are used again, each by one thread at a time. A forked child has its own.
"""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic, sleep
from typing import Generic, NamedTuple, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec

from otolith.errors import Busy, Closed, Denied, Error, Full, Invalid, NotAStore, Unavailable
from otolith.stores.server_url import check_options

_T = TypeVar("_T")
_PORT = 2379
_OPTIONS = ("objects", "prefix", "timeout", "ca", "cert", "key")
_PATIENCE_SECONDS = 1.0  # with one member in the first round, then twice as much in each
_PAUSE_SECONDS = 0.05
_REFUSED_SECONDS = 1.0  # how long to ask members none of which is there
_INVALID, _GONE, _DENIED, _EXHAUSTED = 3, 5, 7, 8  # codes of gRPC
_OUT_OF_RANGE, _UNAUTHENTICATED = 11, 16


@dataclass(frozen=True, slots=True)
class EtcdPlace:
    """What a URL says: etcd://user:password@host:port,host:port?objects=URL&option=value."""

    endpoints: tuple[tuple[str, int], ...]
    prefix: str
    objects: str = field(repr=False)  # a URL, which can have a password in it
    timeout_seconds: float
    user: str = ""
    password: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = None

    def __str__(self) -> str:
        """Show where it is, without secrets."""
        hosts = ",".join(f"{host}:{port}" for host, port in self.endpoints)
        return f"etcd{'s' if self.tls else ''}://{hosts} {self.prefix}"


def read_place(url: str) -> EtcdPlace:
    """Read a URL.

    Raises:
        Invalid: it names no member or no store for objects, or has an option that is not known.
    """
    options = check_options(url, _OPTIONS)
    parts = urlsplit(url)
    userinfo, _, hosts = parts.netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    if parts.path.strip("/"):
        raise Invalid("the URL of etcd has a path", hint="name the prefix of keys by ?prefix=…")
    if not options.get("objects"):
        raise Invalid(
            "etcd stores refs only, and the URL does not say where objects are",
            hint="add ?objects=URL: s3://…, postgresql://…, or the path of a file",
        )
    if options["objects"].startswith("memory:"):
        raise Invalid(
            "objects in memory are lost with the process, and refs in etcd are not",
            hint="name a store that lasts: ?objects=URL",
        )
    return EtcdPlace(
        endpoints=tuple(_endpoint(host) for host in hosts.split(",")),
        prefix=options.get("prefix", "otolith").strip("/") + "/",
        objects=options["objects"],
        timeout_seconds=_seconds(options.get("timeout", "10")),
        user=unquote(user),
        password=unquote(password),
        tls=_tls(options) if parts.scheme == "etcds" else None,
    )


def _endpoint(text: str) -> tuple[str, int]:
    try:
        found = urlsplit(f"//{text}")
        host, port = found.hostname, found.port
    except ValueError:
        host, port = None, None
    if not host:
        raise Invalid(f"{text!r} is not the address of a member", hint="use host:port,host:port")
    return host, port or _PORT


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise Invalid(f"timeout must be a number of seconds, got {text!r}", hint="use timeout=10")
    return seconds


def _tls(options: dict[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=options.get("ca"))
        if "cert" in options:
            context.load_cert_chain(options["cert"], options.get("key"))
    except OSError as error:
        raise Invalid(
            f"a certificate cannot be read: {error.strerror or error}", hint="check ca, cert, key"
        ) from None
    return context


# -------------------- what etcd answers; numbers are text in its JSON, and bytes base64


class Header(msgspec.Struct, frozen=True):
    """The part that all replies have."""

    revision: int = 0


class KeyEntry(msgspec.Struct, frozen=True):
    """A key and its value. An absent key has the revision 0."""

    key: bytes
    value: bytes = b""
    create_revision: int = 0
    mod_revision: int = 0


class RangeReply(msgspec.Struct, frozen=True):
    """The entries of a range of keys."""

    header: Header = Header()
    kvs: tuple[KeyEntry, ...] = ()
    more: bool = False


class PartReply(msgspec.Struct, frozen=True):
    """The answer to one operation of a transaction; only reads have something to say."""

    response_range: RangeReply = RangeReply()


class TxnReply(msgspec.Struct, frozen=True):
    """What a transaction did: its first list of operations, or else its second."""

    header: Header = Header()
    succeeded: bool = False
    responses: tuple[PartReply, ...] = ()


class _TokenReply(msgspec.Struct, frozen=True):
    token: str


class _ErrorReply(msgspec.Struct, frozen=True):
    error: str = ""
    code: int = 0


class GatewayReply(NamedTuple, Generic[_T]):
    """An answer. `repeated`: an attempt before it was lost, and may have taken effect.

    `date` is the time by the clock of the member, as HTTP writes it.
    """

    body: _T
    repeated: bool
    date: str


class CompactedRevision(Exception):
    """etcd has forgotten the revision that was asked for; begin again at the current one."""


class _LostReply(Exception):
    """Nobody knows whether this attempt took effect."""


class _NotSent(Exception):
    """This attempt did not reach a member. `is_final`: nothing listens at its address."""

    def __init__(self, words: str, *, is_final: bool = False) -> None:
        super().__init__(words)
        self.is_final = is_final


class _StaleToken(Exception):
    """The member wants to know again who asks."""


Body: TypeAlias = dict[str, object]
_Idle: TypeAlias = dict[int, list[http.client.HTTPConnection]]


class Gateway:
    """Calls to the members of one cluster. Safe to use from several threads."""

    def __init__(self, place: EtcdPlace) -> None:
        self.place = place
        self._lock = Lock()
        self._idle: _Idle = {}
        weakref.finalize(self, _close_all, self._idle)  # for a store that nobody closed
        self._first = 0  # the member that answered last
        self._token = ""
        self._process = os.getpid()
        self._closed = False

    def call(self, path: str, body: Body, kind: type[_T]) -> GatewayReply[_T]:
        """Post a request that is harmless to repeat, and return the answer.

        Raises:
            Unavailable: no member answered within the time-out.
            Denied, Full, Busy, Invalid: a member refused it, and nothing was done.
        """
        data = msgspec.json.encode(body)
        repeated, problems = False, dict[str, str]()
        begun, absent = monotonic(), set[int]()
        for member, seconds in self._turns():
            try:
                text, date = self._attempt(member, path, data, seconds)
                answer = self._decoded(text, kind)
            except _NotSent as problem:
                problems[self._name(member)] = str(problem)
                absent = absent | {member} if problem.is_final else set()
                if self._are_all(absent) and monotonic() - begun > _REFUSED_SECONDS:
                    break
            except _LostReply as problem:
                problems[self._name(member)] = str(problem)
                repeated, absent = True, set()
            except Error as refusal:
                if not repeated:
                    raise
                problems[self._name(member)] = str(refusal)
                break
            else:
                self._first = member
                return GatewayReply(answer, repeated, date)
        raise self._unavailable(problems, monotonic() - begun)

    @contextmanager
    def stream(
        self, path: str, body: Body, *, timeout_seconds: float
    ) -> Iterator[tuple[http.client.HTTPConnection, http.client.HTTPResponse]]:
        """Post a request whose answer does not end, and yield it: one document on each line.

        Raises:
            OSError, HTTPException: the member does not answer. The next one is asked next time.
        """
        member = next(iter(self._members()))
        connection = self._connect(member, timeout_seconds)
        try:
            connection.request("POST", path, msgspec.json.encode(body), self._headers())
            yield connection, connection.getresponse()
        except (OSError, http.client.HTTPException):
            self._first = member + 1
            raise
        finally:
            connection.close()

    def close(self) -> None:
        """Close all connections. Closing twice is harmless."""
        with self._lock:
            self._closed = True
            _close_all(self._idle)

    def check_open(self) -> None:
        """Raise Closed if this was closed."""
        if self._closed:
            raise Closed("this etcd store is closed", hint="open another one")

    def _members(self) -> list[int]:
        """Return the members in the order in which they are asked."""
        self.check_open()
        count = len(self.place.endpoints)
        return [(self._first + place) % count for place in range(count)]

    def _turns(self) -> Iterator[tuple[int, float]]:
        """Yield members to ask, and how long each may take, until the time is over."""
        deadline = monotonic() + self.place.timeout_seconds
        patience_seconds = _PATIENCE_SECONDS
        while True:
            for member in self._members():
                yield member, max(0.01, min(patience_seconds, deadline - monotonic()))
                if monotonic() >= deadline:
                    return
            patience_seconds *= 2
            sleep(min(_PAUSE_SECONDS, max(0.0, deadline - monotonic())))

    def _name(self, member: int) -> str:
        host, port = self.place.endpoints[member]
        return f"{host}:{port}"

    def _attempt(self, member: int, path: str, data: bytes, seconds: float) -> tuple[bytes, str]:
        """Ask one member.

        Raises:
            _NotSent, _LostReply: the next one is to be asked.
        """
        for _ in range(2):
            if self.place.user and not self._token:
                self._authenticate(member, seconds)
            try:
                return self._post(member, path, data, seconds)
            except _StaleToken:
                self._token = ""
        raise Denied(f"{self.place}: etcd accepts no token of its own", hint="check its clock")

    def _post(self, member: int, path: str, data: bytes, seconds: float) -> tuple[bytes, str]:
        connection = self._take(member, seconds)
        is_done = False
        try:
            connection.request("POST", path, data, self._headers())
            response = connection.getresponse()
            text = response.read()
            is_done = True
        except (OSError, http.client.HTTPException) as error:
            raise _LostReply(_words(error)) from None
        finally:
            if is_done:
                self._put_back(member, connection)
            else:
                connection.close()
        if response.status != http.client.OK:
            raise self._refusal(response.status, text)
        return text, response.headers.get("Date", "")

    def _authenticate(self, member: int, seconds: float) -> None:
        body: Body = {"name": self.place.user, "password": self.place.password}
        text, _ = self._post(member, "/v3/auth/authenticate", msgspec.json.encode(body), seconds)
        self._token = self._decoded(text, _TokenReply).token

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json"}
        return headers | ({"Authorization": self._token} if self._token else {})

    def _decoded(self, text: bytes, kind: type[_T]) -> _T:
        try:
            return msgspec.json.decode(text, type=kind, strict=False)
        except msgspec.DecodeError:
            raise self._is_not_etcd() from None

    def _is_not_etcd(self) -> NotAStore:
        return NotAStore(f"{self.place} does not answer like etcd", hint="check host and port")

    def _refusal(self, status: int, text: bytes) -> Exception:
        """Return the error for an answer that is one."""
        try:
            found = msgspec.json.decode(text, type=_ErrorReply, strict=False)
        except msgspec.DecodeError:
            return self._is_not_etcd()
        words = found.error.removeprefix("etcdserver: ")
        if found.code in {_UNAUTHENTICATED, _OUT_OF_RANGE}:
            return _StaleToken() if found.code == _UNAUTHENTICATED else CompactedRevision()
        if found.code == _DENIED or "auth" in words or "user name" in words:
            return Denied(f"{self.place}: {words}", hint="check user, password and role")
        if found.code == _INVALID or "larger than max" in words:
            return Invalid(f"{self.place}: {words}", hint="write fewer refs at once")
        if found.code == _EXHAUSTED and "space" in words:
            return Full(
                f"{self.place}: {words}", hint="compact and defragment etcd, or raise quota"
            )
        if found.code in {_EXHAUSTED, _GONE}:  # a lease that ran out while it was being attached
            return Busy(f"{self.place}: {words}", hint="try again")
        if found.code:
            return _LostReply(words)
        return self._is_not_etcd() if status < 500 else _LostReply(f"HTTP {status}")

    def _are_all(self, members: set[int]) -> bool:
        return len(members) == len(self.place.endpoints)

    def _unavailable(self, problems: dict[str, str], seconds: float) -> Error:
        said = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
        return Unavailable(f"etcd gave no answer in {seconds:.3g} s ({said})", hint=_hint(said))

    # -------------------- connections

    def _take(self, member: int, seconds: float) -> http.client.HTTPConnection:
        with self._lock:
            if self._process != os.getpid():  # a forked child must not use its parent's
                self._process = os.getpid()
                _close_all(self._idle)
            idle = self._idle.get(member)
            connection = idle.pop() if idle else None
        if connection is not None and connection.sock is not None:
            connection.sock.settimeout(seconds)
            return connection
        try:
            return self._connect(member, seconds)
        except OSError as error:
            is_final = isinstance(error, ConnectionRefusedError | socket.gaierror | ssl.SSLError)
            raise _NotSent(_words(error), is_final=is_final) from None

    def _connect(self, member: int, seconds: float) -> http.client.HTTPConnection:
        host, port = self.place.endpoints[member]
        connection = (
            http.client.HTTPConnection(host, port, timeout=seconds)
            if self.place.tls is None
            else http.client.HTTPSConnection(host, port, timeout=seconds, context=self.place.tls)
        )
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        return connection

    def _put_back(self, member: int, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.setdefault(member, []).append(connection)
                return
        with suppress(OSError):
            connection.close()


def _close_all(idle: _Idle) -> None:
    for connections in idle.values():
        for connection in connections:
            with suppress(OSError):
                connection.close()
    idle.clear()


def _hint(problems: str) -> str:
    """Return what to do about the reasons why no member answered."""
    if "certificate" in problems.lower():
        return "name the authority of its certificate by ca= in the URL, and its name as the host"
    if "Name or service not known" in problems or "name resolution" in problems:
        return "check the host names in the URL"
    return "check the cluster"


def _words(error: Exception) -> str:
    """Return what went wrong; `timed out` has no number, and `RemoteDisconnected` no words."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
