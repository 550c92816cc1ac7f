"""Members of a team that are killed or frozen at any point: nothing is lost, nothing counts twice.

Three members work beside each other, each of which is killed again and again and started anew, and
in the end left to do the rest. What each was told before it was killed is in a file of notes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import otolith
from otolith.care import verify
from tests.fault.killing import frozen_and_ended, killed_and_ended
from tests.fault.team_member import MEMBERS, SESSION, SLOTS, TEAM, plan
from tests.patience import HANG_SECONDS
from tests.servers import postgres

PROGRAM = Path(__file__).with_name("team_member.py")
FROZEN_SECONDS = 1.5  # longer than a lease of the program lasts


class Work:
    """A team, what its members have to do, and what they were told."""

    def __init__(self, url: str, kind: str, rounds: int, folder: Path) -> None:
        self.url, self.kind, self.rounds = url, kind, rounds
        self.notes = folder / "notes"
        self.notes.touch()
        self._begin()

    def _begin(self) -> None:
        with otolith.open(self.url) as repo:
            team = repo.team(TEAM, member=MEMBERS[0])
            for name in MEMBERS:
                team.add(name)
            own = dict.fromkeys(MEMBERS, 0)
            team.transact(lambda state: state.update(total=0, log=[], own=own, landed={}, also={}))
            if self.kind == "vote":
                for number in range(self.rounds):
                    team.propose(str(number), plan(str(number)), quorum="all")
            if self.kind == "hand_over":
                trip = team.session(SESSION)
                trip.update(hops=[], staged=-1)
                trip.commit()

    def done_by(self, disturb: Callable[[str, tuple[object, ...]], int]) -> int:
        """Let all members work at once, each disturbed; return how often they were."""
        words = {name: (self.url, name, self.kind, self.rounds, self.notes) for name in MEMBERS}
        with ThreadPoolExecutor(len(MEMBERS)) as pool:
            return sum(pool.map(disturb, words, words.values()))

    def check(self) -> None:
        """Check what is left, against what members were told."""
        told = self.notes.read_text().splitlines()
        with otolith.open(self.url) as repo:
            assert verify(repo, level="full").ok
            getattr(self, f"_check_{self.kind}")(repo, repo.team(TEAM), told)

    def _check_transact(self, repo: otolith.Repo, team: Any, told: list[str]) -> None:
        state = team.state
        done = Counter(tuple(line.split()[:2]) for line in state["log"])
        wanted = {(name, str(number)) for name in MEMBERS for number in range(self.rounds)}
        assert done == Counter(wanted), "each transaction is there once"
        assert state["total"] == len(wanted)
        assert {*told} <= {*state["log"]}, "what was acknowledged is there"

    def _check_lease(self, repo: otolith.Repo, team: Any, told: list[str]) -> None:
        self._check_turns(team, told, places={"browser"})

    def _check_queue(self, repo: otolith.Repo, team: Any, told: list[str]) -> None:
        self._check_turns(team, told, places={f"gpu-{index}" for index in range(SLOTS)})
        with ExitStack() as stack:
            for name in MEMBERS[:SLOTS]:  # no slot is lost: all can be had at once
                slots = repo.team(TEAM, member=name).queue("gpu", slots=SLOTS, wait=HANG_SECONDS)
                stack.enter_context(slots)

    def _check_turns(self, team: Any, told: list[str], *, places: set[str]) -> None:
        """Check that each place was used by one at a time: by who came last, and nobody before."""
        log = [line.split() for line in team.state["log"]]
        assert {*told} <= {*team.state["log"]}
        assert {place for place, *_ in log} <= places
        for place in places:
            tokens = [int(token) for where, token, way in log if where == place and way == "in"]
            assert len({*tokens}) == len(tokens), "no grant was given twice"
            used = [int(token) for where, token, _ in log if where == place]
            assert used == sorted(used), "who lost it commits nothing after the next one has it"
        assert sum(way == "in" for *_, way in log) == self.rounds * len(MEMBERS)
        assert team.state["own"] == dict.fromkeys(MEMBERS, self.rounds)
        assert team.leases() == []

    def _check_vote(self, repo: otolith.Repo, team: Any, told: list[str]) -> None:
        assert len(team.proposals()) == self.rounds
        for proposal in team.proposals():
            assert sorted(vote.member for vote in proposal.votes) == sorted(MEMBERS)
        self._check_landed(team, told)

    def _check_land(self, repo: otolith.Repo, team: Any, told: list[str]) -> None:
        titles = sorted(each.title for each in team.proposals())
        assert titles == sorted(f"{name} {n}" for name in MEMBERS for n in range(self.rounds))
        self._check_landed(team, told)

    def _check_landed(self, team: Any, told: list[str]) -> None:
        """Check that at every moment what had landed was there, whole, and nothing else was."""
        assert {each.status for each in team.proposals()} == {"landed"}
        told_again = Counter(told)
        for commit in team.state.log():
            if commit.kind == "draft":  # which the head comes from, and never was
                continue
            then = team.state.at(commit)
            landed = {
                each["title"]
                for each in _proposals_at(team, commit).values()
                if each["status"] == "landed"
            }
            once = dict.fromkeys(landed, 1)
            assert then.get("landed", {}) == once, "a change is there with its last vote, and once"
            assert then.get("also", {}) == once, "and all of it"
            told_again[commit.message] -= 1
        assert max(told_again.values(), default=0) <= 0, "what was acknowledged is a commit"

    def _check_hand_over(self, repo: otolith.Repo, team: Any, told: list[str]) -> None:
        count = self.rounds * len(MEMBERS)
        (owner,) = team.sessions()
        assert (owner.owner, owner.note) == (MEMBERS[count % len(MEMBERS)], count - 1)
        trip = repo.team(TEAM, member=owner.owner).session(SESSION)
        assert trip["hops"] == [*range(count)], "each hop was made once, by whose turn it was"
        assert trip["staged"] == count - 1
        hops = [c for c in trip.log() if c.message.startswith("hop")]
        assert [c.author for c in hops][::-1] == [MEMBERS[n % len(MEMBERS)] for n in range(count)]
        given = Counter(
            message.body["note"]
            for name in MEMBERS
            for message in repo.team(TEAM, member=name).messages(mark=False)
        )
        assert given == Counter(range(count)), "each handoff has sent one message"
        assert {line.split()[1] for line in told} <= {str(number) for number in range(count)}


def _proposals_at(team: Any, commit: otolith.Commit) -> dict[str, Any]:
    """Return the records of all proposals as they were at a commit."""
    snapshot = team.state.at(commit)
    cell = snapshot.cell_at((".team", "proposals"))
    return {} if cell is None else snapshot.cells.load(cell)


KINDS = ["transact", "lease", "queue", "vote", "land", "hand_over"]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return postgres.fresh(request.getfixturevalue("postgres_url"))
    return str(tmp_path / "team.db")


@pytest.mark.parametrize("kind", KINDS)
def test_members_that_are_killed_lose_and_double_nothing(
    url, kind, tmp_path, rounds, record_property
):
    kills = rounds(1, 18)
    work = Work(url, kind, 2 * kills + 2, tmp_path)

    def disturb(name: str, words: tuple[object, ...]) -> int:
        chance = random.Random(f"{kind} {name}")
        return killed_and_ended(PROGRAM, *words, kills=kills, chance=chance)

    killed = work.done_by(disturb)
    record_property("kills", killed)
    assert killed >= kills * len(MEMBERS) // 2, "a long run has 300 kills: 27 in each of 12 tests"
    work.check()


@pytest.mark.parametrize("kind", KINDS)
def test_members_that_are_frozen_lose_and_double_nothing(
    url, kind, tmp_path, rounds, record_property
):
    times = rounds(1, 6)
    work = Work(url, kind, 2 * times + 2, tmp_path)

    def disturb(name: str, words: tuple[object, ...]) -> int:
        chance = random.Random(f"{kind} {name} frozen")
        return frozen_and_ended(PROGRAM, *words, times=times, seconds=FROZEN_SECONDS, chance=chance)

    frozen = work.done_by(disturb)
    record_property("frozen", frozen)
    assert frozen
    work.check()
