"""The awaitable mirror of what is more than a value: transactions, and the rooms of a state."""

from __future__ import annotations

import asyncio
import threading

import pytest

from otolith import aio
from otolith.errors import Invalid
from tests.patience import HANG_SECONDS
from tests.unit.test_aio import looped


def take(state):
    """Take one, if there is one."""
    if state["left"] == 0:
        return False
    state["left"] -= 1
    return True


# transact


@looped
async def test_of_many_tasks_only_as_many_succeed_as_there_are_items(tmp_path):
    async with aio.open(tmp_path / "shop.db") as repo:
        states = [await repo.session("shop") for _ in range(6)]
        await states[0].transact(lambda state: state.update(left=4))

        taken = await asyncio.gather(*(state.transact(take, "took one") for state in states))

        assert sorted(taken) == [False] * 2 + [True] * 4
        assert await (await repo.session("shop"))["left"] == 0


@looped
async def test_a_transaction_that_is_cancelled_has_landed_or_not_begun():
    begun, go = threading.Event(), threading.Event()

    def slow(state):
        begun.set()
        assert go.wait(HANG_SECONDS)
        state["left"] = 1

    async with aio.Versioned.open() as state:
        task = asyncio.create_task(state.transact(slow, "slow"))
        assert await asyncio.to_thread(begun.wait, HANG_SECONDS)
        waiting = asyncio.create_task(state.transact(take))
        await asyncio.sleep(0)
        waiting.cancel()
        task.cancel()
        go.set()
        for each in (task, waiting):
            with pytest.raises(asyncio.CancelledError):
                await each

        assert [commit.message async for commit in state.log()] == ["slow"]
        assert (await state.is_clean(), await state["left"]) == (True, 1)


@looped
async def test_a_coroutine_function_is_refused_as_a_transaction():
    async def edit(state):
        state["left"] = 1

    async with aio.Versioned.open() as state:
        with pytest.raises(Invalid, match="plain function"):
            _ = await state.transact(edit)
