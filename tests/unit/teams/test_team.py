"""A team: a state that several members share, and who may write to it."""

from __future__ import annotations

import asyncio

import pytest

import otolith
from otolith import Repo
from otolith.codecs import Codecs, Opaque
from otolith.errors import (
    BadRef,
    Contention,
    Denied,
    Fenced,
    Invalid,
    KeyNotFound,
    Unavailable,
    Uncommitted,
)
from otolith.stores import Batch, MemoryStore, Swap
from otolith.testing import Fault, FaultyStore


@pytest.fixture
def repo(tmp_path):
    with otolith.open(str(tmp_path / "team.db")) as repo:
        yield repo


@pytest.fixture
def planner(repo):
    return repo.team("research", member="planner")


@pytest.fixture
def critic(repo):
    return repo.team("research", member="critic")


def test_every_commit_carries_its_member(planner, critic):
    planner.transact(lambda state: state.counter("tokens").add(512), "asked")
    critic.transact(lambda state: state.counter("tokens").add(1))
    critic.state["owner"] = "critic"
    critic.state.commit("mine")
    assert planner.state.refresh().author == "critic"
    assert planner.state["tokens"] == 513
    assert [each.author for each in planner.state.log(path="tokens")] == ["critic", "planner"]


def test_a_transaction_is_tried_as_often_as_is_said(planner, critic):
    def edit(state):
        critic.transact(lambda state: state.counter("theirs").add(1))
        state["mine"] = state.get("theirs")

    with pytest.raises(Contention, match="2 times"):
        planner.transact(edit, attempts=2)
    assert planner.state.refresh().author == "critic"
    assert planner.state.to_dict() == {"theirs": 2}


def test_a_transaction_waits_for_its_store_as_long_as_is_said():
    store = FaultyStore(MemoryStore())
    team = Repo(store, author="test").team("research", member="planner")
    team.transact(lambda state: state.update(n=0))

    def edit(state):
        state["n"] += 1
        store.plan.append(Fault("*"))

    with pytest.raises(Unavailable, match="nobody knows whether it has landed"):
        team.transact(edit, patience_seconds=0)


@pytest.mark.parametrize(
    "options",
    [
        {"edit": 5},
        {"edit": asyncio.sleep},
        {"if_moved": "x"},
        {"attempts": 0},
        {"patience_seconds": -1},
    ],
)
def test_a_transaction_that_makes_no_sense_has_a_hint(planner, options):
    edit = options.pop("edit", lambda state: None)
    with pytest.raises(Invalid, match="transact: ") as refused:
        planner.transact(edit, **options)
    assert refused.value.hint


def test_a_transaction_reads_what_others_have_committed(planner, critic):
    def sell(state):
        state["stock"] = state.get("stock", 10) - 1
        return state["stock"]

    assert [member.transact(sell) for member in (planner, critic, planner)] == [9, 8, 7]


def test_whoever_opens_a_team_as_a_member_joins_with_the_first_write(repo, planner):
    assert planner.members() == []
    planner.transact(lambda state: state.update(x=1))
    assert [member.name for member in planner.members()] == ["planner"]


def test_who_only_looks_does_not_join_and_cannot_write(repo, planner):
    planner.transact(lambda state: state.update(x=1))
    guest = repo.team("research")
    assert guest.state["x"] == 1
    for write in (
        lambda: guest.transact(lambda state: None),
        lambda: guest.send("planner", "hi"),
        lambda: guest.lease("browser"),
        lambda: guest.queue("gpu").acquire(),
        lambda: guest.propose("x", lambda state: None),
        lambda: guest.state.fork("idea"),
        guest.state.undo,
        lambda: guest.state.transact(lambda state: state.update(x=2)),
    ):
        with pytest.raises(Invalid, match="member"):
            write()
    head = guest.state.head
    guest.state["x"] = 2
    for write in (guest.state.commit, guest.state.stash):
        with pytest.raises(Invalid, match="opened without a member"):
            write()
    guest.state.discard()
    assert planner.state.refresh() == head
    assert list(repo.branches("research", scope="team")) == ["main"]
    assert [member.name for member in guest.members()] == ["planner"]


