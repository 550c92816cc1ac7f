"""The awaitable mirror: the same verbs, in order, off the event loop, and whole or not at all."""

from __future__ import annotations

import ast
import asyncio
import inspect
import threading
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

import otolith
from otolith import aio
from otolith.aio import surface, teams
from otolith.aio.mirror import NOT_MIRRORED
from otolith.errors import (
    BadValue,
    Closed,
    Corrupt,
    Invalid,
    KeyNotFound,
    MergeConflict,
    ReadOnly,
    RefNotFound,
)
from otolith.flows import Flow
from otolith.statecharts import AGENT
from otolith.stores import KVStore
from tests.patience import HANG_SECONDS

"""How long anything is waited for before it is taken for stuck."""

FLOW = Flow("f")
FLOW.task(lambda: 1, name="one")


def looped(test):
    """Run a test in an event loop of its own."""

    @wraps(test)
    def run(*args, **kwargs):
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), HANG_SECONDS))

    return run


class Gate:
    """A clock that stops whoever asks it for the time, once it is shut."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        self.opened.set()
        self.time = 0

    def __call__(self) -> int:
        self.reached.set()
        assert self.opened.wait(HANG_SECONDS)
        self.time += 1
        return self.time

    def shut(self) -> None:
        self.reached.clear()
        self.opened.clear()

    async def someone(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, HANG_SECONDS)


class Pairs(KVStore):
    """A store that knows whether it was closed."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.is_closed = False

    def get(self, key):
        return self.data.get(key)

    def set(self, key, value):
        self.data[key] = value

    def close(self):
        self.is_closed = True


# ---------------------------------------------------------------- the verbs


@looped
async def test_what_is_committed_is_there_when_it_is_opened_again(tmp_path):
    async with aio.open(tmp_path / "agent.db") as repo:
        state = await repo.session("trip")
        await state.set("budget", 500)
        first = await state.commit("asked")

    async with aio.open(tmp_path / "agent.db") as repo:
        state = await repo.session("trip")

        assert await state["budget"] == 500
        assert state.head == first


@looped
async def test_a_repo_can_be_awaited_and_closed_by_hand():
    repo = await aio.open("memory:")

    assert await repo.sessions() == []

    await repo.close()


@looped
async def test_a_state_can_be_opened_without_a_repo(tmp_path):
    async with aio.Versioned.open(str(tmp_path / "agent.db"), session="trip") as state:
        await state.set("budget", 500)
        await state.commit()

    state = await aio.Versioned.open(str(tmp_path / "agent.db"), session="trip")
    assert await state.get("budget") == 500
    await state.close()


@looped
async def test_a_change_in_place_is_found_by_commit():
    async with aio.Versioned.open() as state:
        await state.set("cfg", {"a": [1, 2]})
        first = await state.commit()
        (await state["cfg"])["a"].append(3)
        second = await state.commit()

        assert await (await state.at(first))["cfg"] == {"a": [1, 2]}
        assert await (await state.at(second))["cfg"] == {"a": [1, 2, 3]}


@looped
async def test_a_state_is_a_mapping_whose_operators_have_names():
    async with aio.Versioned.open() as state:
        await state.update({"a": 1, "b": 2})
        await state.set("c", {"d": 4})

        assert await state.get("x", "none") == "none"
        assert await state.contains("c/d")
        assert await state.length() == 3
        assert await state.keys() == [name async for name in state] == ["a", "b", "c"]
        assert await state.items() == [("a", 1), ("b", 2), ("c", {"d": 4})]
        assert await state.pop("a") == 1
        assert await state.pop("a", None) is None
        assert await state.setdefault(("c", "e"), 5) == 5
        await state.delete("b")
        assert await state.to_dict() == {"c": {"d": 4, "e": 5}}


@looped
async def test_set_without_a_value_is_the_handle_on_a_set():
    async with aio.Versioned.open() as state:
        await state.set("seen").update([1, 2])
        await state.set("seen").add(3)
        await state.set("seen").discard(1)

        assert [each async for each in state.set("seen")] == [2, 3]
        assert await state.set("seen").contains(2)
        assert await state.set("seen").length() == 2


