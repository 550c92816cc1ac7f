"""Proposals: a change lands with the vote that completes its quorum, or not at all."""

from __future__ import annotations

import pytest

import otolith
from otolith.errors import (
    CommitNotFound,
    Conflict,
    Denied,
    IllegalTransition,
    Invalid,
    KeyNotFound,
    MergeConflict,
)
from otolith.statecharts import Chart
from otolith.stores import MemoryStore
from otolith.teams import PROPOSAL_TABLE
from otolith.testing import FaultyStore

NAMES = ("ann", "critic", "planner")


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000

    def __call__(self) -> int:
        self.now += 1
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def repo(tmp_path, clock):
    with otolith.open(str(tmp_path / "team.db"), clock=clock) as repo:
        yield repo


@pytest.fixture
def team(repo):
    team = repo.team("research", member="planner")
    team.transact(lambda state: state.update(plan={"name": "A", "cost": 5}, budget=100), "begin")
    for name in NAMES:
        team.add(name)
    return team


def switch(state):
    state["plan/name"] = "B"


def test_a_change_lands_with_the_last_vote_it_needs(team):
    proposal = team.propose("switch to plan B", switch, quorum=2)
    assert (proposal.status, proposal.needed, proposal.voters) == ("open", 2, NAMES)
    assert [(each.path, each.old, each.new) for each in proposal.diff()] == [
        ("plan/name", "A", "B")
    ]
    proposal.approve("critic", why="cheaper")
    assert (proposal.status, team.state["plan/name"]) == ("open", "A")
    before = team.state.head
    proposal.approve("ann")
    landed = team.state.head
    assert (proposal.status, team.state["plan/name"]) == ("landed", "B")
    assert landed.parents == (before.id, proposal.commit.id)
    assert [(vote.member, vote.why) for vote in proposal.votes] == [
        ("critic", "cheaper"),
        ("ann", ""),
    ]


def test_the_commit_in_which_it_landed_is_found_later(repo, team):
    landed = team.propose("switch", switch, quorum=1, veto={"ann"})
    other = team.propose("other", lambda state: state.update(budget=1))
    assert (landed.landing, landed.vetoers, landed.time < other.time) == (None, ("ann",), True)
    commit = landed.approve().landing
    assert commit == team.state.head
    other.reject()
    team.transact(lambda state: state.update({"plan/name": "C"}))
    again = repo.team("research").proposal(landed.id)
    assert again.landing == commit
    assert [each.path for each in team.state.diff(commit.parents[0], commit)] == ["plan/name"]
    assert other.landing is None


def test_what_the_votes_are_for_has_a_digest(team):
    proposal = team.propose("switch", switch)
    same = team.propose("the same", switch)
    other = team.propose("other", lambda state: state.update(budget=1))
    assert proposal.effect == same.effect != other.effect
    team.transact(lambda state: state.update(unrelated=1))
    assert proposal.refresh().effect == same.effect


def test_each_vote_is_a_commit_by_its_voter(team):
    proposal = team.propose("switch", switch, quorum="all")
    for name in NAMES:
        proposal.approve(name)
    assert [each.author for each in team.state.log(limit=3)] == ["planner", "critic", "ann"]


def test_a_proposal_changes_nothing_before_it_lands(team):
    def change(state):
        state["plan/name"] = "B"
        state.list("notes").append("x")
        state.counter("budget").add(-10)

    proposal = team.propose("switch", change, quorum=1)
    assert team.state.to_dict() == {"plan": {"name": "A", "cost": 5}, "budget": 100}
    proposal.approve()
    assert team.state.to_dict() == {
        "plan": {"name": "B", "cost": 5},
        "budget": 90,
        "notes": ["x"],
    }


def test_other_work_does_not_disturb_the_votes(team):
    proposal = team.propose("switch", switch, quorum=2)
    proposal.approve("critic")
    team.transact(lambda state: state.update({"plan/cost": 6, "other": 1}))
    proposal.approve("ann")
    assert proposal.status == "landed"
    assert team.state["plan"] == {"name": "B", "cost": 6}


