"""Makes store files that no otolith would: crafted schemas, pages, rows, frames and trees."""

from __future__ import annotations

import random
from binascii import crc_hqx
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import zstandard
from blake3 import blake3
from msgspec.msgpack import encode

import otolith

PAGE_BYTES = 4096
ENDLESS = "with recursive n(x) as (select 1 union all select x + 1 from n) select x from n"


def make_store(path: Path) -> None:
    """Make a sound store with a bit of everything: trees, differences, branches, moves, fences."""
    chance = random.Random(1)
    clock = iter(range(1_000_000, 1 << 60, 1000)).__next__
    with otolith.open(path, clock=clock, author="a", durability="fast") as repo:
        state = repo.session("s")
        state["table"] = {f"key {number}": f"value {number}" * 4 for number in range(400)}
        state["list"] = list(range(9000))
        state["blob"] = chance.randbytes(90_000)
        state.commit("first", fences={"turn": 3})
        branch = state.fork("side")
        branch["table/key 7"] = "other"
        branch.commit("side")
        for number in range(12):
            state[f"table/key {number}"] = number
            state.commit(f"change {number}")
        repo.tag("kept", "s/main")
        other = repo.session("gone")
        other["x"] = list(range(5000))
        other.commit()
        repo.delete_branch("gone", "main")


def connect(path: Path) -> apsw.Connection:
    """Open a file to be crafted."""
    connection = apsw.Connection(str(path))
    connection.execute("pragma writable_schema=on")
    return connection


# Schemas


def craft_schema(path: Path, change: str) -> None:
    """Change what the file says its tables are."""
    connection = connect(path)
    with suppress(apsw.Error):  # SQLite itself refuses some; the file is then as it was
        connection.execute(change)
        connection.pragma("schema_version", 999)
    connection.close()


