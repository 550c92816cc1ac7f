"""Queues: slots go round the members, and survive those who hold them."""

from __future__ import annotations

from collections import Counter
from threading import Barrier, Thread
from time import monotonic, sleep

import pytest

import otolith
from otolith.errors import Denied, Fenced, Invalid, KeyNotFound, TimedOut
from otolith.signs_of_life import SignsOfLife
from tests.patience import HANG_SECONDS


@pytest.fixture
def repo(tmp_path):
    with otolith.open(str(tmp_path / "team.db")) as repo:
        yield repo


def queue_of(repo, member, **options):
    return repo.team("research", member=member).queue("gpu", **options)


def wait_for(condition):
    deadline = monotonic() + HANG_SECONDS
    while not condition():
        assert monotonic() < deadline
        sleep(0.002)


def test_a_member_that_asks_more_often_gets_its_share_and_no_more(repo):
    names = [f"m{number}" for number in range(4)]
    teams = {name: repo.team("research", member=name) for name in names}
    for team in teams.values():
        team.transact(lambda state: None)
    gate = teams["m0"].queue("gpu")
    gate.acquire()
    order = []

    def ask(name):
        queue = repo.team("research", member=name).queue("gpu")
        with queue:
            order.append(name)

    asking = [name for name in names for _ in range(15 if name == "m0" else 3)]
    threads = [Thread(target=ask, args=(name,)) for name in asking]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(gate.waiting()) == len(asking))
    gate.release()
    for thread in threads:
        thread.join()
    while_all_ask = Counter(order[: 4 * 3])
    assert {*while_all_ask.values()} == {3}