def test_votes_lapse_when_the_result_would_be_another(team):
    proposal = team.propose("spend", lambda state: state.counter("budget").add(-30), quorum=2)
    proposal.approve("critic")
    team.transact(lambda state: state.counter("budget").add(-50))
    with pytest.raises(Conflict, match=r"something else now.*the votes for that have lapsed"):
        proposal.approve("ann")
    assert (proposal.refresh().votes, proposal.lapsed) == ((), 1)
    assert [(each.old, each.new) for each in proposal.diff()] == [(50, 20)]
    proposal.approve("ann")
    assert proposal.status == "open"
    proposal.approve("critic")
    assert (proposal.status, team.state["budget"]) == ("landed", 20)


def test_a_vote_for_what_the_voter_has_not_seen_is_refused(repo, team):
    made = team.propose("spend", lambda state: state.counter("budget").add(-30), quorum=2)
    critic = repo.team("research", member="critic")
    seen = critic.proposal(made.id)
    team.transact(lambda state: state.counter("budget").add(-50))
    with pytest.raises(Conflict):
        made.approve("ann")
    made.refresh().approve("ann")
    with pytest.raises(Conflict, match="look at it again"):
        seen.approve()
    assert [vote.member for vote in made.refresh().votes] == ["ann"]


def test_a_proposal_that_conflicts_cannot_land_until_the_conflict_is_gone(team):
    proposal = team.propose("switch", switch, quorum=1)
    team.transact(lambda state: state.update({"plan/name": "C"}))
    with pytest.raises(Conflict):
        proposal.approve()
    proposal.refresh()
    assert [each.path for each in proposal.conflicts] == ["plan/name"]
    with pytest.raises(MergeConflict, match="others have changed plan/name"):
        proposal.approve()
    assert team.state.is_clean
    team.transact(lambda state: state.update({"plan/name": "A"}))
    with pytest.raises(Conflict):
        proposal.approve()
    proposal.refresh().approve()
    assert team.state["plan/name"] == "B"


def test_a_conflict_is_gone_when_others_do_what_was_proposed(team):
    proposal = team.propose("switch", lambda s: s.update(a="B", b=1), quorum=1)
    team.transact(lambda state: state.update(a="C"))
    with pytest.raises(Conflict):
        proposal.approve()
    with pytest.raises(MergeConflict):
        proposal.refresh().approve()
    team.transact(lambda state: state.update(a="B"))  # landing would change b, as before
    with pytest.raises(Conflict, match="something else now"):
        proposal.approve()
    assert proposal.refresh().approve().status == "landed"
    assert (team.state["a"], team.state["b"]) == ("B", 1)


def test_two_proposals_for_one_path_do_not_both_land(team):
    first = team.propose("B", switch, quorum=1)
    second = team.propose("C", lambda state: state.update({"plan/name": "C"}), quorum=1)
    first.approve()
    with pytest.raises(Conflict):
        second.approve()
    with pytest.raises(MergeConflict):
        second.refresh().approve()
    assert team.state["plan/name"] == "B"


def test_a_vote_from_a_handle_that_is_behind_counts_with_the_others(repo, team):
    made = team.propose("switch", switch, quorum=2)
    critic = repo.team("research", member="critic").proposal(made.id)
    late = repo.team("research", member="planner").proposal(made.id)
    made.approve("ann")
    team.transact(lambda state: state.update(other=1))
    assert critic.approve().status == "landed"
    assert sorted(vote.member for vote in critic.votes) == ["ann", "critic"]
    with pytest.raises(IllegalTransition, match="is landed"):
        late.approve()


def test_a_vote_asks_the_store_once():
    store = FaultyStore(MemoryStore())
    team = otolith.Repo(store, author="test").team("research", member="planner")
    team.transact(lambda state: state.update(plan={"name": "A"}))
    proposal = team.propose("switch", switch, quorum=1)
    store.calls.clear()
    assert proposal.approve().status == "landed"
    assert store.calls == {"write": 1}


def test_a_later_vote_of_the_same_member_replaces_the_earlier(team):
    proposal = team.propose("switch", switch, quorum=2)
    proposal.approve("ann").approve("ann")
    assert proposal.status == "open"
    proposal.reject("ann", why="no")
    assert [(vote.approves, vote.why) for vote in proposal.votes] == [(False, "no")]


def test_a_proposal_is_rejected_once_it_cannot_reach_its_quorum(team):
    proposal = team.propose("switch", switch, quorum=2)
    proposal.reject("ann").reject("critic")
    assert proposal.status == "rejected"
    with pytest.raises(IllegalTransition, match="is rejected"):
        proposal.approve()
    assert team.state["plan/name"] == "A"