@pytest.mark.parametrize(
    ("write", "named"),
    [
        (lambda team: team.send("critic", "hi"), "message to critic"),
        (lambda team: team.add("ann"), "add ann"),
        (lambda team: team.propose("B", lambda state: state.update(x=2)), "propose B"),
        (lambda team: team.session("trip"), "planner works on trip"),
        (lambda team: team.transact(lambda state: None), "transact"),
    ],
)
def test_what_cannot_be_written_beside_staged_edits_is_named(planner, critic, write, named):
    critic.transact(lambda state: state.update(x=1))
    planner.state["draft"] = 1
    with pytest.raises(Uncommitted, match=f"^{named}: there are staged edits in the state of res"):
        write(planner)
    planner.state.commit("draft")
    write(planner)


def test_staged_edits_of_another_state_are_not_said_to_be_here(repo, planner):
    notes = repo.session("notes")
    notes["draft"] = 1
    with pytest.raises(Uncommitted, match="there are staged edits on main"):
        planner.transact(lambda state: notes.transact(lambda state: None))
    notes.discard()


def test_a_removed_member_cannot_write_by_any_way(repo, planner, critic):
    critic.transact(lambda state: state.update(x=1))
    handle = critic.state
    handle["x"] = 2
    planner.remove("critic")

    with pytest.raises(Fenced):
        handle.commit()
    handle.discard()
    with pytest.raises(Denied, match="critic was removed from team research"):
        critic.transact(lambda state: state.update(x=3))
    with pytest.raises(Denied):
        repo.team("research", member="critic").transact(lambda state: state.update(x=4))
    assert planner.state.refresh().author == "planner"
    assert planner.state["x"] == 1


def test_a_member_that_was_taken_back_may_write_again(repo, planner, critic):
    critic.transact(lambda state: state.update(x=1))
    planner.remove("critic")
    planner.add("critic", role="reviewer")
    again = repo.team("research", member="critic")
    again.transact(lambda state: state.update(x=2))
    assert [(each.name, each.role) for each in planner.members()] == [
        ("critic", "reviewer"),
        ("planner", ""),
    ]
    with pytest.raises(Denied, match="taken back since"):
        critic.transact(lambda state: state.update(x=3))
    critic.transact(lambda state: state.update(x=4))


def test_a_branch_of_the_state_is_opened_again_as_a_member(repo, planner, critic):
    planner.transact(lambda state: state.update(x=1))
    planner.state.fork("idea")
    idea = critic.open_branch("idea")
    idea["x"] = 2
    assert idea.commit("better").author == "critic"
    assert planner.state["x"] == 1

    planner.remove("critic")
    idea["x"] = 3
    with pytest.raises(Fenced):
        idea.commit()
    idea.discard()
    with pytest.raises(Denied):
        repo.team("research", member="critic").open_branch("idea")


def test_a_member_is_present_inside_of_a_with(planner, critic):
    with critic:
        planner.transact(lambda state: state.update(x=1))
        assert {each.name: each.is_present for each in planner.members()} == {
            "critic": True,
            "planner": False,
        }
    assert not any(each.is_present for each in planner.members())


def test_a_member_that_is_present_twice_is_so_until_the_end_of_both(planner, critic):
    critic.transact(lambda state: None)

    def is_present():
        return {each.name: each.is_present for each in critic.members()}["planner"]

    with planner:
        with planner:
            assert is_present()
        assert is_present()
    assert not is_present()


def test_looking_at_a_queue_or_a_lease_does_not_make_a_member(repo, planner):
    planner.transact(lambda state: None)
    guest = repo.team("research", member="guest")
    assert guest.queue("gpu").waiting() == []
    assert not guest.lease("browser").is_held
    assert [each.name for each in planner.members()] == ["planner"]


def test_members_send_each_other_messages_that_are_read_once(planner, critic):
    critic.add("critic")
    planner.send("critic", {"please": "look"})
    planner.send("critic", "again")
    assert [(each.sender, each.body) for each in critic.messages(mark=False)] == [
        ("planner", {"please": "look"}),
        ("planner", "again"),
    ]
    assert [each.number for each in critic.messages()] == [1, 2]
    assert critic.messages() == []
    critic.send("*", "hello all")
    assert [each.body for each in planner.messages()] == ["hello all"]
    assert critic.messages() == []


