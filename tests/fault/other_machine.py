"""Another machine: a process that does what it is told, line by line, with the clock it has.

python other_machine.py URL

Each line that it reads is a JSON list, a verb of `Machine` and its arguments; it answers each with
a line of JSON.
"""

from __future__ import annotations

import json
import select
import sys
import time
from functools import partial
from typing import Any


def _sleep(seconds: Any, /) -> None:
    select.select([], [], [], seconds)


# libfaketime 0.9.10 breaks `sleep` if the monotonic clock is right, and locks if it is not. It is
# replaced before anybody imports it.
time.sleep = _sleep

import otolith  # noqa: E402
from otolith.care import prune, verify  # noqa: E402
from otolith.errors import Busy, Contention, Fenced  # noqa: E402
from otolith.stores import Batch, Lease  # noqa: E402

_YOUNG_SECONDS = 60
TEAM = "research"


class Machine:
    """The verbs."""

    def __init__(self, url: str) -> None:
        self._repo = otolith.open(url)
        self._store: Any = self._repo.store
        self._leases: dict[str, Lease] = {}

    def clock(self) -> float:
        """Return the time by the clock of this machine."""
        return time.time()

    def write(self, name: str, rounds: int) -> int:
        """Commit to a session that others write too, and collect garbage in between."""
        state = self._repo.session("job")
        for number in range(rounds):
            state.counter("total").add(1)
            state.list("log").append([name, number])
            state[f"own/{name}"] = number
            while True:
                try:
                    state.commit(f"{name} {number}")
                except Contention:
                    continue
                break
            state.fork(f"{name}-{number}")
            self._repo.delete_branch("job", f"{name}-{number}")
            if number % 3 == 2:
                self.prune()
        return rounds

    def prune(self) -> int:
        """Collect all that is older than a minute, by the clock of this machine."""
        try:
            return prune(self._repo, expire_seconds=_YOUNG_SECONDS).dropped_objects
        except Busy:  # another one is at it
            return 0

    def set(self, session: str, branch: str, key: str, value: object) -> None:
        """Commit one value."""
        state = self._repo.session(session, branch=branch)
        state[key] = value
        state.commit(f"{key} on {branch}")

    def get(self, session: str, key: str) -> object:
        """Return one value, as it is in the store now."""
        return self._repo.session(session).get(key)

    def lease(self, name: str, holder: str, ttl_seconds: float) -> bool:
        """Try to acquire or renew a lease."""
        found = self._store.lease(name, holder, ttl_seconds=ttl_seconds)
        if found is not None:
            self._leases[name] = found
        return found is not None

    def use(self, name: str) -> bool:
        """Write with the lease that was acquired; return whether it was accepted."""
        lease = self._leases[name]
        try:
            self._store.write(Batch(fences={name: lease.token}))
        except Fenced:
            return False
        return True

    def release(self, name: str) -> None:
        """Give a lease back."""
        self._store.release(self._leases.pop(name))

    def expire(self, session: str, seconds: float) -> None:
        """Let a session expire."""
        self._repo.session(session).expire(f"{seconds}s")

    def sessions(self) -> list[str]:
        """Return the ids of all sessions."""
        return [each.id for each in self._repo.sessions()]

    def work(self, member: str, rounds: int) -> list[int]:
        """Work as a member of a team, each round with a lease; return the tokens."""
        team = self._repo.team(TEAM, member=member)
        tokens = []
        for number in range(rounds):
            with team.lease("one") as lease:
                team.transact(partial(_log, [member, number]))
                tokens.append(lease.token)
        return tokens

    def propose(self, member: str, key: str, until: str) -> str:
        """Propose to set a key, which all members have to approve in time."""
        team = self._repo.team(TEAM, member=member)
        change = team.propose(key, lambda state: state.update({key: 1}), quorum="all", until=until)
        return change.id

    def approve(self, member: str, id: str) -> str:
        """Approve a proposal; return what has become of it."""
        return self._repo.team(TEAM, member=member).proposal(id).approve().status

    def verify(self) -> bool:
        """Tell whether all that is reachable is sound."""
        return verify(self._repo, level="full").ok


def _log(entry: list[Any], state: Any) -> None:
    state.list("log").append(entry)


def main(url: str) -> None:
    """Answer until there is no more line."""
    machine = Machine(url)
    for line in sys.stdin:
        verb, *arguments = json.loads(line)
        print(json.dumps(getattr(machine, verb)(*arguments)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