_CHEAP = ("key + 1", "length(data)", "key collate nocase", "key desc")
_DEAR = (
    "length(hex(zeroblob(100000000)))", "random()", "printf('%.*c', 100000000, 'x')",
    "abs(-9223372036854775807 - 1)", "(select 1)", "replace(data, 'x', zeroblob(1000000))",
)  # fmt: skip
_NEW = "update sqlite_schema set sql='{}' where name='{}'"
_SAFE_NAME = "insert into sqlite_schema select '{}', '{}', 'object', {}, '{}'"
_ANY_ROOT = "(select rootpage from sqlite_schema where name='object_key')"
SCHEMA_CHANGES = [
    *(f"create index more on object({each})" for each in _CHEAP),
    *(f"create index more on object(id) where {each} > 0" for each in _CHEAP),
    *(
        _SAFE_NAME.format(
            "index", name, _ANY_ROOT, f"create index {name} on object({each})".replace("'", "''")
        )
        for each in (*_CHEAP, *_DEAR)
        for name in ("sqlite_x", "sqlite_autoindex_x", "sqlite_stat1", "more")
    ),
    *(
        _NEW.format(f"create index object_key on object({each})".replace("'", "''"), "object_key")
        for each in (*_CHEAP, *_DEAR)
    ),
    f"drop table {{}}; create view {{}} as {ENDLESS}".format("move", "move"),
    f"drop table fence; create view fence as select x name, x token, x sum from ({ENDLESS})",
    f"create temp view v as {ENDLESS}",
    "create trigger t after insert on move begin delete from object; end",
    "create trigger t before update on ref begin select raise(ignore); end",
    _SAFE_NAME.format("trigger", "sqlite_t", 0, "create trigger sqlite_t after insert on object begin delete from ref; end"),  # noqa: E501
    _SAFE_NAME.format("view", "sqlite_v", 0, f"create view sqlite_v as {ENDLESS}"),
    _SAFE_NAME.format("table", "sqlite_stat1", 3, "create table sqlite_stat1(tbl, idx, stat, more)"),  # noqa: E501
    _SAFE_NAME.format("table", "sqlite_sequence", 3, "create table sqlite_sequence(name, seq)"),
    "create table more(x primary key, y generated always as (x || x)) without rowid",
    "create virtual table more using rtree(a, b, c)",
    "alter table object add column more default 7",
    "alter table ref add column more generated always as (length(name))",
    "alter table fence rename to other",
    "drop table move", "drop table object", "drop index object_key", "drop table fence",
    "update sqlite_schema set rootpage=rootpage+1 where type='table'",
    "update sqlite_schema set rootpage=(select rootpage from sqlite_schema where name='move') where name='object'",  # noqa: E501
    "update sqlite_schema set rootpage=(select rootpage from sqlite_schema where name='ref') where name='object_key'",  # noqa: E501
    "update sqlite_schema set rootpage=1 where name='ref'",
    "update sqlite_schema set rootpage=99999999 where name='move'",
    "update sqlite_schema set rootpage=0 where name='move'",
    "update sqlite_schema set name='ref' where name='fence'",
    "update sqlite_schema set tbl_name='ref' where name='object_key'",
    "update sqlite_schema set type='view' where name='ref'",
    "update sqlite_schema set sql=null where name='ref'",
    "update sqlite_schema set sql=upper(sql)",
    "update sqlite_schema set name=upper(name)",
    "update sqlite_schema set sql=replace(sql, 'text', 'blob')",
    "update sqlite_schema set sql=replace(sql, ' without rowid', '')",
    "update sqlite_schema set sql=replace(sql, 'primary key', 'primary key desc')",
    "update sqlite_schema set sql=replace(sql, 'name text', 'name text collate nocase')",
    "insert into sqlite_schema select * from sqlite_schema where name='ref'",
    "insert into sqlite_schema select type, name, tbl_name, rootpage, 'create table ref(x)' from sqlite_schema where name='ref'",  # noqa: E501
    _NEW.format("create table object(id integer primary key, key integer not null, data blob not null, more)", "object"),  # noqa: E501
    _NEW.format("create table object(id integer primary key, key integer not null, data as (zeroblob(1000000000)))", "object"),  # noqa: E501
    _NEW.format("create table object(id integer primary key, key integer not null check(key > 9), data blob not null)", "object"),  # noqa: E501
    _NEW.format("create table ref(", "ref"),
    _NEW.format("select 1", "ref"),
    "analyze; update sqlite_stat1 set stat='1 1 1 1 1 1 99999999999999999999'",
    "analyze; insert into sqlite_stat1 values('object', 'object_key', zeroblob(100000))",
    "pragma journal_mode=delete; pragma auto_vacuum=none; vacuum",
    "pragma journal_mode=delete; pragma auto_vacuum=full; vacuum",
    "pragma journal_mode=delete; pragma page_size=512; vacuum",
    "pragma journal_mode=delete; pragma page_size=65536; vacuum",
    "pragma user_version=0", "pragma user_version=-1", "pragma user_version=2", "pragma application_id=0",  # noqa: E501
    "pragma default_cache_size=2000000000",
]  # fmt: skip


# Bytes


def craft_bytes(path: Path, chance: random.Random) -> str:
    """Flip bits, overwrite numbers, swap, copy or cut pages; half of it where structure is."""
    data = bytearray(path.read_bytes())
    pages = len(data) // PAGE_BYTES
    kind = chance.choice(
        ("flip", "flip", "flip", "header", "number", "swap", "copy", "cut", "zero")
    )
    page = chance.randrange(pages) * PAGE_BYTES
    if kind == "flip":
        for _ in range(chance.choice((1, 1, 1, 4, 40))):
            place = chance.randrange(100) if chance.random() < 0.5 else chance.randrange(PAGE_BYTES)
            data[chance.randrange(pages) * PAGE_BYTES + place] ^= 1 << chance.randrange(8)
    elif kind == "header":
        data[chance.randrange(100)] = chance.randrange(256)
    elif kind == "number":
        at = page + chance.randrange(0, 120)
        data[at : at + 4] = chance.choice(
            (bytes(4), b"\xff" * 4, chance.randrange(pages + 2).to_bytes(4, "big"))
        )
    elif kind in ("swap", "copy"):
        other = chance.randrange(pages) * PAGE_BYTES
        mine, theirs = data[page : page + PAGE_BYTES], data[other : other + PAGE_BYTES]
        data[page : page + PAGE_BYTES] = theirs
        if kind == "swap":
            data[other : other + PAGE_BYTES] = mine
    elif kind == "cut":
        del data[chance.randrange(len(data)) :]
    else:
        data[page : page + PAGE_BYTES] = bytes(PAGE_BYTES)
    path.write_bytes(data)
    return f"{kind} at {page}"