class Price:
    """A class that not everybody knows."""

    def __init__(self, cents):
        self.cents = cents


def registered():
    codecs = Codecs()
    codecs.register(Price, name="price", lower=lambda price: price.cents, lift=Price)
    return {"codecs": codecs}


def signed(by):
    return {"secret": lambda: by * 32}


@pytest.mark.parametrize(
    ("writer", "reader", "shown"),
    [
        (registered(), {}, "price"),
        (signed(b"a"), signed(b"b"), f"{__name__}:Price"),
        (signed(b"a"), {"pickle": "never"}, f"{__name__}:Price"),
    ],
)
def test_what_cannot_be_read_here_holds_nothing_else_up(writer, reader, shown):
    store = MemoryStore()
    mine, yours = Repo(store, **writer), Repo(store, **reader)
    ann, bob = mine.team("t", member="ann"), yours.team("t", member="bob")
    bob.transact(lambda state: state.update(cost=1))
    ann.send("bob", {"cost": Price(5)})
    ann.send("bob", "that is all")
    for mark in (False, True):
        first, last = bob.messages(mark=mark)
        assert (first.sender, last.body) == ("ann", "that is all")
        assert isinstance(first.body["cost"], Opaque)
        assert first.body["cost"].type_name == shown
    assert bob.messages() == []
    ann.handoff("trip", to="bob", note=Price(5))
    assert [each.note.type_name for each in bob.sessions()] == [shown]
    assert bob.session("trip").session == "trip"

    idea = ann.state.fork("idea")
    idea["cost"] = Price(5)
    idea.commit()
    bob.transact(lambda state: state.update(cost=2))
    (conflict,) = bob.merge("idea")
    assert (conflict.ours, conflict.theirs.type_name) == (2, shown)
    bob.resolve(conflict, take="theirs")
    ann.state.refresh()
    assert ann.state["cost"].cents == 5


def test_a_message_to_a_stranger_names_the_members(planner):
    with pytest.raises(KeyNotFound, match=r"no member 'nobody'.*planner"):
        planner.send("nobody", "hi")


UNFIT = ["", " ", 7, None, "x" * 300, "\ud800", "a\nb", "a\tb", "a\0b", "a ", "\u202ebob"]


@pytest.mark.parametrize("role", [5, True, *UNFIT[1:3], *UNFIT[4:]])
def test_a_role_is_a_short_text(planner, role):
    planner.add("planner", role="lead")
    with pytest.raises(Invalid, match="role must be a name"):
        planner.add("planner", role=role)
    assert [each.role for each in planner.members()] == ["lead"]
    assert planner.add("planner", role="").role == ""


@pytest.mark.parametrize("name", [*UNFIT, "*"])
def test_a_member_needs_a_name(repo, planner, name):
    planner.transact(lambda state: None)
    with pytest.raises(Invalid):
        planner.add(name)
    if name is not None:
        with pytest.raises(Invalid):
            repo.team("research", member=name)


@pytest.mark.parametrize("id", ["", 7, "\ud800"])
def test_a_team_needs_a_name(repo, id):
    with pytest.raises(BadRef):
        repo.team(id, member="planner")


def test_odd_names_are_names(repo):
    team = repo.team("a/b %20 Ünïcode 漢", member="x/y~1 😀")
    team.transact(lambda state: state.update(x=1))
    with team.lease("a/b c"), team.queue("d/e f") as slot:
        assert slot.member == "x/y~1 😀"
    assert [each.id for each in repo.sessions(scope="team")] == ["a/b %20 Ünïcode 漢"]
    assert [each.name for each in team.members()] == ["x/y~1 😀"]


