"""The lines at the refs of a file, made of tickets.

The lock of SQLite is given in turn (`write_queue`), but that does not help a transaction which has
read before it got the lock: somebody else has moved the ref since, and all its work is done again.
So there is a line for each ref, too (`stores/ref_lines.py`).

Rules
1. Who finds a ticket in a line lines up as well: nobody overtakes.
2. If no ticket of a line comes back for a while, its holder is stopped, or slow. Those who wait go
   on without it, and do not wait for tickets as old as theirs any more.
"""

from __future__ import annotations

import os
from contextlib import suppress
from random import uniform
from time import monotonic, sleep
from weakref import WeakSet
from zlib import crc32

from otolith.stores.ref_lines import LinePlace, RefLines
from otolith.stores.sqlite.schema import StoreFile
from otolith.stores.sqlite.tickets import HAS_LOCKS, LINES, POLL_SECONDS, TicketPlace, tickets_of

_STUCK_SECONDS = 2.0
_GATE_SECONDS = 0.1
_MOST_STEPS = 8  # who is further behind looks no less often


class TicketLines(RefLines):
    """The lines at the refs of a file."""

    def __init__(self, file: StoreFile) -> None:
        super().__init__()
        self._store = file.path
        self._tickets = tickets_of(file.path)
        self._is_possible = HAS_LOCKS and file.vfs is None and not file.read_only
        self._has_lined_up = False
        self._passed: dict[int, int] = {}  # tickets below it are not waited for, by line
        self._places: WeakSet[TicketPlace] = WeakSet()

    def is_occupied(self, name: str) -> bool:
        """Tell whether somebody is in line; without a race there is no file to look into."""
        if not self._is_possible or not os.access(self._tickets, os.F_OK):
            return False
        place = TicketPlace(self._store, _line_of(name))
        try:
            return not place.is_free()
        except OSError:
            return False
        finally:
            place.forget()

    def line_up(self, name: str) -> LinePlace | None:
        """Draw a ticket and wait until it is first, or until the line is stuck."""
        if not self._is_possible:
            return None
        place = TicketPlace(self._store, _line_of(name))
        self._places.add(place)
        self._has_lined_up = True
        try:
            place.draw(monotonic() + _GATE_SECONDS)
            return LinePlace(place.close, has_met=self._wait(place, _line_of(name)))
        except OSError:
            place.close()
            self._is_possible = False
            return None
        except BaseException:
            place.close()
            raise

    def close(self) -> None:
        """Remove the file of tickets if nobody uses it."""
        if self._has_lined_up:
            place = TicketPlace(self._store)
            with suppress(OSError):
                place.open()
            place.remove_file()

    def forget(self) -> None:
        """Leave what a child has inherited to its parent."""
        for place in self._places:
            place.forget()

    def _wait(self, place: TicketPlace, line: int) -> bool:
        """Wait for those in front; return whether there was anybody."""
        has_met = False
        passed, ticket = self._passed.get(line, 0), place.ticket or 0
        if ticket <= passed:  # the file was removed, and numbers begin again
            passed = self._passed[line] = 0
        returned, since = place.last_returned(), monotonic()
        while not place.is_first(above=passed):
            has_met = True
            before, returned = returned, place.last_returned()
            if returned != before:
                since = monotonic()
            elif monotonic() - since > _STUCK_SECONDS:
                self._passed[line] = ticket
                break
            behind = ticket - returned - 1
            sleep(uniform(*POLL_SECONDS) * min(max(behind, 1), _MOST_STEPS))
        return has_met


def _line_of(name: str) -> int:
    return 1 + crc32(name.encode(errors="surrogatepass")) % (LINES - 1)
