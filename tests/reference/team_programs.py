"""Programs of three members of a team, and a model that says what each step must come to.

The model is plain data and knows nothing of commits: a dict of values, who holds what, and what was
said. Numbers are never used twice, so that every value tells where it came from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

import pytest
from hypothesis import note
from hypothesis import strategies as st

from otolith import Repo
from otolith.care import verify
from otolith.errors import (
    Conflict,
    Denied,
    Fenced,
    IllegalTransition,
    Invalid,
    KeyNotFound,
    MergeConflict,
    TimedOut,
)

TEAM, TRIP, BROWSER, GPU = "research", "trip", "browser", "gpu"
NAMES = ("ann", "bob", "cy")
KEYS = ("plan", "place")
SIDES = ("ours", "theirs", "base")
SLOTS, QUORUM = 2, 2
VERBS = (
    "transact", "transact", "commit", "send", "read", "propose", "propose", "approve", "approve",
    "approve", "reject", "withdraw", "lease", "slot", "work", "hand_over", "merge", "merge",
    "resolve", "remove", "add", "watch",
)  # fmt: skip


class Step(NamedTuple):
    """Who does what, with which other member, and a number to choose by."""

    verb: str
    who: str
    other: str
    choice: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(VERBS),
        st.sampled_from(NAMES),
        st.sampled_from(NAMES),
        st.integers(0, 11),
    ),
    min_size=12,
    max_size=40,
)


@dataclass
class ProposalModel:
    """A change of one key, from the value that it had to another."""

    by: str
    key: str
    old: int
    new: int
    voters: tuple[str, ...]
    effect: str = "set"
    status: str = "open"
    votes: dict[str, bool] = field(default_factory=dict)
    lapsed: int = 0


@dataclass
class ConflictModel:
    """A key that two members changed."""

    key: str
    ours: int
    theirs: int
    base: int


class TeamProgram:
    """A team in a store and its model. `repos` are one for each member, on the same store."""

    def __init__(self, repos: Sequence[Repo]) -> None:
        self.repos = dict(zip(NAMES, repos, strict=True))
        self.teams: dict[str, Any] = {name: self._open(name) for name in NAMES}
        self.members = {*NAMES}
        self.values = dict.fromkeys(KEYS, 0)
        self.tokens = 0
        self.log: list[int] = []
        self.mail: dict[str, list[Any]] = {name: [] for name in NAMES}
        self.proposals: dict[str, ProposalModel] = {}
        self.inbox: dict[str, ConflictModel] = {}
        self.settled = Counter[str]()
        self.plans: list[tuple[int, int]] = []
        self.leases: dict[str, Any] = {}
        self.slots: dict[str, Any] = {}
        self.owner: str | None = None
        self.hops: list[int] = []
        self._numbers = count(1)
        self._seen: list[tuple[int, int]] = []
        ann = self.teams["ann"]
        ann.transact(lambda state: state.update(self.values, tokens=0, log=[]))
        ann.state.policy("tokens", "counter")
        ann.state.policy("log", "append")
        ann.state.commit()
        for name in NAMES:
            ann.add(name)
        self._watch = ann.watch("plan")

    def _open(self, name: str) -> Any:
        return self.repos[name].team(TEAM, member=name)

    def run(self, steps: Sequence[Step]) -> None:
        """Do steps, check what each comes to, and then what everybody sees."""
        for step in steps:
            note(f"{step}")
            getattr(self, step.verb)(step)
        for name in NAMES:
            self.check(self.repos[name].team(TEAM))
        self.check_watch()
        for name in NAMES:
            self._give_back(name)
        assert verify(self.repos["ann"], level="full").ok

    @contextmanager
    def expects(self, step: Step, error: type[Exception] | None = None) -> Any:
        """Expect an error, or none; a member that was removed gets one, and nothing is done."""
        errors = () if error is None else (error,)
        if not self._may(step):
            errors = (Denied, Fenced, *errors)
        with pytest.raises(errors) if errors else nullcontext():
            yield

    def _may(self, step: Step) -> bool:
        return step.who in self.members

    def _set(self, key: str, value: int) -> None:
        if key == "plan" and self.values[key] != value:
            self.plans.append((self.values[key], value))
        self.values[key] = value

    # Values

    def transact(self, step: Step) -> None:
        number, key = next(self._numbers), KEYS[step.choice % 2]

        def edit(state: Any) -> int:
            before: int = state[key]
            state[key] = number
            state["tokens"] += number
            state.list("log").append(number)
            return before

        with self.expects(step):
            assert self.teams[step.who].transact(edit) == self.values[key]
        if self._may(step):
            self._set(key, number)
            self._add(number)

    def commit(self, step: Step) -> None:
        """Edit the handle as it is, and commit: what others did since is merged."""
        number = next(self._numbers)
        with self.expects(step):
            state = self.teams[step.who].state
            with ExitStack() as stack:
                stack.callback(state.discard)
                state.counter("tokens").add(number)
                state.list("log").append(number)
                state.commit()
        if self._may(step):
            self._add(number)

    def _add(self, number: int) -> None:
        self.tokens += number
        self.log.append(number)

    def merge(self, step: Step) -> None:
        """Work on a branch; with an odd choice the team's state changes meanwhile."""
        key, theirs, ours = KEYS[step.choice % 2], next(self._numbers), next(self._numbers)
        base, is_changed = self.values[key], step.choice % 4 > 1
        with self.expects(step):
            team = self.teams[step.who]
            team.transact(lambda state: state.list("log").append(ours))
            fork = team.state.fork(f"idea-{theirs}")
            fork[key] = theirs
            fork.commit()
            if is_changed:
                team.transact(lambda state: state.update({key: ours}))
            found = team.merge(fork)
            assert [each.path for each in found] == [key] * is_changed
        if self._may(step):
            self.log.append(ours)
            self._set(key, ours if is_changed else theirs)
            for each in found:
                self.inbox[each.id] = ConflictModel(key, ours, theirs, base)

    def resolve(self, step: Step) -> None:
        if not self.inbox:
            return
        id = sorted(self.inbox)[step.choice % len(self.inbox)]
        side = SIDES[step.choice % 3]
        with self.expects(step):
            self.teams[step.who].resolve(id, take=side)
        if self._may(step):
            conflict = self.inbox.pop(id)
            self._set(conflict.key, getattr(conflict, side))
            self.settled[step.who] += 1

    def watch(self, step: Step) -> None:
        self.check_watch()

    # Words

    def send(self, step: Step) -> None:
        number = next(self._numbers)
        error = None if step.other in self.members else KeyNotFound
        with self.expects(step, error):
            self.teams[step.who].send(step.other, number)
        if self._may(step) and error is None:
            self.mail[step.other].append(number)

    def read(self, step: Step) -> None:
        if not (self._may(step) or self.mail[step.who]):
            return  # who has no mail writes nothing, and needs no right to
        with self.expects(step):
            found = [each.body for each in self.teams[step.who].messages()]
            assert found == self.mail[step.who]
        if self._may(step):
            self.mail[step.who] = []

    # Proposals

    def propose(self, step: Step) -> None:
        number, key = next(self._numbers), KEYS[step.choice % 2]
        error = None if len(self.members) >= QUORUM else Invalid
        with self.expects(step, error):
            made = self.teams[step.who].propose(
                f"{key} {number}", lambda state: state.update({key: number}), quorum=QUORUM
            )
        if self._may(step) and error is None:
            voters = tuple(sorted(self.members))
            self.proposals[made.id] = ProposalModel(step.who, key, self.values[key], number, voters)

    def approve(self, step: Step) -> None:
        self._vote(step, approves=True)

    def reject(self, step: Step) -> None:
        self._vote(step, approves=False)

    def _vote(self, step: Step, *, approves: bool) -> None:
        if not self.proposals:
            return
        id = sorted(self.proposals)[step.choice % len(self.proposals)]
        proposal = self.proposals[id]
        is_possible = self.values[proposal.key] == proposal.old
        effect = "set" if is_possible else "conflict"
        error: type[Exception] | None = None
        if proposal.status != "open":
            error = IllegalTransition
        elif step.who not in proposal.voters:
            error = Denied
        elif effect != proposal.effect:
            error = Conflict
        elif not is_possible:
            error = MergeConflict
        with self.expects(step, error):
            found = self.teams[step.who].proposal(id)
            found.approve() if approves else found.reject()
        if not self._may(step):
            return
        if error is Conflict:
            proposal.effect = effect
            proposal.lapsed += len(proposal.votes)
            proposal.votes = {}
        elif error is None:
            proposal.votes[step.who] = approves
            self._decide(proposal)
            assert found.status == proposal.status

    def _decide(self, proposal: ProposalModel) -> None:
        approvals = sum(proposal.votes.values())
        rejections = len(proposal.votes) - approvals
        if approvals >= QUORUM:
            proposal.status = "landed"
            self._set(proposal.key, proposal.new)
        elif len(proposal.voters) - rejections < QUORUM:
            proposal.status = "rejected"

    def withdraw(self, step: Step) -> None:
        if not self.proposals:
            return
        id = sorted(self.proposals)[step.choice % len(self.proposals)]
        proposal = self.proposals[id]
        error: type[Exception] | None = None
        if proposal.by != step.who:
            error = Denied
        elif proposal.status != "open":
            error = IllegalTransition
        with self.expects(step, error):
            self.teams[step.who].proposal(id).withdraw()
        if self._may(step) and error is None:
            proposal.status = "withdrawn"

    # What only one can have

    def lease(self, step: Step) -> None:
        if step.who in self.leases:
            self.leases.pop(step.who).release()
            return
        with self.expects(step, TimedOut if self.leases else None):
            lease = self.teams[step.who].lease(BROWSER, ttl="1h", wait=0).acquire()
        if self._may(step) and not self.leases:
            self.leases[step.who] = lease

    def slot(self, step: Step) -> None:
        if step.who in self.slots:
            self.slots.pop(step.who).release()
            return
        is_full = len(self.slots) == SLOTS
        with self.expects(step, TimedOut if is_full else None):
            queue = self.teams[step.who].queue(GPU, slots=SLOTS, ttl="1h", wait=0)
            queue.acquire()
        if self._may(step) and not is_full:
            self.slots[step.who] = queue

    def _give_back(self, name: str) -> None:
        for held in (self.leases.pop(name, None), self.slots.pop(name, None)):
            if held is not None:
                held.release()

    def work(self, step: Step) -> None:
        number = next(self._numbers)
        is_free = self.owner in (None, step.who) or self.owner not in self.members
        with self.expects(step, None if is_free else Denied):
            trip = self.teams[step.who].session(TRIP)
            trip.list("hops").append(number)
            trip.commit()
        if self._may(step) and is_free:
            self.owner = step.who
            self.hops.append(number)

    def hand_over(self, step: Step) -> None:
        error: type[Exception] | None = None
        if step.other not in self.members:
            error = KeyNotFound
        elif self.owner not in (None, step.who):
            error = Denied
        with self.expects(step, error):
            self.teams[step.who].handoff(TRIP, to=step.other)
        if self._may(step) and error is None:
            self.owner = step.other
            self.mail[step.other].append({"handoff": TRIP, "note": None})

    # Members

    def remove(self, step: Step) -> None:
        if step.who == step.other:
            return
        error = None if step.other in self.members else KeyNotFound
        with self.expects(step, error):
            self.teams[step.who].remove(step.other)
        if self._may(step) and error is None:
            self.members.discard(step.other)
            self._give_back(step.other)

    def add(self, step: Step) -> None:
        if step.who == step.other or (not self._may(step) and step.other in self.members):
            return
        with self.expects(step):
            self.teams[step.who].add(step.other)
        if self._may(step):
            if step.other not in self.members:
                self.teams[step.other] = self._open(step.other)
            self.members.add(step.other)

    # What is there

    def check_watch(self) -> None:
        """Check that every change of the plan was seen, once, in order."""
        while (found := self._watch.next(0)) is not None:
            self._seen.append((found.old, found.new))
        assert self._seen == self.plans

    def check(self, team: Any) -> None:
        """Check what somebody sees who looks at the team."""
        state = team.state
        state.refresh()
        assert {key: state[key] for key in KEYS} == self.values
        assert state["tokens"] == self.tokens
        assert sorted(state["log"]) == sorted(self.log)
        assert {each.name for each in team.members()} == self.members
        assert [each.member for each in team.leases()] == [*self.leases]
        assert {s.member for each in team.queues() for s in each.used} == {*self.slots}
        assert [each.owner for each in team.sessions()] == [self.owner] * (self.owner is not None)
        self._check_proposals(team)
        inbox = team.inbox
        assert {
            each.id: ConflictModel(each.path, each.ours, each.theirs, each.base) for each in inbox
        } == self.inbox
        settled = sum((Counter(each.by) for each in inbox.statistics()), Counter[str]())
        assert settled == self.settled
        for name in self.members:
            unread = self.repos[name].team(TEAM, member=name).messages(mark=False)
            assert [each.body for each in unread] == self.mail[name]
        if self.hops:
            assert next(iter(self.repos.values())).session(TRIP)["hops"] == self.hops

    def _check_proposals(self, team: Any) -> None:
        assert len(team.proposals()) == len(self.proposals)
        for each in team.proposals():
            wanted = self.proposals[each.id]
            votes = {vote.member: vote.approves for vote in each.votes}
            assert (each.status, votes) == (wanted.status, wanted.votes)
            assert (each.lapsed, each.voters) == (wanted.lapsed, wanted.voters)


def run_program(open_repo: Callable[[], Repo], steps: Sequence[Step]) -> None:
    """Run a program in a store that is opened once for each member."""
    with ExitStack() as stack:
        repos = [stack.enter_context(open_repo()) for _ in NAMES]
        TeamProgram(repos).run(steps)
