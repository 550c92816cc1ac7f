"""Garbage collection beside readers and writers.

Rules.
1. What is reached from a ref, or from either end of a remembered move, stays. So does every row
   newer than the start, with all it reaches.
2. A row that others differ from stays as long as they do. If nothing reaches it, it loses its key:
   it is then no object any more, only bytes. A collection that erases gives the others another
   base, and drops it (`erasure`).
3. While a row counts as an object, everything below it is there. So a writer that finds an object
   need not look further.

Theory of operation. Marking runs in read snapshots and stops nobody. Sweeping takes the write lock
for a few milliseconds at a time. Each step first marks what writers have done since the last
one; objects and refs land in one transaction, so nothing is ever in flight. Rows go newest first:
an object is written after the objects it needs and after its base, so the upper goes before the
lower, which is rule 3. The newest row of all is never deleted, because ids must not come again
while another process remembers them; the newest move is blanked instead, because another collector
asks for the moves after the last it has seen.

Forgetting old moves, from the old end of each ref's history.

Marking what a collection must keep: objects that are reached, and rows they differ from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic

import apsw

from otolith.errors import Corrupt
from otolith.stores.base import Collected, Links
from otolith.stores.sqlite.connections import Connections
from otolith.stores.sqlite.delta import Damaged, base_of
from otolith.stores.sqlite.erasure import Erasure
from otolith.stores.sqlite.objects import Objects, is_named, key_of
from otolith.stores.sqlite.refs import History, MoveRow, Refs, Row, Side
from otolith.stores.sqlite.sql import FSCK, ask, each, roll_back
from otolith.stores.sqlite.steps import Steps


class Forgetting:
    """Cuts histories before a time.

    Clocks jump, so times need not ascend along a history; it is cut below its lowest move that is
    young enough, and never gets a hole.
    """

    def __init__(self, connections: Connections, refs: Refs, history: History, before: int) -> None:
        self._connections = connections
        self._refs = refs
        self._history = history
        self._before = before
        self._seen: set[int] = set()

    def doomed(self) -> set[int]:
        """Return the moves that would go."""
        self._seen.clear()
        return {move.seq for row in self._rows() for move in self._old_end(row.name)[2]}

    def run(self, steps: Steps, tell: Callable[[str, int, int], None]) -> int:
        """Forget them; return how many went."""
        rows = self._rows()
        self._seen.clear()
        forgotten = 0
        if rows:
            with steps.step():
                self._history.drop_blanks(steps.connection)
        for place, row in enumerate(rows):
            forgotten += self._shorten(steps, row.name)
            tell("forget", place + 1, len(rows))
        return forgotten

    def _rows(self) -> list[Row]:
        if self._before <= 0:
            return []
        with self._connections.reading() as connection:
            return self._refs.rows(connection)

    def _old_end(self, name: str) -> tuple[int, MoveRow | None, list[MoveRow]]:
        """Return a ref's last move, the lowest move that stays, and those below, newest first.

        The ref and its moves are read in one snapshot: another collector may forget some meanwhile.
        """
        with self._connections.reading() as connection:
            row = self._refs.get(connection, name)
            last = row.last if row is not None else 0
            chain = self._history.chain(connection, last, None, self._seen)
        keep = 0
        for place, move in enumerate(chain):
            if move.time >= self._before:
                keep = place + 1
        return last, (chain[keep - 1] if keep else None), chain[keep:]

    def _shorten(self, steps: Steps, name: str) -> int:
        last, lowest, old = self._old_end(name)
        forgotten = 0
        while old:
            with steps.step() as size:
                some = old[-size:]
                rest = old[: len(old) - len(some)]
                above = rest[-1] if rest else lowest
                if above is not None:
                    self._history.cut(steps.connection, above, some[0])
                elif not self._release(steps, name, last):
                    break
                self._history.drop(steps.connection, [move.seq for move in reversed(some)])
            old = rest
            forgotten += len(some)
        return forgotten

    def _release(self, steps: Steps, name: str, last: int) -> bool:
        """Let a ref forget its last move, unless it has moved again meanwhile."""
        connection = steps.connection
        now = self._refs.get(connection, name)
        if now is None or now.last != last:
            return False
        if now.hash is None:
            change = self._refs.drop(connection, now)
        else:
            change = self._refs.put(connection, now, now.name, now.hash, 0)
        self._refs.add_to_total(connection, change)
        return True


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
        if key is not None and not is_named(data, key):
            raise Damaged("its bytes do not have its hash")
        # Bases first: a row counts as kept only once all that it is made of is known to be there.
        self._mark_bases(connection, row)
        self.marks.add(number, OBJECT)
        self.kept += 1
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


Progress = Callable[[str, int, int], None]

_MARK_SECONDS = 0.01  # marking under the lock beyond this is put off to outside it
_PATIENCE = 20  # but not for ever


class Collection:
    """One run of the collector."""

    def __init__(
        self,
        connections: Connections,
        objects: Objects,
        refs: Refs,
        history: History,
        *,
        links: Links,
    ) -> None:
        self._connections = connections
        self._objects = objects
        self._refs = refs
        self._history = history
        # Read anew: what the writers of this process remember may be gone from the file.
        self._marking = Marking(connections.place.path, Objects(connections.place.path), links)
        self._start = self._top_row = self._top_move = 0

    def run(
        self, forget_before: int, *, progress: Progress | None, dry_run: bool, erase: bool
    ) -> Collected:
        tell = progress if progress is not None else _quiet
        forgetting = Forgetting(self._connections, self._refs, self._history, forget_before)
        if dry_run:
            return self._rehearse(forgetting, tell)
        with self._connections.collecting() as connection:
            steps = Steps(connection)
            pages = connection.pragma("page_count")
            forgotten = forgetting.run(steps, tell)
            self._mark(set(), tell)
            dropped = self._sweep(connection, steps, tell)
            self._objects.recent.clear()
            residue = _erase(Erasure(self._connections, steps, tell)) if erase else ""
            self._give_back(connection, steps, tell)
            freed = (pages - connection.pragma("page_count")) * connection.pragma("page_size")
        return Collected(
            self._marking.kept,
            dropped,
            forgotten,
            max(0, freed),
            steps.longest_seconds,
            erased=erase and not residue,
            residue=residue,
        )

    def _rehearse(self, forgetting: Forgetting, tell: Progress) -> Collected:
        doomed = forgetting.doomed()
        self._mark(doomed, tell)
        with self._connections.reading() as connection:
            query = "select id, length(data) from object where id<=? and key<>0"
            dead = [
                size
                for number, size in ask(connection, query, (self._start,))
                if not self._marking.marks.get(number) & OBJECT
            ]
        return Collected(self._marking.kept, len(dead), len(doomed), sum(dead), 0.0)

    def _mark(self, without_moves: set[int], tell: Progress) -> None:
        with self._connections.reading() as connection:
            self._start = self._top_row = self._newest(connection)
            self._marking.feed(row.hash for row in self._refs.rows(connection))
            for move in self._history.since(connection, 0):
                self._top_move = move.seq
                if move.seq not in without_moves:
                    self._marking.feed((move.old, move.new))
            while not self._marking.walk(connection, monotonic() + 0.1):
                tell("mark", self._marking.kept, 0)
        tell("mark", self._marking.kept, self._marking.kept)

    def _catch_up(self, connection: apsw.Connection, until: float | None) -> bool:
        changed = "select hash from ref where name<>'' and (last>? or last=0)"
        rows = ask(connection, changed, (self._top_move,))
        self._marking.feed(value for (value,) in rows)
        for move in self._history.since(connection, self._top_move):
            self._top_move = move.seq
            self._marking.feed((move.old, move.new))
        self._top_row = self._marking.feed_rows(connection, self._top_row)
        return self._marking.walk(connection, until)

    def _sweep(self, connection: apsw.Connection, steps: Steps, tell: Progress) -> int:
        dead = self._candidates()
        total, dropped, put_off = len(dead), 0, 0
        while dead:
            with self._connections.reading() as snapshot:
                self._catch_up(snapshot, None)
            with steps.step() as size:
                until = None if put_off > _PATIENCE else monotonic() + _MARK_SECONDS
                if not self._catch_up(connection, until):
                    roll_back(connection)
                    put_off += 1
                    continue
                some = dead[-size:]
                dropped += self._drop(connection, some)
            del dead[-len(some) :]
            tell("sweep", total - len(dead), total)
        return dropped

    def _candidates(self) -> list[int]:
        """Return the rows that are to go, the first to go last."""
        marks = self._marking.marks
        with self._connections.reading() as connection:
            query = "select id, key from object where id<=? order by id"
            return [
                number
                for number, key in each(connection, query, (self._start,))
                if not marks.get(number) & OBJECT and (key or not marks.get(number))
            ]

    def _drop(self, connection: apsw.Connection, numbers: list[int]) -> int:
        marks, newest = self._marking.marks, self._newest(connection)
        still = [number for number in numbers if not marks.get(number) & OBJECT]
        hidden = [number for number in still if marks.get(number) & BASE or number == newest]
        gone = sorted(set(still).difference(hidden), reverse=True)
        before = connection.total_changes()
        connection.executemany(
            "update object set key=0 where id=? and key<>0", [(number,) for number in hidden]
        )
        connection.executemany("delete from object where id=?", [(number,) for number in gone])
        return connection.total_changes() - before

    def _give_back(self, connection: apsw.Connection, steps: Steps, tell: Progress) -> None:
        total = connection.pragma("freelist_count")
        steps.reset()
        while left := connection.pragma("freelist_count"):
            with steps.step() as size:
                # A pragma takes no parameters; the number is ours.
                ask(connection, f"pragma incremental_vacuum({int(size)})")
            if connection.pragma("freelist_count") >= left:
                break
            tell("shrink", max(0, total - left), total)
        ask(connection, "pragma wal_checkpoint(passive)")

    def _newest(self, connection: apsw.Connection) -> int:
        rows = ask(connection, "select max(id) from object")
        return rows[0][0] or 0


def _erase(erasure: Erasure) -> str:
    erasure.drop_bases()
    return erasure.rebuild()


def _quiet(phase: str, done: int, total: int) -> None:
    """Tell nobody."""
