"""A client of a Redis server: address, connections, calls, errors, and the server's settings.

A call is sent once. redis-py would repeat one whose reply was lost, and a commit would be made
twice; so its connections are used directly, with its retries off. A connection that the server has
closed while it was idle is replaced before anything is sent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from re import Pattern
from socket import socket
from threading import Lock
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import unquote, urlsplit
from weakref import finalize

from redis import exceptions
from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.retry import Retry

from otolith.errors import (
    Busy,
    Closed,
    Denied,
    Error,
    Full,
    Invalid,
    ReadOnly,
    Unavailable,
    Unsupported,
)
from otolith.stores.base import ServerFacts, ServerRisk
from otolith.stores.redis.scripts import LuaScript
from otolith.stores.server_url import check_options, secrets_of, without_secrets
from otolith.stores.sockets import has_news

_TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs")
_OPTIONS = {"prefix", "timeout", "failover", "socket", *_TLS_OPTIONS}
_IDLE_CONNECTIONS = 64
_CODES = re.compile(r"\b(NOSCRIPT|OOM|MISCONF|READONLY|NOPERM|NOAUTH|WRONGPASS|BUSY|LOADING)\b")
_NO_DATABASE = re.compile(r"DB index is out of range|invalid DB index")
_NO_HOST = re.compile(r"(?i)name or service not known|name resolution|getaddrinfo|nodename")
_CERTIFICATE = re.compile(r"(?i)certificate")
_ENDED = re.compile(r"(?i)reset by peer|closed by server")
_NO_TLS = re.compile(r"(?i)wrong.version.number|record layer failure|timeout connecting")
_MOST_SCANS, _SCANNED_TOGETHER = 100, 1000
_FORBIDDEN = re.compile(r"user executing the script can't")  # in a script; elsewhere it is NOPERM


Word = str | bytes | int | float
"""A part of a command."""


class RedisConnection(Protocol):
    """What is used of a connection of redis-py."""

    _sock: socket | None

    def connect(self) -> None:
        """Connect, unless it is."""

    def disconnect(self) -> None:
        """Close it."""

    def can_read(self, timeout: float = 0) -> bool:
        """Tell whether a reply has come, or the server has closed it."""

    def send_packed_command(self, command: Sequence[bytes]) -> None:
        """Send bytes."""

    def read_response(self, *, disable_decoding: bool) -> Any:
        """Return one reply, or raise what it says."""


def pack(words: Sequence[Word]) -> bytes:
    """Return a command as it is sent; the packer of redis-py takes three times as long."""
    packed = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word if isinstance(word, bytes) else str(word).encode()
        packed += (b"$%d\r\n" % len(data), data, b"\r\n")
    return b"".join(packed)


class RedisAddress(NamedTuple):
    """A server, a database and a prefix, out of a URL."""

    shown: str
    """The URL without its secrets."""
    secrets: frozenset[str]
    arguments: dict[str, Any]
    is_tls: bool
    prefix: str
    timeout_seconds: float
    accepts_failover: bool

    def __repr__(self) -> str:
        """Show where it is, without secrets."""
        return f"<{type(self).__name__} {self.shown}>"

    @classmethod
    def of(cls, url: str) -> RedisAddress:
        """Parse `redis://user:password@host:6379/0?prefix=agents&timeout=10`.

        Raises:
            Invalid: a part of it has no meaning here.
        """
        options = check_options(url, _OPTIONS)
        parts = urlsplit(url)
        prefix = options.get("prefix", "otolith")
        if not prefix or set("{}\0") & set(prefix):
            raise Invalid(f"{prefix!r} cannot be a prefix of keys", hint="use letters and digits")
        if options.get("failover", "accepted") != "accepted":
            raise Invalid("failover must be accepted, or be left out", hint="?failover=accepted")
        timeout = _seconds(options.get("timeout", "10"))
        arguments: dict[str, Any] = {
            "db": _database(parts.path),
            "username": unquote(parts.username) if parts.username else None,
            "password": unquote(parts.password) if parts.password else None,
            "socket_timeout": timeout,
            "socket_connect_timeout": timeout,
        }
        if "socket" in options:
            del arguments["socket_connect_timeout"]
            arguments["path"] = options["socket"]
        else:
            arguments |= {"host": parts.hostname or "localhost", "port": _port(parts)}
        is_tls = parts.scheme == "rediss"
        if is_tls:
            arguments |= _tls_arguments(options)
        return cls(
            without_secrets(url),
            frozenset(secrets_of(url) | {arguments["password"] or ""}) - {""},
            arguments,
            is_tls,
            prefix,
            timeout,
            "failover" in options,
        )

    def unreachable(self, text: str) -> Error:
        """Return the error for what the client says when it cannot use the server at all."""
        if _CERTIFICATE.search(text):
            return Denied(
                f"{self.shown}: {text}",
                hint="name the authority of its certificate by ssl_ca_certs=FILE in the URL, and"
                " use the host name of the certificate",
            )
        if _NO_DATABASE.search(text):
            return Invalid(
                f"{self.shown}: the server has no database {self.arguments['db']}",
                hint="use a lower number as the path of the URL, such as /0, and another prefix=",
            )
        hint = "check that the server runs and is reachable"
        if _NO_HOST.search(text):
            hint = "check the name of the host in the URL"
        elif self.is_tls and _NO_TLS.search(text):
            hint += "; one without TLS needs redis://"
        elif not self.is_tls and _ENDED.search(text):
            hint += "; one that expects TLS needs rediss://"
        return Unavailable(f"{self.shown}: {text}", hint=hint)

    def connection(self) -> RedisConnection:
        """Return a connection that is not open yet."""
        kind: Any = SSLConnection if self.is_tls else Connection
        if "path" in self.arguments:
            kind = UnixDomainSocketConnection
        return cast(
            "RedisConnection", kind(**self.arguments, protocol=2, retry=Retry(NoBackoff(), 0))
        )


def _tls_arguments(options: dict[str, str]) -> dict[str, Any]:
    """Return the arguments of an encrypted connection; the name of the host is checked as well."""
    given = {name: options[name] for name in _TLS_OPTIONS if name in options}
    for name, value in given.items():
        if name != "ssl_cert_reqs" and not os.access(value, os.R_OK):
            raise Invalid(f"{name} names {value}, which cannot be read", hint="check the path")
    return {**given, "ssl_check_hostname": given.get("ssl_cert_reqs") != "none"}


def _seconds(given: str) -> float:
    with suppress(ValueError):
        if 0 < float(given) < 1e6:
            return float(given)
    raise Invalid(f"timeout must be a number of seconds, got {given!r}", hint="such as timeout=10")


def _database(path: str) -> int:
    number = path.strip("/") or "0"
    if not number.isdecimal():
        raise Invalid(
            f"the path of a Redis URL is the number of a database, got {number!r}",
            hint="such as redis://host:6379/0?prefix=agents",
        )
    return int(number)


def _port(parts: Any) -> int:
    try:
        return int(parts.port or 6379)
    except ValueError:
        raise Invalid("the port of the URL is not a number", hint="such as host:6379") from None


class Client:
    """Connections to one server. Threads may share it; a forked child makes its own."""

    def __init__(self, address: RedisAddress) -> None:
        self.address = address
        self.base = f"{{{address.prefix}}}:"
        self.channel = f"{self.base}moved:{address.arguments['db']}"
        self._lock = Lock()
        self._idle: list[RedisConnection] = []
        self._process = os.getpid()
        self._is_closed = False
        finalize(self, _disconnect, self._idle)  # if nobody closes it

    def key(self, name: str | bytes) -> bytes:
        """Return a key of this store."""
        return self.base.encode() + (name if isinstance(name, bytes) else name.encode())

    def call(self, *words: Word) -> Any:
        """Send one command and return the reply.

        Raises:
            Closed, Denied, Busy, Full, ReadOnly: it had no effect.
            Unavailable: it may have had.
        """
        with self._borrowed() as wire:
            wire.send_packed_command([pack(words)])
            return wire.read_response(disable_decoding=True)

    def call_all(self, commands: Sequence[Sequence[Word]]) -> list[Any]:
        """Send commands in one round trip and return the replies; raise the first error of any."""
        with self._borrowed() as wire:
            wire.send_packed_command([b"".join(map(pack, commands))])
            replies: list[Any] = []
            for _ in commands:
                try:
                    replies.append(wire.read_response(disable_decoding=True))
                except exceptions.ResponseError as error:  # the other replies are still to come
                    replies.append(error)
            for reply in replies:
                if isinstance(reply, exceptions.ResponseError):
                    raise reply
            return replies

    def run(self, script: LuaScript, *words: Word) -> Any:
        """Run a script, which is sent in full only to a server that does not know it."""
        with self._borrowed() as wire:
            try:
                wire.send_packed_command([pack(("EVALSHA", script.sha, 1, self.base, *words))])
                return wire.read_response(disable_decoding=True)
            except exceptions.NoScriptError:
                wire.send_packed_command([pack(("EVAL", script.text, 1, self.base, *words))])
                return wire.read_response(disable_decoding=True)

    def check_open(self) -> None:
        """Raise Closed after `close`."""
        if self._is_closed:
            raise Closed(f"{self.address.shown} was closed", hint="open it again")

    def close(self) -> None:
        """Close all connections. Closing twice is harmless."""
        with self._lock:
            self._is_closed = True
            _disconnect(self._idle)

    def dial(self) -> RedisConnection:
        """Return a new connection, for a use of its own.

        Raises:
            Closed, Denied, Unavailable: there is none.
        """
        self.check_open()
        wire = self.address.connection()
        with self.translated():
            wire.connect()
        return wire

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn errors of redis-py into ours, without a password in them or behind them."""
        try:
            yield
        except (exceptions.RedisError, OSError, UnicodeError) as error:
            raise self._error(error) from None

    @contextmanager
    def _borrowed(self) -> Iterator[RedisConnection]:
        """Lend a connection. After an error whose reply may still come it is not used again."""
        self.check_open()
        with self.translated():
            wire = self._idle_wire() or self.address.connection()
            is_sound = False
            try:
                wire.connect()
                yield wire
                is_sound = True
            except exceptions.ResponseError:
                is_sound = True
                raise
            finally:
                self._return(wire, is_sound=is_sound)

    def _idle_wire(self) -> RedisConnection | None:
        """Return an idle connection that the server has not closed."""
        while True:
            with self._lock:
                if self._process != os.getpid():  # those of the parent are not ours to use
                    self._idle.clear()
                    self._process = os.getpid()
                if not self._idle:
                    return None
                wire = self._idle.pop()
            # Its `can_read` takes several times as long, for it reads what has arrived.
            link = wire._sock  # noqa: SLF001 - redis-py shows it nowhere else
            if link is not None and not has_news(link.fileno()):
                return wire
            wire.disconnect()

    def _return(self, wire: RedisConnection, *, is_sound: bool) -> None:
        with self._lock:
            if is_sound and not self._is_closed and len(self._idle) < _IDLE_CONNECTIONS:
                self._idle.append(wire)
                return
        wire.disconnect()

    def _error(self, error: Exception) -> Error:
        """Return what an error of redis-py means to a user of the store."""
        if isinstance(error, UnicodeError):
            return Invalid("a name is not text", hint="leave out lone surrogates")
        text = str(error)
        for secret in self.address.secrets:
            text = text.replace(secret, "***")
        found = _CODES.search(f"{getattr(error, 'status_code', None) or ''} {text}")
        code = found[1] if found else ""
        where = self.address.shown
        denied = (exceptions.AuthenticationError, exceptions.NoPermissionError)
        if (
            isinstance(error, denied)
            or code in {"NOAUTH", "WRONGPASS", "NOPERM"}
            or (_FORBIDDEN.search(text))
        ):
            return Denied(f"{where}: {text}", hint="check the user and password in the URL")
        if isinstance(error, exceptions.OutOfMemoryError) or code == "OOM":
            return Full(
                f"{where}: the server has reached its maxmemory",
                hint="prune, or raise maxmemory; nothing was written",
            )
        if code == "MISCONF":
            return Full(f"{where}: {text}", hint="the server cannot write to its disk")
        if isinstance(error, exceptions.ReadOnlyError) or code == "READONLY":
            return ReadOnly(
                f"{where} is a read-only replica", hint="use the address of its primary"
            )
        if isinstance(error, exceptions.BusyLoadingError) or code in {"BUSY", "LOADING"}:
            return Busy(f"{where}: {text}", hint="try again")
        if isinstance(error, exceptions.MovedError | exceptions.AskError):
            return Unsupported(
                f"{where} is a node of a cluster that does not have these keys",
                hint="use the address of the node that has them, or another server",
            )
        return self.address.unreachable(text)