def test_a_session_is_handed_over_in_the_middle_of_a_job(planner, critic):
    critic.add("critic")
    mine = planner.session("trip")
    mine["a"] = 1
    mine.commit()
    mine["b"] = 2
    planner.handoff(mine, to="critic", note="look at b")

    theirs = critic.session("trip")
    assert theirs.to_dict() == {"a": 1, "b": 2}
    assert [change.path for change in theirs.status()] == ["b"]
    assert critic.messages()[0].body == {"handoff": "trip", "note": "look at b"}
    theirs.commit("done")
    mine["c"] = 3
    with pytest.raises(Fenced):
        mine.commit()
    assert theirs.head.author == "critic"
    assert [(each.session, each.owner, each.giver) for each in planner.sessions()] == [
        ("trip", "critic", "planner")
    ]


def test_who_has_handed_a_session_over_commits_nothing_before_it_is_opened(repo, planner, critic):
    critic.add("critic")
    mine = planner.session("trip")
    mine["a"] = 1
    before = mine.commit()
    planner.handoff(mine, to="critic")
    mine["a"] = 2
    with pytest.raises(Fenced):
        mine.commit("too late")
    assert repo.session("trip").head == before


def test_a_session_that_another_member_works_on_is_not_yours(planner, critic):
    planner.session("trip")
    with pytest.raises(Denied, match="planner works on session trip"):
        critic.session("trip")
    planner.add("ann")
    with pytest.raises(Denied, match="planner works on session trip"):
        critic.handoff("trip", to="ann")


def test_a_session_cannot_be_handed_to_a_stranger(planner):
    mine = planner.session("trip")
    mine["a"] = 1
    with pytest.raises(KeyNotFound, match="no member 'nobody'"):
        planner.handoff(mine, to="nobody")
    mine.commit("still mine")
    assert planner.session("trip")["a"] == 1


@pytest.mark.parametrize("session", ["", None, 5, 3.5, b"x", ("a",), "\ud800"])
def test_what_is_no_session_has_no_owner(planner, session):
    with pytest.raises(BadRef):
        planner.handoff(session, to="planner")
    with pytest.raises(BadRef):
        planner.session(session)
    assert planner.sessions() == []


def test_the_state_of_a_team_or_a_user_is_not_handed_over(repo, planner):
    for state in (planner.state, repo.user("ann")):
        state["x"] = 1
        with pytest.raises(BadRef, match="is not a session"):
            planner.handoff(state, to="planner")
        assert not state.is_clean
        state.discard()
    assert planner.sessions() == []


def test_a_session_of_a_removed_member_is_taken_with_what_was_stashed(planner, critic):
    trip = critic.session("trip")
    trip["a"] = 1
    trip.commit()
    trip["b"] = 2
    trip.stash()
    planner.remove("critic")
    mine = planner.session("trip")
    assert mine.to_dict() == {"a": 1, "b": 2}
    mine.commit("goes on")
    with pytest.raises(Fenced):
        trip.commit()
    (owner,) = planner.sessions()
    assert (owner.owner, owner.giver) == ("planner", "critic")


def test_an_owner_of_before_cannot_disturb_the_handoff(planner, critic):
    critic.add("critic")
    mine = planner.session("trip")
    mine["a"] = 1
    mine.commit()
    mine["b"] = 2
    planner.handoff(mine, to="critic")
    theirs = critic.session("trip")
    mine["c"] = 3
    for late in (mine.stash, mine.commit, lambda: mine.fork("other")):
        with pytest.raises(Fenced):
            late()
    with pytest.raises(Denied, match="critic works on session trip"):
        planner.handoff(mine, to="planner")
    mine.discard()
    with pytest.raises(Fenced):
        mine.stash()
    theirs["d"] = 4
    theirs.commit()
    assert theirs.to_dict() == {"a": 1, "b": 2, "d": 4}


def test_a_refused_handoff_stashes_nothing(repo, planner):
    mine = planner.session("trip")
    mine["a"] = 1
    with pytest.raises(KeyNotFound, match="no member 'nobody'"):
        planner.handoff(mine, to="nobody")
    assert repo.store.refs("stage/") == {}


