"""What lies under the keys.

    root             the one value that changes: where everything else begins
    object-<hash>    an object, as it is
    part-<hash>      a part of the book-keeping: eight random bytes, then a page, block or segment

A *page* has the refs and fences whose names hash to its number. A *block* has some moves of one ref
and names the block below it. A *segment* is a sorted run of the hashes of objects.

Every part is unlike any other because of its random bytes. So a part that was replaced can be
removed at once, and nobody can have made the same one again meanwhile.
"""

from __future__ import annotations

import os
from typing import NamedTuple, TypeVar

import msgspec

from otolith.errors import Corrupt, FormatTooNew, NotAStore
from otolith.stores.rules import HASH_BYTES, digest
from otolith.types import Hash

ROOT = "root"
OBJECT = "object-"
PART = "part-"
PAGES = 64
BLOCK_MOVES = 16
NONCE_BYTES = 8
STAMPS = 32

_MAGIC = b"otolith-kv"
_VERSION = 1
_HEAD = len(_MAGIC) + 1
_Record = TypeVar("_Record")


class Entry(NamedTuple):
    """A ref: what it names, its newest block, and how many moves are remembered."""

    hash: Hash | None = None
    block: Hash | None = None
    moves: int = 0


class Page(msgspec.Struct, array_like=True):
    """The refs and fences of one number."""

    refs: dict[str, Entry] = msgspec.field(default_factory=dict)
    fences: dict[str, int] = msgspec.field(default_factory=dict)


class Step(NamedTuple):
    """A move without its name."""

    old: Hash | None
    new: Hash | None
    time: int
    note: str


class Block(msgspec.Struct, array_like=True):
    """Some moves of one ref, oldest first, above those of another block."""

    below: Hash | None
    steps: list[Step]


class Segment(NamedTuple):
    """A sorted run of hashes of objects, and how many they are."""

    part: Hash
    length: int


class Root(msgspec.Struct, array_like=True, frozen=True):
    """Where everything begins.

    `stamps` are random bytes of this root and of some before it, newest first. They make each root
    unlike all others, and tell a writer whose swap got no answer whether it has happened.
    """

    stamps: list[bytes] = []
    objects: int = 0
    stored_bytes: int = 0
    pages: dict[int, Hash] = {}
    segments: list[Segment] = []


def object_key(name: Hash) -> str:
    return OBJECT + name.hex()


def part_key(name: Hash) -> str:
    return PART + name.hex()


def page_of(name: str) -> int:
    """Return the number of the page that a ref or fence is on."""
    return digest(name.encode())[0] % PAGES


def new_part(body: bytes) -> tuple[Hash, bytes]:
    """Return a part that is unlike any other, and its name."""
    value = os.urandom(NONCE_BYTES) + body
    return digest(value), value


def encode(record: object) -> bytes:
    return msgspec.msgpack.encode(record)


def decode(data: bytes, kind: type[_Record]) -> _Record:
    """Return a record.

    Raises:
        Corrupt: these bytes are none.
    """
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"a {kind.__name__.lower()} cannot be read: {error}") from error


def encode_root(root: Root) -> bytes:
    body = encode(root)
    return _MAGIC + bytes([_VERSION]) + digest(body) + body


def decode_root(value: bytes | None, where: str) -> Root:
    """Return the root that a value holds; no value is an empty store.

    Raises:
        NotAStore: something else is there.
        FormatTooNew: a newer otolith wrote it.
        Corrupt: its checksum is wrong.
    """
    if value is None:
        return Root()
    if value[: len(_MAGIC)] != _MAGIC:
        raise NotAStore(f"{where} has something else under {ROOT!r}", hint="use another prefix")
    if value[len(_MAGIC) : _HEAD] > bytes([_VERSION]):
        raise FormatTooNew(f"{where} was written by a newer otolith", hint="upgrade otolith")
    body = value[_HEAD + HASH_BYTES :]
    if value[_HEAD : _HEAD + HASH_BYTES] != digest(body):
        raise Corrupt(f"{where}: the value under {ROOT!r} is damaged", hint="restore it")
    return decode(body, Root)
