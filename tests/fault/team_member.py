"""A member of a team that does its part of some work, beside others, until it is killed or done.

python team_member.py URL MEMBER WORK ROUNDS NOTES

It says `ready` when it begins, a line after each step, and `done`. Each step that was acknowledged
is also a line in the file NOTES. A member that was killed is started again, looks at what is there,
and goes on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from time import sleep
from typing import Any

import otolith
from otolith.errors import Conflict, Fenced, IllegalTransition
from otolith.stores import news_of
from otolith.teams import Proposal

TEAM, SESSION = "research", "trip"
MEMBERS = ("ann", "bob", "cy")
TTL = "1s"
SLOTS = 2
_USE_SECONDS = 0.01
HANG_SECONDS = 120  # without any commit of others: then one of them has failed


class TeamMember:
    """The kinds of work; each goes on where an earlier process of the member was killed."""

    def __init__(self, repo: otolith.Repo, name: str, rounds: int, notes: Path) -> None:
        self.team = repo.team(TEAM, member=name)
        self.name = name
        self.rounds = rounds
        self._repo = repo
        self._notes = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def _note(self, *words: object) -> None:
        """Note what was acknowledged."""
        line = f"{' '.join(map(str, words))}\n".encode()
        os.write(self._notes, line)
        os.write(1, line)

    def transact(self) -> None:
        """Read, decide and write: each round once, however often it is begun."""

        def work(state: Any) -> int:
            number: int = state[f"own/{self.name}"]
            if number < self.rounds:
                state[f"own/{self.name}"] = number + 1
                state["total"] += 1
                state.list("log").append(f"{self.name} {number} {os.getpid()}")
            return number

        while (number := self.team.transact(work)) < self.rounds:
            self._note(self.name, number, os.getpid())

    def lease(self) -> None:
        """Do each round alone."""
        goes_on = True
        while goes_on:
            with suppress(Fenced), self.team.lease("browser", ttl=TTL) as lease:
                goes_on = self._goes_in_and_out("browser", lease.token)

    def queue(self) -> None:
        """Do each round in one of the slots."""
        goes_on = True
        while goes_on:
            with suppress(Fenced), self.team.queue("gpu", slots=SLOTS, ttl=TTL) as slot:
                goes_on = self._goes_in_and_out(f"gpu-{slot.index}", slot.token)

    def _goes_in_and_out(self, place: str, token: int) -> bool:
        """Do a round if one is left; return whether it was."""

        def go_in(state: Any) -> bool:
            number: int = state[f"own/{self.name}"]
            if number < self.rounds:
                state[f"own/{self.name}"] = number + 1
                state.list("log").append(f"{place} {token} in")
            return number < self.rounds

        def go_out(state: Any) -> None:
            state.list("log").append(f"{place} {token} out")

        is_in = self.team.transact(go_in)
        if is_in:
            self._note(place, token, "in")
            sleep(_USE_SECONDS)  # long enough to be killed or frozen there
            self.team.transact(go_out)
            self._note(place, token, "out")
        return is_in

    def vote(self) -> None:
        """Approve each proposal until all have landed; whoever is the last lands it."""
        with closing(news_of(self._repo.store, self.team.state.ref)) as news:
            while found := self.team.proposals(status="open"):
                left = [each for each in found if self.name not in _voters(each)]
                for proposal in left:
                    self._approve(proposal)
                if not left:
                    assert news.wait(HANG_SECONDS), "the others do not vote"

    def land(self) -> None:
        """Propose a change and land it, one after the other."""
        for number in range(self.rounds):
            title = f"{self.name} {number}"
            made = next((each for each in self.team.proposals() if each.title == title), None)
            if made is None:
                made = self.team.propose(title, plan(title), quorum=1)
                self._note(f"propose {title}")
            while made.status == "open":
                self._approve(made)

    def _approve(self, proposal: Proposal) -> None:
        """Approve a proposal, or look again if it would change something else now."""
        with suppress(Conflict, IllegalTransition):
            proposal.approve()
            self._note(f"{self.name} approves {proposal.title}")
        proposal.refresh()

    def hand_over(self) -> None:
        """Pass a session round: whoever has it adds a hop, and gives it on with an edit staged."""
        for number in self._turns():
            trip = self.team.session(SESSION)
            assert trip["staged"] in (number - 1, number), "what was staged came along"
            if len(trip["hops"]) == number:
                trip.list("hops").append(number)
                trip.commit(f"hop {number}")
                self._note("hop", number)
            trip["staged"] = number
            self.team.handoff(trip, to=MEMBERS[(number + 1) % len(MEMBERS)], note=number)
            self._note("gave", number)

    def _turns(self) -> Iterator[int]:
        """Yield the number of each hop that is this member's, when it has the session."""
        first = MEMBERS.index(self.name)
        with closing(news_of(self._repo.store, self.team.state.ref)) as news:
            for number in range(first, self.rounds * len(MEMBERS), len(MEMBERS)):
                while self._hops_given() < number:
                    assert news.wait(HANG_SECONDS), "the others do not hand it over"
                if self._hops_given() == number:
                    yield number

    def _hops_given(self) -> int:
        """Return how often the session was handed over."""
        (owner,) = self.team.sessions()
        return 0 if owner.note is None else int(owner.note) + 1


def _voters(proposal: Proposal) -> set[str]:
    return {vote.member for vote in proposal.votes}


def plan(title: str) -> Callable[[Any], None]:
    """Return a change that shows in two places that it has landed."""

    def change(state: Any) -> None:
        state.counter(f"landed/{title}").add(1)
        state.counter(f"also/{title}").add(1)

    return change


def main(url: str, name: str, work: str, rounds: str, notes: str) -> None:
    """Do a kind of work to its end."""
    with otolith.open(url) as repo:
        member = TeamMember(repo, name, int(rounds), Path(notes))
        print("ready", flush=True)
        getattr(member, work)()
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
