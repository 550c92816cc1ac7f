"""The promises of the Executor contract, as tests to run against your own executor.

class TestMyExecutor(ExecutorContract):
    def make(self, folder):
        return MyExecutor("host:1234")

Ends (what a job returned, why it failed, was refused, skipped or asks), values (of all kinds, large
ones, and those that cannot be sent), many at once, cancelled and late jobs, processes that die,
whole runs, and closing. Say by `can_cancel` and `can_die` what yours can do; tests of an ability
skip executors that do not claim it.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Any, ClassVar

import pytest

import otolith
from otolith.errors import Closed
from otolith.flows import Executor, Flow, JobEnd, JobHandle, TaskContext, TaskJob

_SOON_SECONDS = 120.0  # an executor that needs longer is broken, not busy
_MANY = 60


@dataclass(frozen=True)
class Point:
    """A value of a class of its own."""

    x: int
    y: int


class _Unspeakable(Exception):
    """An error that cannot be sent, and has no text."""

    def __init__(self) -> None:
        super().__init__()
        self.held = lambda: None

    def __str__(self) -> str:
        raise ValueError("no text")


flow = Flow("contract")


@flow.task
def give(value: Any) -> Any:
    """Return what came."""
    return value


@flow.task
async def give_later(value: Any) -> Any:
    """Return what came, from a coroutine."""
    return value


@flow.task
def fail(how: str) -> None:
    """Fail in one of several ways."""
    if how == "exit":
        raise SystemExit(3)
    if how == "unspeakable":
        raise _Unspeakable
    raise ValueError(how)


@flow.task(validate=lambda value: value > 3 or f"{value} is too small")
def check(value: int) -> int:
    """Return what came, if it is large enough."""
    return value


@flow.task(when=lambda value: value > 3)
def skip(value: int) -> int:
    """Return what came; skipped if it is small."""
    return value


@flow.task
def ask(task: TaskContext) -> Any:
    """Return the answer of a person."""
    return task.ask("How many?")


@flow.task
def tell(task: TaskContext) -> list[Any]:
    """Return what is told of the task."""
    return [task.run, task.name, task.attempt, task.key, task.feedback, dict(task.results)]


@flow.task
def look(task: TaskContext) -> Any:
    """Return a value of the state."""
    return task.state["value"]


@flow.task
def hold(value: Any) -> Callable[[], Any]:
    """Return what no other process can be given."""
    return lambda: value


@flow.task
def meet(folder: str, name: str, count: int) -> bool:
    """Wait until so many are there at once."""
    Path(folder, name).touch()
    return _waited(lambda: len(list(Path(folder).iterdir())) >= count)


@flow.task
def hang(folder: str) -> bool:
    """Wait until somebody says that it is over."""
    Path(folder, "begun").touch()
    return _waited(Path(folder, "over").exists)


def _waited(is_so: Callable[[], bool]) -> bool:
    deadline = monotonic() + _SOON_SECONDS
    while not is_so():
        if monotonic() > deadline:
            return False
        sleep(0.005)
    return True


# Flows for whole runs

diamond = Flow("diamond")


@diamond.task
def first(number: int) -> int:
    """Return the input."""
    return number


@diamond.task(after=first)
def left(first: int) -> int:
    """Add one."""
    return first + 1


@diamond.task(after=first)
def right(first: int) -> int:
    """Double it."""
    return first * 2


@diamond.task(after=[left, right])
def last(left: int, right: int) -> list[int]:
    """Return both."""
    return [left, right]


deadly = Flow("deadly")


@deadly.task
def die_once(folder: str) -> int:
    """Kill the process at first; return how often this was called."""
    Path(folder, f"call-{os.getpid()}-{monotonic()}").touch()
    calls = len(list(Path(folder).iterdir()))
    if calls == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return calls


slow = Flow("slow")


@slow.task(timeout=0.5, retries=1, pause=0)
def be_late(folder: str) -> str:
    """Take too long at first."""
    is_first = not Path(folder, "begun").exists()
    Path(folder, "begun").touch()
    if is_first:
        deadline = monotonic() + 2
        _waited(lambda: monotonic() > deadline or Path(folder, "over").exists())
    return "in time"


wide = Flow("wide")


@wide.subtask
def number_of(number: int) -> int:
    """Return a number."""
    return number


class ExecutorContract:
    """The promises of an executor. Define `make`."""

    can_cancel = True
    """Whether a job that hangs can be given up; else it must end first."""
    can_die = False
    """Whether jobs run in processes that can be killed."""
    running: ClassVar[Executor | None] = None

    def make(self, folder: Path) -> Executor:
        """Return a new executor."""
        raise NotImplementedError

    @pytest.fixture
    def executor(self, tmp_path_factory: pytest.TempPathFactory) -> Executor:
        """The executor under test: one for all tests, so none may leave it in disorder."""
        shared = type(self)
        if shared.running is None:
            shared.running = self.make(tmp_path_factory.mktemp("executor"))
        return shared.running

    @classmethod
    def teardown_class(cls) -> None:
        """Close the executor under test."""
        if cls.running is not None:
            cls.running.close()
            cls.running = None

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Iterator[Path]:
        """A folder in which jobs meet; those that hang end with the test."""
        found = tmp_path / "jobs"
        found.mkdir()
        yield found
        (found / "over").touch()

    # -------------------- how a job ended

    @pytest.mark.parametrize("task", [give, give_later], ids=["function", "coroutine"])
    def test_what_a_task_returns_is_the_result(self, executor: Executor, task: Any) -> None:
        """The end is `returned`, with the result and how long it took."""
        end = _end(executor, task, value=7)

        assert (end.how, end.result, end.text) == ("returned", 7, "")
        assert end.seconds >= 0

    def test_what_a_task_raises_is_told(self, executor: Executor) -> None:
        """The end is `failed`, with the kind of the error, its text and where it was raised."""
        end = _end(executor, fail, how="no seats")

        assert end.how == "failed"
        assert end.text.startswith("ValueError: no seats (line ")
        assert "of fail" in end.text

    @pytest.mark.parametrize("how", ["exit", "unspeakable"])
    def test_a_task_that_misbehaves_fails_alone(self, executor: Executor, how: str) -> None:
        """Exits and errors that cannot be sent are failures too, and the executor works on."""
        assert _end(executor, fail, how=how).how == "failed"
        assert _end(executor, give, value=1).result == 1

    def test_a_result_that_a_check_does_not_accept_is_refused(self, executor: Executor) -> None:
        """The end is `refused`, with the reason."""
        assert _end(executor, check, value=5).how == "returned"
        end = _end(executor, check, value=2)
        assert (end.how, end.text) == ("refused", "2 is too small")

    def test_a_task_that_is_not_wanted_is_skipped(self, executor: Executor) -> None:
        """The end is `skipped`."""
        assert _end(executor, skip, value=2).how == "skipped"

    def test_a_question_is_asked_and_its_answer_returned(self, executor: Executor) -> None:
        """The end is `asked`; a job that comes with the answer goes on."""
        end = _end(executor, ask)
        assert (end.how, end.text) == ("asked", "How many?")
        assert _end(executor, ask, answers={"How many?": 3}).result == 3

    def test_a_task_is_told_which_one_it_is(self, executor: Executor) -> None:
        """The run, the name, the attempt, the key of the work, feedback and results arrive."""
        end = _end(executor, tell, attempt=3, feedback="too dear", results={"search": [1, 2]})
        assert end.result == ["run", "tell", 3, "key", "too dear", {"search": [1, 2]}]

    def test_the_state_is_there_or_its_absence_is_told(self, executor: Executor) -> None:
        """A local executor lets tasks use the state; another tells them to return results."""
        end = _end(executor, look, here=_State({"value": 5}))
        if executor.is_local:
            assert end.result == 5
        else:
            assert end.how == "failed"
            assert "task.state is not there in another process" in end.text

    # -------------------- values

    @pytest.mark.parametrize(
        "value",
        [
            None,
            True,
            1 << 200,
            -0.5,
            "Zürich \U0001f6eb\x00",
            b"\x00\xff" * 3_000_000,
            [1, (2, {3}), [[]]],
            {1: "one", ("a", 2): None},
            datetime(2030, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
            Decimal("1.10"),
            Point(1, 2),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_values_of_all_kinds_go_there_and_back(self, executor: Executor, value: Any) -> None:
        """Arguments and results arrive as they are, type and all."""
        end = _end(executor, give, value=value)
        assert end.how == "returned", end.text
        assert end.result == value
        assert type(end.result) is type(value)

    def test_what_cannot_be_sent_is_a_clear_failure(self, executor: Executor) -> None:
        """A value that stays in its process is returned there; another executor says why not."""
        for end in (_end(executor, hold, value=1), _end(executor, give, value=lambda: 1)):
            if executor.is_local:
                assert end.result() == 1
            else:
                assert end.how == "failed"
                assert "cannot be sent" in end.text
        assert _end(executor, give, value=1).result == 1

    # -------------------- many

    def test_many_jobs_end_each_with_its_own_result(self, executor: Executor) -> None:
        """No end is lost, and none is that of another job."""
        wake, waiting, found = Event(), list(range(_MANY)), dict[int, Any]()
        running: dict[int, JobHandle] = {}
        deadline = monotonic() + _SOON_SECONDS
        while len(found) < _MANY:
            assert monotonic() < deadline, f"{_MANY - len(found)} jobs do not end"
            while waiting and len(running) < executor.slots:
                number = waiting.pop()
                running[number] = executor.submit(_job(give, value=number), wake.set)
            for number, handle in [*running.items()]:
                end = executor.poll(handle)
                if end is not None:
                    found[number] = end.result
                    del running[number]
            if len(running) == executor.slots:
                wake.wait(1)
                wake.clear()
        assert found == {number: number for number in range(_MANY)}

    def test_as_many_jobs_as_there_are_slots_run_at_once(
        self, executor: Executor, folder: Path
    ) -> None:
        """No job waits for the end of another one, as long as there are slots."""
        count = executor.slots
        jobs = [_job(meet, folder=str(folder), name=str(n), count=count) for n in range(count)]
        handles = [executor.submit(each, lambda: None) for each in jobs]
        assert [_wait(executor, each).result for each in handles] == [True] * count

    def test_the_worker_is_woken_when_a_job_has_ended(self, executor: Executor) -> None:
        """`wake` is called when there is an end to poll, not earlier."""
        wake, seen = Event(), list[JobEnd | None]()
        handles: list[JobHandle] = []

        def note() -> None:
            seen.extend(map(executor.poll, handles))
            wake.set()

        handles.append(executor.submit(_job(give, value=1), note))
        assert wake.wait(_SOON_SECONDS)
        assert None not in seen
        assert _wait(executor, handles[0]).result == 1

    # -------------------- jobs that take too long, or die

    def test_a_job_that_was_cancelled_holds_nobody_up(
        self, executor: Executor, folder: Path
    ) -> None:
        """After `cancel`, its slot is free for another job."""
        if not self.can_cancel:
            pytest.skip("this executor does not return before a job has ended")
        handle = executor.submit(_job(hang, folder=str(folder)), lambda: None)
        assert _waited((folder / "begun").exists)
        assert executor.poll(handle) is None
        assert handle.began is not None

        executor.cancel(handle)

        assert _end(executor, give, value=1).result == 1
        executor.cancel(handle)  # again is harmless

    def test_a_job_that_has_ended_can_be_cancelled(self, executor: Executor) -> None:
        """Nothing comes of it, and no other job suffers."""
        handle = executor.submit(_job(give, value=1), lambda: None)
        assert _wait(executor, handle).result == 1
        executor.cancel(handle)
        assert _end(executor, give, value=2).result == 2

    def test_an_attempt_that_is_late_fails_and_the_next_may_do_it(
        self, executor: Executor, folder: Path
    ) -> None:
        """What takes longer than its task may is failed, and tried again."""
        with otolith.open("memory:") as repo:
            run = repo.session("s").flow(slow, folder=str(folder))
            assert run.work(executor=executor).status == "done", run.progress().failures
            record = run.task("be_late").record
            assert (run.result("be_late"), record.attempt) == ("in time", 2)
        assert record.retried >= 500_000  # microseconds

    def test_a_task_whose_process_died_is_done_again(
        self, executor: Executor, folder: Path
    ) -> None:
        """A job whose process was killed is run again, by the executor or by the worker."""
        if not self.can_die:
            pytest.skip("its jobs run in this process")
        with otolith.open("memory:") as repo:
            run = repo.session("s").flow(deadly, folder=str(folder))
            assert run.work(executor=executor).status == "done", run.progress().failures
            assert run.result("die_once") == 2
        assert _end(executor, give, value=1).result == 1

    # -------------------- runs

    def test_tasks_of_a_run_come_in_order(self, executor: Executor) -> None:
        """What comes after a task gets its result."""
        with otolith.open("memory:") as repo:
            run = repo.session("s").flow(diamond, number=5)
            assert run.work(executor=executor).status == "done", run.progress().failures
            assert run.results() == {"first": 5, "left": 6, "right": 10, "last": [6, 10]}

    def test_each_task_of_a_wide_run_is_done_once(self, executor: Executor) -> None:
        """Whoever does it: one attempt, and the result that belongs to it."""
        with otolith.open("memory:") as repo:
            run = repo.session("s").flow(_wide_flow(_MANY))
            assert run.work(executor=executor).status == "done", run.progress().failures
            attempts = Counter(each.record.attempt for each in run.tasks())
            assert run.results() == {str(number): number for number in range(_MANY)}
        assert attempts == {1: _MANY}

    # -------------------- the end

    def test_a_closed_executor_takes_no_jobs(self, tmp_path: Path) -> None:
        """`Closed`; closing again is harmless."""
        self.teardown_class()  # there may be one at a time
        executor = self.make(tmp_path)
        assert _end(executor, give, value=1).result == 1
        executor.close()
        executor.close()
        with pytest.raises(Closed):
            executor.submit(_job(give, value=1), lambda: None)

    def test_closing_waits_for_no_job(self, tmp_path: Path, folder: Path) -> None:
        """What hangs is stopped, or left alone."""
        if not self.can_cancel:
            pytest.skip("this executor does not return before a job has ended")
        self.teardown_class()
        executor = self.make(tmp_path)
        executor.submit(_job(hang, folder=str(folder)), lambda: None)
        assert _waited((folder / "begun").exists)
        executor.close()
        assert not (folder / "over").exists()


class _State:
    """What a job can do in the process of its worker: look at a state."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def state(self) -> Any:
        return self._state

    def once(self, *_: Any) -> Any:
        raise NotImplementedError


def _job(task: Any, **options: Any) -> TaskJob:
    inputs = {name: options.pop(name) for name in [*options] if name in task.parameters}
    first = {"run": "run", "name": task.name, "attempt": 1, "key": "key", "results": {}}
    return TaskJob(**{**first, **options}, task=task, inputs=inputs)


def _end(executor: Executor, task: Any, **options: Any) -> JobEnd:
    """Run a job to its end."""
    return _wait(executor, executor.submit(_job(task, **options), lambda: None))


def _wait(executor: Executor, handle: JobHandle) -> JobEnd:
    assert _waited(lambda: executor.poll(handle) is not None), f"{handle!r} does not end"
    end = executor.poll(handle)
    assert end is not None
    return end


def _wide_flow(count: int) -> Flow:
    found = Flow("wide")
    found.functions |= wide.functions
    for number in range(count):
        found.add(otolith.flows.FlowTask(str(number), call="number_of", inputs={"number": number}))
    return found
