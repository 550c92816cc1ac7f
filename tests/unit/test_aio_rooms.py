"""The awaitable mirror of what is more than a value: transactions, and the rooms of a state."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from otolith import aio
from otolith.errors import Closed, Erased, Invalid, KeyNotFound
from otolith.flows import Flow
from otolith.statecharts import Chart
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


# Operators


OPERATORS = {
    "in": (lambda x: "budget" in x, "await x.contains(key)"),
    "for": (lambda x: [*x], "async for each in x"),
    "dict": (dict, "dict(await x.items())"),
    "unpacked": (lambda x: {**x}, "dict(await x.items())"),
    "for each pair": (lambda x: [*x.items()], "await x.items()"),
    "len": (len, "await x.length()"),
    "bool": (bool, "await x.length()"),
    "set": (lambda x: x.__setitem__("budget", 1), "await x.set(key, value)"),
    "delete": (lambda x: x.__delitem__("budget"), "await x.delete(key)"),
    "value": (lambda x: x["budget"] > 1, "(await state[key])"),
    "truth of a value": (lambda x: bool(x["budget"]), "(await state[key])"),
    "sum with a value": (lambda x: x["budget"] + 1, "(await state[key])"),
    "part of a value": (lambda x: x["plan"]["steps"], "(await state[key])"),
}


@pytest.mark.parametrize(("use", "instead"), OPERATORS.values(), ids=OPERATORS.keys())
@looped
async def test_an_operator_of_a_state_is_refused_and_names_what_to_await(use, instead):
    async with aio.Versioned.open() as state:
        await state.set("budget", 500)

        with pytest.raises(TypeError, match=re.escape(instead)):
            use(state)

        assert await state["budget"] == 500


@looped
async def test_operators_of_handles_logs_and_snapshots_are_refused_too():
    async with aio.Versioned.open() as state:
        await state.list("log").append(1)
        snapshot = await state.at(await state.commit())
        mirrors: list[Any] = [state.list("log"), state.events, snapshot, state.conversation]
        uses: list[Callable[[Any], object]] = [len, bool, list, lambda x: 1 in x]
        for each, use in product(mirrors, uses):
            with pytest.raises(TypeError, match=r"await|async for"):
                use(each)
        with pytest.raises(TypeError, match="value"):
            int(state.counter("n"))  # type: ignore[call-overload]
        with pytest.raises(TypeError, match=r"await x.set_goal\(value\)"):
            state.memory.goal = "assigned"  # type: ignore[method-assign, assignment]


@looped
async def test_a_value_that_was_asked_for_can_become_a_task():
    async with aio.Versioned.open() as state:
        await state.update({"a": 1, "b": 2})

        assert await asyncio.create_task(state["a"]) == 1
        assert [*await asyncio.gather(state["a"], state["b"])] == [1, 2]
        assert await asyncio.wait_for(state["b"], HANG_SECONDS) == 2
        with pytest.raises(KeyNotFound):
            await state["nothing"]


# Rooms


@looped
async def test_a_conversation_is_held_and_read_by_awaiting(tmp_path):
    async with aio.open(tmp_path / "talk.db") as repo:
        state = await repo.session("trip")
        talk = state.conversation
        await talk.user("Find me a flight")
        await talk.assistant("To where?")
        await state.commit("asked")
        side = await talk.fork(1, "side")
        await side.user("To Rome")

        assert [message.text async for message in talk] == ["Find me a flight", "To where?"]
        assert (await talk.length(), (await talk[-1]).text) == (2, "To where?")
        assert [message.text async for message in side.messages(1)] == ["To Rome"]
        assert [len(turn) for turn in await talk.turns()] == [2]
        assert [*await talk.threads()] == ["main", "side"]
        context = await talk.context(8_000, for_="openai")
        assert context.messages[-1]["content"] == "To where?"
        then = await state.at("@")
        assert await then.conversation.length() == 2
        assert side.thread_name == "side"


@looped
async def test_memory_is_written_and_recalled_by_awaiting():
    async with aio.Versioned.open() as state:
        memory = state.memory
        await memory.set_goal("fly to NYC")
        await memory.plan(["search", "book"])
        await memory.done("search", "two flights")
        await memory.note("airline", "Delta", importance=0.9)
        await state.commit("planned")

        assert await memory.goal() == "fly to NYC"
        assert [step.text for step in await memory.pending()] == ["book"]
        assert [*await memory.notes()] == ["airline"]
        assert [found.value for found in await memory.recall("which airline?")] == ["Delta"]
        assert await memory.tool_calls() == []
        assert await (await state.at("@")).memory.goal() == "fly to NYC"


@looped
async def test_a_machine_runs_in_a_state_and_its_effects_are_carried_out():
    door = Chart.from_data(
        {
            "id": "door",
            "initial": "shut",
            "states": {
                "shut": {"on": {"push": {"target": "open", "actions": {"type": "ring"}}}},
                "open": {},
            },
        }
    )
    rung: list[str] = []

    async def ring(effect):
        await asyncio.sleep(0)
        rung.append(effect.name)

    async with aio.Versioned.open() as state:
        machine = await state.lifecycle(door)
        assert await machine.allowed() == ("push",)
        await machine.send("push")
        await state.commit("pushed")
        report = await machine.carry_out({"ring": ring})

        assert [effect.name for effect in report.done] == ["ring"] == rung
        assert await machine.phase() == "open"
        assert await (await (await state.at("@")).lifecycle(door)).phase() == "open"


@looped
async def test_code_runs_in_steps_by_awaiting(tmp_path):
    async with aio.open(tmp_path / "lab.db") as repo:
        state = await repo.session("lab")
        async with await state.workspace() as lab:
            step = await lab.run("x = 6 * 7\nx")
            await lab.put(y=1)

            assert (step.ok, step.value, await lab["x"]) == (True, 42, 42)
            assert [name async for name in lab] == ["x", "y"]
            assert await lab.contains("x")
            assert [commit.message async for commit in lab.log()] == ["put y", "x = 6 * 7"]
            assert [each.name for each in await lab.vars()] == ["x", "y"]
            await lab.undo()
            assert not await lab.contains("y")
        with pytest.raises(Closed):
            await lab.run("x")


@looped
async def test_a_step_that_is_cancelled_is_killed_and_leaves_nothing(tmp_path):
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with aio.open(tmp_path / "lab.db") as repo:
        state = await repo.session("lab")
        async with await state.workspace() as lab:
            await lab.run("x = 1")
            code = "x = 2\nprint('begun', flush=True)\nwhile True: pass"
            step = asyncio.create_task(
                lab.run(code, on_output=lambda *_: loop.call_soon_threadsafe(begun.set))
            )
            await begun.wait()
            step.cancel()
            with pytest.raises(asyncio.CancelledError):
                await step

            assert (await lab["x"], await state.is_clean()) == (1, True)
            assert (await lab.run("x + 1")).value == 2


@looped
async def test_a_step_is_interrupted_while_it_runs_and_keeps_what_it_did(tmp_path):
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with aio.open(tmp_path / "lab.db") as repo:
        state = await repo.session("lab")
        async with await state.workspace() as lab:
            assert not await lab.interrupt()
            code = "x = 2\nprint('begun', flush=True)\nwhile True: pass"
            step = asyncio.create_task(
                lab.run(code, on_output=lambda *_: loop.call_soon_threadsafe(begun.set))
            )
            await begun.wait()
            while not step.done():  # a second one would fall into what is stored of the step
                await lab.interrupt()
                await asyncio.wait({step}, timeout=HANG_SECONDS / 30)

            assert (await step).stopped == "interrupted"
            assert await lab["x"] == 2


@looped
async def test_steps_that_run_keep_no_thread_from_other_sessions(tmp_path, monkeypatch):
    monkeypatch.setattr("otolith.aio.lanes._MOST_THREADS", 1)
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with aio.open(tmp_path / "lab.db") as repo:
        other = await repo.session("other")
        async with await (await repo.session("lab")).workspace() as lab:
            code = "print('begun', flush=True)\nwhile True: pass"
            step = asyncio.create_task(
                lab.run(code, on_output=lambda *_: loop.call_soon_threadsafe(begun.set))
            )
            await begun.wait()
            await other.set("a", 1)
            await other.commit()
            step.cancel()
            with pytest.raises(asyncio.CancelledError):
                await step

            assert await other["a"] == 1


# flows


@looped
async def test_a_run_is_worked_on_while_it_is_looked_at_and_cancelled():
    begun, go = threading.Event(), threading.Event()
    flow = Flow("trip")

    @flow.task
    def search():
        begun.set()
        assert go.wait(HANG_SECONDS)
        return 1

    flow.task(lambda search: search + 1, name="choose", after=search)
    async with aio.Versioned.open() as state:
        run = await state.flow(flow, key="trip")
        working = asyncio.create_task(run.work(2))
        assert await asyncio.to_thread(begun.wait, HANG_SECONDS)
        assert (await run.progress()).running.keys() == {"search"}
        await run.cancel()
        go.set()
        assert (await working).status == "cancelled"

        await run.retry()
        assert (await run.work()).status == "done"
        assert await run.result("choose") == 2
        assert [each.key for each in await state.flows()] == ["trip"]
        assert await (await (await state.at("@")).flow(key="trip")).status() == "done"


@looped
async def test_a_profile_is_set_learned_asked_and_erased(tmp_path):
    async with aio.open(tmp_path / "agent.db") as repo:
        state = await repo.user("ann")
        ann = state.profile
        await ann.set("seat", "aisle")
        await ann.observe("seat", "window")
        commit = await ann.commit("asked")

        found = await ann.prefer("seat")
        assert (found.value, found.basis) == ("aisle", "set")
        assert await found.evidence() == [commit.id]
        assert await ann.contains("seat")
        assert await (await ann.at(commit)).keys() == ["seat"]

        trip = await repo.session("trip")
        await trip.conversation.user("I always want a vegetarian meal.")
        learned = await ann.learn(trip.conversation.plain)
        assert [each.key for each in learned.evidence] == ["meal"]

        receipt = await ann.erase()
        assert receipt.erased
        with pytest.raises(Erased):
            await repo.user("ann")
