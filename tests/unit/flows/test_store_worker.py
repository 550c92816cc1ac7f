"""A worker of a store: all runs of its flows, in all sessions, on the slots of one executor."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import Any

import pytest

from otolith.core import Branch
from otolith.errors import Exists, Invalid, Unavailable
from otolith.flows import Flow, FlowTask, StoreWorker, ThreadExecutor, WorkReport
from otolith.session import Repo
from otolith.stores import MemoryStore
from tests.patience import HANG_SECONDS


class Working:
    """A worker in a thread, and what it has reported."""

    def __init__(self, repo, flows, slots=2, **options):
        self.reports = []
        self.executor = ThreadExecutor(slots)
        self.changed = threading.Condition()
        self.is_stopped = False
        self.error = None
        self.worker = StoreWorker(
            repo, flows, self.executor, open_state=repo.session, report=self.note, **options
        )
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        try:
            self.worker.work(is_stopped=lambda: self.is_stopped)
        except BaseException as error:
            self.error = error
            raise

    def note(self, report):
        with self.changed:
            self.reports.append(report)
            self.changed.notify_all()

    def said(self, **fields):
        return [
            each
            for each in self.reports
            if all(getattr(each, name) == value for name, value in fields.items())
        ]

    def wait_for(self, number=1, **fields):
        with self.changed:
            has_come = self.changed.wait_for(
                lambda: len(self.said(**fields)) >= number or self.error, HANG_SECONDS
            )
        assert has_come, self.reports
        assert self.error is None
        return self.said(**fields)[-1]


@contextmanager
def working(repo, *flows, **options):
    found = Working(repo, flows, **options)
    found.thread.start()
    try:
        yield found
    finally:
        found.is_stopped = True
        found.worker.wake()
        found.thread.join(HANG_SECONDS)
        found.executor.close()


def once(repo, *flows, slots=2, **options):
    reports: list[WorkReport] = []
    with ThreadExecutor(slots) as executor:
        worker = StoreWorker(
            repo, flows, executor, open_state=repo.session, report=reports.append, **options
        )
        worker.work(once=True)
    return reports


def greet(calls=None):
    flow = Flow("greet")

    @flow.task
    def hello(name: str = "you"):
        if calls is not None:
            calls[name] += 1
        return f"hello {name}"

    @flow.task(after=hello)
    def shout(hello):
        return hello.upper()

    return flow


def test_the_runs_of_all_sessions_are_done(repo, calls):
    flow = greet(calls)
    for session in ("a", "b"):
        for key in ("one", "two"):
            repo.session(session).flow(flow, key=key, name=f"{session} {key}")

    reports = once(repo, flow)

    for session in ("a", "b"):
        for key in ("one", "two"):
            run = repo.session(session).flow(key=key)
            assert run.result("shout") == f"HELLO {session} {key}".upper()
    assert set(calls.values()) == {1}
    ended = [(each.session, each.key) for each in reports if each.status == "done"]
    assert sorted(ended) == [("a", "one"), ("a", "two"), ("b", "one"), ("b", "two")]


def test_a_run_that_begins_later_is_taken_up(repo):
    flow = greet()
    with working(repo, flow) as found:
        repo.session("early").flow(flow)
        found.wait_for(session="early", status="done")
        state = repo.session("late")
        state["unrelated"] = 1
        state.commit()
        state.flow(flow)
        found.wait_for(session="late", status="done")

    assert repo.session("late").flow(key="greet").result("shout") == "HELLO YOU"


def test_a_run_of_another_flow_is_left_alone_and_told_once(repo):
    other = Flow("other")
    other.task(lambda: 1, name="task")
    for key in ("x", "y"):
        repo.session("a").flow(other, key=key)
    repo.session("a").flow(greet())

    reports = once(repo, greet())

    assert [(each.flow, each.key) for each in reports if each.kind == "left"] == [("other", "x")]
    assert repo.session("a").flow(key="x").progress().counts == {"pending": 1}
    assert repo.session("a").flow(key="greet").status == "done"


def test_other_branches_of_a_session_are_left_alone(repo):
    flow = greet()
    state = repo.session("a")
    state["x"] = 1
    state.commit()
    state.fork("idea").flow(flow)

    assert once(repo, flow) == []
    assert repo.session("a", branch="idea").flow(key="greet").status == "running"


def test_slots_are_shared_out_fairly(repo):
    """A run of many tasks that came first does not keep a later one waiting for all of them."""
    many, few, order = Flow("many"), Flow("few"), []
    gate = threading.Semaphore(0)

    def step(name):
        def task():
            gate.acquire(timeout=HANG_SECONDS)
            order.append(name)

        return task

    for at in range(20):
        many.task(step("many"), name=f"m{at}")
    for at in range(3):
        few.task(step("few"), name=f"f{at}")
    repo.session("a").flow(many)
    with working(repo, many, few, slots=2, reports_tasks=True) as found:
        found.wait_for(2, kind="task", flow="many", status="running")
        repo.session("b").flow(few)
        found.wait_for(flow="few", kind="run", status="running")
        for _ in range(23):
            gate.release()
        found.wait_for(flow="few", status="done", kind="run")
        found.wait_for(flow="many", status="done", kind="run")

    last = max(at for at, name in enumerate(order) if name == "few")
    assert last < 15


def test_runs_take_turns_at_few_slots(repo):
    """Whose task has ended does not get the slot back before the others."""
    flow, order = Flow("f"), []

    @flow.subtask
    def step(task):
        order.append(task.run)
        time.sleep(0.02)

    for at in range(12):
        flow.add(FlowTask(f"t{at}", call="step"))
    for key in ("a", "b", "c"):
        repo.session("s").flow(flow, key=key)
    once(repo, flow, slots=2)

    assert len(order) == 36
    for at in range(6, 30):  # how far they are apart, while all of them have tasks
        counts = [order[:at].count(key) for key in ("a", "b", "c")]
        assert max(counts) - min(counts) <= 3


def test_what_one_run_does_not_use_is_free_for_the_others(repo):
    wide, narrow = Flow("wide"), Flow("narrow")
    together, blocked = threading.Barrier(3), threading.Event()
    for at in range(3):
        wide.task(lambda: together.wait(HANG_SECONDS), name=f"w{at}")
    narrow.task(lambda: blocked.wait(HANG_SECONDS), name="n")
    repo.session("a").flow(narrow)
    with working(repo, wide, narrow, slots=4) as found:
        found.wait_for(flow="narrow", kind="run")
        repo.session("b").flow(wide)
        found.wait_for(flow="wide", status="done")
        blocked.set()
        found.wait_for(flow="narrow", status="done")


def test_no_more_runs_at_once_than_there_are_slots(repo):
    flow, lock, now, most = Flow("f"), threading.Lock(), [0], [0]

    def task():
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.002)
        with lock:
            now[0] -= 1

    for at in range(10):
        flow.task(task, name=f"t{at}")
    for at in range(5):
        repo.session(f"s{at}").flow(flow)

    once(repo, flow, slots=3)

    assert 1 <= most[0] <= 3


def test_stopping_gives_back_what_runs(repo):
    flow, blocked = Flow("f"), threading.Event()
    flow.task(lambda: blocked.wait(HANG_SECONDS), name="long")
    repo.session("a").flow(flow)
    with working(repo, flow, reports_tasks=True) as found:
        found.wait_for(kind="task", status="running")
    blocked.set()

    task = repo.session("a").flow(key="f").task("long")
    assert (task.status, task.record.worker, task.record.lost) == ("pending", "", 0)
    assert once(repo, flow)[-1].status == "done"


def test_a_run_that_waits_for_a_person_goes_on_when_it_is_answered(repo):
    flow = Flow("f")
    flow.task(lambda task: task.ask("Aisle?"), name="seat")
    state = repo.session("a")
    run = state.flow(flow)
    with working(repo, flow) as found:
        found.wait_for(kind="run", status="waiting")
        run.answer("seat", "yes")
        found.wait_for(kind="run", status="done")

    assert run.result("seat") == "yes"


def test_a_paused_run_goes_on_when_it_is_resumed(repo):
    flow = greet()
    run = repo.session("a").flow(flow)
    run.pause()
    with working(repo, flow) as found:
        repo.session("b").flow(flow)
        found.wait_for(session="b", status="done")
        assert not found.said(session="a")
        run.resume()
        found.wait_for(session="a", status="done")


def test_a_run_that_failed_is_done_after_a_retry(repo, calls):
    flow = Flow("f")

    @flow.task
    def once_bad():
        calls["x"] += 1
        if calls["x"] == 1:
            raise ValueError("no")

    run = repo.session("a").flow(flow)
    with working(repo, flow) as found:
        failed = found.wait_for(kind="run", status="failed")
        assert "ValueError: no" in failed.progress.failures["once_bad"]
        run.retry()
        found.wait_for(kind="run", status="done")


def test_a_cancelled_task_leaves_its_slot(repo):
    flow, blocked = Flow("f"), threading.Event()
    flow.task(lambda: blocked.wait(HANG_SECONDS), name="long")
    flow.task(lambda: 1, name="short")
    run = repo.session("a").flow(flow)
    with working(repo, flow, slots=1, reports_tasks=True) as found:
        found.wait_for(kind="task", status="running")
        run.cancel("long")
        found.wait_for(kind="run", status="cancelled")
    blocked.set()

    assert run.task("short").status == "done"


def test_edited_code_is_told_and_the_run_left_alone(repo):
    def version(number):
        flow = Flow("f")
        source = {1: lambda: 1, 2: lambda: 2 + 0}
        flow.task(source[number], name="one")
        flow.task(lambda task: task.ask("more?"), name="two", after="one")
        return flow

    run = repo.session("a").flow(version(1))
    run.work()
    run.answer("two", "yes")

    (left,) = once(repo, version(2))
    assert (left.kind, left.key) == ("left", "f")
    assert "edited" in left.text
    assert [each.status for each in once(repo, version(2), edited="keep")] == ["running", "done"]
    assert run.result("one") == 1


def test_a_run_whose_function_is_gone_is_told_and_the_others_go_on(repo):
    whole, part = Flow("f"), Flow("f")
    for flow in (whole, part):
        flow.task(lambda: 1, name="one")
    whole.task(lambda: 2, name="two", after="one")
    repo.session("a").flow(whole)
    repo.session("b").flow(part)

    reports = once(repo, part)

    (left,) = [each for each in reports if each.kind == "left"]
    assert (left.session, "no function two" in left.text) == ("a", True)
    assert repo.session("b").flow(key="f").status == "done"
    assert repo.session("a").flow(key="f").task("one").status == "done"


def test_a_worker_needs_flows_of_different_names(repo):
    with ThreadExecutor(1) as executor:
        with pytest.raises(Invalid, match="at least one flow"):
            StoreWorker(repo, [], executor)
        with pytest.raises(Exists, match="two flows have the name 'greet'"):
            StoreWorker(repo, [greet(), greet()], executor)
        flow = greet()
        StoreWorker(repo, [flow, flow], executor)


def test_every_task_that_changes_is_reported(repo):
    flow = greet()
    repo.session("a").flow(flow)

    reports = [each for each in once(repo, flow, reports_tasks=True) if each.kind == "task"]

    last = {each.task.name: each.status for each in reports}
    assert last == {"hello": "done", "shout": "done"}
    assert {each.key for each in reports} == {"greet"}


class Away:
    """A store that cannot be reached for a while, and may lose a reply."""

    def __init__(self, inner):
        self._inner = inner
        self.is_away = False
        self.lost_reply = ""  # to the next write that moves this ref

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        if name not in ("read", "write", "ref", "refs"):
            return found

        def call(*args, **options):
            if self.is_away:
                raise Unavailable("the store is away", hint="wait")
            result = found(*args, **options)
            if name == "write" and self.lost_reply in [each.name for each in args[0].swaps]:
                self.lost_reply, self.is_away = "", True
                raise Unavailable("no reply", hint="wait")
            return result

        return call


@pytest.fixture
def away():
    return Away(MemoryStore())


def test_while_the_store_is_away_what_runs_goes_on_and_lands_later(away, calls):
    flow, gate = Flow("f"), threading.Event()

    @flow.task
    def first():
        gate.wait(HANG_SECONDS)
        calls["first"] += 1

    @flow.task(after=first)
    def second():
        calls["second"] += 1

    with Repo(away) as repo:
        repo.session("a").flow(flow)
        with working(repo, flow, reports_tasks=True) as found:
            found.wait_for(kind="task", status="running")
            away.is_away = True
            gate.set()
            found.wait_for(kind="away", text="the store is away")
            away.is_away = False
            found.wait_for(kind="back")
            found.wait_for(kind="run", status="done")

    assert calls == {"first": 1, "second": 1}


def test_what_was_begun_in_a_commit_without_a_reply_is_begun_again(away, calls, monkeypatch):
    """The commit has landed, and names this worker; nothing runs here. It is not left so."""
    transact: Any = Branch.transact
    monkeypatch.setitem(transact.__wrapped__.__kwdefaults__, "patience_seconds", 0.05)
    flow = greet(calls)
    with Repo(away) as repo:
        repo.session("a").flow(flow)
        with working(repo, flow) as found:
            found.wait_for(kind="run", status="running")
            found.wait_for(kind="run", status="done")
        repo.session("b").flow(flow, name="b")
        away.lost_reply = "session/b/main"
        with working(repo, flow) as found:
            found.wait_for(kind="away")
            away.is_away = False
            found.wait_for(kind="run", session="b", status="done")
        assert repo.session("b").flow(key="greet").task("hello").record.attempt == 2

    assert calls["b"] == 1


def test_a_worker_that_works_once_gives_up_on_a_store_that_stays_away(away):
    with Repo(away) as repo, ThreadExecutor(1) as executor:
        repo.session("a").flow(greet())
        away.is_away = True
        worker = StoreWorker(repo, [greet()], executor)
        with pytest.raises(Unavailable, match="the store is away"):
            worker.work(once=True, patience_seconds=0.0)
        away.is_away = False