def test_a_handoff_that_was_rolled_back_leaves_one_owner(planner, critic):
    critic.add("critic")
    mine = planner.session("trip")
    mine["a"] = 1
    mine.commit()
    before = planner.state.refresh()
    planner.handoff("trip", to="critic")
    theirs = critic.session("trip")
    planner.state.refresh()
    planner.state.rollback(before)
    with pytest.raises(Denied):
        critic.session("trip")
    with pytest.raises(Fenced) as refused:
        planner.session("trip")
    assert "take it again: team.handoff('trip', to='planner')" in refused.value.hint
    planner.handoff("trip", to="planner")
    planner.session("trip")["b"] = 1
    theirs["late"] = 1
    with pytest.raises(Fenced):
        theirs.commit()


def test_a_removal_that_was_rolled_back_is_made_again_and_taken_back(planner, critic):
    critic.transact(lambda state: state.update(x=1))
    before = planner.state.refresh()
    planner.remove("critic")
    planner.state.refresh()
    planner.state.rollback(before)
    with pytest.raises(Fenced, match=r"team\.remove\('critic'\), then team\.add\('critic'\)"):
        critic.transact(lambda state: state.update(x=2))
    planner.remove("critic")
    planner.add("critic")
    critic.as_member("critic").transact(lambda state: state.update(x=3))


def test_a_rollback_to_before_a_member_joined_lets_it_join_again(planner, critic):
    planner.transact(lambda state: state.update(x=1))
    before = planner.state.refresh()
    critic.transact(lambda state: state.update(x=2))
    planner.state.refresh()
    planner.state.rollback(before)
    critic.state.refresh()
    critic.transact(lambda state: state.update(x=3))
    assert [each.name for each in planner.members()] == ["critic", "planner"]


def test_a_team_that_was_deleted_can_be_made_again(repo, planner, critic):
    for _ in range(3):
        planner.add("critic")
        planner.remove("critic")
    (ref,) = repo.store.refs("team/")
    repo.store.write(Batch(swaps=[Swap(ref, repo.store.ref(ref), None)]))
    critic = repo.team("research", member="critic")
    critic.transact(lambda state: state.update(x=1))
    assert [each.name for each in critic.members()] == ["critic"]


def test_what_is_staged_in_a_handle_is_not_shown_as_what_the_team_has(planner, critic):
    critic.add("critic")
    planner.send("critic", "hi")
    critic.state["x"] = 1
    critic.state.write_reserved((".team", "members", "critic"), None)
    assert [each.body for each in critic.messages(mark=False)] == ["hi"]
    assert [each.name for each in critic.members()] == ["critic", "planner"]
    with pytest.raises(Uncommitted):
        critic.messages()


def test_a_member_that_was_removed_in_another_store_is_refused_once_that_is_known():
    one, store = Repo(MemoryStore(), author="one"), MemoryStore()
    planner = one.team("research", member="planner")
    planner.add("critic")
    one.clone(store)
    other = Repo(store, author="other")
    critic = other.team("research", member="critic")
    critic.transact(lambda state: state.update(x=1))
    planner.remove("critic")
    other.pull(one.store)
    critic.state.refresh()
    with pytest.raises(Denied, match="critic was removed"):
        critic.transact(lambda state: state.update(x=2))


RACES = {
    "join": lambda team: (
        team._context.join() if team.member == "new" else team.as_member("new").state
    ),
    "remove": lambda team: team.remove("critic"),
    "take": lambda team: team.session("trip"),
    "give": lambda team: team.handoff("job", to="critic"),
}


@pytest.mark.parametrize("race", RACES)
def test_whoever_is_slower_in_a_race_is_told_what_has_happened(repo, planner, race, monkeypatch):
    """The slower one has read the clock before: its number is lower than what the store has."""
    planner.add("critic")
    planner.add("new") if race != "join" else None
    planner.session("job")
    late = planner.as_member("new" if race == "join" else "planner")
    rival = planner.as_member("new") if race == "take" else planner
    write = repo.store.write
    begun: list[bool] = []

    def slow_write(batch):
        if not begun:
            begun.append(True)
            RACES[race](rival)
        write(batch)

    monkeypatch.setattr(repo.store, "write", slow_write)
    if race == "join":
        RACES[race](late)
    else:
        with pytest.raises((Denied, KeyNotFound)):  # and not Fenced
            RACES[race](late)
    assert begun
