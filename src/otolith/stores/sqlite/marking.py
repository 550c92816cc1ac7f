"""Marking what a collection must keep: objects that are reached, and rows they differ from."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic

import apsw
from blake3 import blake3

from otolith.errors import Corrupt
from otolith.stores.base import Links
from otolith.stores.sqlite.delta import Damaged, base_of
from otolith.stores.sqlite.failures import FSCK
from otolith.stores.sqlite.history import Side
from otolith.stores.sqlite.objects import Objects, key_of
from otolith.stores.sqlite.query import ask

OBJECT, BASE = 1, 2
_PAGE_BITS = 16


class Marks:
    """Two bits for every row id, in pages, because ids only grow and old ones go."""

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}

    def get(self, number: int) -> int:
        page = self._pages.get(number >> _PAGE_BITS)
        return page[number & 0xFFFF] if page is not None else 0

    def add(self, number: int, mark: int) -> None:
        page = self._pages.get(number >> _PAGE_BITS)
        if page is None:
            page = self._pages[number >> _PAGE_BITS] = bytearray(1 << _PAGE_BITS)
        page[number & 0xFFFF] |= mark


class Marking:
    """A walk over objects that can be interrupted and fed with new roots."""

    def __init__(self, path: str, objects: Objects, links: Links) -> None:
        self._path = path
        self._objects = objects
        self._links = links
        self._seen: set[int] = set()
        self._todo: list[int] = []
        self.marks = Marks()
        self.kept = 0

    def feed(self, sides: Iterable[Side]) -> None:
        """Add roots: hashes, or keys of objects."""
        for side in sides:
            if side is not None:
                self._reach(side if isinstance(side, int) else key_of(side))

    def feed_rows(self, connection: apsw.Connection, after: int) -> int:
        """Add every row newer than one as a root; return the newest."""
        query = "select id, cast(data as blob) from object where id>? and key<>0 order by id"
        for number, row in ask(connection, query, (after,)):
            after = number
            try:
                self._visit(connection, number, row)
            except Damaged as error:
                raise self._corrupt(f"row {number}", error) from error
        return after

    def walk(self, connection: apsw.Connection, until: float | None = None) -> bool:
        """Follow the roots; stop when the time is up and tell whether all was followed."""
        while self._todo:
            if until is not None and monotonic() > until:
                return False
            self._visit_key(connection, self._todo.pop())
        return True

    def _reach(self, key: int) -> None:
        if key not in self._seen:
            self._seen.add(key)
            self._todo.append(key)

    def _visit_key(self, connection: apsw.Connection, key: int) -> None:
        rows = ask(
            connection,
            "select id, cast(data as blob) from object where key >> 32 = ?1 >> 32 and key = ?1",
            (key,),
        )
        damage = None
        for number, row in rows:
            try:
                self._visit(connection, number, row, key)
            except Damaged as error:
                damage = error
        if damage is not None and not any(self.marks.get(number) & OBJECT for number, _ in rows):
            # Nothing may be dropped on the word of an object that cannot be read.
            raise self._corrupt(f"object {key & (1 << 64) - 1:016x}", damage)

    def _visit(
        self, connection: apsw.Connection, number: int, row: bytes, key: int | None = None
    ) -> None:
        if self.marks.get(number) & OBJECT:
            return
        data = self._objects.plain(connection, number, row)
        if key is not None and key_of(blake3(data).digest()) != key:
            raise Damaged("its bytes do not have its hash")
        self.marks.add(number, OBJECT)
        self.kept += 1
        self._mark_bases(connection, row)
        for child in self._links(data):
            self._reach(key_of(child))

    def _mark_bases(self, connection: apsw.Connection, row: bytes) -> None:
        base = base_of(row)
        while base is not None and not self.marks.get(base):
            self.marks.add(base, BASE)
            base = base_of(self._objects.row(connection, base))
        if base is not None:
            self.marks.add(base, BASE)

    def _corrupt(self, what: str, error: Damaged) -> Corrupt:
        return Corrupt(f"{self._path}: {what}: {error}; nothing was dropped", hint=FSCK)