def test_a_veto_ends_it(team):
    proposal = team.propose("switch", switch, quorum=1, veto=["ann"])
    proposal.reject("ann", why="too risky")
    assert proposal.status == "vetoed"


def test_one_who_does_not_vote_can_veto_and_do_nothing_else(team):
    proposal = team.propose("switch", switch, quorum=1, of=["critic"], veto=["ann"])
    with pytest.raises(Denied, match=r"ann may not vote.*critic"):
        proposal.approve("ann")
    proposal.reject("ann", why="too risky")
    assert (proposal.status, [vote.why for vote in proposal.votes]) == ("vetoed", ["too risky"])
    with pytest.raises(IllegalTransition):
        proposal.approve("critic")
    assert team.state["plan/name"] == "A"


def test_only_who_made_it_withdraws_it(repo, team):
    proposal = team.propose("switch", switch)
    with pytest.raises(Denied, match="planner made proposal"):
        repo.team("research", member="ann").proposal(proposal.id).withdraw()
    proposal.withdraw(why="found better")
    assert (proposal.status, proposal.why) == ("withdrawn", "found better")
    with pytest.raises(IllegalTransition):
        proposal.withdraw()


def test_after_its_time_nobody_can_vote(team, clock):
    proposal = team.propose("switch", switch, quorum=2, until="2h")
    proposal.approve("ann")
    clock.now = proposal.until
    assert proposal.status == "expired"
    with pytest.raises(IllegalTransition, match="is expired"):
        proposal.approve("critic")
    assert team.proposal(proposal.id)._record.status == "expired"
    assert team.state["plan/name"] == "A"


def test_a_voter_with_a_slow_clock_does_not_vote_after_the_deadline(team, clock):
    proposal = team.propose("switch", switch, quorum=1, until="2h")
    clock.now = proposal.until + 1
    team.transact(lambda state: state.update(other=1))  # a member whose clock is right
    clock.now -= 3_600_000_000
    with pytest.raises(IllegalTransition):
        proposal.approve()


def test_after_its_time_nobody_withdraws_it(team, clock):
    proposal = team.propose("switch", switch, until="2h")
    clock.now = proposal.until
    with pytest.raises(IllegalTransition, match="is expired"):
        proposal.withdraw(why="late")
    assert (proposal.status, proposal.why, team.proposal(proposal.id).status) == (
        ("expired", "", "expired")
    )


def test_history_has_no_vote_that_was_refused(team, clock):
    first = team.propose("first", switch, quorum=2, until="2h")
    second = team.propose("second", lambda state: state.counter("budget").add(1), quorum=2)
    second.approve("critic")
    team.transact(lambda state: state.update(budget=0), "moved")
    with pytest.raises(Conflict):
        second.approve("ann")
    with pytest.raises(Denied):
        team.propose("third", switch, of=["ann"]).approve("critic")
    clock.now = first.until
    for refused in (lambda: first.reject("ann"), first.withdraw):
        with pytest.raises(IllegalTransition):
            refused()
    assert [(each.message, each.author) for each in team.state.log(limit=4)] == [
        ("expired: first", "planner"),
        ("propose third", "planner"),
        ("votes lapse: second", "planner"),
        ("moved", "planner"),
    ]


def test_what_has_expired_stays_so_for_a_slow_clock(repo, team, clock):
    proposal = team.propose("switch", switch, quorum=1, until="2h")
    clock.now = proposal.until
    with pytest.raises(IllegalTransition):
        proposal.approve("critic")
    clock.now -= 3_600_000_000
    again = repo.team("research", member="ann").proposal(proposal.id)
    assert again.status == "expired"
    with pytest.raises(IllegalTransition, match="is expired"):
        again.approve()


def test_only_the_named_members_vote(team):
    proposal = team.propose("switch", switch, of={"ann", "critic"}, quorum=1)
    with pytest.raises(Denied, match=r"planner may not vote.*ann, critic"):
        proposal.approve()


def test_a_removed_member_does_not_vote(team):
    proposal = team.propose("switch", switch, quorum=2)
    team.remove("critic")
    with pytest.raises(KeyNotFound, match="no member 'critic'"):
        proposal.approve("critic")


