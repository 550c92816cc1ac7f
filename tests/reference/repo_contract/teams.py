"""What teams promise on every store: agreement, order, one holder, and reading what was told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from otolith import Repo
from otolith.errors import Conflict, Denied, Fenced, TimedOut
from tests.patience import HANG_SECONDS


class TeamPromises:
    """Promises of `repo.team`; `beside` opens the same store once more, as another process does."""

    def beside(self, repo: Repo, folder: Path) -> Repo:
        return Repo(repo.store)

    @pytest.fixture
    def other(self, repo: Repo, tmp_path: Path) -> Iterator[Repo]:
        other = self.beside(repo, tmp_path)
        yield other
        other.close()

    def test_a_member_reads_what_it_is_told_of(self, repo, other):
        """A commit of one process is there for all others at once, by its id and at the head."""
        mine, theirs = repo.team("t", member="a"), other.team("t", member="b")
        for number in range(5):
            mine.transact(lambda state, n=number: state.update(x=n))
            told = mine.state.head.id
            assert other.at(told)["x"] == number
            theirs.state.refresh()
            assert theirs.state.at(told).commit in theirs.state.log()
            assert theirs.state["x"] == number

    def test_what_a_commit_depends_on_is_there_with_it(self, repo, other):
        """Causal reads: a commit of one ref that names another commit is never seen without it."""
        session, team = repo.session("s"), repo.team("t", member="a")
        team.transact(lambda state: state.update(plan="B"))
        session["saw"] = "B"
        seen = session.commit(reads={team.state.ref: team.state.head})
        found = other.at(seen.id).commit.reads[team.state.ref]
        assert other.at(found)["plan"] == "B"

    def test_two_members_lose_nothing(self, repo, other):
        members = repo.team("t", member="a"), other.team("t", member="b")

        def add(state):
            state["n"] = state.get("n", 0) + 1
            state.list("log").append(state["n"])

        for number in range(10):
            members[number % 2].transact(add)
        assert members[1].state["n"] == 10
        assert members[1].state["log"] == [*range(1, 11)]

    def test_a_watch_sees_every_commit_of_another_process_in_order(self, repo, other):
        mine, theirs = repo.team("t", member="a"), other.team("t", member="b")
        mine.transact(lambda state: state.update(x=-1))
        with theirs.watch("x") as watch:
            for number in range(6):
                mine.transact(lambda state, n=number: state.update(x=n))
            found = [watch.next(HANG_SECONDS) for _ in range(6)]
            assert [each.new for each in found] == [*range(6)]
            assert [each.new for each in self._rest(theirs, found[2].cursor)] == [3, 4, 5]

    def _rest(self, team, cursor):
        with team.watch("x", since=cursor) as watch:
            return [watch.next(HANG_SECONDS) for _ in range(3)]

    def test_a_lease_has_one_holder_whose_commits_alone_land(self, repo, other):
        mine, theirs = repo.team("t", member="a"), other.team("t", member="b")
        with mine.lease("one") as lease:
            with pytest.raises(TimedOut):
                theirs.lease("one", wait=0).acquire()
            assert [(each.name, each.member) for each in theirs.leases()] == [("one", "a")]
        with theirs.lease("one") as newer:
            assert newer.token > lease.token
            mine.state["x"] = 1
            with pytest.raises(Fenced):
                mine.state.commit(fences={"team/t/lease/one": lease.token})
            theirs.state["x"] = 2
            theirs.state.commit()
        assert theirs.leases() == []

    def test_a_slot_goes_to_the_next(self, repo, other):
        mine, theirs = repo.team("t", member="a"), other.team("t", member="b")
        with mine.queue("gpu") as slot:
            waiting = theirs.queue("gpu", wait="50ms")
            with pytest.raises(TimedOut):
                waiting.acquire()
        with theirs.queue("gpu") as given:
            assert (given.index, given.member) == (slot.index, "b")
            assert given.token > slot.token

    def test_a_proposal_lands_with_its_last_vote(self, repo, other):
        mine, theirs = repo.team("t", member="a"), other.team("t", member="b")
        mine.transact(lambda state: state.update(plan="A", budget=10))
        theirs.transact(lambda state: state.update(other=1))
        proposal = mine.propose("switch", lambda state: state.update(plan="B"), quorum="all")
        theirs.proposal(proposal.id).approve()
        mine.transact(lambda state: state.update(budget=5))
        assert proposal.refresh().approve().status == "landed"
        assert theirs.proposals()[0].status == "landed"
        assert theirs.state["plan"] == "B"

    def test_a_conflict_waits_in_the_inbox_until_one_decides(self, repo, other):
        mine, theirs = repo.team("t", member="a"), other.team("t", member="b")
        mine.transact(lambda state: state.update(plan="A"))
        fork = mine.state.fork("try")
        fork["plan"] = "F"
        fork.commit()
        theirs.transact(lambda state: state.update(plan="B"))
        (conflict,) = mine.merge(fork)
        (seen,) = theirs.inbox
        theirs.resolve(seen, take="theirs")
        with pytest.raises((Conflict, KeyError)):
            mine.resolve(conflict, take="ours")
        mine.state.refresh()
        assert mine.state["plan"] == "F"

    def test_a_session_has_one_owner(self, repo, other):
        mine, theirs = repo.team("t", member="a"), other.team("t", member="b")
        theirs.transact(lambda state: None)
        theirs.add("b")
        work = mine.session("trip")
        work["x"] = 1
        mine.handoff(work, to="b", note="go on")
        assert theirs.session("trip")["x"] == 1
        with pytest.raises(Fenced):
            work.commit()
        with pytest.raises(Denied):
            mine.session("trip")
        assert [each.body["handoff"] for each in theirs.messages()] == ["trip"]

    def test_a_removed_member_is_refused_by_the_store(self, repo, other):
        mine, theirs = repo.team("t", member="a"), other.team("t", member="b")
        theirs.transact(lambda state: state.update(x=1))
        handle = theirs.state
        handle["x"] = 2
        mine.remove("b")
        with pytest.raises(Fenced):
            handle.commit()
