"""FairQueue: slots that members use in turn, fairly by member and not by request.

    .shared/team/<id>/queue.<name>     a shared map:
        waiting / TICKET    member, the number of the request, and a sign of life
        slots / INDEX       member, ticket, token, since when, and a sign of life
        served / MEMBER     the number of the last grant to this member
        counts              numbers of requests and grants, and how long slots are used

Grants are numbered from the time of the first one: see rule 4 of `leases.py`.

Rules
1. A free slot goes to the waiting member whose last grant is the longest ago; of its requests, the
   first. So a member that asks a hundred times as often gets its slots one after the other like
   everybody else, and a member that waits is served after at most one grant to each of the others.
2. Nobody coordinates. Whoever changes the map grants what can be granted, in the same
   compare-and-set: requests, releases, and waiters that look after somebody has died.
3. Requests and slots are renewed while their process lives (`SignsOfLife`). What was not renewed
   for its time is removed by the next waiter that looks. Those that wait in one process are renewed
   in one write.
4. A grant raises the fence of its slot, in the same write. So a holder that was frozen, and whose
   slot was given to another, cannot commit inside of it.
5. A request, and what renews it, carry the member's fence: who was removed gets no turn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from threading import local
from time import monotonic
from types import TracebackType
from typing import Any, Literal, Self

from otolith import environment
from otolith.core import MapEdit, SharedMap, shared_ref
from otolith.durations import Duration, duration_seconds, wait_seconds
from otolith.errors import Corrupt, Fenced, Invalid, TimedOut
from otolith.shapes import Shape, fields, mapping
from otolith.signs_of_life import STAMP, SignsOfLife
from otolith.teams.leases import TeamLeases
from otolith.teams.members import check_short_name
from otolith.teams.requests import Request, wait_for
from otolith.types import short_repr

_TICKET: Shape = {"member": str, "number": int, **STAMP}
_GRANT: Shape = {"member": str, "ticket": str, "token": int, "since": int, **STAMP}
_COUNTS: Shape = {"requests": int, "grants": int, "slots": int, "mean_use": int}
_TABLES: Shape = {"waiting": dict, "slots": dict, "served": dict, "counts": dict}
_QUEUE = "queue."
_MOST_SLOTS = 1000
_WEIGHT = 8  # of the mean use against a new one


@short_repr("index", "member", "token")
@dataclass(frozen=True, slots=True)
class QueueSlot:
    """A slot that a member uses now."""

    index: int
    member: str
    token: int  # the fence of the slot: higher than that of all holders before
    since: int = 0  # microseconds since 1970


@short_repr("name", "slots", "used", "waiting")
@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A queue as it was when it was read, without those whose process has died."""

    name: str
    slots: int
    used: tuple[QueueSlot, ...]
    waiting: tuple[str, ...]
    """The members of the waiting requests, in the order in which they will be served."""


