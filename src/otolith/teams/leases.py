"""Leases: the right to be the only one for a while, and the fence that every commit carries then.

Rules
1. Whoever acquires a lease gets a higher token than all holders before, and the store has seen that
   token before the lease is used. So a holder that was frozen, and lost its lease, cannot commit.
2. A lease ends when its holder gives it back, or when it was not renewed for its time. Postgres,
   Redis and etcd measure that by their own clock; elsewhere `StateLeases` does, by signs of life
   (`signs_of_life.py`).
3. A lease that has ended is acquired anew, also by its last holder, with a new token. So a process
   cannot renew what it has lost, nor can one whose member was removed.
4. The first token of a lease is the time. So a team that was deleted and made again does not begin
   with tokens that the store has seen.

`LeaseRequest` is the wait for a lease, `TeamLease` one in use, whose token commits carry; what both
share with slots of queues is in `requests.py`. `Presence` is a lease that shows who is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from types import TracebackType
from typing import Any, Self

from otolith import environment
from otolith.core import Backend, MapEdit, SharedMap, shared_ref
from otolith.durations import Duration, duration_seconds, wait_seconds
from otolith.errors import Fenced, Invalid, TimedOut
from otolith.shapes import Shape, fields
from otolith.signs_of_life import STAMP, SignsOfLife
from otolith.stores import Batch, Lease, Leaser
from otolith.teams.members import check_short_name
from otolith.teams.requests import (
    Request,
    carry_in_commits,
    wait_for,
)
from otolith.teams.team_context import TeamContext
from otolith.types import short_repr

_SHAPE: Shape = {"holder": str, "token": int, **STAMP}
_ENTRY: Shape = {"member": str, "since": int, "ttl": int, "token": int}
_FREE = "-"
_PRESENCE_SECONDS = 30.0


class StateLeases:
    """Leases over any store: a shared map of the state that they belong to."""

    def __init__(
        self, backend: Backend, branch_ref: str, *, signs: SignsOfLife | None = None
    ) -> None:
        self._backend = backend
        self._map = SharedMap(backend, shared_ref(branch_ref, "leases"), kind="leases")
        self._signs = SignsOfLife() if signs is None else signs

    def lease(self, name: str, holder: str, *, ttl_seconds: float) -> Lease | None:
        """Acquire a lease, or renew it if this holder has it; None if somebody else has it."""
        fences: dict[str, int] = {}

        def acquire(draft: MapEdit) -> Lease | None:
            fences.clear()
            found = _record(draft, name)
            is_held = found is not None and self._is_held(name, found)
            if found is not None and is_held and found["holder"] != holder:
                return None
            token = self._backend.clock() if found is None else int(found["token"])
            if not is_held:
                token = fences[name] = token + 1
            stamp = self._signs.stamp(ttl_seconds, found)
            draft.put(name, {**stamp, "holder": holder, "token": token})
            return Lease(name, holder, token, self._backend.clock() + int(stamp["ttl"]))

        return self._map.change(acquire, fences=lambda: fences)

    def release(self, lease: Lease) -> None:
        """Give a lease back before it runs out; one that was lost already is ignored."""

        def free(draft: MapEdit) -> None:
            found = _record(draft, lease.name)
            if found is not None and (found["holder"], found["token"]) == lease[1:3]:
                draft.put(lease.name, {**found, "holder": _FREE, "until": 0})

        self._map.change(free)

    def leased(self, name: str) -> Lease | None:
        """Return the lease that somebody has now; None if nobody has it."""
        found = _record(self._map.read(), name)
        if found is None or not self._is_held(name, found):
            return None
        return Lease(name, found["holder"], found["token"], 0)

    def _is_held(self, name: str, found: Mapping[str, Any]) -> bool:
        """Tell whether a lease has not ended, as far as this process can know (rule 2)."""
        return found["holder"] != _FREE and self._signs.is_alive(name, found)


def _record(draft: MapEdit, name: str) -> dict[str, Any] | None:
    data = draft.get(name)
    return None if data is None else fields(data, f"the lease {name}", _SHAPE)


@short_repr("name", "member", "since")
@dataclass(frozen=True, slots=True)
class LeaseEntry:
    """A lease that somebody has: who, since when, and for how long after each renewal."""

    name: str
    member: str
    since: int  # microseconds since 1970
    ttl_seconds: float


class TeamLeases:
    """The leases of one team: of the store, where it grants them, else of its state.

    A shared map lists those in use, so that people see who has what. An entry counts while the
    lease has its token.
    """

    def __init__(self, context: TeamContext[Any]) -> None:
        self.context = context
        self.backend = context.backend
        store = self.backend.store
        is_native = isinstance(store, Leaser) and store.capabilities.leases
        self.leaser: Leaser = store if is_native else StateLeases(self.backend, context.ref)  # type: ignore[assignment]
        ref = shared_ref(context.ref, "holders")
        self._list = SharedMap(self.backend, ref, kind="leases")
        self.news_prefix = shared_ref(context.ref, "")
        self.presences = 0  # how many times the member is present here
        self.lock = Lock()
        carry_in_commits(self.backend)

    def full_name(self, name: str) -> str:
        """Return the name of a fence of the team in the store."""
        return f"{self.context.ref.rpartition('/')[0]}/{name}"

    def lease_name(self, name: str) -> str:
        """Return the name of a lease, and of its fence, in the store."""
        return self.full_name(f"lease/{name}")

    def presence_name(self, member: str) -> str:
        """Return the name of the lease that shows that a member is present."""
        return self.full_name(f"present/{member}")

    def note_holder(self, name: str, member: str, lease: Lease, ttl_seconds: float) -> None:
        """List a lease that was acquired, unless somebody else has it by now."""

        def note(draft: MapEdit) -> None:
            found = _entry(draft, name)
            if found is None or found["token"] < lease.token:
                now, ttl = self.backend.clock(), round(ttl_seconds * 1_000_000)
                draft.put(name, {"member": member, "since": now, "ttl": ttl, "token": lease.token})

        self._list.change(note)

    def forget_holder(self, name: str, lease: Lease) -> None:
        """Remove a lease from the list, unless somebody else has it by now."""

        def forget(draft: MapEdit) -> None:
            found = _entry(draft, name)
            if found is not None and found["token"] <= lease.token:
                draft.put(name, None)

        self._list.change(forget)

    def held(self) -> list[LeaseEntry]:
        """Return the leases that somebody has now, by name."""
        return [entry for entry, _ in self._held()]

    def _held(self) -> Iterator[tuple[LeaseEntry, Lease]]:
        listed = self._list.read()
        for name in sorted(listed.items()):
            found, lease = _entry(listed, name), self.leaser.leased(self.lease_name(name))
            if found is not None and lease is not None and lease.token == found["token"]:
                ttl = found["ttl"] / 1_000_000
                yield LeaseEntry(name, found["member"], found["since"], ttl), lease

    def revoke(self, member: str) -> list[str]:
        """Take all leases back that a member has; return their names."""
        revoked = []
        for entry, lease in self._held():
            if entry.member == member:
                self.leaser.release(lease)
                self.forget_holder(entry.name, lease)
                revoked.append(entry.name)
        return revoked


def _entry(draft: MapEdit, name: str) -> dict[str, Any] | None:
    data = draft.get(name)
    return None if data is None else fields(data, f"the lease {name}", _ENTRY)


class LeaseRequest(Request):
    """A wait for a lease, and the lease. Whoever looks for a line looks for itself alone."""

    def __init__(
        self,
        leases: TeamLeases,
        name: str,
        *,
        member: str,
        ttl_seconds: float,
        wait_seconds: float | None,
    ) -> None:
        super().__init__(
            leases.context, f"lease {name}", ttl_seconds=ttl_seconds, wait_seconds=wait_seconds
        )
        self.lease: Lease | None = None
        self.news = leases.news_prefix
        self.line = self._full_name = leases.lease_name(name)
        self._leases = leases
        self._name = name
        self._member = member
        self._holder = f"{member}/{environment.entropy(8).hex()}"

    def look(self, others: Sequence[Self] = ()) -> bool:
        """Take the lease if it is free; it is given back if the member was removed."""
        found = self._ask()
        if found is not None:
            self.lease = found
            self.grant(found.name, found.token, self._renew)
            self._leases.note_holder(self._name, self._member, found, self.ttl_seconds)
            self._check_membership()  # a removal from now on finds the lease in the list
        return self.is_granted

    def _ask(self) -> Lease | None:
        leaser = self._leases.leaser
        return leaser.lease(self._full_name, self._holder, ttl_seconds=self.ttl_seconds)

    def _check_membership(self) -> None:
        """Ask the store whether the member may write; takes no lock, a thread calls it.

        Raises:
            Fenced: the member was removed.
        """
        self.backend.store.write(Batch(fences=self.member_fences))

    def _renew(self) -> bool:
        """Renew the lease; return whether it is still the same."""
        try:
            self._check_membership()
        except Fenced:
            return False
        held, found = self.lease, self._ask()
        assert held is not None
        if found is not None and found.token != held.token:
            self._leases.leaser.release(found)  # ours had run out, and this is another one
        return found is not None and found.token == held.token

    def give_back(self, others: Sequence[Self] = ()) -> None:
        """Release the lease if it was granted; one that was lost is left to its new holder."""
        if self.end() is not None and self.lease is not None:
            self._leases.leaser.release(self.lease)
            self._leases.forget_holder(self._name, self.lease)

    def timed_out(self) -> TimedOut:
        """Return the error for a wait that was too long."""
        found = self._leases.leaser.leased(self._full_name)
        who = "somebody else" if found is None else found.holder.rpartition("/")[0]
        return TimedOut(
            f"{who} had the lease {self._name} for more than {self.wait_seconds:g} s",
            hint="wait longer, or see team.leases()",
        )


class TeamLease:
    """A lease in use: `with team.lease("browser") as lease:`.

    From `acquire` to `release`, every commit of this thread (of this task, under asyncio) to any
    state of the repo carries its token, and is refused with `Fenced` once somebody else has the
    lease.
    """

    def __init__(
        self,
        leases: TeamLeases,
        name: str,
        *,
        member: str,
        ttl: Duration,
        wait: Duration | None,
    ) -> None:
        self.name = check_short_name(name, "lease", hint="such as 'browser'")
        self._leases = leases
        self._member = member
        self._ttl_seconds = duration_seconds(ttl, "ttl")
        self._wait_seconds = None if wait is None else wait_seconds(wait, "wait")
        self._request: LeaseRequest | None = None

    def __repr__(self) -> str:
        is_granted = self._request is not None and self._request.is_granted
        state = "held" if self.is_held else "lost" if is_granted else "not acquired"
        return f"<TeamLease {self.name} {state}>"

    @property
    def token(self) -> int:
        """The number of this holder: higher than those of all holders before.

        Raises:
            Invalid: the lease was not acquired.
        """
        if self._request is None or self._request.lease is None:
            raise self._not_acquired()
        return self._request.lease.token

    @property
    def is_held(self) -> bool:
        """Whether it was acquired and not lost, as far as is known here; a commit finds out."""
        return self._request is not None and self._request.is_held

    def acquire(self) -> Self:
        """Wait until the lease is free, and take it. `with` does this, and `release`.

        Raises:
            TimedOut: somebody else had it for as long as `wait`.
            Denied: the member was removed.
        """
        request = self.request()
        self.hold(request)
        wait_for(request)
        request.carry()
        return self

    def request(self) -> LeaseRequest:
        """Return a request for the lease, to be waited for."""
        ttl, wait = self._ttl_seconds, self._wait_seconds
        return LeaseRequest(
            self._leases, self.name, member=self._member, ttl_seconds=ttl, wait_seconds=wait
        )

    def hold(self, request: LeaseRequest) -> None:
        """Use the lease by a request, until that is over.

        Raises:
            Invalid: it is used by another one.
        """
        if self._request is not None and not self._request.is_over:
            raise Invalid(f"the lease {self.name} is acquired already", hint="make another one")
        self._request = request

    def renew(self) -> None:
        """Renew the lease now; a thread does so by itself, three times in its time to live.

        Raises:
            Fenced: it was lost. Nothing that is committed here will land.
        """
        if self._request is None or self._request.renewal is None:
            raise self._not_acquired()
        self._request.renewal.renew()

    def release(self) -> None:
        """Give the lease back; one that was lost is left to its new holder."""
        if self._request is not None:
            self._request.drop()
            self._request.give_back()

    def _not_acquired(self) -> Invalid:
        return Invalid(f"the lease {self.name} was not acquired", hint="use it in a `with`")

    def __enter__(self) -> Self:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class Presence(Request):
    """Shows that a member is there, as long as one of its presences here is not given back."""

    def __init__(self, leases: TeamLeases) -> None:
        self._member = leases.context.member
        super().__init__(
            leases.context,
            f"presence of {self._member}",
            ttl_seconds=_PRESENCE_SECONDS,
            wait_seconds=0,
        )
        self.news = leases.news_prefix
        self.line = self._full_name = leases.presence_name(self._member)
        self._leases = leases
        self._lease: Lease | None = None

    def look(self, others: Sequence[Self] = ()) -> bool:
        """Be present; all processes of a member hold the same lease."""
        if self._renew() and self._lease is not None:
            with self._leases.lock:
                self._leases.presences += 1
            self.grant(self._lease.name, self._lease.token, self._renew)
        return self.is_granted

    def _renew(self) -> bool:
        leaser = self._leases.leaser
        found = leaser.lease(self._full_name, self._member, ttl_seconds=self.ttl_seconds)
        self._lease = self._lease if found is None else found
        return found is not None

    def give_back(self, others: Sequence[Self] = ()) -> None:
        """Be present no longer, unless the member is so here once more."""
        if self.end() is None or self._lease is None:
            return
        with self._leases.lock:
            self._leases.presences -= 1
            is_last = not self._leases.presences
        if is_last:
            self._leases.leaser.release(self._lease)

    def timed_out(self) -> TimedOut:
        """Return the error if somebody else has the lease, which only a process gone wrong has."""
        return TimedOut(f"somebody else has the lease {self._full_name}", hint="try again")
