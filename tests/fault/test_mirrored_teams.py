"""Two stores of one team that were apart: nothing is lost, both end equal, conflicts are told."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import otolith
from otolith.care import verify
from otolith.errors import Conflict, Denied, Fenced, IllegalTransition, KeyNotFound
from otolith.teams import Team

MEMBERS = ("ann", "bob", "cy")
REMOTE = "remote/store/team/research/main"
OPERATIONS = 25


class Apart:
    """Two stores of one repo, and the members in each of them."""

    def __init__(self, folder: Path) -> None:
        self.repos = [otolith.open(folder / "one.db", durability="fast")]
        team = self.repos[0].team("research", member="ann")
        for name in MEMBERS:
            team.add(name)
        team.transact(lambda state: state.update(plan="A", log=["begun"], tokens=0))
        team.state.policy("tokens", "counter")
        team.state.commit()
        self.repos[0].clone(str(folder / "other.db"))
        self.repos.append(otolith.open(folder / "other.db", durability="fast"))

    def team(self, side: int, member: str) -> Team[Any]:
        return self.repos[side].team("research", member=member)

    def meet(self) -> list[str]:
        """Pull both ways until both are equal; return the paths in conflict, which ann decides."""
        conflicts = []
        one, other = self.repos
        if one.pull(other.store).conflicts:
            conflicts = [each.path for each in self.team(0, "ann").merge(REMOTE)]
        assert other.pull(one.store).conflicts == ()
        heads = [self.team(side, "ann").state.head for side in (0, 1)]
        assert heads[0] is not None
        assert heads[0] == heads[1]
        assert all(verify(repo, level="full").ok for repo in self.repos)
        return conflicts


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[Apart]:
    found = Apart(tmp_path)
    yield found
    for repo in found.repos:
        repo.close()


def plan_b(state: Any) -> None:
    state["plan"] = "B"


def test_what_was_read_in_one_store_and_sent_in_the_other_is_read_once(apart):
    apart.team(0, "ann").send("bob", 1)
    apart.meet()
    assert [each.body for each in apart.team(0, "bob").messages()] == [1]
    apart.team(0, "cy").send("bob", 2)
    apart.team(1, "ann").send("bob", 3)
    apart.team(1, "ann").send("bob", 4)
    assert apart.meet() == []
    assert sorted(each.body for each in apart.team(1, "bob").messages()) == [2, 3, 4]
    apart.meet()
    assert apart.team(0, "bob").messages() == []


def test_equal_messages_from_both_stores_are_two(apart):
    for side in (0, 1):
        apart.team(side, "ann").send("bob", "hi")
    apart.meet()
    assert [each.body for each in apart.team(0, "bob").messages()] == ["hi", "hi"]


def test_votes_of_both_stores_count_together_and_the_next_one_lands(apart):
    made = apart.team(0, "ann").propose("B", plan_b, quorum=2)
    apart.meet()
    for side, voter in enumerate(("bob", "cy")):
        apart.team(side, voter).proposal(made.id).approve()
    apart.meet()
    found = apart.team(1, "ann").proposal(made.id)
    assert sorted(vote.member for vote in found.votes) == ["bob", "cy"]
    assert (found.status, apart.team(1, "ann").state["plan"]) == ("open", "A")
    found.approve()
    apart.meet()
    assert apart.team(0, "ann").proposal(made.id).status == "landed"
    assert apart.team(0, "ann").state["plan"] == "B"


ENDS: dict[str, Callable[[Apart, int, str], object]] = {
    "withdrawn": lambda apart, side, which: (
        apart.team(side, "ann").proposal(which).withdraw(why="no")
    ),
    "rejected": lambda apart, side, which: [
        apart.team(side, name).proposal(which).reject() for name in ("bob", "cy")
    ],
    "landed": lambda apart, side, which: [
        apart.team(side, name).proposal(which).approve() for name in ("bob", "ann")
    ],
}


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("end", ENDS)
def test_what_has_landed_in_either_store_has_landed(apart, end, side):
    made = apart.team(0, "ann").propose("B", plan_b, quorum=2)
    apart.meet()
    ENDS["landed"](apart, side, made.id)
    ENDS[end](apart, 1 - side, made.id)
    assert apart.meet() == []
    for each in (0, 1):
        assert apart.team(each, "cy").proposal(made.id).status == "landed"
        assert apart.team(each, "cy").state["plan"] == "B"


def test_a_vote_for_what_it_did_before_the_stores_met_does_not_count(apart):
    made = apart.team(0, "ann").propose("B", plan_b, quorum=2)
    apart.meet()
    apart.team(1, "cy").proposal(made.id).approve()
    planner = apart.team(0, "bob")
    planner.transact(lambda state: state.update(plan="A2"))
    with pytest.raises(Conflict):
        planner.proposal(made.id).approve()
    assert apart.meet() == []
    found = apart.team(0, "bob").proposal(made.id)
    assert (found.votes, found.lapsed) == ((), 1)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_session_that_was_handed_over_in_both_stores_has_one_owner(apart, order):
    trip = apart.team(0, "ann").session("trip")
    trip["a"] = 1
    trip.commit()
    apart.meet()
    for side in order:
        apart.team(side, "ann").handoff("trip", to=("bob", "cy")[side])
    working = [apart.team(side, ("bob", "cy")[side]).session("trip") for side in (0, 1)]
    for side in (0, 1):
        working[side][f"by/{side}"] = 1
        working[side].commit()
    assert apart.meet() == []
    (owner,) = apart.team(0, "ann").sessions()
    assert owner.owner == ("bob", "cy")[order[-1]], "who got it last"
    for side in (0, 1):
        mine = apart.team(side, owner.owner).session("trip")
        with pytest.raises(Denied):
            apart.team(side, "bob" if owner.owner == "cy" else "cy").session("trip")
        if owner.owner != ("bob", "cy")[side]:
            working[side]["late"] = 1
            with pytest.raises(Fenced):
                working[side].commit()
        mine["on"] = side
        mine.commit()
        assert mine["by"] == {"0": 1, "1": 1}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize(("first", "last"), [("bob", "ann"), ("ann", "bob"), ("ann", "ann")])
def test_a_session_that_its_owner_was_given_anew_has_one_owner(apart, order, first, last):
    held = [apart.team(0, "ann").session("trip")]
    held[0]["a"] = 1
    held[0].commit()
    apart.meet()
    held.append(apart.team(1, "ann").session("trip"))
    for side, to in zip(order, (first, last), strict=True):
        apart.team(side, "ann").handoff("trip", to=to, note=to)
    given = apart.team(order[1], "ann").sessions()
    assert apart.meet() == []
    for side in (0, 1):
        assert apart.team(side, "cy").sessions() == given, "who got it last, with all its parts"
        mine = apart.team(side, last).session("trip")
        mine["on"] = side
        mine.commit()
        held[side]["late"] = 1
        with pytest.raises(Fenced):
            held[side].commit()
        held[side].discard()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_member_that_was_removed_in_either_store_is_removed(apart, order):
    held = apart.team(1, "bob")
    for side in order:
        apart.team(side, "ann").remove("bob")
        if side == 1:
            apart.team(1, "ann").add("bob")
            held.transact(lambda state: state.update(place="here"))
    assert apart.meet() == []
    held.state.refresh()
    for side in (0, 1):
        assert [each.name for each in apart.team(side, "ann").members()] == ["ann", "cy"]
        with pytest.raises(Denied, match="was removed"):
            apart.team(side, "bob").send("ann", "hi")
    with pytest.raises(Denied, match="was removed"):
        held.send("ann", "hi")
    apart.team(0, "ann").add("bob")
    apart.meet()
    for side in (0, 1):
        apart.team(side, "bob").send("ann", "hi")


def test_a_conflict_that_was_decided_in_both_stores_is_reported_again(apart):
    ann = apart.team(0, "ann")
    fork = ann.state.fork("idea")
    fork["plan"] = "C"
    fork.commit()
    ann.transact(lambda state: state.update(plan="A2"))
    (conflict,) = ann.merge(fork)
    apart.meet()
    apart.team(0, "bob").resolve(conflict.id, value="by bob")
    apart.team(1, "cy").resolve(conflict.id, value="by cy")
    assert apart.meet() == ["plan"]
    (found,) = apart.team(1, "ann").inbox
    assert {found.ours, found.theirs} == {"by bob", "by cy"}
    assert sum(each.settled for each in apart.team(1, "ann").inbox.statistics()) == 2


class Day:
    """What members do in one store, and what must come of it."""

    def __init__(self, apart: Apart, chance: random.Random) -> None:
        self.apart = apart
        self.chance = chance
        self.tokens = 0
        self.logged: list[str] = []
        self.own: dict[str, int] = {}
        self.sent: Counter[tuple[str, int]] = Counter()
        self.read: Counter[tuple[str, int]] = Counter()
        self.numbers = 0
        self.homes: dict[str, int] = {}  # where a member reads its messages: it reads each once
        self.added: set[str] = set()

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def begin(self) -> None:
        """Let each member go to one of the stores."""
        self.homes = {name: self.chance.randrange(2) for name in MEMBERS}

    def act(self, side: int) -> None:
        """Let some member do something in a store."""
        verbs = [self.transact, self.send, self.messages, self.propose, self.vote, self.fork,
                 self.resolve, self.hand_over, self.member]  # fmt: skip
        name, verb = self.chance.choice(MEMBERS), self.chance.choice(verbs)
        if verb == self.messages:
            side = self.homes[name]
        with suppress(Denied, Conflict, IllegalTransition, KeyNotFound):
            verb(self.apart.team(side, name), name)

    def transact(self, team: Team[Any], name: str) -> None:
        number, shared = self.number(), self.chance.choice(("plan", "place"))

        def edit(state: Any) -> None:
            state.counter("tokens").add(number)
            state.list("log").append(f"{name} {number}")
            state[f"own/{name} {number}"] = number
            if self.chance.random() < 0.3:
                state[shared] = f"{name} {number}"

        team.transact(edit)
        self.tokens += number
        self.logged.append(f"{name} {number}")
        self.own[f"{name} {number}"] = number

    def send(self, team: Team[Any], name: str) -> None:
        number, to = self.number(), self.chance.choice(MEMBERS)
        team.send(to, number)
        self.sent[to, number] += 1

    def messages(self, team: Team[Any], name: str) -> None:
        bodies = [each.body for each in team.messages()]
        self.read.update((name, body) for body in bodies if type(body) is int)

    def propose(self, team: Team[Any], name: str) -> None:
        number = self.number()

        def change(state: Any) -> None:
            state[f"voted/{number}"] = number
            if number % 3 == 0:
                state["plan"] = f"voted {number}"

        team.propose(str(number), change, quorum=2)

    def vote(self, team: Team[Any], name: str) -> None:
        found = team.proposals(status="open")
        if found:
            proposal, what = self.chance.choice(found), self.chance.random()
            if what < 0.7:
                proposal.approve()
            elif what < 0.9:
                proposal.reject()
            else:
                proposal.withdraw()

    def fork(self, team: Team[Any], name: str) -> None:
        number = self.number()
        fork = team.state.fork(f"fork-{number}")
        fork["plan"] = f"fork {number}"
        fork.counter("tokens").add(number)
        fork.commit()
        if self.chance.random() < 0.5:
            team.transact(lambda state: state.update(plan=f"{name} {number}"))
        team.merge(fork)
        self.tokens += number

    def resolve(self, team: Team[Any], name: str) -> None:
        inbox = list(team.inbox)
        if inbox:
            team.resolve(self.chance.choice(inbox), take=self.chance.choice(("ours", "theirs")))

    def hand_over(self, team: Team[Any], name: str) -> None:
        session = team.session(self.chance.choice(("trip", "book")))
        session.list("log").append(self.number())
        session.commit()
        if self.chance.random() < 0.5:
            session[f"staged/{self.number()}"] = 1
            team.handoff(session, to=self.chance.choice(MEMBERS))

    def member(self, team: Team[Any], name: str) -> None:
        added = f"guest {self.number()}"
        team.add(added)
        self.added.add(added)
        if self.chance.random() < 0.3:
            team.remove(added)
            self.added.discard(added)

    def check(self, team: Team[Any]) -> None:
        """Check what everybody sees after the stores have met."""
        state = team.state
        state.refresh()
        assert state["tokens"] == self.tokens
        assert sorted(state["log"]) == sorted(["begun", *self.logged])
        assert state.get("own", {}) == self.own
        assert {each.name for each in team.members()} == {*MEMBERS, *self.added}
        unread = Counter(
            (name, each.body)
            for name in MEMBERS
            for each in team.as_member(name).messages(mark=False)
            if type(each.body) is int
        )
        assert self.read + unread == self.sent, "each message was read once, or waits"
        for each in team.proposals():
            assert (each.title in state.get("voted", {})) == (each.status == "landed")
        for owner in team.sessions():
            assert owner.owner in MEMBERS


def test_a_day_apart_loses_nothing(tmp_path, rounds):
    for number in range(rounds(4, 150)):
        folder = tmp_path / str(number)
        folder.mkdir()
        apart, chance = Apart(folder), random.Random(number)
        day = Day(apart, chance)
        for _ in range(3):
            day.begin()
            for _ in range(OPERATIONS):
                day.act(chance.randrange(2))
            apart.meet()
            day.check(apart.team(chance.randrange(2), "ann"))
        for repo in apart.repos:
            repo.close()