class _Draft:
    """The map of a queue, read and changed in one compare-and-set."""

    def __init__(self, edit: MapEdit, name: str) -> None:
        self._edit = edit
        what = f"queue {name}"
        tables = fields(edit.items(), what, {}, _TABLES)
        self.waiting: dict[str, dict[str, Any]] = {
            ticket: fields(found, f"request {ticket} of {what}", _TICKET)
            for ticket, found in tables.get("waiting", {}).items()
        }
        self.slots: dict[int, dict[str, Any]] = {
            _slot(index, what): fields(found, f"slot {index} of {what}", _GRANT)
            for index, found in tables.get("slots", {}).items()
        }
        self.served = mapping(tables.get("served", {}), f"the turns of {what}", int)
        empty = {"requests": 0, "grants": 0, "slots": 1, "mean_use": 0}
        self.counts = fields(tables.get("counts", empty), f"the counts of {what}", _COUNTS)
        if not 1 <= self.counts["slots"] <= _MOST_SLOTS:
            raise Corrupt(f"{what} has {self.counts['slots']} slots", hint="run otolith fsck")

    def save(self) -> None:
        """Stage what changed."""
        self._edit.put("waiting", self.waiting)
        self._edit.put("slots", {str(index): slot for index, slot in self.slots.items()})
        self._edit.put("served", self.served)
        self._edit.put("counts", self.counts)

    def order(self, *, is_fair: bool) -> list[str]:
        """Return the waiting tickets in the order in which they would be served (rule 1)."""
        left = sorted(self.waiting, key=lambda ticket: int(self.waiting[ticket]["number"]))
        if not is_fair:
            return left
        last = dict(self.served)
        by_member: dict[str, list[str]] = {}
        for ticket in left:
            by_member.setdefault(self.waiting[ticket]["member"], []).append(ticket)
        order: list[str] = []
        grants = self.counts["grants"]
        while by_member:
            members = {name: self.waiting[mine[0]]["number"] for name, mine in by_member.items()}
            next_one = min(members, key=lambda name: (last.get(name, 0), members[name]))
            order.append(by_member[next_one].pop(0))
            grants += 1
            last[next_one] = grants
            if not by_member[next_one]:
                del by_member[next_one]
        return order

    def grant(self, *, is_fair: bool, now: int) -> dict[int, int]:
        """Give free slots to those who are next; return the tokens by slot."""
        granted: dict[int, int] = {}
        free = [at for at in range(self.counts["slots"]) if at not in self.slots]
        order = self.order(is_fair=is_fair) if free and self.waiting else []
        for index, ticket in zip(free, order, strict=False):
            request = self.waiting.pop(ticket)
            token = self.counts["grants"] = (self.counts["grants"] or now) + 1
            del request["number"]
            self.slots[index] = {**request, "ticket": ticket, "token": token, "since": now}
            self.served[request["member"]] = granted[index] = token
        return granted

    def slot_of(self, ticket: str) -> tuple[int, dict[str, Any]] | None:
        """Return the slot that a ticket was given."""
        found = (each for each in self.slots.items() if each[1]["ticket"] == ticket)
        return next(found, None)

    def record_of(self, ticket: str) -> dict[str, Any] | None:
        """Return the request or the slot of a ticket."""
        found = self.slot_of(ticket)
        return self.waiting.get(ticket) if found is None else found[1]

    def records(self) -> dict[str, dict[str, Any]]:
        """Return all requests and slots, by ticket."""
        return {**self.waiting, **{grant["ticket"]: grant for grant in self.slots.values()}}

    def dead(self, signs: SignsOfLife) -> set[str]:
        """Return the tickets that were not renewed for their time (rule 3)."""
        return {t for t, record in self.records().items() if not signs.is_alive(t, record)}

    def drop(self, tickets: Collection[str]) -> None:
        """Remove requests and slots."""
        self.waiting = {t: r for t, r in self.waiting.items() if t not in tickets}
        self.slots = {at: g for at, g in self.slots.items() if g["ticket"] not in tickets}


def _slot(index: str, what: str) -> int:
    """Return the number of a slot as it is stored."""
    if not (index.isascii() and index.isdecimal() and int(index) < _MOST_SLOTS):
        raise Corrupt(f"{what} has a slot {index[:80]!r}", hint="run otolith fsck")
    return int(index)


class _SharedQueue:
    """The map of a queue, as all processes see it, and how it is changed."""

    def __init__(self, leases: TeamLeases, name: str, *, slots: int, is_fair: bool) -> None:
        self.name = name
        self.slots = slots
        self.is_fair = is_fair
        self.context = leases.context
        self.signs = SignsOfLife()
        ref = shared_ref(leases.context.ref, f"{_QUEUE}{name}")
        self.map = SharedMap(leases.backend, ref, kind="queue")
        self._leases = leases

    def read(self) -> _Draft:
        """Return the queue as it is now."""
        return _Draft(self.map.read(), self.name)

    def change(self, edit: Callable[[_Draft], object], carried: Mapping[str, int] = {}) -> _Draft:
        """Change the queue, grant what can be granted (rules 2 and 4), and return it."""
        tokens: dict[int, int] = {}

        def change(found: MapEdit) -> _Draft:
            draft = _Draft(found, self.name)
            edit(draft)
            tokens.clear()
            tokens.update(draft.grant(is_fair=self.is_fair, now=self.now()))
            draft.save()
            return draft

        def fences() -> dict[str, int]:
            return {**carried, **{self.fence(index): tokens[index] for index in tokens}}

        return self.map.change(change, fences=fences)

    def now(self) -> int:
        """Return the time of the repo's clock."""
        return self._leases.backend.clock()

    def fence(self, index: int) -> str:
        """Return the name of the fence of a slot."""
        return self._leases.full_name(f"queue/{self.name}/{index}")


