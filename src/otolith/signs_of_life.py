"""Signs of life: what shows that the owner of something still works on it, and what renews them.

Rules
1. Processes of one machine compare the time since it was started, which nobody can set. A process
   of another machine watches a record until it was not renewed for all of its time. No two clocks
   are compared, and none that can be set is used.
2. A thread renews what its process holds, three times in its time to live. A process that is frozen
   does not, and learns at its next renewal that it has lost it.
3. A forked child owns nothing of its parent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from threading import Condition, Lock, Thread
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

from otolith import environment
from otolith.errors import Error, Fenced, Unavailable
from otolith.shapes import Shape

STAMP: Shape = {"ttl": int, "renewals": int, "boot": str, "until": int}
"""The fields of a record that its owner renews."""


class SignsOfLife:
    """Stamps records that their owners renew, and tells which owners have died (rule 1)."""

    def __init__(self, uptime: Callable[[], tuple[str, int]] = environment.uptime) -> None:
        self._uptime = uptime
        self._seen: dict[str, tuple[tuple[str, int], int]] = {}

    def stamp(self, ttl_seconds: float, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the fields of a record that is renewed now."""
        boot, now = self._uptime()
        ttl = max(1, round(ttl_seconds * 1_000_000))
        renewals = 0 if before is None else int(before["renewals"]) + 1
        return {"boot": boot, "until": now + ttl, "ttl": ttl, "renewals": renewals}

    def is_alive(self, key: str, record: Mapping[str, Any]) -> bool:
        """Tell whether the owner of a record is not known to be dead."""
        boot, now = self._uptime()
        is_ahead = record["until"] > now + record["ttl"]  # of a clock that is not ours
        if boot and record["boot"] == boot and not is_ahead:
            return bool(now < record["until"])
        state = str(record.get("token", "")), int(record["renewals"])
        if key not in self._seen or self._seen[key][0] != state:
            self._seen[key] = state, now
        return now < self._seen[key][1] + int(record["ttl"])


class Renewal:
    """Keeps what has to be renewed, until it is closed or `renew` returns False."""

    def __init__(
        self, home: object, what: str, renew: Callable[[], bool], ttl_seconds: float
    ) -> None:
        """Begin to renew something; all of one `home`, a backend, is renewed by one thread."""
        self._what = what
        self._renew = renew
        self._ttl_seconds = ttl_seconds
        self._lock = Lock()
        self._renewed = monotonic()
        self._is_lost = self._is_closed = False
        self._process = os.getpid()
        self.due = self._renewed + ttl_seconds / 3
        self._thread = _threads.setdefault(home, RenewalThread())
        self._thread.add(self)

    @property
    def is_held(self) -> bool:
        """Whether it was not lost, as far as is known here; a forked child does not have it."""
        is_fresh = monotonic() < self._renewed + self._ttl_seconds
        return not self._is_lost and is_fresh and os.getpid() == self._process

    def renew(self) -> None:
        """Renew it now.

        Raises:
            Fenced: it was lost, and perhaps somebody else has it.
        """
        with self._lock:
            if self._is_closed:
                return
            began = monotonic()
            self.due = began + self._ttl_seconds / 3
            self._is_lost = self._is_lost or not self._renew()
            if self._is_lost:
                raise Fenced(f"{self._what} was lost", hint="stop, and acquire it again")
            self._renewed = began

    def close(self) -> bool:
        """Stop; return whether it has to be given back: not in a forked child."""
        if os.getpid() != self._process:
            return False
        self._thread.remove(self)
        with self._lock:  # a renewal that has begun is finished first
            self._is_closed = True
        return True


class RenewalThread:
    """Renews what is due, for all renewals of one home; it ends when there are none."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._renewals: set[Renewal] = set()
        self._thread: Thread | None = None

    def add(self, renewal: Renewal) -> None:
        """Renew something three times in its time to live."""
        with self._changed:
            self._renewals.add(renewal)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="otolith-renewals", daemon=True)
                self._thread.start()
            self._changed.notify()

    def remove(self, renewal: Renewal) -> None:
        """Renew something no longer."""
        with self._changed:
            self._renewals.discard(renewal)
            self._changed.notify()

    def _run(self) -> None:
        while (renewal := self._next()) is not None:
            try:
                renewal.renew()
            except Unavailable:
                continue  # it may come back in time
            except Error:
                self.remove(renewal)

    def _next(self) -> Renewal | None:
        """Wait for the next one that is due; None if there is nothing left to renew."""
        with self._changed:
            while self._renewals:
                renewal = min(self._renewals, key=lambda each: each.due)
                left = renewal.due - monotonic()
                if left <= 0:
                    return renewal
                self._changed.wait(left)
            self._thread = None
            return None


_threads: WeakKeyDictionary[object, RenewalThread] = WeakKeyDictionary()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_threads.clear)