@pytest.mark.parametrize(
    ("quorum", "needed"), [(None, 2), ("all", 3), (0.5, 2), (0.34, 2), (0.33, 1), (1.0, 3), (1, 1)]
)
def test_a_quorum_is_a_number_a_share_or_all(team, quorum, needed):
    assert team.propose("switch", switch, quorum=quorum).needed == needed


@pytest.mark.parametrize("quorum", [0, 4, -1, 1.5, 0.0, "most", True, [2]])
def test_a_quorum_that_cannot_be_reached_is_refused(team, quorum):
    with pytest.raises(Invalid, match=r"quorum|the number of voters is 3"):
        team.propose("switch", switch, quorum=quorum)


def test_a_proposal_needs_a_title_members_and_a_change(team):
    with pytest.raises(Invalid, match="needs a title"):
        team.propose(" ", switch)
    with pytest.raises(KeyNotFound, match="no member 'bob'"):
        team.propose("x", switch, of={"ann", "bob"})
    with pytest.raises(KeyNotFound, match="no member 'bob'"):
        team.propose("x", switch, veto=["bob"])
    with pytest.raises(Invalid, match="of must be several names"):
        team.propose("x", switch, of="ann")
    with pytest.raises(Invalid, match="changes nothing"):
        team.propose("x", lambda state: None)
    with pytest.raises(Invalid, match="until must be a time"):
        team.propose("x", switch, until="-2h")
    with pytest.raises(Invalid, match="change must be"):
        team.propose("x", {"plan/name": "B"})
    with pytest.raises(Invalid, match="not inside a transaction"):
        team.propose("x", lambda state: state.commit("landed"))
    assert team.proposals() == []
    for title, change in [(" ", switch), (5, switch), ("x", 5), ("x", lambda state: None)]:
        with pytest.raises(Invalid) as refused:
            team.propose(title, change)
        assert refused.value.hint
    proposal = team.propose("x", switch)
    for call in (proposal.approve, proposal.reject, proposal.withdraw):
        with pytest.raises(Invalid, match="why must be a text") as refused:
            call(why=5)
        assert refused.value.hint


def test_a_change_that_fails_proposes_nothing(team):
    def fail(state):
        state["x"] = 1
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        team.propose("x", fail)
    assert team.proposals() == []
    assert "x" not in team.state


def test_a_branch_can_be_proposed(team):
    fork = team.state.fork("idea")
    fork["plan/name"] = "F"
    fork.commit("better")
    proposal = team.propose("the idea", fork, quorum=1).approve()
    assert (proposal.status, team.state["plan/name"]) == ("landed", "F")


def test_what_another_store_has_cannot_be_proposed_or_merged(team):
    with otolith.open("memory:") as other:
        session = other.session("trip")
        session["plan"] = "B"
        commit = session.commit()
        for call in (
            lambda: team.propose("x", commit),
            lambda: team.propose("x", session),
            lambda: team.merge(commit),
        ):
            with pytest.raises(CommitNotFound, match="not in the store of team research") as lost:
                call()
            assert lost.value.hint == "pull or fetch it first"
    assert team.state.is_clean


def test_a_branch_without_a_change_is_told_what_to_commit(team):
    idea = team.state.fork("idea")
    with pytest.raises(Invalid, match="changes nothing") as none:
        team.propose("the idea", idea)
    assert none.value.hint == "the team's state has all of it: commit something there first"
    idea["plan/name"] = "F"
    with pytest.raises(Invalid, match="changes nothing") as staged:
        team.propose("the idea", idea)
    assert "staged edits: commit them there" in staged.value.hint
    idea.commit()
    assert team.propose("the idea", idea).status == "open"


def test_a_branch_that_conflicts_is_proposed_once_it_was_merged(team):
    idea = team.state.fork("idea")
    idea["plan/name"] = "F"
    idea.commit()
    team.transact(lambda state: state.update({"plan/name": "G"}))
    with pytest.raises(MergeConflict, match="others have changed plan/name") as conflict:
        team.propose("the idea", idea)
    assert conflict.value.hint == (
        "merge the team's branch into it, decide there, and propose the result"
    )
    idea.merge("main")
    idea.resolve_conflict("plan/name", take="ours")
    idea.commit("decided")
    assert team.propose("the idea", idea, quorum=1).approve().status == "landed"
    assert team.state["plan/name"] == "F"


