"""Sessions on a server, awaited: many at once, in one thread and over a few connections."""

from __future__ import annotations

import asyncio
import threading
from typing import Any
from urllib.parse import urlsplit

import pytest

import otolith
from otolith import aio
from otolith.errors import Busy
from otolith.greenlets import GreenletPool, is_inside, wait_for
from tests.patience import HANG_SECONDS
from tests.servers.postgres import fresh
from tests.servers.process import wait_until
from tests.servers.proxy import Proxy


@pytest.fixture
def url(postgres_url):
    return fresh(postgres_url, pool=5)


def test_a_function_waits_and_others_continue():
    pool, order = GreenletPool(), []

    def work(name, seconds):
        assert is_inside()
        order.append(f"{name} begins")
        wait_for(asyncio.sleep(seconds))
        order.append(f"{name} ends")
        return name

    slow, quick = pool.submit(work, "slow", 0.2), pool.submit(work, "quick", 0)
    assert (slow.result(), quick.result()) == ("slow", "quick")
    assert order == ["slow begins", "quick begins", "quick ends", "slow ends"]
    assert not is_inside()
    pool.shutdown()


def test_errors_go_both_ways():
    pool = GreenletPool()

    async def fail():
        raise ValueError("inner")

    def work():
        try:
            wait_for(fail())
        except ValueError as error:
            raise KeyError(str(error)) from error

    with pytest.raises(KeyError, match="inner"):
        pool.submit(work).result()
    pool.shutdown()


def test_a_thousand_sessions_need_no_thousand_threads(url, rounds):
    sessions = rounds(100, 1000)

    async def commit(repo, number):
        state = await repo.session(f"s{number}")
        await state.set("n", number)
        await state.commit("first")
        await state.counter("steps").add(1)
        await state.commit("second")

    async def main():
        async with aio.open(url) as repo:
            before = threading.active_count()
            await asyncio.gather(*(commit(repo, number) for number in range(sessions)))
            return threading.active_count() - before

    more = asyncio.run(main())
    assert more <= 16  # those of asyncio, which open the connections, and a few
    with otolith.open(url) as repo:
        assert len(repo.sessions()) == sessions
        assert repo.session("s7")["n"] == 7
        assert repo.session("s7")["steps"] == 1


def test_as_many_calls_wait_as_there_are_connections(postgres_url):
    server = fresh(postgres_url, pool=20)
    port = urlsplit(server).port
    assert port is not None

    async def main(proxy):
        async with aio.open(server.replace(str(port), str(proxy.port))) as repo:
            states = await asyncio.gather(*(repo.session(f"s{number}") for number in range(20)))
            proxy.fault = "stall"
            calls = [asyncio.create_task(state.refresh()) for state in states]
            connections: Any = repo.plain.store._connections  # type: ignore[attr-defined]
            # With threads it would be no more than there are threads.
            await asyncio.to_thread(wait_until, lambda: connections._lent == 20, "20 calls")
            proxy.fault = "pass"
            await asyncio.gather(*calls)

    with Proxy(port) as proxy:
        asyncio.run(asyncio.wait_for(main(proxy), HANG_SECONDS))


def test_the_event_loop_runs_while_calls_wait(url):
    async def main():
        async with aio.open(url) as repo:
            state = await repo.session("s")
            ticks = 0

            async def tick():
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0)

            ticking = asyncio.create_task(tick())
            for number in range(20):
                await state.set("n", number)
                await state.commit(f"{number}")
            ticking.cancel()
            return ticks

    assert asyncio.run(main()) > 20


def test_no_update_of_one_session_is_lost(url):
    async def add(repo):
        state = await repo.session("s")
        for _ in range(5):
            await state.counter("n").add(1)
            await state.commit("one more")

    async def main():
        async with aio.open(url) as repo:
            await asyncio.gather(*(add(repo) for _ in range(8)))
            return await (await repo.session("s"))["n"]

    assert asyncio.run(main()) == 40


def test_a_session_and_its_user_are_committed_in_turn(url):
    async def main():
        async with aio.open(url) as repo:
            state = await repo.session("s", user="ann")

            async def of_the_user():
                for number in range(10):
                    await state.user.set("seat", number)
                    await state.user.commit(f"seat {number}")

            async def of_the_session():
                for number in range(10):
                    await state.set("n", number)
                    await state.commit(f"n {number}", user=True)

            await asyncio.gather(of_the_user(), of_the_session())
            return await state["n"], await state.user["seat"]

    assert asyncio.run(main()) == (9, 9)


def test_a_function_of_the_user_that_blocks_keeps_nobody_waiting(url):
    async def main():
        async with aio.open(url) as repo:
            blocked, other = await repo.session("blocked"), await repo.session("other")
            may_end = threading.Event()

            def block(plain):
                assert may_end.wait(HANG_SECONDS)
                return "done"

            run = asyncio.create_task(blocked.run(block))
            transact = asyncio.create_task((await repo.session("third")).transact(block))
            await other.set("n", 1)
            await other.commit("while others block")
            may_end.set()
            return await run, await transact

    assert asyncio.run(main()) == ("done", "done")


def test_a_cancelled_call_that_has_begun_is_finished_first(url):
    async def main():
        async with aio.open(url) as repo:
            state = await repo.session("s")
            await state.set("n", 1)
            task = asyncio.create_task(state.commit("cancelled"))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await state.commit("again")
            return await state["n"]

    assert asyncio.run(main()) == 1


def test_too_few_connections_are_busy_and_not_a_hang(postgres_url):
    url = fresh(postgres_url, pool=1, connect_timeout=2)

    async def main():
        async with aio.open(url) as repo:
            lent = repo.plain.store._connections.lend()  # type: ignore[attr-defined]
            lent.__enter__()
            state = repo.session("s")
            with pytest.raises(Busy, match="all 1 connections"):
                await state
            lent.__exit__(None, None, None)
            await (await repo.session("s")).set("n", 1)

    asyncio.run(main())