def foreign_keys(client: Client, known: Pattern[bytes]) -> list[bytes]:
    """Return keys below our prefix that are not ours, as far as a short look finds them."""
    pattern = re.sub(r"([\\*?\[\]])", r"\\\1", client.base) + "*"
    base, found, cursor = client.base.encode(), list[bytes](), b"0"
    for _ in range(_MOST_SCANS):
        reply = _answer(client, "SCAN", cursor, "MATCH", pattern, "COUNT", _SCANNED_TOGETHER)
        if not isinstance(reply, list):  # it is forbidden here
            break
        cursor, keys = reply
        found += [key for key in keys if not known.match(key, len(base))]
        if cursor == b"0" or found:
            break
    return found


def _disconnect(idle: list[RedisConnection]) -> None:
    while idle:
        idle.pop().disconnect()


class ServerSettings(NamedTuple):
    """The settings that decide what a store can promise; empty where the server does not tell."""

    has_append_only_file: bool
    sync: str
    """When that file is synced: "always", "everysec" or "no"."""
    eviction: str
    """What the server drops when its memory is full: "noeviction", "allkeys-lru" ..."""
    software: str = "Redis"
    replicas: int | None = None

    @classmethod
    def of(cls, client: Client) -> ServerSettings:
        """Ask a server. One that runs for others often forbids CONFIG, and allows INFO."""
        config = _answer(client, "CONFIG", "GET", "appendfsync")
        sync = config[1].decode() if isinstance(config, list) and len(config) > 1 else ""
        text = _answer(client, "INFO")
        lines = text.decode(errors="replace").splitlines() if isinstance(text, bytes) else []
        info = dict(line.split(":", 1) for line in lines if ":" in line)
        version = info.get("redis_version", "")
        software = f"Redis {version}".strip()
        if "valkey_version" in info:
            software = f"Valkey {info['valkey_version']}"
        replicas = info.get("connected_slaves")
        return cls(
            info.get("aof_enabled") == "1",
            sync,
            info.get("maxmemory_policy", ""),
            software,
            int(replicas) if replicas is not None else None,
        )

    def facts(self) -> ServerFacts:
        """Return what somebody who relies on this server has to know."""
        risks: list[ServerRisk] = []
        remedy = "set appendonly yes and appendfsync always"
        if not self.has_append_only_file:
            problem = "no append-only file: a restart of the server can lose acknowledged commits"
            risks.append(ServerRisk(problem, remedy))
        elif self.sync != "always":
            when = {"everysec": "every second", "no": "now and then"}.get(self.sync, "unknown when")
            problem = f"its file is synced {when}: a power cut can lose acknowledged commits"
            risks.append(ServerRisk(problem, remedy))
        if self.replicas != 0:
            problem = "replicas are asynchronous: a failover can lose acknowledged commits"
            risks.append(ServerRisk(problem, "where none may be lost, use Postgres or etcd"))
        return ServerFacts(self.software, tuple(risks))

    def is_durable(self, durability: str) -> bool:
        """Tell whether an acknowledged write survives the server.

        With "fast" it is enough that a crash of the process, but not a power cut, is survived.
        """
        enough = {"always"} if durability == "full" else {"always", "everysec"}
        return self.has_append_only_file and self.sync in enough

    def check_eviction(self, place: str) -> None:
        """Raise Unsupported if the server may drop any key when its memory is full."""
        if self.eviction.startswith("allkeys"):
            raise Unsupported(
                f"{place}: with maxmemory-policy {self.eviction} the server drops parts of states"
                " when its memory is full",
                hint="set maxmemory-policy noeviction, or use this server only as a cache",
            )


def _answer(client: Client, *words: Word) -> object:
    """Return the reply to a question that the server may forbid."""
    try:
        return client.call(*words)
    except (Denied, Unavailable):
        return None
