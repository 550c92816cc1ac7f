r"""Keys and values in etcd: which there are, and how they are written.

    <prefix>format                the version of this layout, and the id of the store
    <prefix>epoch                 a number that each collection raises
    <prefix>ref/<name>            the hash that a ref names, and how often it has moved
    <prefix>move/<name>\0<n>       one move; the lowest n is the newest, so that histories are read
                                  from their new end
    <prefix>fence/<name>          the highest token seen, and whether a lease granted it
    <prefix>lease/<name>          who has the lease; etcd removes it when it runs out

Values are JSON, in which bytes are base64. A ref that was removed has a record without a hash as
long as it has a history. In the store for objects, the refs `etcd/<id>` and `keep/<id>/…` belong to
this store; see `gc.py`.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from otolith.errors import Corrupt
from otolith.stores.base import Move
from otolith.stores.etcd.gateway import Body
from otolith.types import Hash

VERSION = 1
_LAST = (1 << 64) - 1
_R = TypeVar("_R", bound="Record")


class Record(msgspec.Struct, frozen=True):
    """What is stored under a key."""

    def encoded(self) -> bytes:
        """Return the value to store."""
        return msgspec.json.encode(self)


class FormatRecord(Record, frozen=True):
    """The first key of a store."""

    otolith: int
    id: str


class EpochRecord(Record, frozen=True):
    """How many collections there were."""

    epoch: int


class RefRecord(Record, frozen=True):
    """A ref; without a hash it was removed."""

    hash: bytes | None = None
    moves: int = 0


class EtcdMove(Record, frozen=True):
    """A move, and which write made it."""

    old: bytes | None
    new: bytes | None
    time: int
    note: str
    write: str

    def move(self, name: str) -> Move:
        """Return it as the contract has it."""
        old, new = (Hash(side) if side is not None else None for side in (self.old, self.new))
        return Move(name, old, new, self.time, self.note)


class FenceRecord(Record, frozen=True):
    """The highest token seen under a name."""

    token: int = 0
    leased: bool = False


class LeaseRecord(Record, frozen=True):
    """Who has a lease now."""

    holder: str
    token: int


def decode(value: bytes, kind: type[_R]) -> _R:
    """Return a value as a record.

    Raises:
        Corrupt: it is not one.
    """
    try:
        return msgspec.json.decode(value, type=kind)
    except msgspec.DecodeError:
        raise Corrupt(
            f"a value in etcd is not a {kind.__name__}", hint="restore etcd from a snapshot"
        ) from None


class Keys:
    """The keys of one store."""

    def __init__(self, prefix: str) -> None:
        self.all = prefix.encode()
        self.format = self.all + b"format"
        self.epoch = self.all + b"epoch"
        self.refs = self.all + b"ref/"
        self.moves = self.all + b"move/"

    def ref(self, name: str) -> bytes:
        """Return the key of a ref, or the start of the keys of several."""
        return self.refs + name.encode()

    def name_of_ref(self, key: bytes) -> str:
        """Return the name of the ref with this key."""
        return key[len(self.refs) :].decode()

    def history(self, name: str) -> bytes:
        """Return what the keys of a ref's moves start with."""
        return self.moves + name.encode() + b"\0"

    def move(self, name: str, number: int) -> bytes:
        """Return the key of a ref's move; the first has the number 0."""
        return self.history(name) + b"%016x" % (_LAST - number)

    def name_of_move(self, key: bytes) -> str:
        """Return the name of the ref to whose history a key belongs."""
        return key[len(self.moves) :].rpartition(b"\0")[0].decode()

    def fence(self, name: str) -> bytes:
        """Return the key of the highest token seen under a name."""
        return self.all + b"fence/" + name.encode()

    def lease(self, name: str) -> bytes:
        """Return the key of a lease."""
        return self.all + b"lease/" + name.encode()


# -------------------- parts of requests


def end_of(start: bytes) -> bytes:
    """Return the key after all keys that start like this."""
    return start[:-1] + bytes([start[-1] + 1])


def get(key: bytes) -> Body:
    """Read a key."""
    return {"request_range": {"key": key}}


def put(key: bytes, value: Record, lease: int = 0) -> Body:
    """Set a key; with a lease, until that runs out."""
    body: Body = {"key": key, "value": value.encoded()}
    return {"request_put": body | ({"lease": str(lease)} if lease else {})}


def delete(key: bytes, end: bytes | None = None) -> Body:
    """Remove a key, or all from this one up to an end."""
    body: Body = {"key": key}
    return {"request_delete_range": body | ({"range_end": end} if end is not None else {})}


def unchanged(key: bytes, revision: int) -> Body:
    """Compare: the key was last written in this revision (0: it is absent)."""
    return {"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": str(revision)}


def created(key: bytes, revision: int) -> Body:
    """Compare: the key is there since this revision, however often it was written since."""
    return {"key": key, "target": "CREATE", "result": "EQUAL", "create_revision": str(revision)}