class QueueRequest(Request):
    """A wait for a slot, and the slot. Whoever looks for a line enters and renews all of it."""

    def __init__(
        self,
        queue: _SharedQueue,
        *,
        member: str,
        ttl_seconds: float,
        wait_seconds: float | None,
    ) -> None:
        super().__init__(
            queue.context,
            f"slot of queue {queue.name}",
            ttl_seconds=ttl_seconds,
            wait_seconds=wait_seconds,
        )
        self.ticket = environment.entropy(8).hex()
        self.slot: QueueSlot | None = None
        self.entered: float | None = None  # when it was last renewed
        self.news = queue.map.ref
        self.line = (queue.map.ref, queue.slots, queue.is_fair)
        self._queue = queue
        self._member = member

    def look(self, others: Sequence[Self] = ()) -> bool:
        """Enter or renew the requests if it is time, and take the slots that they were given."""
        asked, draft = [self, *others], self._queue.read()
        dead = draft.dead(self._queue.signs)
        if dead or any(each.is_due() for each in asked):
            draft = self.enter(others)
            dead = draft.dead(self._queue.signs)
        for each in asked:
            if each.is_waiting and each.ticket not in dead:
                each.take(draft)
        return self.is_granted

    def is_due(self) -> bool:
        """Tell whether it is time to enter or to renew the request."""
        return self.entered is None or monotonic() > self.entered + self.ttl_seconds / 3

    def enter(self, others: Sequence[Self] = ()) -> _Draft:
        """Store requests, or that their process is alive; remove those whose process is not.

        A slot that came while this process was frozen, and was not renewed in its time, is lost.

        Raises:
            Fenced: the member was removed; the others find out for themselves.
        """
        queue, asked = self._queue, [self, *others]
        tickets, now = {each.ticket for each in asked}, monotonic()
        for each in asked:
            each.entered = now  # to be withdrawn, even if no reply comes

        def stamp(draft: _Draft) -> None:
            draft.counts["slots"] = queue.slots
            draft.drop(draft.dead(queue.signs) - (draft.waiting.keys() & tickets))
            for each in asked:
                each.stamp(draft)

        fences = {name: number for each in asked for name, number in each.member_fences.items()}
        try:
            return queue.change(stamp, fences)
        except Fenced:
            if not others:
                raise
        for each in others:  # it is not known whose fence it was
            each.enter_alone()
        return self.enter()

    def enter_alone(self) -> None:
        """Enter or renew the request by itself; note if its member was removed."""
        try:
            self.enter()
        except Fenced as error:
            self.failure = error

    def stamp(self, draft: _Draft) -> None:
        """Stage the request, or that it is alive."""
        found, signs = draft.record_of(self.ticket), self._queue.signs
        if found is not None:
            found.update(signs.stamp(self.ttl_seconds, found))
            return
        number = draft.counts["requests"] = draft.counts["requests"] + 1
        stamp = signs.stamp(self.ttl_seconds)
        draft.waiting[self.ticket] = {"member": self._member, "number": number, **stamp}

    def take(self, draft: _Draft) -> None:
        """Hold the slot that the request was given, if there is one."""
        found = draft.slot_of(self.ticket)
        if found is not None:
            index, grant = found
            self.slot = QueueSlot(index, self._member, grant["token"], grant["since"])
            self.what = f"slot {index} of queue {self._queue.name}"
            self.grant(self._queue.fence(index), grant["token"], self._renew)

    def _renew(self) -> bool:
        """Renew the slot; return whether it is still ours."""
        is_ours = False

        def renew(draft: _Draft) -> None:
            nonlocal is_ours
            found = draft.slot_of(self.ticket)
            is_ours = found is not None and self._queue.signs.is_alive(self.ticket, found[1])
            if found is not None and is_ours:
                found[1].update(self._queue.signs.stamp(self.ttl_seconds, found[1]))

        try:
            self._queue.change(renew, self.member_fences)
        except Fenced:
            return False  # the member was removed
        return is_ours

    def give_back(self, others: Sequence[Self] = ()) -> None:
        """Withdraw the requests, or give their slots to whoever is next."""
        gone = [each for each in (self, *others) if each.has_left()]
        if gone:
            now = self._queue.now()
            self._queue.change(lambda draft: [each.free(draft, now) for each in gone])

    def has_left(self) -> bool:
        """End the request here; return whether there is something to remove from the queue."""
        was_granted, was_entered = self.is_granted, self.entered is not None
        self.entered = None
        return (self.end() is not None) if was_granted else was_entered

    def free(self, draft: _Draft, now: int) -> None:
        """Stage that the request or slot is gone, and how long the slot was used."""
        found = draft.slot_of(self.ticket)
        if found is not None and self.slot is not None:
            took, mean = max(now - self.slot.since, 0), draft.counts["mean_use"]
            draft.counts["mean_use"] = mean + (took - mean) // _WEIGHT if mean else took
        draft.drop({self.ticket})

    def timed_out(self) -> TimedOut:
        """Return the error for a wait that was too long."""
        draft = self._queue.read()
        used = ", ".join(sorted({grant["member"] for grant in draft.slots.values()})) or "nobody"
        others = len(draft.waiting.keys() - {self.ticket})
        waiting = "1 other request waits" if others == 1 else f"{others} other requests wait"
        return TimedOut(
            f"no slot of queue {self._queue.name} was free for {self.wait_seconds:g} s; it is used"
            f" by {used}, and {waiting if others else 'nobody else waits'}",
            hint="wait longer, or see team.queues()",
        )


