"""What is wrong inside one object, beyond its hash: order, counts, values that do not decode."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from otolith.core import Encoding, decode_node, is_link, node_kind
from otolith.errors import Corrupt, UnknownType


def flaws(data: bytes, encoding: Encoding) -> Iterator[str]:
    """Yield what is wrong with an object."""
    kind = node_kind(data)
    if kind == "packed":
        yield from _undecodable(data[1:], encoding)
    if kind not in ("map", "list"):
        return
    node = decode_node(data)
    if any(a >= b for a, b in pairwise(node.keys)):
        yield "the keys of a map node are not in order"
    for key in node.keys:
        yield from _bad_key(key, encoding)
    for payload in node.payloads if node.level == 0 else ():
        if not is_link(payload):
            yield from _undecodable(payload, encoding)


def _undecodable(data: bytes, encoding: Encoding) -> Iterator[str]:
    try:
        encoding.decode(data)
    except UnknownType:
        return  # fine where the type is known
    except Corrupt as error:
        yield error.message


def _bad_key(key: bytes, encoding: Encoding) -> Iterator[str]:
    try:
        encoding.unkey(key)
    except UnknownType:
        return
    except (Corrupt, UnicodeDecodeError) as error:
        yield f"a key cannot be decoded: {error}"