@looped
async def test_a_list_is_appended_to_and_read_by_part():
    async with aio.Versioned.open() as state:
        log = state.list("log")
        await log.extend(range(1000))
        await log.append("last")
        await log.set(slice(0, 2), ["first"])
        await log.delete(1)

        assert await log[0] == "first"
        assert await log[-2:] == [999, "last"]
        assert await log.length() == 999
        assert [each async for each in log] == ["first", *range(3, 1000), "last"]


@looped
async def test_a_map_has_keys_of_any_plain_type():
    async with aio.Versioned.open() as state:
        users = state.map("users")
        await users.set(42, "Ada")
        await users.update({"bob": "Bob", "ben": "Ben"})
        await users.delete("ben")

        assert await users[42] == "Ada"
        assert [pair async for pair in users.scan("b")] == [("bob", "Bob")]
        assert await users.pop("bob") == "Bob"
        assert await users.keys() == [42]


@looped
async def test_counters_and_blobs_have_their_verbs():
    async with aio.Versioned.open() as state:
        assert await state.counter("tokens").add(5) == 5
        assert await state.counter("tokens").value() == 5

        video = state.blob("video")
        await video.write(b"frame " * 10_000)
        await video.splice(0, 5, b"FRAME")
        assert await video.read(0, 11) == b"FRAME frame"
        assert await video.length() == 60_000


@looped
async def test_a_text_is_edited_and_awaited():
    async with aio.Versioned.open() as state:
        report = state.text("report")
        await report.append("The cat sat.")
        await report.replace(4, 7, "dog")
        await report.insert(0, "> ")
        await report.delete(-1)
        await report.edit("> The dog sat down")
        await state.commit("wrote")

        assert await report.value() == await report[:] == "> The dog sat down"
        assert (await report.length(), await report.contains("dog"), await report[2]) == (
            18,
            True,
            "T",
        )
        then = (await state.at("@")).text("report")
        assert await then.value() == "> The dog sat down"
        with pytest.raises(ReadOnly):
            await then.append("x")


@looped
async def test_a_frame_is_read_by_column():
    pandas = pytest.importorskip("pandas")
    async with aio.Versioned.open() as state:
        await state.set("df", pandas.DataFrame({"a": [1, 2], "b": [3, 4]}))
        await state.commit()
        frame = (await state.at("@")).frame("df")

        assert await frame.columns() == ["a", "b"]
        assert list(await frame["b"]) == list(await frame.at(1)) == [3, 4]


def _total(value: int, event: Any) -> int:
    return value + int(event.data["cost"])


@looped
async def test_events_are_recorded_found_and_folded():
    async with aio.Versioned.open() as state:
        await state.events.append("tool_call", agent="planner", cost=2)
        await state.events.append("error", cost=3)
        commit = await state.commit("both")
        await state.events.append("tool_call", cost=4)

        assert [event.kind async for event in state.events] == ["tool_call", "error", "tool_call"]
        (planned,) = await state.events.list(kind="tool_call", agent="planner")
        assert await planned.data() == {"cost": 2}
        assert await planned.commit() == commit.id
        assert (await state.events[-1]).index == 2
        assert await (await state.events[-1]).commit() is None
        assert await state.events.rebuild(_total, 0) == 9


@looped
async def test_a_handle_of_another_kind_is_refused_when_it_is_used():
    async with aio.Versioned.open() as state:
        await state.set("budget", 500)
        handle = state.list("budget")

        with pytest.raises(Invalid, match="not a list"):
            await handle.append(1)