class FairQueue:
    """A queue of a team: `with team.queue("gpu", slots=2) as slot:` waits for a turn.

    Inside, every commit of this thread to any state of the repo carries the token of the slot. All
    who use a queue should name the same number of slots; the last one that was named holds.
    """

    def __init__(
        self,
        leases: TeamLeases,
        name: str,
        *,
        slots: int = 1,
        fair: Literal["member"] | None = "member",
        ttl: Duration = "30s",
        wait: Duration | None = None,
    ) -> None:
        check_short_name(name, "queue", hint="such as 'gpu'")
        if type(slots) is not int or not 1 <= slots <= _MOST_SLOTS:
            raise Invalid(
                f"slots must be 1 to {_MOST_SLOTS}, got {slots!r}",
                hint="say how many may use it at once, such as slots=2",
            )
        if fair not in ("member", None):
            raise Invalid(
                f"fair must be 'member', or None for first come first served, got {fair!r}",
                hint="leave it out for turns by member",
            )
        self.name = name
        self.slots = slots
        self._queue = _SharedQueue(leases, name, slots=slots, is_fair=fair == "member")
        self._member = leases.context.name
        self._ttl_seconds = duration_seconds(ttl, "ttl")
        self._wait_seconds = None if wait is None else wait_seconds(wait, "wait")
        self._thread = local()

    def __repr__(self) -> str:
        return f"<FairQueue {self.name} {self.slots} slots>"

    # Asking

    def position(self) -> int | None:
        """Return how many requests of other members will be served before this member's next one.

        None if this member waits for nothing.
        """
        members = self.waiting()
        return members.index(self._member) if self._member in members else None

    def eta(self) -> float | None:
        """Return how many seconds this member will probably wait; None if that is not known.

        It is computed from how long slots were used lately: until one was given back, nobody knows.
        """
        draft, place = self._queue.read(), self.position()
        mean = int(draft.counts["mean_use"])
        if place is None or not mean:
            return None
        return (place // int(draft.counts["slots"]) + 1) * mean / 1_000_000

    def waiting(self) -> list[str]:
        """Return the members of the waiting requests, in the order in which they will be served."""
        return list(self.look().waiting)

    def used(self) -> list[QueueSlot]:
        """Return the slots that are used now."""
        return list(self.look().used)

    def look(self) -> QueueEntry:
        """Return who uses the queue now, and who waits."""
        draft = self._queue.read()
        draft.drop(draft.dead(self._queue.signs))
        slots = sorted(draft.slots.items())
        used = (QueueSlot(at, g["member"], g["token"], g["since"]) for at, g in slots)
        order = draft.order(is_fair=self._queue.is_fair)
        waiting = (draft.waiting[ticket]["member"] for ticket in order)
        return QueueEntry(self.name, draft.counts["slots"], tuple(used), tuple(waiting))

    # Waiting

    def acquire(self) -> QueueSlot:
        """Wait for a slot and take it. `with` does this, and `release`.

        Raises:
            TimedOut: there was none for as long as `wait`; the request was withdrawn.
            Denied: the member was removed.
        """
        request = self.request()
        wait_for(request)
        assert request.slot is not None
        request.carry()
        self._uses().append(request)
        return request.slot

    def request(self) -> QueueRequest:
        """Return a new request for a slot, to be waited for."""
        if self._member is None:
            raise Invalid(f"queue {self.name}: only a member can ask", hint="open it with member=")
        ttl, wait = self._ttl_seconds, self._wait_seconds
        return QueueRequest(self._queue, member=self._member, ttl_seconds=ttl, wait_seconds=wait)

    def _uses(self) -> list[QueueRequest]:
        """Return the slots that this thread has acquired here, the last one last."""
        found: list[QueueRequest] = self._thread.__dict__.setdefault("uses", [])
        return found

    def release(self) -> None:
        """Give the slot back that this thread has acquired last, to whoever is next."""
        uses = self._uses()
        if not uses:
            raise Invalid(f"no slot of queue {self.name} was acquired here", hint="acquire one")
        request = uses.pop()
        request.drop()
        request.give_back()

    def __enter__(self) -> QueueSlot:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def revoke(self, member: str) -> None:
        """Take the slots back that a member has, and its requests."""

        def drop(draft: _Draft) -> None:
            records = draft.records().items()
            draft.drop({ticket for ticket, record in records if record["member"] == member})

        self._queue.change(drop)


def queues(leases: TeamLeases) -> list[FairQueue]:
    """Return all queues of a team, by name."""
    prefix = shared_ref(leases.context.ref, _QUEUE)
    refs = sorted(leases.backend.store.refs(prefix))
    return [FairQueue(leases, ref.removeprefix(prefix)) for ref in refs if ref != prefix]
