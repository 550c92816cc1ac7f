"""Attempts that fail, are refused, take too long or ask: what comes next."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

import pytest

from otolith.errors import CodeEdited, IllegalTransition, KeyNotFound
from otolith.flows import Flow, FlowTask, ThreadExecutor


@dataclass(frozen=True)
class Offer:
    price: int


def test_a_failure_is_tried_again(state, calls):
    flow = Flow("f")

    @flow.task(retries=3, pause="1ms")
    def search(feedback: str):
        calls["search"] += 1
        if calls["search"] < 3:
            raise ConnectionError(f"try {calls['search']}")
        return feedback

    run = state.flow(flow)

    assert run.work().status == "done"
    assert run.result("search").startswith("ConnectionError: try 2 (line ")
    record = run.task("search").record
    assert (record.attempt, record.failures, record.error) == (3, 0, "")
    assert record.retried > 0


def test_what_comes_after_a_failure_waits(state, calls):
    flow = Flow("f")

    @flow.task(retries=1, pause="1ms")
    def one():
        calls["one"] += 1
        if calls["one"] < 3:
            raise ValueError("not yet")
        return 1

    flow.task(lambda one: one + 1, name="two", after=one)
    run = state.flow(flow)

    progress = run.work()
    assert (progress.status, progress.counts) == ("failed", {"failed": 1, "pending": 1})
    assert "ValueError: not yet" in progress.failures["one"]
    assert run.retry() == ["one"]
    assert run.work().status == "done"
    assert run.result("two") == 2


def test_a_result_that_fails_its_check_is_tried_again_with_the_reason(state, calls):
    flow = Flow("f")

    @flow.task(retries=2, pause="1ms", validate=lambda offer: offer.price < 500)
    def choose(feedback) -> Offer:
        calls["choose"] += 1
        return Offer(900 if not feedback else 100)

    run = state.flow(flow)
    run.work()

    assert run.result("choose") == Offer(100)
    assert calls["choose"] == 2


def test_a_check_says_why(state):
    flow = Flow("f")
    too_dear = lambda offer: "" if offer.price < 500 else f"{offer.price} is too dear"  # noqa: E731
    flow.task(lambda: Offer(900), name="choose", validate=too_dear)
    run = state.flow(flow)

    assert run.work().failures == {"choose": "900 is too dear"}


def test_a_check_may_assert_and_gets_what_the_task_got(state):
    flow = Flow("f")

    def below(offer, limit):
        assert offer < limit, "over the limit"

    flow.task(lambda limit: limit + 1, name="choose", validate=below)
    run = state.flow(flow, limit=5)

    assert "over the limit" in run.work().failures["choose"]


def test_a_result_of_another_type_is_refused(state):
    flow = Flow("f")

    @flow.task
    def search() -> list[int]:
        return ["one"]  # type: ignore[list-item]

    run = state.flow(flow)

    assert "does not fit its type" in run.work().failures["search"]


def test_a_failed_check_sends_work_back_with_the_reason(state, calls):
    flow = Flow("f")

    @flow.task
    def search(feedback):
        calls["search"] += 1
        return [900] if not feedback else [900, 400]

    @flow.task(after=search)
    def sort(search):
        calls["sort"] += 1
        return sorted(search)

    @flow.task(after=sort, validate=lambda price: price < 500, back_to=search)
    def choose(sort):
        calls["choose"] += 1
        return sort[0]

    run = state.flow(flow)

    assert run.work().status == "done"
    assert run.result("choose") == 400
    assert calls == {"search": 2, "sort": 2, "choose": 2}
    assert run.task("choose").record.backs == 1
    assert "returned False" in run.task("search").record.feedback or run.result("search")


def test_work_is_sent_back_only_so_often(state, calls):
    flow = Flow("f")

    @flow.task
    def search(task):
        calls["search"] += 1
        return calls["search"]

    flow.task(lambda search: search, name="choose", after=search, validate=lambda x: False,
              back_to=search, backs=3)  # fmt: skip
    run = state.flow(flow)

    assert run.work().status == "failed"
    assert calls["search"] == 4


def test_work_that_is_sent_back_has_another_key(state, calls):
    flow, keys = Flow("f"), []

    @flow.task
    def search(task):
        keys.append(task.key)
        return len(keys)

    flow.task(lambda search: search, name="choose", after=search, validate=lambda x: x > 1,
              back_to=search)  # fmt: skip
    state.flow(flow).work()

    assert len(set(keys)) == 2


def test_every_attempt_has_the_same_key(state):
    flow, keys = Flow("f"), []

    @flow.task(retries=2, pause="1ms")
    def pay(task):
        keys.append(task.key)
        assert len(keys) == 3

    state.flow(flow).work()
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_what_takes_too_long_fails_and_the_rest_goes_on(state):
    flow, release = Flow("f"), threading.Event()

    @flow.task(timeout="50ms", retries=1, pause="1ms")
    def slow(task):
        release.wait(30)

    @flow.task
    def quick():
        return 1

    run = state.flow(flow)
    progress = run.work(2)
    release.set()

    assert progress.counts == {"failed": 1, "done": 1}
    assert progress.failures["slow"] == "it took longer than 0.05 s"


def test_a_cancelled_thread_can_know(state):
    flow, seen = Flow("f"), threading.Event()

    @flow.task(timeout="50ms")
    def slow(task):
        deadline = time.monotonic() + 30
        while not task.is_cancelled and time.monotonic() < deadline:
            time.sleep(0.01)
        seen.set()

    state.flow(flow).work(2)
    assert seen.wait(30)


def test_a_question_waits_for_its_answer(state, calls):
    flow = Flow("f")

    @flow.task
    def seat(task):
        calls["seat"] += 1
        side = task.ask("Aisle?")
        return "aisle" if side else f"window {task.ask('Which row?')}"

    run = state.flow(flow)

    assert run.work().questions == {"seat": "Aisle?"}
    run.answer("seat", False)
    assert run.work().questions == {"seat": "Which row?"}
    run.answer("seat", 7)
    assert run.work().status == "done"
    assert run.result("seat") == "window 7"
    with pytest.raises(IllegalTransition, match="asks nothing"):
        run.answer("seat", 7)


def test_a_person_does_a_task(state):
    flow = Flow("f")
    visa = flow.add(FlowTask("visa", goal="Get a visa"))
    flow.task(lambda visa: f"go with {visa}", name="go", after=visa)
    run = state.flow(flow)

    assert run.work().questions == {"visa": "Get a visa"}
    run.answer(visa, "V-77")
    run.work()
    assert run.result("go") == "go with V-77"


def test_a_run_asks_a_person(state, calls):
    flow = Flow("f")
    flow.task(lambda: 1, name="one")
    run = state.flow(flow)
    name = run.ask("Go on?", after="one")

    assert run.work().questions == {name: "Go on?"}
    run.answer(name, True)
    assert run.status == "done"
    assert run.result(name) is True


def test_a_condition_skips_a_task(state, calls):
    flow = Flow("f")
    flow.task(lambda: 3, name="count")

    @flow.task(after="count", when=lambda count: count > 5)
    def shrink(count):
        calls["shrink"] += 1

    flow.task(lambda count, shrink: (count, shrink), name="end", after=["count", shrink])
    run = state.flow(flow)

    assert run.work().counts == {"done": 2, "skipped": 1}
    assert run.result("end") == (3, None)
    assert not calls


def test_again_does_what_gets_something_else_only(state, calls):
    flow = Flow("f")

    @flow.task
    def read():
        calls["read"] += 1
        return "same"

    @flow.task(after=read)
    def shout(read):
        calls["shout"] += 1
        return read.upper()

    run = state.flow(flow)
    run.work()
    assert run.retry("read") == ["read", "shout"]
    assert run.work().status == "done"

    assert calls == {"read": 2, "shout": 1}
    assert run.result("shout") == "SAME"


def edited(calls, text):
    flow = Flow("f")

    def one():
        calls["one"] += 1
        return 1

    def other():  # another function under the same name
        calls["one"] += 1
        return 2

    flow.task(one if text == "one" else other, name="one")

    @flow.task(after="one")
    def two(one):
        calls["two"] += 1
        return one * 10

    return flow


def test_results_of_edited_code_need_a_decision(state, calls):
    state.flow(edited(calls, "one")).work()
    run = state.flow(edited(calls, "other"))

    assert run.edited() == ["one"]
    with pytest.raises(
        CodeEdited, match="one of run f were done by code that was edited"
    ) as caught:
        run.work()
    assert caught.value.tasks == ("one",)
    assert run.work(edited="keep").status == "done"
    assert run.result("two") == 10
    assert run.work().status == "done"  # it was decided
    assert calls == {"one": 1, "two": 1}


def test_edited_code_is_run_again(state, calls):
    state.flow(edited(calls, "one")).work()
    run = state.flow(edited(calls, "other"))

    assert run.work(edited="rerun").status == "done"
    assert run.result("two") == 20
    assert calls == {"one": 2, "two": 2}


def digest_of(source, tmp_path):
    """Return the digest of the code of a function `f` that is defined in a file."""
    path = tmp_path / f"code_{len(list(tmp_path.iterdir()))}.py"
    path.write_text(source)
    found: dict[str, Any] = {}
    exec(compile(source, str(path), "exec"), found)
    return FlowTask("f", function=found["f"]).code()


def test_comments_and_places_are_no_edits(tmp_path):
    one = digest_of("def f():\n    # a comment\n    return 1\n", tmp_path)
    same = digest_of("x = 0\n\n\ndef f():\n    'A docstring.'\n\n    return (1)\n", tmp_path)
    other = digest_of("def f():\n    return 2\n", tmp_path)

    assert one == same
    assert one != other


def test_a_cancelled_run_begins_nothing_and_goes_on_after_resume(state, calls):
    flow = Flow("f")
    flow.task(lambda: 1, name="one")
    run = state.flow(flow)
    run.cancel(why="too dear")

    assert run.work().status == "cancelled"
    run.resume()
    assert run.work().status == "done"


def test_cancelling_a_task_keeps_what_comes_after_from_beginning(state):
    flow = Flow("f")
    flow.task(lambda: 1, name="one")
    flow.task(lambda one: 1, name="two", after="one")
    run = state.flow(flow)
    run.cancel("one", why="no")

    assert run.work().counts == {"cancelled": 1, "pending": 1}
    with pytest.raises(IllegalTransition, match="one is cancelled, and cannot be cancelled"):
        run.cancel("one")
    with pytest.raises(KeyNotFound, match="no task 'three'"):
        run.cancel("three")
    run.retry("one")
    assert run.work().status == "done"


def test_cancelling_from_another_thread_drops_what_runs(state):
    flow, began, release = Flow("f"), threading.Event(), threading.Event()

    @flow.task
    def slow(task):
        began.set()
        release.wait(30)
        return 1

    run = state.flow(flow)
    other = state.repo.session("trip").flow(key="f")

    def cancel():
        began.wait(30)
        other.cancel()
        release.set()

    thread = threading.Thread(target=cancel)
    thread.start()
    progress = run.work(2)
    thread.join()

    assert progress.status == "cancelled"
    assert progress.counts == {"cancelled": 1}


def test_a_paused_run_finishes_what_runs(state):
    flow = Flow("f")
    flow.task(lambda: 1, name="one")
    run = state.flow(flow)
    run.pause("lunch")

    assert run.work().status == "paused"
    assert run.progress().counts == {"pending": 1}
    run.resume()
    assert run.work().status == "done"


def test_needs_and_priorities_decide_who_begins(state):
    flow, at_once, most, order = Flow("f", resources={"api": 2}), [], [0], []
    lock = threading.Lock()

    @flow.subtask
    def ask(task):
        with lock:
            at_once.append(task.name)
            order.append(task.name)
            most[0] = max(most[0], len(at_once))
        time.sleep(0.01)
        with lock:
            at_once.remove(task.name)

    for number in range(8):
        flow.add(FlowTask(f"t{number}", call=ask, needs={"api": 1}, priority=number))
    run = state.flow(flow)

    assert run.work(6).status == "done"
    assert most[0] == 2
    assert sorted(order[:2]) == ["t6", "t7"]


def test_what_nobody_named_has_one_unit(state):
    flow = Flow("f")
    order = []

    @flow.subtask
    def use(task):
        order.append(f"{task.name} begins")
        time.sleep(0.01)
        order.append(f"{task.name} ends")

    for name in ("a", "b"):
        flow.add(FlowTask(name, call=use, needs={"gpu": 1}))
    state.flow(flow).work(2)

    assert [each.split()[1] for each in order] == ["begins", "ends", "begins", "ends"]


def test_a_rate_spreads_beginnings(state):
    flow, times = Flow("f", resources={"api": 9}, rates={"api": "2/200ms"}), []

    @flow.subtask
    def ask():
        times.append(time.monotonic())

    for number in range(6):
        flow.add(FlowTask(f"t{number}", call=ask, needs={"api": 1}))
    assert state.flow(flow).work(4).status == "done"

    assert len(times) == 6
    assert times[-1] - times[0] >= 0.3  # two at once, and one in each 100 ms after


def test_a_thread_that_hangs_does_not_keep_the_executor_open(state):
    flow, release = Flow("f"), threading.Event()
    flow.task(lambda: release.wait(30), name="hang", timeout="20ms")
    with ThreadExecutor(1) as executor:
        progress = state.flow(flow).work(1, executor=executor)
    release.set()

    assert progress.status == "failed"