@looped
async def test_history_is_walked_from_the_latest():
    async with aio.Versioned.open() as state:
        for number in range(30):
            await state.set("number", number)
            await state.set("half", number // 2)
            await state.commit(str(number))

        assert [int(c.message) async for c in state.log()] == list(range(29, -1, -1))
        assert [int(c.message) async for c in state.log(limit=2)] == [29, 28]
        assert [int(c.message) async for c in state.log(path="half")] == list(range(28, -1, -2))


@looped
async def test_a_walk_that_fails_gives_what_came_before_the_failure():
    def broken(_):
        yield 1
        yield 2
        raise Corrupt("object 3 has the wrong bytes")

    seen = []
    async with aio.Versioned.open() as state:
        walk = state._walk(broken)  # type: ignore[attr-defined]
        seen.append(await anext(walk))
        seen.append(await anext(walk))
        with pytest.raises(Corrupt, match="object 3"):
            await anext(walk)

    assert seen == [1, 2]


@looped
async def test_changes_are_read_when_they_are_asked_for():
    async with aio.Versioned.open() as state:
        await state.set("budget", 500)
        first = await state.commit()
        await state.set("budget", 400)
        (change,) = await state.status()

        assert (change.path, change.kind) == ("budget", "changed")
        assert (await change.old(), await change.new()) == (500, 400)
        assert not await state.is_clean()
        await state.commit()
        assert [each.kind for each in await state.diff(first)] == ["changed"]


@looped
async def test_history_can_be_moved_in():
    async with aio.Versioned.open() as state:
        for number in (1, 2, 3):
            await state.set("number", number)
            await state.commit()

        await state.undo()
        assert await state["number"] == 2
        await state.redo()
        assert await state["number"] == 3
        await state.rollback(steps=2)
        assert await state["number"] == 1
        await state.set("number", 9)
        await state.discard()
        assert await state["number"] == 1


@looped
async def test_branches_meet_again():
    async with aio.open() as repo:
        state = await repo.session("trip")
        await state.set("budget", 500)
        await state.commit("asked")
        other = await state.fork("other")
        await other.set("hotel", "Sol")
        await other.commit("found")
        await state.set("flight", "TP1")
        await state.commit("booked")

        assert (await state.merge(other)).kind == "merged"
        assert await state.keys() == ["budget", "flight", "hotel"]
        assert set(await repo.branches("trip")) == {"main", "other"}


@looped
async def test_a_conflict_is_settled_as_it_is_elsewhere():
    async with aio.open() as repo:
        state = await repo.session("trip")
        await state.set("budget", 500)
        await state.commit()
        other = await state.fork("other")
        await state.set("budget", 400)
        await state.commit()
        await other.set("budget", 300)
        await other.commit()
        await state.merge(other)

        assert [each.path for each in await state.conflicts()] == ["budget"]
        with pytest.raises(MergeConflict) as refused:
            await state.commit()
        assert refused.value.paths == ("budget",)
        await state.resolve_conflict("budget", value=350)
        await state.commit()
        assert state.merging is None


@looped
async def test_a_session_shows_its_user_as_it_was():
    async with aio.open() as repo:
        state = await repo.session("trip", user="ada")
        await state.user.set("name", "Ada")
        await state.user.commit()
        await state.set("budget", 500)
        then = await state.commit()
        await state.user.set("name", "Countess")
        await state.user.commit()

        old = await (await state.at(then)).user()
        assert await old["name"] == "Ada"
        assert await (await repo.user("ada"))["name"] == "Countess"
        with pytest.raises(RefNotFound):
            await (await state.at(then)).app()


@looped
async def test_a_snapshot_cannot_be_changed():
    async with aio.open() as repo:
        state = await repo.session("trip")
        await state.list("log").append(1)
        await repo.tag("start", await state.commit("asked"))
        old = await repo.at("start")

        assert old.commit.message == "asked"
        with pytest.raises(ReadOnly):
            await old.list("log").append(2)


@looped
async def test_errors_are_those_of_the_plain_verbs():
    async with aio.Versioned.open() as state:
        with pytest.raises(KeyNotFound) as missing:
            await state["nothing"]

        with pytest.raises(KeyNotFound) as plainly:
            state.plain["nothing"]
        assert str(missing.value) == str(plainly.value)


@looped
async def test_any_function_of_a_plain_state_runs_as_one_step():
    async def more(state: aio.Versioned) -> None:
        def raise_by_one(plain: otolith.Versioned, *, key: str) -> None:
            plain[key] = plain[key] + 1

        await state.run(raise_by_one, key="number")

    async with aio.Versioned.open() as state:
        await state.set("number", 0)
        await asyncio.gather(*(more(state) for _ in range(50)))

        assert await state["number"] == 50


# ---------------------------------------------------------------- order, and side by side


@looped
async def test_calls_on_one_state_run_in_the_order_they_were_made():
    async with aio.Versioned.open() as state:
        log = state.list("log")
        await asyncio.gather(*(log.append(number) for number in range(100)))

        assert await log[:] == list(range(100))


@looped
async def test_a_call_waits_for_the_one_before_it():
    begun, go, order = threading.Event(), threading.Event(), list[str]()

    def first(_: object) -> None:
        begun.set()
        assert go.wait(HANG_SECONDS)
        order.append("first")

    async with aio.open() as repo:
        state, other = await repo.session("one"), await repo.session("two")
        one = asyncio.create_task(state.run(first))
        assert await asyncio.to_thread(begun.wait, HANG_SECONDS)
        two = asyncio.create_task(state.run(lambda _: order.append("second")))
        await asyncio.sleep(0)
        await other.length()  # a thread was free for it
        go.set()
        await asyncio.gather(one, two)

    assert order == ["first", "second"]


@looped
async def test_the_loop_goes_on_while_a_commit_waits_for_the_disk():
    gate = Gate()
    async with aio.Versioned.open(clock=gate) as state:
        await state.set("number", 1)
        gate.shut()
        commit = asyncio.create_task(state.commit())
        await gate.someone()

        gate.opened.set()  # a loop that is stuck in the commit never gets here
        assert (await commit).generation == 1


@looped
async def test_sessions_commit_side_by_side():
    both = threading.Barrier(2, timeout=HANG_SECONDS)
    meeting = threading.Event()

    def clock() -> int:
        if meeting.is_set():
            both.wait()
        return 1

    async with aio.open(clock=clock) as repo:
        one, two = await repo.session("one"), await repo.session("two")
        await one.set("a", 1)
        await two.set("a", 1)
        meeting.set()

        await asyncio.gather(one.commit(), two.commit())


@looped
async def test_many_sessions_of_one_store_lose_nothing(tmp_path):
    async with aio.open(tmp_path / "agent.db", durability="fast") as repo:

        async def work(number: int) -> None:
            state = await repo.session(f"s{number}")
            for step in range(3):
                await state.set("step", step)
                await state.commit()

        await asyncio.gather(*(work(number) for number in range(40)))

        states = [await repo.session(each.id) for each in await repo.sessions()]
        assert [await state["step"] for state in states] == [2] * 40


@looped
async def test_context_variables_are_those_of_the_caller():
    request = ContextVar("request", default=0)

    async def ask(state: aio.Versioned, number: int) -> None:
        request.set(number)
        assert await state.run(lambda _: request.get()) == number

    async with aio.Versioned.open() as state:
        await asyncio.gather(*(ask(state, number) for number in range(10)))


# ---------------------------------------------------------------- cancelling


async def _caught_committing(gate: Gate, state: aio.Versioned) -> asyncio.Task[otolith.Commit]:
    """Return a commit that has begun and cannot go on."""
    await state.set("number", 1)
    gate.shut()
    commit = asyncio.create_task(state.commit("one"))
    await gate.someone()
    return commit


@looped
async def test_a_commit_that_is_cancelled_has_landed_when_the_caller_hears_of_it():
    gate = Gate()
    async with aio.Versioned.open(clock=gate) as state:
        commit = await _caught_committing(gate, state)
        commit.cancel()
        await asyncio.sleep(0)
        assert not commit.done()
        commit.cancel()  # asking twice does not make it true
        await asyncio.sleep(0)
        assert not commit.done()
        gate.opened.set()

        with pytest.raises(asyncio.CancelledError):
            await commit
        assert state.head is not None
        assert state.head.message == "one"
        assert await state.is_clean()


@looped
async def test_a_call_that_is_cancelled_before_it_began_never_begins():
    gate = Gate()
    async with aio.Versioned.open(clock=gate) as state:
        commit = await _caught_committing(gate, state)
        waiting = asyncio.create_task(state.set("number", 2))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        gate.opened.set()
        await commit

        assert await state["number"] == 1


@looped
async def test_a_call_that_no_thread_has_taken_up_is_cancelled_at_once(monkeypatch):
    monkeypatch.setattr("otolith.aio.lanes._MOST_THREADS", 1)
    gate = Gate()
    async with aio.open(clock=gate) as repo:
        state, other = await repo.session("one"), await repo.session("two")
        commit = await _caught_committing(gate, state)
        waiting = asyncio.create_task(other.set("number", 2))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not commit.done()
        gate.opened.set()
        await commit

        assert not await other.contains("number")


@looped
async def test_a_timeout_is_told_when_the_commit_has_landed():
    gate = Gate()
    async with aio.Versioned.open(clock=gate) as state:
        commit = await _caught_committing(gate, state)

        async def hurried() -> None:
            async with asyncio.timeout(0):
                await state.set("late", 1)

        with pytest.raises(TimeoutError):
            await hurried()
        gate.opened.set()
        await commit
        assert not await state.contains("late")


@looped
async def test_what_a_cancelled_call_raised_is_the_cause():
    begun, go = threading.Event(), threading.Event()

    def fail(_: object) -> None:
        begun.set()
        assert go.wait(HANG_SECONDS)
        raise Corrupt("object 3 has the wrong bytes")

    async with aio.Versioned.open() as state:
        task = asyncio.create_task(state.run(fail))
        assert await asyncio.to_thread(begun.wait, HANG_SECONDS)
        task.cancel()
        await asyncio.sleep(0)
        go.set()

        with pytest.raises(asyncio.CancelledError) as cancelled:
            await task
        assert isinstance(cancelled.value.__cause__, Corrupt)


@looped
async def test_a_store_whose_opening_is_cancelled_is_closed():
    gate, pairs = Gate(), Pairs()
    gate.shut()

    async def begin() -> aio.Versioned:
        return await aio.Versioned.open(pairs, clock=gate)

    task = asyncio.create_task(begin())
    await gate.someone()
    task.cancel()
    await asyncio.sleep(0)
    gate.opened.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert pairs.is_closed


# ---------------------------------------------------------------- a value that does not hold still


class Restless:
    """A value that, as it is encoded in the thread, has the event loop change another one."""

    def __init__(self, *, changes: int) -> None:
        self.changes = changes
        self.steps = ["search"]
        self.loop = asyncio.get_running_loop()

    def lower(self) -> list[object]:
        asyncio.run_coroutine_threadsafe(self.change(), self.loop).result(HANG_SECONDS)
        return []

    async def change(self) -> None:
        if self.changes:
            self.changes -= 1
            self.steps.append("book")


def _codecs() -> otolith.Codecs:
    codecs = otolith.Codecs()
    codecs.register(
        Restless, name="restless", lower=Restless.lower, lift=lambda _: Restless.__new__(Restless)
    )
    return codecs


@looped
async def test_a_value_that_changes_while_it_is_committed_is_in_the_commit_as_it_became():
    async with aio.Versioned.open(codecs=_codecs()) as state:
        restless = Restless(changes=1)
        await state.set("plan", {"steps": restless.steps, "then": restless})
        await state.commit()

        assert await (await state.at("@"))["plan/steps"] == ["search", "book"]


@looped
async def test_a_value_that_never_holds_still_is_refused_and_kept_for_the_next_commit():
    async with aio.Versioned.open(codecs=_codecs()) as state:
        restless = Restless(changes=10**9)
        await state.set("plan", {"steps": restless.steps, "then": restless})
        await state.set("budget", 500)

        with pytest.raises(BadValue, match="was changed while it was being encoded"):
            await state.commit()
        assert state.head is None
        restless.changes = 0
        await state.commit()
        assert await (await state.at("@"))["plan/steps"] == restless.steps


# ---------------------------------------------------------------- closing


@looped
async def test_nothing_can_be_asked_of_what_was_closed():
    async with aio.open() as repo:
        state = await repo.session("trip")
        await state.set("held", [1])
        await state.commit()

    for call in (state.get("held"), state.commit(), repo.sessions(), repo.session("x")):
        with pytest.raises(Closed):
            await call


@looped
async def test_closing_waits_for_the_calls_that_were_made():
    gate, pairs = Gate(), Pairs()
    state = await aio.Versioned.open(pairs, clock=gate)
    commit = await _caught_committing(gate, state)
    queued = asyncio.create_task(state.set("number", 2))
    await asyncio.sleep(0)
    closing = asyncio.create_task(state.close())
    await asyncio.sleep(0)
    assert not pairs.is_closed
    gate.opened.set()

    await closing
    assert (await commit).message == "one"
    await queued
    assert pairs.is_closed


@looped
async def test_closing_twice_closes_once():
    repo = await aio.open()

    await asyncio.gather(repo.close(), repo.close())
    await repo.close()


@looped
async def test_a_store_whose_closing_is_cancelled_is_closed_all_the_same():
    gate, pairs = Gate(), Pairs()
    state = await aio.Versioned.open(pairs, clock=gate)
    commit = await _caught_committing(gate, state)
    closing = asyncio.create_task(state.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    gate.opened.set()
    await commit

    await state.close()
    assert pairs.is_closed


def test_no_thread_outlives_what_was_closed():
    @looped
    async def use():
        async with aio.open() as repo:
            state = await repo.session("trip")
            await state.set("a", 1)
            started.extend(each for each in threading.enumerate() if each not in before)
            kept.append(repo)

    before, started = threading.enumerate(), list[threading.Thread]()
    kept: list[aio.Repo] = []  # or else its threads would end with it
    use()

    assert started
    for thread in started:
        thread.join(HANG_SECONDS)
    assert not any(thread.is_alive() for thread in started)


@looped
async def test_what_cannot_be_opened_leaves_no_thread_behind(tmp_path):
    before = set(threading.enumerate())

    with pytest.raises(otolith.NotFound):
        await aio.open(tmp_path / "nowhere.db", create=False)

    for thread in set(threading.enumerate()) - before:
        await asyncio.to_thread(thread.join, HANG_SECONDS)
        assert not thread.is_alive()


def test_a_repo_belongs_to_the_loop_it_was_opened_in():
    async def ask(repo: aio.Repo) -> None:
        with pytest.raises(Invalid, match="another event loop"):
            await repo.sessions()

    async def use() -> None:
        async with aio.open() as repo:
            await asyncio.to_thread(asyncio.run, ask(repo))

    asyncio.run(use())


# ---------------------------------------------------------------- the mirror is complete

# What is not awaited, and why.
AWAITED_VIEWS = {"keys", "values", "items"}
"""They return what is awaited, and what refuses to be iterated: `dict(state)` calls `keys()`."""
AT_ONCE = {
    # handles look at nothing until they are used
    "blob", "counter", "frame", "list", "map", "set", "text",
    "log", "messages", "scan",  # gone through with `async for`
    "lease", "queue", "watch",  # the same: they ask for nothing until they are entered
}  # fmt: skip

# Whose signature differs, and why.
OTHERWISE = {"set"}  # with a value, it writes one: `state[path] = value` cannot be awaited


@pytest.fixture(scope="module")
def pairs():
    """Plain objects, and what mirrors each of them."""
    frame = pytest.importorskip("pandas").DataFrame({"a": [1]})

    async def make() -> list[tuple[object, object]]:
        async with aio.open() as repo:
            state = await repo.session("trip")
            await state.set("frame", frame)
            (change,) = await state.status()
            snapshot = await state.at(await state.commit())
            handles = [state.list("a"), state.map("a"), state.set("a"), state.counter("a")]
            mirrors: list[Any] = [
                repo,
                state,
                snapshot,
                change,
                *handles,
                state.blob("a"),
                state.text("a"),
            ]
            events = [state.events, await state.events.append("note")]
            rooms = [state.conversation, state.memory, await state.lifecycle(AGENT)]
            rooms.append(await state.flow(FLOW))
            async with await state.workspace() as workspace:
                mirrors += [*events, state.frame("frame"), *rooms, workspace]
            mirrors += await _team_mirrors(repo)
            profile = (await repo.user("ann")).profile
            await profile.set("seat", "aisle")
            mirrors += [profile, await profile.prefer("seat"), await profile.settings()]
            return [(each.plain, each) for each in mirrors]

    return asyncio.run(make())


async def _team_mirrors(repo: aio.Repo) -> list[Any]:
    """Return what mirrors a team, and what it has."""
    team = await repo.team("research", member="planner")
    await team.transact(lambda state: state.update(plan="A"))
    idea = await (await team.state()).fork("idea")
    await idea.set("plan", "B")
    await idea.commit("an idea")
    watch = team.watch()
    async with watch:
        await team.transact(lambda state: state.update(plan="C"))
        change = await anext(watch)
    (conflict,) = await team.merge(idea)
    proposal = await team.propose("D", lambda state: state.update(plan="D"))
    return [team, watch, change, conflict, proposal, team.lease("browser"), team.queue("gpu")]


def _public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def _verbs(plain: object, mirror: object) -> list[str]:
    names = _public(plain) & _public(mirror)
    return sorted(name for name in names if inspect.isfunction(getattr(type(mirror), name, None)))


def _left_out(plain: object, mirror: object) -> set[str]:
    """Return what is not mirrored, as it is listed."""
    kind = type(mirror).__name__
    named = {name: f"{kind}.{name}" for name in _public(plain) - _public(mirror)}
    return {full if full in NOT_MIRRORED else name for name, full in named.items()}


def test_what_is_not_mirrored_is_listed_with_a_reason_and_nothing_else_is(pairs):
    missing = set().union(*(_left_out(plain, mirror) for plain, mirror in pairs))

    assert missing - {"is_waiting", "of", "settle"} == NOT_MIRRORED.keys() - {"EventLog.contains"}


def test_every_verb_is_awaited(pairs):
    at_once = {
        name
        for plain, mirror in pairs
        for name in _verbs(plain, mirror)
        if not inspect.iscoroutinefunction(getattr(mirror, name))
    }

    assert at_once == AT_ONCE | AWAITED_VIEWS


def test_a_verb_is_called_the_way_the_plain_one_is(pairs):
    def shape(thing: object, name: str) -> list[tuple[object, ...]]:
        given = inspect.signature(getattr(thing, name)).parameters.values()
        return [(each.name, each.kind, each.default) for each in given]

    different = {
        name
        for plain, mirror in pairs
        for name in _verbs(plain, mirror)
        if inspect.isfunction(getattr(type(plain), name))
        and shape(plain, name) != shape(mirror, name)
    }

    assert different == OTHERWISE


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    given = node.args
    several = [] if given.vararg is None else [given.vararg]
    others = [] if given.kwarg is None else [given.kwarg]
    named = (*given.posonlyargs, *given.args, *several, *given.kwonlyargs, *others)
    return [each.arg for each in named]


def test_type_checkers_see_every_method_of_the_surface_with_its_arguments(pairs):
    stubs = [Path(str(each.__file__)).with_suffix(".pyi").read_text() for each in (surface, teams)]
    nodes = [node for stub in stubs for node in ast.parse(stub).body]
    classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}

    def members(name: str) -> dict[str, ast.stmt]:
        found: dict[str, ast.stmt] = {}
        for base in classes[name].bases:  # `_State[session.Versioned]` or `_Owner`
            plain = base.value if isinstance(base, ast.Subscript) else base
            if isinstance(plain, ast.Name) and plain.id in classes:
                found |= members(plain.id)
        for node in classes[name].body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found[node.name] = node
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = node
        return found

    for _, mirror in pairs:
        kind = type(mirror)
        typed = members(kind.__name__)
        assert {name for name in typed if not name.startswith("__")} == _public(mirror)
        for name, node in typed.items():
            found = inspect.getattr_static(kind, name, None)
            if inspect.isfunction(found) and name not in ("run", "set"):
                known = list(inspect.signature(found).parameters)
                assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef), name
                assert _parameters(node) == known, f"{kind.__name__}.{name}"