def test_there_are_never_more_holders_than_slots(repo):
    inside, most = [], []
    barrier = Barrier(6)

    def work(number):
        queue = queue_of(repo, f"m{number % 3}", slots=2)
        barrier.wait()
        for _ in range(4):
            with queue as slot:
                inside.append(slot.index)
                most.append(sorted(inside))
                sleep(0.001)
                inside.remove(slot.index)

    threads = [Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(map(len, most)) <= 2
    assert all(len({*held}) == len(held) for held in most)


def test_the_position_and_the_expected_time_are_told(repo):
    first, second, third = (queue_of(repo, name) for name in "abc")
    assert (first.position(), first.eta()) == (None, None)
    first.acquire()
    threads = []
    for queue in (second, third):
        thread = Thread(target=lambda q=queue: q.acquire() and q.release())
        thread.start()
        threads.append(thread)
        wait_for(lambda: len(first.waiting()) == len(threads))
    assert first.waiting() == ["b", "c"]
    assert (second.position(), third.position()) == (0, 1)
    assert [slot.member for slot in first.used()] == ["a"]
    assert second.eta() is None, "no slot was given back yet"
    first.release()
    for thread in threads:
        thread.join()
    assert first.used() == []


def test_the_expected_time_is_known_from_former_uses(repo):
    first, second = queue_of(repo, "a"), queue_of(repo, "b")
    with first:
        pass
    with first:
        thread = Thread(target=lambda: second.acquire() and second.release())
        thread.start()
        wait_for(lambda: second.position() == 0)
        assert second.eta() > 0
    thread.join()


def test_first_come_first_served_where_fairness_is_not_asked_for(repo):
    gate = queue_of(repo, "a", fair=None)
    gate.acquire()
    order, threads = [], []

    def ask(name):
        with queue_of(repo, name, fair=None):
            order.append(name)

    for name in "aabba":
        thread = Thread(target=ask, args=(name,))
        thread.start()
        threads.append(thread)
        wait_for(lambda: len(gate.waiting()) == len(threads))
    gate.release()
    for thread in threads:
        thread.join()
    assert order == [*"aabba"]


def test_the_slot_of_a_dead_holder_goes_to_the_next(repo):
    dead = queue_of(repo, "dead", ttl="60ms")
    slot = dead.acquire()
    dead._uses()[-1].renewal.close()  # its process is gone
    alive = queue_of(repo, "alive")
    with alive as given:
        assert (given.index, given.token) == (slot.index, slot.token + 1)
        state = repo.session("trip")
        state["x"] = 1
        with pytest.raises(Fenced):
            state.commit(fences={"team/research/queue/gpu/0": slot.token})


def test_a_dead_waiter_is_passed_over(repo):
    gate = queue_of(repo, "gate")
    gate.acquire()
    dead = queue_of(repo, "dead", ttl="60ms")
    dead.request().look()  # and never again
    alive = queue_of(repo, "alive", ttl="60ms")
    thread = Thread(target=lambda: alive.acquire() and alive.release())
    thread.start()
    wait_for(lambda: gate.waiting() == ["alive"])
    gate.release()
    thread.join()


def test_a_holder_that_lost_its_slot_finds_out(repo):
    holder = queue_of(repo, "holder", ttl="60ms")
    slot = holder.acquire()
    renewal = holder._uses()[-1].renewal
    renewal._thread.remove(renewal)  # it is frozen
    with queue_of(repo, "next") as given:
        assert given.token == slot.token + 1
        with pytest.raises(Fenced, match="slot 0 of queue gpu was lost"):
            renewal.renew()
    holder.release()


def test_waiting_ends_in_time_and_withdraws_the_request(repo):
    with queue_of(repo, "a"):
        late = queue_of(repo, "b", wait="30ms")
        with pytest.raises(TimedOut, match="it is used by a, and nobody else waits"):
            late.acquire()
        assert late.waiting() == []
        thread = Thread(target=lambda: queue_of(repo, "c", wait=HANG_SECONDS).acquire())
        thread.start()
        wait_for(lambda: late.waiting() == ["c"])
        with pytest.raises(TimedOut, match="it is used by a, and 1 other request waits"):
            late.acquire()
    thread.join()


def test_who_does_not_wait_is_told_at_once_and_waits_for_nothing(repo):
    late = queue_of(repo, "b", wait=0)
    with queue_of(repo, "a"), pytest.raises(TimedOut, match="it is used by a"):
        late.acquire()
    assert late.waiting() == []
    with late as slot:
        assert slot.index == 0


def test_requests_that_wait_together_are_entered_renewed_and_withdrawn_in_one_write(repo):
    gate = queue_of(repo, "gate", slots=2)
    gate.acquire()
    first, *others = [queue_of(repo, name, slots=2).request() for name in "abab"]
    writes = len(repo.store.moves(first.news))
    assert first.look(others)
    assert [each.is_granted for each in others] == [False] * 3
    assert len(repo.store.moves(first.news)) == writes + 1
    assert gate.waiting() == ["b", "a", "b"]
    others[0].give_back(others[1:])
    assert len(repo.store.moves(first.news)) == writes + 2
    assert gate.waiting() == []
    first.give_back()


def test_a_slot_that_is_given_back_first_leaves_the_other_token_to_commits(repo):
    first, second = (repo.team("research", member="a").queue(name) for name in ("gpu", "tpu"))
    first.acquire()
    slot = second.acquire()
    first.release()
    assert repo.backend.fences() == {"team/research/queue/tpu/0": slot.token}
    second.release()
    assert repo.backend.fences() == {}


def test_an_error_inside_gives_the_slot_back(repo):
    queue = queue_of(repo, "a")
    with pytest.raises(ZeroDivisionError), queue:
        raise ZeroDivisionError
    assert queue.used() == []
    with pytest.raises(Invalid, match="no slot of queue gpu was acquired here"):
        queue.release()


def test_commits_inside_carry_the_token_of_the_slot(repo):
    with queue_of(repo, "a") as slot:
        assert repo.backend.fences() == {"team/research/queue/gpu/0": slot.token}
    assert repo.backend.fences() == {}


@pytest.mark.parametrize(
    "options",
    [{"slots": 0}, {"slots": True}, {"slots": "2"}, {"fair": "agent"}, {"ttl": 0}, {"wait": -1}],
)
def test_a_queue_refuses_options_that_make_no_sense(repo, options):
    with pytest.raises(Invalid) as refused:
        queue_of(repo, "a", **options)
    assert refused.value.hint


def test_more_slots_that_are_named_later_hold(repo):
    queue_of(repo, "a").acquire()
    with queue_of(repo, "b", slots=2) as slot:
        assert slot.index == 1


def test_the_slot_of_a_removed_member_goes_to_the_next_one(repo):
    gone = repo.team("research", member="gone")
    held = gone.queue("gpu", ttl="1h").acquire()
    boss = repo.team("research", member="boss")
    boss.transact(lambda state: None)
    waits = boss.queue("gpu", ttl="1h")
    got = []
    thread = Thread(target=lambda: got.append(waits.acquire()))
    thread.start()
    wait_for(lambda: waits.waiting() == ["boss"])
    boss.remove("gone")
    thread.join()
    assert (got[0].index, got[0].token) == (held.index, held.token + 1)
    state = repo.session("trip")
    state["x"] = 1
    with pytest.raises(Fenced):
        state.commit(fences={"team/research/queue/gpu/0": held.token})


def test_a_removed_member_waits_no_longer(repo):
    boss = repo.team("research", member="boss")
    with boss.queue("gpu", ttl="1h") as slot:
        gone = repo.team("research", member="gone").queue("gpu", ttl="100ms")
        errors: list[Exception] = []

        def ask():
            try:
                gone.acquire()
            except Denied as error:
                errors.append(error)

        thread = Thread(target=ask)
        thread.start()
        wait_for(lambda: gone.waiting() == ["gone"])
        boss.remove("gone")
        assert gone.waiting() == []
        thread.join(HANG_SECONDS)
        with pytest.raises(Denied, match="gone was removed"):
            gone.acquire()
        assert [each.token for each in gone.used()] == [slot.token]
    assert len(errors) == 1


def test_a_removed_member_does_not_renew_its_slot(repo, monkeypatch):
    boss = repo.team("research", member="boss")
    boss.transact(lambda state: None)
    gone = repo.team("research", member="gone").queue("gpu", ttl="1h")
    gone.acquire()
    monkeypatch.setattr(boss, "_revoke", lambda name: None)  # killed before it takes it back
    boss.remove("gone")
    monkeypatch.undo()
    with pytest.raises(Fenced, match="slot 0 of queue gpu was lost"):
        gone._uses()[-1].renewal.renew()
    with pytest.raises(KeyNotFound):
        boss.remove("gone")  # again, and it takes back what is left
    assert gone.used() == []
    gone.release()


def test_a_slot_that_came_while_its_process_was_frozen_is_asked_for_again(repo):
    seconds = [0.0]
    queue = queue_of(repo, "frozen", ttl="10s")
    queue._queue.signs = SignsOfLife(lambda: ("boot", int(seconds[0] * 1_000_000)))
    request = queue.request()
    request.enter()
    (granted,) = queue.used()
    seconds[0] = 11
    assert request.look()
    assert (request.slot.index, request.slot.token) == (granted.index, granted.token + 1)
    request.give_back()


def test_a_request_of_a_process_that_was_frozen_keeps_its_place(repo):
    seconds = [0.0]
    gate, first, second = (
        queue_of(repo, name, ttl=ttl) for name, ttl in [("gate", "1h"), ("a", "10s"), ("b", "1h")]
    )
    for each in (gate, first, second):
        each._queue.signs = SignsOfLife(lambda: ("boot", int(seconds[0] * 1_000_000)))
    gate.acquire()
    requests = [each.request() for each in (first, second)]
    for request in requests:
        request.enter()
    seconds[0] = 11
    assert gate.waiting() == ["b"]
    requests[0].enter()
    assert gate.waiting() == ["a", "b"]
    for request in requests:
        request.give_back()
    gate.release()


def test_a_removed_member_keeps_no_other_request_from_being_entered(repo, monkeypatch):
    gate = queue_of(repo, "gate")
    gate.acquire()
    requests = [queue_of(repo, name).request() for name in "abc"]
    boss = repo.team("research", member="boss")
    monkeypatch.setattr(boss, "_revoke", lambda name: None)
    boss.remove("b")
    assert not requests[0].look(requests[1:])
    assert gate.waiting() == ["c", "a"]
    assert isinstance(requests[1].failure, Fenced)
    with pytest.raises(Denied, match="b was removed"):
        requests[1].explain()
    for request in requests:
        request.give_back()
    assert gate.waiting() == []


def test_a_dead_process_neither_uses_a_slot_nor_waits(repo):
    dead = queue_of(repo, "dead", ttl="60ms")
    dead.acquire()
    dead._uses()[-1].renewal.close()  # its process is gone
    dead.request().enter()
    guest = repo.team("research")
    wait_for(lambda: guest.queue("gpu").used() == guest.queue("gpu").waiting() == [])
    (gpu,) = guest.queues()
    assert (gpu.used, gpu.waiting) == ((), ())


def test_a_team_lists_its_queues_with_who_uses_them_and_who_waits(repo):
    team = repo.team("research", member="a")
    assert team.queues() == []
    with team.queue("gpu/1 é", slots=2), team.queue("gpu/1 é", slots=2), queue_of(repo, "b"):
        late = repo.team("research", member="c").queue("gpu/1 é", slots=2)
        thread = Thread(target=lambda: late.acquire() and late.release())
        thread.start()
        wait_for(late.waiting)
        gpu, other = repo.team("research").queues()
        assert (gpu.name, gpu.slots, gpu.waiting) == ("gpu", 1, ())
        assert (other.name, other.slots, other.waiting) == ("gpu/1 é", 2, ("c",))
        assert [(each.index, each.member) for each in other.used] == [(0, "a"), (1, "a")]
    thread.join()
    assert [(each.name, each.used, each.waiting) for each in team.queues()] == [
        ("gpu", (), ()),
        ("gpu/1 é", (), ()),
    ]
    assert repo.team("other").queues() == []
