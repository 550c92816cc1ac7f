"""Leases of a team: one holder at a time, and nobody else's commit lands."""

from __future__ import annotations

from threading import Thread
from threading import enumerate as enumerate_threads
from time import monotonic, sleep

import pytest

import otolith
from otolith import Repo
from otolith.core import Backend
from otolith.errors import Denied, Error, Fenced, Full, Invalid, KeyNotFound, TimedOut
from otolith.signs_of_life import SignsOfLife
from otolith.stores import Batch, Lease, MemoryStore, Swap
from otolith.teams import StateLeases
from otolith.testing import FaultyStore
from tests.patience import HANG_SECONDS


@pytest.fixture
def repo(tmp_path):
    with otolith.open(str(tmp_path / "team.db")) as repo:
        yield repo


@pytest.fixture
def team(repo):
    return repo.team("research", member="planner")


@pytest.fixture
def other(repo):
    return repo.team("research", member="critic")


class Machine:
    """A machine whose uptime a test decides."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seconds = 0.0

    def __call__(self) -> tuple[str, int]:
        return self.name, int(self.seconds * 1_000_000)


def leases(backend: Backend, machine: Machine) -> StateLeases:
    return StateLeases(backend, "team/x/main", signs=SignsOfLife(machine))


def granted(lease: Lease | None) -> Lease:
    assert lease is not None
    return lease


def test_the_token_travels_into_every_commit_made_inside(repo, team, other):
    with team.lease("browser") as lease:
        assert lease.is_held
        session = repo.session("trip")
        session["x"] = 1
        session.commit("inside")
    with other.lease("browser") as newer:
        assert newer.token == lease.token + 1
    stale = repo.session("trip")
    stale["x"] = 2
    with pytest.raises(Fenced):
        stale.commit(fences={"team/research/lease/browser": lease.token})
    stale.commit("outside, without a fence")


def test_a_holder_that_lost_its_lease_cannot_commit(repo, team, other):
    with team.lease("browser", ttl="1h") as lease:
        found = granted(team._leases.leaser.leased("team/research/lease/browser"))
        team._leases.leaser.release(found)  # as if it had run out
        with other.lease("browser"):
            team.state["x"] = 1
            with pytest.raises(Fenced):
                team.state.commit()
        with pytest.raises(Fenced, match="lease browser was lost"):
            lease.renew()
        assert not lease.is_held
    other.state.refresh()
    assert "x" not in other.state


def test_other_threads_do_not_carry_the_token(repo, team):
    carried = []
    with team.lease("browser") as lease:
        inside = dict(repo.backend.fences())
        thread = Thread(target=lambda: carried.append(dict(repo.backend.fences())))
        thread.start()
        thread.join()
    assert inside == {"team/research/lease/browser": lease.token}
    assert carried == [{}]
    assert repo.backend.fences() == {}


def test_leases_can_be_held_one_inside_of_another(repo, team):
    with team.lease("a"), team.lease("b"):
        assert {*repo.backend.fences()} == {"team/research/lease/a", "team/research/lease/b"}
        assert [each.name for each in team.leases()] == ["a", "b"]
    assert team.leases() == []


def test_a_lease_is_waited_for_once_at_a_time(team):
    lease = team.lease("browser")
    with lease, pytest.raises(Invalid, match="is acquired already"):
        lease.acquire()
    first = lease.token
    with lease:
        assert lease.token == first + 1


def test_one_thread_renews_all_leases_and_ends_with_the_last(repo):
    before = {*enumerate_threads()}
    teams = [repo.team("research", member=f"m{number}") for number in range(5)]
    leases = [team.lease(f"r{at}", ttl="1h").acquire() for at, team in enumerate(teams * 4)]
    threads = {*enumerate_threads()} - before
    assert [each.name for each in threads] == ["otolith-renewals"]
    renewals = [lease._request.renewal for lease in leases]
    first = [each._renewed for each in renewals]
    for each in renewals:
        each.due = 0
    leases.append(teams[0].lease("one more").acquire())
    deadline = monotonic() + HANG_SECONDS
    while any(each._renewed == time for each, time in zip(renewals, first, strict=True)):
        assert monotonic() < deadline
        sleep(0.002)
    assert all(lease.is_held for lease in leases)
    for lease in leases:
        lease.release()
    for thread in threads:
        thread.join(HANG_SECONDS)
        assert not thread.is_alive()


def test_a_lease_that_was_given_back_is_not_renewed(repo, team):
    lease = team.lease("browser").acquire()
    renewal = lease._request.renewal
    lease.release()
    renewal.renew()
    assert team.leases() == []


def test_who_waits_gets_the_lease_when_it_is_given_back(team, other):
    holding = team.lease("browser").acquire()
    got = []
    thread = Thread(target=lambda: got.append(other.lease("browser").acquire()))
    thread.start()
    holding.release()
    thread.join()
    assert got[0].is_held
    got[0].release()


def test_waiting_ends_in_time_and_names_the_holder(team, other):
    with team.lease("browser"):
        with pytest.raises(TimedOut, match=r"planner had the lease browser"):
            other.lease("browser", wait=0).acquire()
        with pytest.raises(TimedOut):
            other.lease("browser", wait="20ms").acquire()


def test_the_leases_of_a_removed_member_are_taken_back(team, other):
    other.state["x"] = 1
    other.state.commit()
    lease = other.lease("browser", ttl="1h").acquire()
    team.remove("critic")
    with team.lease("browser", wait=0) as mine:
        assert mine.token == lease.token + 1
    with pytest.raises(Fenced):
        lease.renew()
    lease.release()
    assert team.leases() == []


def test_a_lease_runs_out_by_the_uptime_of_the_machine(repo):
    machine = Machine("boot 1")
    store = leases(repo.backend, machine)
    first = granted(store.lease("job", "ann", ttl_seconds=10))
    machine.seconds = 9.9
    assert store.lease("job", "bob", ttl_seconds=10) is None
    assert granted(store.leased("job")).holder == "ann"
    machine.seconds = 10
    assert store.leased("job") is None
    assert granted(store.lease("job", "bob", ttl_seconds=10)).token == first.token + 1


def test_a_lease_that_ran_out_is_not_renewed_but_acquired_anew(repo):
    machine = Machine("boot 1")
    store = leases(repo.backend, machine)
    first = granted(store.lease("job", "ann", ttl_seconds=10))
    machine.seconds = 5
    assert granted(store.lease("job", "ann", ttl_seconds=10)).token == first.token
    machine.seconds = 15
    assert granted(store.lease("job", "ann", ttl_seconds=10)).token == first.token + 1


def test_a_renewal_that_comes_too_late_leaves_the_lease_to_others(team, other):
    machine = Machine("boot 1")
    for each in (team, other):
        each._leases.leaser._signs = SignsOfLife(machine)
    lease = team.lease("browser", ttl="1h").acquire()
    machine.seconds = 3601
    with pytest.raises(Fenced, match="lease browser was lost"):
        lease.renew()
    lease.release()
    with other.lease("browser", wait=0) as newer:
        assert newer.token > lease.token


def test_a_process_of_another_machine_watches_for_the_whole_time(repo):
    here, there = Machine("boot 1"), Machine("boot 2")
    mine, theirs = leases(repo.backend, here), leases(repo.backend, there)
    first = granted(mine.lease("job", "ann", ttl_seconds=10))
    there.seconds = 1e6  # its clock says nothing about ours
    assert theirs.lease("job", "bob", ttl_seconds=10) is None
    there.seconds += 9
    granted(mine.lease("job", "ann", ttl_seconds=10))  # renewed
    assert theirs.lease("job", "bob", ttl_seconds=10) is None
    there.seconds += 9
    assert theirs.lease("job", "bob", ttl_seconds=10) is None
    there.seconds += 1
    assert granted(theirs.lease("job", "bob", ttl_seconds=10)).token == first.token + 1


def test_a_machine_that_was_started_again_is_another(repo):
    before, after = Machine("boot 1"), Machine("boot 2")
    granted(leases(repo.backend, before).lease("job", "ann", ttl_seconds=10))
    again = leases(repo.backend, after)
    assert again.lease("job", "bob", ttl_seconds=10) is None
    after.seconds = 10
    assert again.lease("job", "bob", ttl_seconds=10) is not None


def test_a_batch_with_the_token_of_an_older_holder_is_refused(repo):
    machine = Machine("boot 1")
    store = leases(repo.backend, machine)
    first = granted(store.lease("job", "ann", ttl_seconds=10))
    machine.seconds = 10
    granted(store.lease("job", "bob", ttl_seconds=10))
    state = repo.session("a")
    state["x"] = 1
    with pytest.raises(Fenced):
        state.commit(fences={"job": first.token})


def test_a_lease_that_was_lost_is_not_released_for_its_new_holder(repo):
    machine = Machine("boot 1")
    store = leases(repo.backend, machine)
    first = granted(store.lease("job", "ann", ttl_seconds=10))
    machine.seconds = 10
    granted(store.lease("job", "bob", ttl_seconds=10))
    store.release(first)
    assert granted(store.leased("job")).holder == "bob"


@pytest.mark.parametrize("name", ["", "x" * 201, None, 7, "\ud800", "a\0b", "a\nb", " a"])
def test_a_lease_needs_a_name(team, name):
    with pytest.raises(Invalid, match="lease must be a name"):
        team.lease(name)


@pytest.mark.parametrize("ttl", [0, -1, "soon", None, "-5s"])
def test_a_lease_needs_a_time_to_live(team, ttl):
    with pytest.raises(Invalid, match="ttl must be a time"):
        team.lease("browser", ttl=ttl)


def test_a_lease_that_was_not_acquired_has_no_token(team):
    lease = team.lease("browser")
    assert not lease.is_held
    with pytest.raises(Invalid, match="was not acquired"):
        _ = lease.token
    lease.release()  # which is harmless


def test_an_error_inside_gives_the_lease_back(team, other):
    with pytest.raises(Error, match="mine"), team.lease("browser"):
        raise Error("mine")
    with other.lease("browser", wait=0):
        pass


@pytest.mark.parametrize(
    "name", ["session/trip", "member/critic", "queue/gpu/0", "member/critic/present"]
)
def test_the_name_of_a_lease_means_nothing_else(repo, team, other, name):
    trip = other.session("trip")
    with other, other.queue("gpu"):
        for _ in range(3):
            with team.lease(name):
                trip["x"] = trip.get("x", 0) + 1
                trip.commit()
                other.transact(lambda state: state.counter("n").add(1))
    assert trip["x"] == other.state["n"] == 3


def test_fences_are_dropped_in_any_order(repo, team):
    first, second = team.queue("gpu"), team.lease("b")
    slot = first.acquire()
    second.acquire()
    first.release()
    assert repo.backend.fences() == {"team/research/lease/b": second.token}
    first.acquire()
    second.release()
    assert repo.backend.fences() == {"team/research/queue/gpu/0": slot.token + 1}
    first.release()
    assert repo.backend.fences() == {}


def test_who_lost_a_lease_leaves_its_new_holder_in_the_list(repo, team, other):
    lease = team.lease("browser", ttl="1h").acquire()
    team._leases.leaser.release(lease._request.lease)  # as if it had run out
    newer = other.lease("browser", ttl="1h").acquire()
    lease.release()
    assert [each.member for each in team.leases()] == ["critic"]
    team._leases.note_holder(
        "browser", "planner", lease._request.lease, 1
    )  # it was frozen before this
    assert [each.member for each in team.leases()] == ["critic"]
    other.remove("planner")
    assert newer.is_held
    newer.renew()
    newer.release()


def test_a_lease_that_cannot_be_listed_is_given_back():
    store = FaultyStore(MemoryStore())
    team = Repo(store, author="test").team("research", member="planner")
    team.transact(lambda state: None)

    def refuse(*arguments: object) -> None:
        raise Full("no room", hint="")

    lease = team.lease("browser", ttl="1h")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(team._leases, "note_holder", refuse)
        with pytest.raises(Full):
            lease.acquire()
    assert not lease.is_held
    assert team._leases.leaser.leased(team._leases.lease_name("browser")) is None
    with team.lease("browser", wait=0):
        pass


def test_a_removed_member_acquires_no_lease_and_renews_none(repo, team, other):
    held, wanted = other.lease("a", ttl="1h").acquire(), other.lease("b")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(team, "_revoke", lambda name: None)  # killed before it takes them back
        team.remove("critic")
    with pytest.raises(Denied, match="critic was removed"):
        wanted.acquire()
    with pytest.raises(Fenced, match="lease a was lost"):
        held.renew()
    assert not held.is_held
    assert team._leases.leaser.leased(team._leases.lease_name("b")) is None
    with pytest.raises(KeyNotFound):
        team.remove("critic")  # again, and it takes back what is left
    with team.lease("a", wait=0):
        pass


def test_a_team_that_was_deleted_and_made_again_has_leases(repo, team):
    for _ in range(3):
        with team.lease("browser"), team.queue("gpu"):
            pass
    store = repo.store
    refs = {**store.refs("team/"), **store.refs(".shared/")}
    store.write(Batch(swaps=[Swap(name, hash, None) for name, hash in refs.items()]))
    again = repo.team("research", member="planner")
    with again.lease("browser"), again.queue("gpu"):
        again.transact(lambda state: state.update(x=1))


def test_a_stamp_of_a_clock_that_is_ahead_is_watched(repo):
    here, ahead = Machine("boot 1"), Machine("boot 1")
    ahead.seconds = 1e6  # a container with an uptime of its own
    granted(leases(repo.backend, ahead).lease("job", "ann", ttl_seconds=10))
    mine = leases(repo.backend, here)
    assert mine.lease("job", "bob", ttl_seconds=10) is None
    here.seconds = 10
    assert mine.lease("job", "bob", ttl_seconds=10) is not None