def craft_circle(path: Path, table: str) -> None:
    """Make the tree of a table twelve pages high, each of which leads to the next 300 times."""
    connection = connect(path)
    query = "select rootpage from sqlite_schema where name=?"
    found: Any = connection.execute(query, (table,)).fetchall()
    ((root,),) = found
    connection.close()
    data = bytearray(path.read_bytes())
    pages = len(data) // PAGE_BYTES
    first = data[(root - 1) * PAGE_BYTES]
    is_index = first in (2, 10)
    # The old root becomes the leaf at the end of all ways.
    moved = pages + 13
    leaf = bytes(data[(root - 1) * PAGE_BYTES : root * PAGE_BYTES])
    new = [_inner(pages + number + 2, is_index) for number in range(1, 12)]
    new.append(_inner(moved, is_index))
    data[(root - 1) * PAGE_BYTES : root * PAGE_BYTES] = _inner(pages + 2, is_index)
    data += b"".join([bytes(PAGE_BYTES), *new[:11], leaf])
    data[28:32] = (len(data) // PAGE_BYTES).to_bytes(4, "big")
    path.write_bytes(data)


def _inner(child: int, is_index: bool) -> bytes:
    """Return a page of a tree all of whose children are one page."""
    cell = child.to_bytes(4, "big") + (b"\x04\x03\x01\x01x\x01"[:5] if is_index else b"\x01")
    count = 300
    start = PAGE_BYTES - len(cell) * count
    places = b"".join((start + number * len(cell)).to_bytes(2, "big") for number in range(count))
    head = bytes((2 if is_index else 5, 0, 0)) + count.to_bytes(2, "big") + start.to_bytes(2, "big")
    top = head + b"\0" + child.to_bytes(4, "big") + places
    return top + bytes(start - len(top)) + cell * count


# Rows


def _ref_sum(name: Any, value: Any, last: Any) -> int:
    digest = blake3(encode((name, value, last))).digest(8)
    return int.from_bytes(digest, "big", signed=True)


def put_refs(connection: apsw.Connection, rows: list[tuple[Any, Any, Any]]) -> None:
    """Write rows of refs with sound checksums, and the total of all."""
    for name, value, last in rows:
        connection.execute(
            "insert or replace into ref values(?, ?, ?, ?)",
            (name, value, last, _ref_sum(name, value, last)),
        )
    sums: Any = connection.execute("select sum from ref where name<>''").fetchall()
    total = sum(each for (each,) in sums) % (1 << 64)
    blob = total.to_bytes(8, "big")
    connection.execute("update ref set hash=?, sum=? where name=''", (blob, _ref_sum("", blob, 0)))


def put_move(connection: apsw.Connection, seq: int, *fields: Any) -> None:
    """Write a move with a sound checksum: prev, old, new, time, note."""
    total = crc_hqx(encode(fields), 0)
    connection.execute(
        "insert or replace into move values(?, ?, ?, ?, ?, ?, ?)", (seq, *fields, total)
    )


def put_object(connection: apsw.Connection, data: bytes, row: bytes | None = None) -> bytes:
    """Write an object, in a row of ours if one is given."""
    name = blake3(data).digest()
    key = int.from_bytes(name[:8], "big", signed=True)
    row = b"\0" + data if row is None else row
    connection.execute("insert into object(key, data) values(?, ?)", (key, row))
    return name


def _many_histories(connection: apsw.Connection) -> None:
    """Give 2,000 refs one history of 2,000 moves."""
    ((head,),) = connection.execute("select hash from ref where name='session/s/main'")
    key = int.from_bytes(head[:8], "big", signed=True)
    with connection:
        for seq in range(1000, 3000):
            put_move(connection, seq, seq - 1 if seq > 1000 else 0, None, key, 5, "")
        put_refs(connection, [(f"tag/x{number}", head, 2999) for number in range(2000)])


def _odd_refs(connection: apsw.Connection) -> None:
    odd: list[Any] = ["a", b"b", None, 1.5, -1, 1 << 62, b"x" * 32, "s/\ud7ff"]
    rows: list[tuple[Any, Any, Any]] = []
    for number, value in enumerate(odd):
        rows.append((f"session/{number} odd/main", value, 0))
        if value is not None:
            rows.append((f"session/{number} last/main", b"x" * 32, value))
    put_refs(connection, rows)


def _odd_ref_of(value: Any, last: Any) -> Callable[[apsw.Connection], None]:
    return lambda connection: put_refs(connection, [("session/s/main", value, last)])


def _odd_move_of(*fields: Any) -> Callable[[apsw.Connection], None]:
    def craft(connection: apsw.Connection) -> None:
        ((last,),) = connection.execute("select last from ref where name='session/s/main'")
        put_move(connection, last, *fields)

    return craft


def _base(number: int) -> bytes:
    return number.to_bytes(5, "little")


def _circle_of_differences(connection: apsw.Connection) -> None:
    rows: Any = connection.execute("select id from object order by id desc limit 2").fetchall()
    (high,), (low,) = rows
    splice = bytes(4) + b"head"
    connection.execute("update object set data=? where id=?", (b"\x0a" + _base(high) + splice, low))
    connection.execute("update object set data=? where id=?", (b"\x0a" + _base(low) + splice, high))


def _long_chain(connection: apsw.Connection) -> None:
    connection.execute("insert into object(key, data) values(1, ?)", (b"\0" + b"x" * 500,))
    for number in range(2000):
        ((last,),) = connection.execute("select max(id) from object")
        row = b"\x0a" + _base(last) + (480).to_bytes(2, "little") + bytes(2) + b"%04d" % number
        connection.execute("insert into object(key, data) values(?, ?)", (number + 2, row))


def _changed(sql: str, *bindings: Any) -> Callable[[apsw.Connection], None]:
    def craft(connection: apsw.Connection) -> None:
        connection.execute(sql, bindings)

    return craft


def _all_rows(row: bytes) -> Callable[[apsw.Connection], None]:
    return _changed("update object set data=?", row)


def _claiming(size: int) -> bytes:
    return b"\x01\x28\xb5\x2f\xfd\xe0" + size.to_bytes(8, "little") + b"\x01\0\0"


def _zeros(size: int) -> bytes:
    return zstandard.ZstdCompressor(level=1).compress(bytes(size))


def _rows_on_a_long_base(connection: apsw.Connection) -> None:
    """Differences from 60 MB, thirty of them in a chain, each of 60 MB again."""
    connection.execute("insert into object(key, data) values(1, ?)", (b"\x01" + _zeros(60 << 20),))
    words = zstandard.ZstdCompressionDict(b"x", dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    frame = zstandard.ZstdCompressor(dict_data=words, write_dict_id=False).compress(bytes(60 << 20))
    for number in range(30):
        ((last,),) = connection.execute("select max(id) from object")
        row = bytes((3 | (number + 1) << 3,)) + _base(last) + frame
        connection.execute("insert into object(key, data) values(?, ?)", (number + 2, row))


ROWS: dict[str, Callable[[apsw.Connection], None]] = {
    "refs that share a long history": _many_histories,
    "refs of odd types": _odd_refs,
    "a ref that is a text": _odd_ref_of("x" * 32, 0),
    "a ref that is short": _odd_ref_of(b"x", 0),
    "a ref that was last moved by a text": _odd_ref_of(b"x" * 32, "x"),
    "a ref that was last moved by a blob": _odd_ref_of(b"x" * 32, b"x"),
    "a ref that was last moved in the future": _odd_ref_of(b"x" * 32, 1 << 62),
    "a move with texts": _odd_move_of("x", None, None, 5, ""),
    "a move at no time": _odd_move_of(0, None, b"x" * 32, "then", ""),
    "a move with a note that is a number": _odd_move_of(0, None, None, 5, 7),
    "a move to a number": _odd_move_of(0, 1.5, 2.5, 5, ""),
    "a move to a short hash": _odd_move_of(0, b"x", b"y", 5, ""),
    "a move before all": _odd_move_of(-5, None, None, 5, ""),
    "a circle of differences": _circle_of_differences,
    "a long chain of differences": _long_chain,
    "differences from long bases": _rows_on_a_long_base,
    "frames that claim 2**62 bytes": _all_rows(_claiming(1 << 62)),
    "frames that claim 60 MB": _all_rows(_claiming(60 << 20)),
    "frames of 64 MiB of nothing": _all_rows(b"\x01" + _zeros(64 << 20)),
    "frames of 65 MiB of nothing": _all_rows(b"\x01" + _zeros(65 << 20)),
    "strided frames of 200 MiB": _all_rows(b"\x04" + _zeros(200 << 20)),
    "rows without bytes": _all_rows(b""),
    "rows of an unknown kind": _all_rows(b"\x07x"),
    "keys that are texts": _changed("update object set key='x' || id"),
    "fences of odd types": _changed("update fence set token='x', sum=x'00'"),
    "rows that are texts": _changed("update object set data=hex(data)"),
    "a move at the end": lambda c: put_move(c, (1 << 63) - 1, 0, None, None, 5, ""),
    "an id at the end": _changed(
        "update object set id=9223372036854775807 where id=(select max(id) from object)"
    ),
}  # fmt: skip


def craft_rows(path: Path, name: str) -> None:
    """Change rows, with checksums that fit."""
    connection = apsw.Connection(str(path))
    ROWS[name](connection)
    connection.close()


# Trees


def link(hash: bytes, length: int, size: int) -> bytes:
    """Return a link as it stands in a node."""
    return hash + _varint(length) + _varint(size)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def tree_node(kind: bytes, level: int, keys: list[bytes], payloads: list[bytes]) -> bytes:
    """Return the bytes of a node."""
    pairs = zip(keys, payloads, strict=True) if kind == b"m" else ((each,) for each in payloads)
    body = b"".join(encode(part) for pair in pairs for part in pair)
    return kind + bytes((level,)) + len(payloads).to_bytes(2, "little") + body


class Forger:
    """Writes objects whose hashes are sound, and hangs them under a session."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def put(self, data: bytes, row: bytes | None = None) -> bytes:
        return put_object(self._connection, data, row)

    def root(self, cell: bytes, session: str) -> None:
        commit = self.put(b"C" + encode([cell, [], 1, 1, "mallory", "", "step", {}, {}]))
        put_refs(self._connection, [(f"session/{session}", commit, 0)])

    def state(self, cell: bytes, size: int, session: str = "t/main") -> None:
        """Make a state with one key, `a`."""
        leaf = self.put(tree_node(b"m", 0, [b"a"], [cell]))
        self.root(b"\xc1\x01" + link(leaf, 1, size + 3), session)


def _header_bytes(length: int) -> int:
    return 1 if length < 16 else 3 if length < 65536 else 5


def long_list(forger: Forger, session: str = "t/main", end: bytes = b"\1") -> None:
    """A list of 128**6 ones in six objects, with sizes that are right."""
    node = forger.put(tree_node(b"l", 0, [], [b"\1"] * 127 + [end]))
    count = 128
    for level in range(1, 6):
        node = forger.put(tree_node(b"l", level, [], [link(node, count, count)] * 128))
        count *= 128
    size = count + _header_bytes(count)
    forger.state(b"\xc1\x02" + link(node, count, size), size, session)


def nested_maps(
    forger: Forger, session: str = "t/main", end: bytes = b"\1", lie: bool = False
) -> None:
    """A map of two keys, which have the same map of two keys, forty times over."""
    cell, size = end, 1
    for _ in range(40):
        body = 2 * (2 + size)
        leaf = forger.put(tree_node(b"m", 0, [b"x", b"y"], [cell, cell]))
        size = 20_000 if lie else body + 1
        cell = b"\xc1\x01" + link(leaf, 2, size)
    forger.state(cell, size, session)


def shared_nodes(forger: Forger, session: str = "t/main", end: bytes = b"\1") -> None:
    """A map tree eight levels high, each of whose nodes has one child two hundred times."""
    node = forger.put(tree_node(b"m", 0, [b"k"], [end]))
    count = 1
    for level in range(1, 8):
        payload = link(node, count, count * 3)
        keys = [b"k%03d" % number for number in range(200)]
        node = forger.put(tree_node(b"m", level, keys, [payload] * 200))
        count *= 200
    forger.state(b"\xc1\x01" + link(node, 200, 20_000), 20_000, session)


def long_blob(forger: Forger, *, says: int) -> None:
    """Bytes of 128**4 chunks, which are one; `says` is how long each is said to be."""
    chunk = forger.put(b"c" + bytes(200_000))
    payload = link(chunk, says, says)
    count = says
    node = bytes(32)
    for level in range(4):
        node = forger.put(tree_node(b"b", level, [], [payload] * 128))
        count *= 128
        payload = link(node, count, count)
    forger.state(b"\xc1\x03" + link(node, count, count + 5), count + 5)


def packed_bomb(forger: Forger, *, size: int = 60 << 20) -> None:
    """A packed value of 60 MB of empty lists, which take four gigabytes once they are read."""
    body = b"\xdd" + size.to_bytes(4, "big") + b"\x90" * size
    frame = b"\x01" + zstandard.ZstdCompressor().compress(b"p" + body)
    packed = forger.put(b"p" + body, frame)
    forger.state(b"\xc1\x00" + link(packed, 1, len(body)), len(body))


def shared_packed(forger: Forger) -> None:
    """A list of a million links to one packed value of 60,000 empty lists."""
    body = b"\xdd" + (16_000).to_bytes(4, "big") + b"\x90" * 16_000
    packed = forger.put(b"p" + body)
    cell = b"\xc1\x00" + link(packed, 1, len(body))
    node = forger.put(tree_node(b"l", 0, [], [cell] * 128))
    count, size = 128, 128 * len(body)
    for level in (1, 2):
        node = forger.put(tree_node(b"l", level, [], [link(node, count, size)] * 128))
        count, size = count * 128, size * 128
    size += 5
    forger.state(b"\xc1\x02" + link(node, count, size), size)


def two(make: Callable[..., None]) -> Callable[[Forger], None]:
    """Two that differ at every place, as heads that are compared and merged."""

    def forge(forger: Forger) -> None:
        make(forger, "t/main", b"\1")
        make(forger, "t/other", b"\2")

    return forge


TREES: dict[str, Callable[[Forger], None]] = {
    "a long list": long_list,
    "two long lists": two(long_list),
    "nested maps": nested_maps,
    "two nested maps": two(nested_maps),
    "nested maps that say they are short": lambda forger: nested_maps(forger, lie=True),
    "two nested maps that say they are short": two(partial(nested_maps, lie=True)),
    "shared nodes": shared_nodes,
    "two trees of shared nodes": two(shared_nodes),
    "a long blob": lambda forger: long_blob(forger, says=200_000),
    "a blob that says it is short": lambda forger: long_blob(forger, says=1),
    "a packed bomb": packed_bomb,
    "a packed value that is shared": shared_packed,
}


def craft_tree(path: Path, name: str) -> None:
    """Add a state to a store that is much larger than the store."""
    connection = apsw.Connection(str(path))
    with connection:
        TREES[name](Forger(connection))
    connection.close()
