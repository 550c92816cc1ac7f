"""The awaitable mirror of teams: waits that hold nothing, and tokens that stay with their task."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from functools import partial
from typing import Any

import pytest

import otolith
from otolith import aio
from otolith.errors import (
    Closed,
    Denied,
    Error,
    Fenced,
    Invalid,
    KeyNotFound,
    RefNotFound,
    TimedOut,
    Unavailable,
)
from tests.patience import HANG_SECONDS
from tests.servers.postgres import fresh
from tests.unit.test_aio import Gate, looped

BROWSER = "team/research/lease/browser"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "team.db")
    return fresh(request.getfixturevalue("postgres_url"), pool=4)


async def until(condition: Callable[[], Any]) -> None:
    while not condition():  # noqa: ASYNC110 - nothing tells when it is
        await asyncio.sleep(0.001)


async def waiting_in(queue: aio.FairQueue, count: int) -> None:
    """Wait until so many requests wait in a queue."""
    while len(await queue.waiting()) != count:  # noqa: ASYNC110 - the store is asked
        await asyncio.sleep(0)


async def acquired(lease: aio.TeamLease, *, seconds: float | None = None) -> aio.TeamLease:
    async with asyncio.timeout(seconds):
        return await lease.acquire()


def _put(state: Any, **values: Any) -> None:
    state.update(values)


async def enter(queue: aio.FairQueue) -> None:
    async with queue:
        pass


def waits_of(repo: aio.Repo) -> Any:
    """Return how tasks of a repo wait."""
    return repo._lane.threads.waits  # type: ignore[attr-defined]


async def waiting(repo: aio.Repo, count: int) -> None:
    """Wait until so many tasks wait for leases and slots, and the first has looked twice."""
    waits = waits_of(repo)
    await until(lambda: sum(len(line.places) for line in waits._lines.values()) == count)
    await until(lambda: waits.news._bells)


async def carried(repo: aio.Repo) -> dict[str, int]:
    return await repo.run(lambda plain: dict(plain.backend.fences()))


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# ---------------------------------------------------------------- the verbs


@looped
async def test_members_read_decide_and_write_as_one(url):
    def take(state):
        free = state.setdefault("free", ["search", "book"])
        return free.pop(0) if free else None

    async with aio.open(url) as repo:
        teams = [await repo.team("research", member=name) for name in ("planner", "critic", "ann")]
        taken = await asyncio.gather(*(team.transact(take, "took one") for team in teams))

        assert sorted(taken, key=str) == [None, "book", "search"]
        state = await teams[0].state()
        await state.refresh()
        assert await state["free"] == []
        assert [commit.author async for commit in state.log(limit=1)] != [""]
        assert {each.name for each in await teams[0].members()} == {"ann", "critic", "planner"}


@looped
async def test_the_state_of_a_team_has_its_order_with_the_team(url):
    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        state = await team.state()
        await asyncio.gather(
            *(state.run(lambda plain: plain.transact(lambda s: s.counter("n").add(1)))
              for _ in range(5)),
            *(team.transact(lambda s: s.counter("n").add(1)) for _ in range(5)),
        )  # fmt: skip
        assert await state["n"] == 10
        await state.set("x", 1)
        assert (await state.commit("mine")).author == "planner"


@looped
async def test_a_proposal_is_made_looked_at_and_voted_on(url):
    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        critic = await repo.team("research", member="critic")
        await team.add("critic")
        made = await team.propose("plan B", lambda state: state.update(plan="B"), quorum=2)

        assert (made.title, made.by, made.status, made.needed) == ("plan B", "planner", "open", 2)
        (change,) = await made.diff()
        assert (change.path, await change.new()) == ("plan", "B")
        theirs = await critic.proposal(made.id[:6])
        await theirs.approve(why="cheaper")
        await (await made.refresh()).approve()
        assert made.status == "landed"
        assert [vote.member for vote in made.votes] == ["critic", "planner"]
        assert await (await team.state())["plan"] == "B"
        assert [each.id for each in await team.proposals(status="landed")] == [made.id]
        assert (await made.commit()).author == "planner"


@looped
async def test_what_conflicts_is_in_the_inbox_and_is_decided_there(url):
    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        critic = await repo.team("research", member="critic")
        await team.transact(lambda state: state.update(plan="A", way="car"))
        idea = await (await team.state()).fork("idea")
        await idea.update({"plan": "C", "way": "train"})
        await idea.commit("an idea")
        await critic.transact(lambda state: state.update(plan="B", way="plane"))

        assert {each.path for each in await team.merge(idea)} == {"plan", "way"}
        inbox = await critic.inbox()
        plan = inbox["plan"]
        sides = await plan.base(), await plan.ours(), await plan.theirs()
        assert (len(inbox), sides, plan.our_author) == (2, ("A", "B", "C"), "critic")
        assert [commit.message for commit in await plan.history("theirs")] == ["an idea"]
        await critic.resolve(plan, take="theirs")
        assert await critic.resolve_all(lambda conflict: f"{conflict.ours}!") == []
        assert len(await team.inbox()) == 0
        assert [each.settled for each in (await team.inbox()).statistics()] == [1, 1]
        state = await team.state()
        await state.refresh()
        assert (await state["plan"], await state["way"]) == ("C", "plane!")


@looped
async def test_messages_are_read_once_and_a_session_is_handed_over(url):
    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        critic = await repo.team("research", member="critic")
        await critic.transact(lambda state: None)
        await team.send("critic", "look")
        assert [each.body for each in await critic.messages()] == ["look"]
        assert await critic.messages() == []

        trip = await team.session("trip")
        await trip.set("from", "Rome")
        await trip.commit("began")
        await trip.set("to", "New York")
        with pytest.raises(Denied, match="planner works on session trip"):
            await critic.session("trip")
        await team.handoff(trip, to="critic", note="book it")
        theirs = await critic.session("trip")
        assert await theirs["to"] == "New York"
        await theirs.commit("goes on")
        await trip.set("to", "Boston")
        with pytest.raises(Fenced):
            await trip.commit("too late")
        assert [each.owner for each in await team.sessions()] == ["critic"]


@looped
async def test_a_member_is_present_inside_of_async_with(url):
    async def present(team: aio.Team) -> set[str]:
        return {each.name for each in await team.members() if each.is_present}

    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        critic = await repo.team("research", member="critic")
        async with team:
            async with team:
                assert await present(critic) == {"planner"}
            assert await present(critic) == {"planner"}
        assert await present(critic) == set()


@looped
async def test_what_is_known_is_an_attribute_and_is_shown(url):
    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        await team.transact(lambda state: state.update(x=1))
        (change,) = [each async for each in _first(team.watch(since=None), 1, team)]
        made = await team.propose("t", lambda state: state.update(x=3))
        assert (team.id, team.member) == ("research", "planner")
        assert repr(team) == "<aio.Team research as planner>"
        assert repr(change) == "<aio.WatchedChange changed x by planner>"
        assert repr(team.queue("gpu", slots=2)) == "<aio.FairQueue gpu>"
        assert repr(team.watch("plan")) == "<aio.Watch plan>"
        assert repr(made) == f"<aio.Proposal {made.id} 't' open 0/1>"
        async with team.lease("browser") as lease:
            assert (lease.name, lease.is_held) == ("browser", True)
            assert repr(lease) == "<aio.TeamLease browser held>"
        guest = await repo.team("research")
        with pytest.raises(Invalid, match="without a member"):
            _ = guest.member
        with pytest.raises(Invalid, match="lease must be a name"):
            team.lease("")


async def _first(watch: aio.Watch, count: int, team: aio.Team) -> Any:
    """Yield the first changes of a watch, once it has begun."""
    async with watch:
        for number in range(count):
            await team.transact(partial(_put, x=number + 2))
            yield await anext(watch)


# ---------------------------------------------------------------- watches


@looped
async def test_changes_come_in_order_and_are_read_when_they_are_asked_for(url):
    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        await team.transact(lambda state: state.update(plan={"name": "A"}, other=0))
        async with team.watch("plan/") as watch:
            await team.transact(lambda state: state.update({"plan/name": "B", "other": 1}))
            await team.transact(lambda state: state.pop("plan/name"))
            changes = [await anext(watch), await anext(watch)]
            assert await watch.next(0) is None
        told = [(each.path, each.kind, each.by) for each in changes]
        assert told == [("plan/name", "changed", "planner"), ("plan/name", "removed", "planner")]
        assert (await changes[0].old(), await changes[0].new()) == ("A", "B")
        assert changes[0].keys == ("plan", "name")

        again = team.watch("plan/", since=changes[0].cursor)
        assert (await anext(again)).cursor == changes[1].cursor == again.cursor


@looped
async def test_a_watch_wakes_up_when_another_process_commits(url):
    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        await team.transact(lambda state: state.update(x=0))
        watch = team.watch()
        change = asyncio.create_task(anext(watch))
        await until(lambda: waits_of(repo).news._bells)

        def commit_elsewhere():
            with otolith.open(url) as other:
                other.team("research", member="critic").transact(lambda state: state.update(x=1))

        await asyncio.to_thread(commit_elsewhere)
        assert ((await change).by, await (await change).new()) == ("critic", 1)


@looped
async def test_who_leaves_a_watch_leaves_nothing_behind(url, monkeypatch):
    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        await team.transact(lambda state: state.update(x=0))
        news = waits_of(repo).news
        monkeypatch.setattr("otolith.aio.waits._LINGER_SECONDS", 0.05)
        watch = team.watch()

        found: list[str] = []

        async def first() -> str:
            async for change in watch:
                found.append(change.path)
                break
            return found.pop()

        task = asyncio.create_task(first())
        await until(lambda: news._bells)
        await team.transact(lambda state: state.update(x=1))
        assert await task == "x"
        assert news._bells == {}

        waiting_for_more = asyncio.create_task(first())
        await until(lambda: news._bells)
        await cancelled(waiting_for_more)
        assert news._bells == {}
        await team.transact(lambda state: state.update(y=1))  # and a cancelled wait misses nothing
        assert await first() == "y"

        await asyncio.to_thread(news._thread.join, HANG_SECONDS)
        assert not news._thread.is_alive()


@looped
async def test_a_watch_that_is_closed_ends_the_wait_of_another_task(url):
    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        async with aclosing(team.watch()) as watch:
            task = asyncio.create_task(watch.next())
            await until(lambda: waits_of(repo).news._bells)
        with pytest.raises(Closed, match="was closed"):
            await task


@looped
async def test_a_watch_of_a_branch_that_was_deleted_says_so(url):
    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        await team.transact(lambda state: state.update(x=0))
        watch = team.watch()
        task = asyncio.create_task(anext(watch))
        await until(lambda: waits_of(repo).news._bells)
        await repo.delete_branch("research", "main", scope="team")
        with pytest.raises(RefNotFound, match="was deleted"):
            await task


@looped
async def test_two_hundred_tasks_watch_with_a_few_threads(url):
    before = threading.active_count()
    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        await team.transact(lambda state: state.update(x=0))

        async def watch(begun: asyncio.Semaphore) -> list[Any]:
            async with team.watch() as found:
                begun.release()
                return [await (await anext(found)).new() for _ in range(3)]

        begun = asyncio.Semaphore(0)
        tasks = [asyncio.create_task(watch(begun)) for _ in range(200)]
        for _ in tasks:
            await begun.acquire()
        for number in (1, 2, 3):
            await team.transact(partial(_put, x=number))
        assert await asyncio.gather(*tasks) == [[1, 2, 3]] * 200
        # Eight, one for news, on Postgres that of greenlets, the listener and those that connect.
        assert threading.active_count() - before <= 24


# ---------------------------------------------------------------- leases


@looped
async def test_commits_of_the_task_carry_the_token_and_those_of_others_do_not(url):
    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        inside, done = asyncio.Event(), asyncio.Event()

        async def other() -> dict[str, int]:
            await inside.wait()
            return await carried(repo)

        async def child() -> dict[str, int]:
            await done.wait()
            return await carried(repo)

        others = asyncio.create_task(other())
        async with team.lease("browser") as lease:
            inside.set()
            assert await carried(repo) == {BROWSER: lease.token}
            assert await asyncio.create_task(carried(repo)) == {BROWSER: lease.token}
            assert await others == {}
            started_inside = asyncio.create_task(child())
        assert await carried(repo) == {}
        done.set()
        assert await started_inside == {BROWSER: lease.token}


@looped
async def test_a_task_that_lost_its_lease_cannot_commit_to_any_state(url):
    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        other = await repo.team("research", member="critic")
        state = await repo.session("trip")
        await other.transact(lambda state: None)
        async with team.lease("browser", ttl="1h") as lease:
            await state.set("x", 1)
            await state.commit("inside")
            leaser: Any = team.plain._leases.leaser
            await asyncio.to_thread(lambda: leaser.release(leaser.leased(BROWSER)))
            async with other.lease("browser"):
                pass
            await state.set("x", 2)
            with pytest.raises(Fenced):
                await state.commit("lost")
            with pytest.raises(Fenced, match="lease browser was lost"):
                await lease.renew()
            assert not lease.is_held
        await state.commit("outside")


@looped
async def test_a_lease_that_ends_first_leaves_the_other_token_to_the_task(url):
    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        first, second = team.lease("a"), team.lease("b")
        await first.__aenter__()
        await second.__aenter__()
        await first.__aexit__(None, None, None)
        assert {*await carried(repo)} == {"team/research/lease/b"}
        await second.__aexit__(None, None, None)
        assert await carried(repo) == {}


@looped
async def test_two_hundred_tasks_take_turns_at_one_lease_with_a_few_threads(url, rounds):
    count, inside, before = rounds(200, 1000), 0, threading.active_count()

    async def use(team: aio.Team) -> int:
        nonlocal inside
        async with team.lease("browser") as lease:
            inside += 1
            assert inside == 1
            await asyncio.sleep(0)
            inside -= 1
            return lease.token

    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        async with team.lease("browser") as held:
            tasks = [asyncio.create_task(use(team)) for _ in range(count)]
            await waiting(repo, count)
            assert threading.active_count() - before <= 24
            await team.transact(lambda state: state.update(x=1))  # nobody is kept waiting by them
        tokens = await asyncio.gather(*tasks)
        assert sorted(tokens) == [*range(held.token + 1, held.token + 1 + count)]
        assert await team.leases() == []
        assert waits_of(repo)._lines == {}


@looped
async def test_tasks_that_are_cancelled_while_they_wait_hold_nothing(url):
    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        async with team.lease("browser") as held:
            tasks = [asyncio.create_task(team.lease("browser").acquire()) for _ in range(20)]
            await waiting(repo, 20)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert all(task.cancelled() for task in tasks)
            assert waits_of(repo)._lines == {}
            assert waits_of(repo).news._bells == {}
        async with team.lease("browser", wait=0) as lease:
            assert lease.token == held.token + 1


@looped
async def test_the_first_in_line_is_cancelled_and_the_next_one_goes_on(url):
    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        async with team.lease("browser") as held:
            first, second = (asyncio.create_task(team.lease("browser").acquire()) for _ in range(2))
            await waiting(repo, 2)
            await cancelled(first)
            await waiting(repo, 1)
        lease = await second
        assert lease.token == held.token + 1
        await lease.release()


@looped
async def test_a_task_that_is_cancelled_as_it_gets_the_lease_gives_it_back():
    gate = Gate()
    async with aio.open("memory:", clock=gate) as repo:
        team = await repo.team("research", member="planner")
        await team.transact(lambda state: None)
        gate.shut()
        task = asyncio.create_task(team.lease("browser").acquire())
        await gate.someone()
        task.cancel()
        task.cancel()
        await asyncio.sleep(0)
        gate.opened.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await team.leases() == []
        async with team.lease("browser", wait=0):
            pass


@looped
async def test_a_task_that_is_cancelled_inside_gives_the_lease_back(url):
    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        inside = asyncio.Event()

        async def use() -> None:
            async with team.lease("browser"), team.queue("gpu"):
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(use())
        await inside.wait()
        await cancelled(task)
        assert await team.leases() == []
        assert await team.queue("gpu").used() == []


@looped
async def test_an_error_inside_gives_the_lease_back(url):
    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        with pytest.raises(Error, match="mine"):
            async with team.lease("browser"):
                raise Error("mine")
        assert await team.leases() == []


@looped
async def test_waiting_ends_in_time_and_names_the_holder(url):
    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        other = await repo.team("research", member="critic")
        async with team.lease("browser") as lease:
            with pytest.raises(TimedOut, match="planner had the lease browser"):
                await acquired(other.lease("browser", wait=0))
            with pytest.raises(TimedOut, match="planner had the lease browser"):
                await acquired(other.lease("browser", wait="20ms"))
            behind = asyncio.create_task(other.lease("browser").acquire())
            await waiting(repo, 1)
            with pytest.raises(TimedOut, match="planner had the lease browser"):
                await acquired(other.lease("browser", wait="20ms"))
            with pytest.raises(TimeoutError):
                await acquired(other.lease("browser"), seconds=0.02)
            with pytest.raises(Invalid, match="is acquired already"):
                await lease.acquire()
        await (await behind).release()


@looped
async def test_a_wait_ends_when_the_repo_is_closed(url):
    repo = await aio.open(url)
    team = await repo.team("research", member="planner")
    held = await team.lease("browser").acquire()
    await team.queue("gpu").__aenter__()
    waits: list[Coroutine[Any, Any, Any]] = [
        team.watch().next(),
        team.lease("browser").acquire(),
        team.lease("browser").acquire(),
        team.queue("gpu").__aenter__(),
    ]
    tasks = [asyncio.create_task(each) for each in waits]
    await waiting(repo, 3)
    await repo.close()
    for task in tasks:
        with pytest.raises(Closed, match="this repo was closed"):
            await task
    with pytest.raises(Closed):
        await held.release()
    with otolith.open(url) as plain:
        assert plain.team("research").queue("gpu").waiting() == []


def test_a_loop_that_ends_leaves_no_request_behind(url):
    async def main() -> None:
        repo = await aio.open(url)
        team = await repo.team("research", member="planner")
        await team.queue("gpu").__aenter__()
        await team.lease("browser").acquire()
        held.append(repo)
        for _ in range(2):
            held.append(asyncio.create_task(team.queue("gpu").__aenter__()))
            held.append(asyncio.create_task(team.lease("browser").acquire()))
        await waiting(repo, 4)

    held: list[Any] = []
    asyncio.run(asyncio.wait_for(main(), HANG_SECONDS))
    with otolith.open(url) as repo:
        assert repo.team("research").queue("gpu").waiting() == []
        assert [each.name for each in repo.team("research").leases()] == ["browser"]
    held[0].plain.close()


@looped
async def test_an_error_of_the_store_ends_the_wait_of_all(monkeypatch):
    async with aio.open("memory:") as repo:
        team = await repo.team("research", member="planner")
        async with team.lease("browser"):
            tasks = [asyncio.create_task(team.lease("browser").acquire()) for _ in range(3)]
            await waiting(repo, 3)

            def fail(*_: object, **__: object) -> None:
                raise Unavailable("the store is gone")

            with monkeypatch.context() as patch:
                patch.setattr(team.plain._leases.leaser, "lease", fail)
                waits_of(repo).news._ring_all()
                found = await asyncio.gather(*tasks, return_exceptions=True)
            assert [str(each) for each in found] == ["the store is gone"] * 3
            assert waits_of(repo)._lines == {}


# ---------------------------------------------------------------- queues


@looped
async def test_tasks_take_turns_at_the_slots_of_a_queue(url):
    inside: list[int] = []

    async def use(queue: aio.FairQueue) -> None:
        async with queue as slot:
            assert slot.index not in inside
            inside.append(slot.index)
            assert len(inside) <= 2
            assert await carried(repo) == {f"team/research/queue/gpu/{slot.index}": slot.token}
            inside.remove(slot.index)

    async with aio.open(url) as repo:
        teams = [await repo.team("research", member=f"m{number}") for number in range(4)]
        queues = [team.queue("gpu", slots=2) for team in teams]
        await asyncio.gather(*(use(queue) for queue in queues * 5))
        assert await carried(repo) == {}
        assert (await queues[0].used(), await queues[0].waiting()) == ([], [])


@looped
async def test_a_slot_is_acquired_and_released_by_its_task(url):
    async def use(queue: aio.FairQueue) -> int:
        slot = await queue.acquire()
        assert await carried(repo) == {f"team/research/queue/gpu/{slot.index}": slot.token}
        await queue.release()
        assert await carried(repo) == {}
        return slot.token

    async with aio.open(url) as repo:
        queue = (await repo.team("research", member="planner")).queue("gpu")
        tokens = await asyncio.gather(*(use(queue) for _ in range(5)))
        assert len({*tokens}) == 5
        assert (await queue.used(), await queue.waiting()) == ([], [])
        with pytest.raises(Invalid, match="no slot of queue gpu was acquired here"):
            await queue.release()


@looped
async def test_a_member_that_asks_more_often_gets_its_share_and_no_more(url):
    order: list[str] = []

    async def use(team: aio.Team) -> None:
        async with team.queue("gpu"):
            order.append(team.member)

    async with aio.open(url) as repo:
        often = await repo.team("research", member="often")
        seldom = await repo.team("research", member="seldom")
        gate = await repo.team("research", member="gate")
        async with gate.queue("gpu") as slot:
            assert slot.index == 0
            tasks = [asyncio.create_task(use(often)) for _ in range(10)]
            tasks += [asyncio.create_task(use(seldom)) for _ in range(3)]
            queue = seldom.queue("gpu")
            await waiting_in(queue, len(tasks))
            assert await queue.position() in (0, 1)
            assert await queue.eta() is None, "no slot was given back yet"
        await asyncio.gather(*tasks)
        assert sorted(order[:6]) == ["often"] * 3 + ["seldom"] * 3


@looped
async def test_requests_that_wait_together_are_written_together(url):
    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        queue = team.queue("gpu")
        ref = ".shared/team/research/queue.gpu"

        async def moves() -> int:
            return await repo.run(lambda plain: len(plain.store.moves(ref)))

        async with queue:
            before = await moves()
            tasks = [asyncio.create_task(queue.__aenter__()) for _ in range(100)]
            await waiting_in(queue, 100)
            assert await moves() - before < 50  # they come one after the other, and wait together
            entered = await moves()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert await queue.waiting() == []
            assert await moves() - entered < 20


@looped
async def test_waiting_for_a_slot_ends_in_time_and_withdraws_the_request(url):
    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        async with team.queue("gpu") as slot:
            assert slot.member == "planner"
            late = team.queue("gpu", wait="20ms")
            with pytest.raises(TimedOut, match="it is used by planner"):
                await enter(late)
            assert await late.waiting() == []
        guest = await repo.team("research")
        with pytest.raises(Invalid, match="member"):
            await enter(guest.queue("gpu"))


@looped
async def test_a_removed_member_gets_its_error(url):
    async with aio.open(url) as repo:
        team = await repo.team("research", member="planner")
        critic = await repo.team("research", member="critic")
        await critic.transact(lambda state: None)
        await team.remove("critic")
        with pytest.raises(Denied, match="critic was removed"):
            await critic.transact(lambda state: state.update(x=1))
        with pytest.raises(Denied):
            await acquired((await team.as_member("critic")).lease("browser"))
        with pytest.raises(KeyNotFound):
            await team.send("nobody", 1)