def removed_on(branch, name):
    """Commit to a branch that nobody is a member of this name, beside another edit."""
    branch["plan/name"] = "F"
    branch.write_reserved((".team", "members", name), None)
    return branch.commit("better")


def test_a_branch_that_changes_who_is_a_member_cannot_be_proposed(team):
    idea = team.state.fork("idea")
    made = removed_on(idea, "critic")
    for change in (idea, made):
        with pytest.raises(Invalid, match=r"what the team stores of itself.*\.team/members/critic"):
            team.propose("the idea", change, quorum=1)
    assert team.proposals() == []
    assert team.state.is_clean
    assert [each.name for each in team.members()] == sorted(NAMES)


def test_a_function_that_changes_who_is_a_member_cannot_be_proposed(team):
    def change(state):
        state["plan/name"] = "F"
        state.write_reserved((".team", "members", "critic"), None)

    with pytest.raises(Invalid, match=r"\.team/members/critic"):
        team.propose("the idea", change, quorum=1)


def test_a_draft_of_before_that_changes_who_is_a_member_does_not_land(team, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("otolith.teams.proposals._check_apart_from_team", lambda *found: None)
        proposal = team.propose("the idea", removed_on(team.state.fork("idea"), "critic"), quorum=1)
    with pytest.raises(Invalid, match=r"\.team/members/critic"):
        proposal.approve()
    assert [each.name for each in team.members()] == sorted(NAMES)


def test_a_branch_that_members_have_moved_past_can_be_proposed(team):
    fork = team.state.fork("idea")
    fork["plan/name"] = "F"
    fork.commit("better")
    team.add("bob")
    team.send("critic", "look")
    proposal = team.propose("the idea", fork, quorum=1, of=["planner"]).approve()
    assert (proposal.status, team.state["plan/name"]) == ("landed", "F")
    assert "bob" in [each.name for each in team.members()]


def test_proposals_are_listed_by_age_and_found_by_their_first_letters(team):
    first = team.propose("one", switch, quorum=1)
    second = team.propose("two", lambda state: state.update(x=1), quorum=1).approve()
    assert [each.title for each in team.proposals()] == ["one", "two"]
    assert [each.title for each in team.proposals(status="open")] == ["one"]
    assert team.proposal(second.id[:7]).status == "landed"
    assert team.proposal(first.id).title == "one"
    for id in ("", "zz"):
        with pytest.raises(KeyNotFound):
            team.proposal(id)


@pytest.mark.parametrize("status", ["zz", 5, ""])
def test_a_status_that_no_proposal_has_is_refused(team, status):
    with pytest.raises(Invalid, match=r"status must be that of a proposal.*landed"):
        team.proposals(status=status)


def test_drafts_of_proposals_survive_a_collection(repo, team):
    proposal = team.propose("switch", switch, quorum=1)
    otolith.care.prune(repo, expire_seconds=0)
    assert proposal.refresh().approve().status == "landed"


def test_the_statechart_of_a_proposal_can_be_drawn_and_ends():
    ends = sorted(set(PROPOSAL_TABLE.values()) - {"open"})
    chart = Chart.from_table(PROPOSAL_TABLE, initial="open", final=ends)
    assert chart.check() == []
    assert chart.accepts(["vote", "vote", "land"])
    assert not chart.accepts(["veto", "vote"])
    assert "landed" in chart.to_mermaid()


def test_a_message_or_a_note_can_be_proposed(team):
    def change(state):
        state.conversation.system("Be brief.")
        state.memory.note("tone", "brief")

    proposal = team.propose("a tone", change, quorum=1)
    assert [each.path for each in proposal.diff()] == [".conversation/main/0", ".memory/notes/tone"]
    proposal.approve()
    assert team.state.conversation.system_prompt == "Be brief."
    assert team.state.memory.notes["tone"].value == "brief"


def test_members_vote_on_merge_policies_as_well(repo, team):
    proposal = team.propose("count", lambda state: state.policy("tokens", "counter"), quorum=1)
    assert [(each.path, each.new) for each in proposal.diff()] == [
        (".policy", {"tokens": "counter"})
    ]
    team.transact(lambda state: state.policy("tokens", "max"))
    with pytest.raises(Conflict):
        proposal.approve()
    assert team.state.policies()["tokens"] == "max"
