"""Errors of Postgres and of its client as ours, without secrets.

A statement that the server refused on a connection that still works has changed nothing. If the
connection broke, nobody knows: that is `Unavailable`.

The client reports a failed login only as text in the language of the server; what is not understood
is `Unavailable` as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import psycopg

from otolith.errors import (
    Busy,
    Corrupt,
    Denied,
    Error,
    Full,
    Invalid,
    ReadOnly,
    StoreNotFound,
    Unavailable,
)

_WAIT = "wait, and try again"
_AGAIN = "try again"
_RIGHTS = "check the user, the password and its rights"

# The start of an SQLSTATE; the longest that fits is taken.
_KINDS: dict[str, tuple[type[Error], str]] = {
    "08": (Unavailable, _WAIT),
    "0A": (Invalid, "check the server's version"),
    "22": (Invalid, "check the options of the URL"),
    "25006": (ReadOnly, "connect to the primary: add target_session_attrs=read-write to the URL"),
    "28": (Denied, _RIGHTS),
    "3D": (StoreNotFound, "create the database, or check the URL"),
    "3F": (StoreNotFound, "check the URL, or open it with create"),
    "40": (Busy, _AGAIN),
    "42501": (Denied, _RIGHTS),
    "42883": (StoreNotFound, "the schema was changed since: open the store again"),
    "42P01": (StoreNotFound, "the schema was changed since: open the store again"),
    "53": (Full, "make room on the server"),
    "53300": (Busy, "raise max_connections of the server, or lower pool= in the URL"),
    "54": (Invalid, "use shorter names, or write less at once"),
    "55P03": (Busy, _AGAIN),
    "57": (Unavailable, _WAIT),
    "57014": (Busy, "raise statement_timeout of the server"),
    "58": (Full, "check the disk of the server"),
    "XX": (Corrupt, "check the log of the server"),
}

# What a failed login says, for its SQLSTATE does not arrive.
_LOGIN = (
    (re.compile(r"password|authentication|pg_hba|role .* does not exist|permission"), "28"),
    (re.compile(r"database .* does not exist"), "3D"),
    (re.compile(r"too many (clients|connections)|connection slots|connection limit"), "53300"),
    (re.compile(r"invalid \S+ value"), "22"),
)

# What is wrong with the address or with encryption, and the option of the URL that mends it.
_ADDRESS: tuple[tuple[re.Pattern[str], type[Error], str], ...] = (
    (
        re.compile(r"does not match host name"),
        Denied,
        "use the host name of the certificate in the URL; hostaddr= gives its address",
    ),
    (
        re.compile(r"certificate verify failed|root certificate"),
        Denied,
        "name the authority of its certificate by sslrootcert=FILE in the URL",
    ),
    (
        re.compile(r"valid client certificate"),
        Denied,
        "name a certificate of yours by sslcert=FILE and sslkey=FILE in the URL",
    ),
    (re.compile(r"no encryption|SSL off"), Denied, "add sslmode=require to the URL"),
    (
        re.compile(r"does not support SSL"),
        Unavailable,
        "turn ssl on in the server, or use sslmode=prefer in the URL where nobody listens in",
    ),
    (
        re.compile(r"(resolve|translate) host|name resolution|getaddrinfo"),
        Unavailable,
        "check the name of the host in the URL",
    ),
)


class Silence(psycopg.OperationalError):
    """The server has not answered for too long."""


def is_lost(connection: psycopg.Connection[tuple[object, ...]], error: psycopg.Error) -> bool:
    """Tell whether a connection cannot be used after an error."""
    return connection.closed or connection.broken or isinstance(error, Silence)


def login_failed(error: psycopg.Error, place: str, secrets: Iterable[str]) -> Error:
    """Return our error for a connection that could not be made."""
    text = str(error)
    for words, kind, hint in _ADDRESS:
        if words.search(text):
            return kind(without(secrets, " ".join(f"{place}: {text}".split())), hint=hint)
    state = next((state for words, state in _LOGIN if words.search(text)), "08")
    return _told(state, f"{place}: {text}", secrets)


def statement_failed(
    error: psycopg.Error, place: str, secrets: Iterable[str], *, lost: bool
) -> Error:
    """Return our error for a statement that failed."""
    text = error.diag.message_primary or str(error) or type(error).__name__
    state = error.sqlstate or "08"
    if lost and state[:2] not in {"08", "57"}:
        state = "08"
    return _told(state, f"{place}: {text}", secrets)


def _told(state: str, text: str, secrets: Iterable[str]) -> Error:
    fits = (state[:length] for length in (5, 2) if state[:length] in _KINDS)
    kind, hint = _KINDS[next(fits, "08")]
    return kind(without(secrets, " ".join(text.split())), hint=hint)


def without(secrets: Iterable[str], text: str) -> str:
    """Return a text in which no secret is left."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
