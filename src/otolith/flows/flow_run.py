"""FlowRun: what is done of a flow in a state, and what to do with it.

    run = state.flow(flow, dest="NYC", key="trip-42")     # the same key: the same run
    run.work(workers=4)
    run.result("choose")

A run lives in the state, so it is forked, compared, merged and rolled back with everything else.
What changes it (work, retry, answer, expand, …) is committed at once, on a handle of its own: what
is staged on the state that the run was opened from stays staged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Any, Literal, TypeVar

from otolith.core import Backend, Branch, Commit, Snapshot, StateReader, synchronized
from otolith.errors import CodeEdited, IllegalTransition, Invalid, KeyNotFound, ReadOnly
from otolith.flows.board import Board
from otolith.flows.bottlenecks import Bottleneck
from otolith.flows.decomposition import (
    MOST_PROPOSED,
    Approval,
    Proposer,
    approval_task,
    approved,
    free_name,
    proposed,
)
from otolith.flows.executors import Executor, InlineExecutor, ThreadExecutor, check_slots
from otolith.flows.expansion import expanded, outdated
from otolith.flows.flow_definition import (
    Flow,
    FlowTask,
    TaskSpec,
    check_edited,
    check_name,
    listed_tasks,
    task_name,
)
from otolith.flows.forecast import Forecast, write_picture
from otolith.flows.graph import TaskGraph
from otolith.flows.in_worker import settle_effect
from otolith.flows.lifecycle import SETTLED, TaskRecord, what_helps
from otolith.flows.new_run import check_begin, check_inputs, put_run
from otolith.flows.pictures import FlowPicture
from otolith.flows.presence import TTL_SECONDS, WorkerPresence
from otolith.flows.progress_line import ExpectedEnd, ProgressLine, shows_progress
from otolith.flows.redo import done_again
from otolith.flows.run_views import RunProgress, TaskChange, TaskView, task_changes
from otolith.flows.run_worker import RunWorker
from otolith.flows.schedules import Estimate, WhatIf
from otolith.flows.storage import HEAD, StoredFlow
from otolith.shapes import NOTHING, check_argument

R = TypeVar("R")

_GOES_ON = ("running", "waiting", "paused")


class FlowRun:
    """A run of a flow in a state. Threads may share it: one works, another looks or cancels.

    Without its flow, it can be looked at and steered, but not worked on.
    """

    def __init__(
        self,
        state: StateReader,
        key: str,
        flow: Flow | None = None,
        *,
        backend: Backend | None = None,
        open_state: Callable[[str], Branch] | None = None,
    ) -> None:
        self.key = key
        self.flow = flow
        self._state = state
        self._backend = backend
        self._open_state = open_state
        self._board = Board()
        self.lock: AbstractContextManager[object] = RLock()

    @synchronized
    def __repr__(self) -> str:
        board = self._look()
        done = sum(board.counts[each] for each in SETTLED)
        flow = "" if board.head is None else f" of {board.head.flow}"
        return f"<FlowRun {self.key}{flow}, {board.status()}, {done} of {len(board.specs)} done>"

    # Looking

    @cached_property
    def _journal(self) -> Branch:
        """The handle on which the run is read and changed."""
        if self._backend is None or not isinstance(self._state, Branch):
            raise ReadOnly(
                f"run {self.key} is at a commit, and cannot be changed",
                hint="open it in a state: state.flow(key=…), or fork() from this commit",
            )
        return Branch(self._backend, self._state.ref)

    @property
    def _stored(self) -> StoredFlow:
        """The run as it is committed now."""
        if not isinstance(self._state, Branch):
            return StoredFlow(self._state, self.key)
        self._journal.refresh()
        return StoredFlow(self._journal, self.key)

    def _look(self) -> Board:
        """Return the board, up to date with what is committed."""
        self._board.update(self._stored)
        return self._board

    @property
    def status(self) -> str:
        """How the run is: `running`, `waiting`, `done`, `failed`, `cancelled` or `paused`."""
        with self.lock:
            return self._look().status()

    @property
    def inputs(self) -> dict[str, Any]:
        """What the run was given."""
        with self.lock:
            return self._stored.inputs()

    @property
    def graph(self) -> TaskGraph:
        """Which task comes after which."""
        with self.lock:
            return self._look().graph

    @synchronized
    def progress(self) -> RunProgress:
        """Return how far the run is."""
        return RunProgress.of(self.key, self._look())

    @synchronized
    def tasks(self) -> list[TaskView]:
        """Return all tasks, in the order in which they were added."""
        board = self._look()
        triples = zip(board.graph.names, board.specs, board.records, strict=True)
        return [TaskView(*each) for each in triples]

    @synchronized
    def task(self, task: FlowTask | str) -> TaskView:
        """Return a task.

        Raises:
            KeyNotFound: the run has no such task.
        """
        board = self._look()
        number = self._number(board, task)
        return TaskView(board.graph.names[number], board.specs[number], board.records[number])

    def _number(self, board: Board, task: FlowTask | str) -> int:
        name = task_name(task)
        if name not in board.graph:
            near = ", ".join(board.graph.names[:20])
            raise KeyNotFound(f"run {self.key} has no task {name!r}", hint=f"it has: {near}")
        return board.graph.number[name]

    @synchronized
    def result(self, task: FlowTask | str) -> Any:
        """Return what a task returned; None if it was skipped.

        Raises:
            KeyNotFound: the run has no such task, or it is not done.
        """
        found = self.task(task)
        if found.status not in SETTLED:
            why = found.record.error or found.record.question
            raise KeyNotFound(
                f"task {found.name} is {found.status}{': ' + why if why else ''}",
                hint="run.work() does what is left; run.retry() tries again what has failed",
            )
        return self._stored.result(found.name)

    @synchronized
    def results(self) -> dict[str, Any]:
        """Return what all tasks returned that are done, by name."""
        board, stored = self._look(), self._stored
        pairs = zip(board.graph.names, board.records, strict=True)
        return {name: stored.result(name) for name, record in pairs if record.status == "done"}

    def at(self, commit: Commit | str) -> FlowRun:
        """Return the run at a commit, to look at.

        Raises:
            KeyNotFound: it had not begun.
        """
        if not isinstance(self._state, Branch):
            raise ReadOnly(f"run {self.key} is at a commit already", hint="use the state's own run")
        past = FlowRun(self._state.at(commit), self.key, self.flow)
        past._look()
        return past

    @synchronized
    def diff(self, other: FlowRun) -> list[TaskChange]:
        """Return the tasks that differ from another run to this one, such as one on a fork."""
        check_argument(other, "other", FlowRun, "a run")
        return task_changes(other.tasks(), self.tasks())

    # How long it takes

    @synchronized
    def critical_path(self, *, slots: int | None = None) -> dict[str, float]:
        """Return the longest chain of tasks, with the seconds that each took or is expected to."""
        return self._forecast(slots).critical_path

    @synchronized
    def eta(self, *, slots: int | None = None) -> Estimate:
        """Return how many seconds are left: `expected`, and a `low` and a `high` one of ten pass.

        It is for as many slots as the workers that are there now have, or for some other number.
        """
        return self._forecast(slots).eta()

    @synchronized
    def what_if(self, factors: Mapping[str, float] | None = None, /, **more: float) -> WhatIf:
        """Return how long the rest takes if tasks took a factor of their time: `search=0.5`.

        Names are those of tasks or of functions. Of a run that is done, it is about the whole.

        Raises:
            KeyNotFound: there is neither a task nor a function of this name.
        """
        return self._forecast(None).what_if({**(factors or {}), **more})

    @synchronized
    def bottlenecks(self, *, most: int = 10, slots: int | None = None) -> list[Bottleneck]:
        """Return what makes the run as long as it is, with seconds, what would save most first."""
        return self._forecast(slots).bottlenecks(most)

    @synchronized
    def picture(self) -> FlowPicture:
        """Return the run as something to draw: see `write`."""
        return self._forecast(None).picture(f"{self.key}: {self._stored.head().flow}")

    @synchronized
    def write(self, path: str | PathLike[str]) -> Path:
        """Draw the run into a file: `.html` is a page, `.svg` the graph, `.mmd` Mermaid text.

        `.gantt.svg` is a chart of who ran what when.

        Raises:
            Invalid: the file has another ending.
        """
        return write_picture(Path(path), self.picture(), self._forecast(None))

    def _forecast(self, slots: int | None) -> Forecast:
        board = self._look()
        if slots is None:
            slots = sum(each["slots"] for each in self.workers().values()) or max(board.slots, 1)
        head = self._state.commit if isinstance(self._state, Snapshot) else self._journal.head
        now = 0 if head is None else head.time
        if self._backend is not None and self.status in _GOES_ON:
            now = max(now, self._backend.clock())
        return Forecast(board, now=now, slots=check_slots(slots))

    def workers(self) -> dict[str, dict[str, Any]]:
        """Return the workers that show that they live, with their `slots` and since when."""
        if self._backend is None:
            return {}
        return WorkerPresence(self._backend, self._journal.ref).others()

    # Working

    def work(
        self,
        workers: int = 1,
        *,
        executor: Executor | None = None,
        edited: str | None = None,
        progress: bool | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
        ttl_seconds: float = TTL_SECONDS,
    ) -> RunProgress:
        """Do what can be done, and return how far the run is then.

        With one worker, tasks run in this thread, one after another; with more, in threads, unless
        an `executor` says where. Other processes may work on the run at the same time. It ends when
        nothing can go on: all is done, or what is left has failed or waits for a person. `edited`
        is what to do with results of functions that were edited since, if the flow does not say.
        `progress` shows a line with how far it is, when it ends and what that hangs on; by default
        if standard error is a terminal.

        Raises:
            CodeEdited: functions were edited since their tasks were done, and nobody has decided.
            Invalid: the run was opened without its flow, or the flow lacks a function.
        """
        self._flow()
        check_slots(workers)
        self.settle_edited(edited)
        made = InlineExecutor() if workers == 1 else ThreadExecutor(workers)
        chosen = made if executor is None else executor
        line = self._progress_line() if shows_progress(progress) else None
        try:
            with self._presence(chosen.slots, ttl_seconds) as presence:
                self.worker(chosen, presence).work(
                    is_stopped=is_stopped, on_turn=None if line is None else line.show
                )
        finally:
            made.close()
            if line is not None:
                line.end()
            with self.lock:
                self._follow()
        return self.progress()

    def _progress_line(self) -> ProgressLine:
        def look() -> Forecast:
            with self.lock:
                return self._forecast(None)

        return ProgressLine(self.progress, more=ExpectedEnd(look).text)

    def worker(self, executor: Executor, presence: WorkerPresence) -> RunWorker:
        """Return a worker of the run: `work` makes one, and so does each `otolith worker`."""
        assert self._open_state is not None
        return RunWorker(
            Branch(self._backend_of(), self._journal.ref),
            self.key,
            self._flow(),
            executor,
            presence,
            open_state=self._open_state,
            clock=self._backend_of().clock,
            store=self._backend_of().store,
        )

    def _presence(self, slots: int, ttl_seconds: float) -> WorkerPresence:
        journal = self._journal
        return WorkerPresence(self._backend_of(), journal.ref, slots=slots, ttl_seconds=ttl_seconds)

    def _backend_of(self) -> Backend:
        assert self._backend is not None
        return self._backend

    def _flow(self) -> Flow:
        if self.flow is None:
            raise Invalid(
                f"run {self.key} was opened without its flow",
                hint=f"state.flow(flow, key={self.key!r})",
            )
        return self.flow

    @synchronized
    def edited(self) -> list[str]:
        """Return the tasks that are done, and whose function was edited since."""
        flow, board = self._flow(), self._look()
        codes = {name: task.code() for name, task in flow.functions.items()}
        found = []
        for number, record in enumerate(board.records):
            code = codes.get(board.specs[number].call)
            if record.status == "done" and record.code and code and record.code != code:
                found.append(board.graph.names[number])
        return found

    def settle_edited(self, edited: str | None = None) -> None:
        """Decide about results of functions that were edited since; by default, as the flow says.

        Raises:
            CodeEdited: there are some, and the decision is to ask.
        """
        flow = self._flow()
        edited = flow.edited if edited is None else check_edited(edited)
        names = self.edited()
        if not names:
            return
        if edited == "ask":
            raise CodeEdited(
                f"{', '.join(names[:10])} of run {self.key} were done by code that was edited",
                tasks=tuple(names),
                hint="run.work(edited='keep') keeps the results; 'rerun' does them again, and what"
                " was made from them",
            )
        if edited == "rerun":
            self.retry(*names)
            return
        codes = {name: task.code() for name, task in flow.functions.items()}

        def keep(board: Board, stored: StoredFlow) -> None:
            for name in names:
                number = board.graph.number[name]
                code = codes[board.specs[number].call]
                self._record(board, stored, name, board.records[number].after(name, code=code))

        self._change(keep, f"{self.key}: keeps {len(names)} results of edited code")

    # Steering

    @synchronized
    def _change(self, change: Callable[[Board, StoredFlow], R], message: str) -> R:
        """Change the run in a transaction of its own; what was staged on the state stays."""
        board, stored = self._board, StoredFlow(self._journal, self.key)

        def edit(_: Branch) -> R:
            board.undo()
            board.update(stored)
            board.begin()
            return change(board, stored)

        try:
            result = self._journal.transact(edit, message)
        except BaseException:
            board.undo()
            raise
        board.landed(stored)
        self._follow()
        return result

    def _now(self) -> int:
        head = self._journal.head
        return max(self._backend_of().clock(), 0 if head is None else head.time)

    def _follow(self) -> None:
        """Let the state that the run was opened from see the commit, unless it has edits."""
        if isinstance(self._state, Branch) and self._state.is_clean:
            self._state.refresh()

    @staticmethod
    def _record(board: Board, stored: StoredFlow, name: str, record: TaskRecord) -> None:
        board.put(board.graph.number[name], record)
        stored.put_record(name, record)

    def retry(self, *tasks: FlowTask | str) -> list[str]:
        """Do tasks again, and what was made from them; without a name, all that failed.

        What comes after is done again only if it gets something else than before. A run that was
        cancelled goes on. Returns the names of the tasks that are pending again.

        Raises:
            KeyNotFound: the run has no such task.
            IllegalTransition: a worker has it, or it has not been tried.
        """

        def again(board: Board, stored: StoredFlow) -> list[str]:
            assert board.head is not None
            numbers = [self._number(board, each) for each in tasks] or [
                each
                for each, record in enumerate(board.records)
                if record.status in ("failed", "cancelled")
            ]
            found = done_again(board, numbers, self._now())
            for number, record in found.items():
                self._record(board, stored, board.graph.names[number], record)
            if board.head.status == "cancelled":
                stored.put(board.head.as_status("open", "", self._now()).to_data(), HEAD)
            return [board.graph.names[each] for each in found]

        names = ", ".join(map(task_name, tasks)) or "what failed"
        return self._change(again, f"{self.key}: again: {names}")

    def cancel(self, *tasks: FlowTask | str, why: str = "") -> None:
        """Cancel the run, or some of its tasks: what runs is not waited for, nothing else begins.

        Raises:
            KeyNotFound: the run has no such task.
            IllegalTransition: a task has ended already.
        """
        check_argument(why, "why", str, "a text")

        def cancel(board: Board, stored: StoredFlow) -> None:
            assert board.head is not None
            numbers = [self._number(board, each) for each in tasks] or board.held
            for number in numbers:
                name = board.graph.names[number]
                new = board.records[number].after(name, "cancel", error=why)
                self._record(board, stored, name, new)
            if not tasks:
                stored.put(board.head.as_status("cancelled", why, self._now()).to_data(), HEAD)

        names = ", ".join(map(task_name, tasks)) or "cancelled"
        self._change(cancel, f"{self.key}: {'cancels ' if tasks else ''}{names}")

    def pause(self, why: str = "") -> None:
        """Begin nothing more until `resume`; what runs is finished."""
        self._set_status("paused", why)

    def resume(self) -> None:
        """Let a run go on that was paused or cancelled."""
        self._set_status("open", "")

    def _set_status(self, status: str, why: str) -> None:
        check_argument(why, "why", str, "a text")

        def set_status(board: Board, stored: StoredFlow) -> None:
            assert board.head is not None
            if status == "paused" and board.head.status == "cancelled":
                raise Invalid(f"run {self.key} was cancelled", hint="run.resume() lets it go on")
            stored.put(board.head.as_status(status, why, self._now()).to_data(), HEAD)

        self._change(set_status, f"{self.key}: {'goes on' if status == 'open' else status}")

    def ask(self, question: str, *, name: str | None = None, after: Any = ()) -> str:
        """Ask a person, as a task whose result is the answer; return its name.

        That is the question, on one line, unless a name is given; asked again, it gets a number.

        Raises:
            Exists: there is a task of this name.
            Invalid: the question has no words.
        """
        check_argument(question, "question", str, "a text")
        if not question.strip():
            raise Invalid(f"a question needs words, got {question!r}")

        def add(board: Board, stored: StoredFlow) -> str:
            own = free_name(question, board.graph) if name is None else name
            task = FlowTask(own, goal=question, after=after)
            stored.put_plan(self._expanded(board, None, [task]).items())
            return own

        return self._change(add, f"{self.key}: asks a person")

    def answer(self, task: FlowTask | str, answer: object, *, by: str | None = None) -> None:
        """Answer what a task asks. One for a person is done then; another is called again.

        The record of the task says when, and `by` whom: by default the author of commits.

        Raises:
            KeyNotFound: the run has no such task.
            IllegalTransition: the task asks nothing.
            BadValue: the answer cannot be stored.
            Invalid: it asks whether to add tasks, which needs True or False, or they cannot be.
        """
        check_argument(by, "by", (str, NOTHING), "a name")

        def give(board: Board, stored: StoredFlow) -> None:
            now = self._now()
            number = self._number(board, task)
            name, record, spec = (
                board.graph.names[number],
                board.records[number],
                board.specs[number],
            )
            if not spec.call and board.is_ready(number):
                record = record.after(name, "unlock", "ask", question=spec.goal, asked=now)
            if record.status != "waiting":
                raise IllegalTransition(
                    f"task {name} is {record.status}, and asks nothing",
                    state=record.status, event="answer", allowed=(),
                    hint=what_helps(name, record.status),
                )  # fmt: skip
            who = self._backend_of().author if by is None else by
            record = record.after(name, answered=now, answered_by=who)
            if spec.call:
                answers = {**record.answers, record.question: answer}
                record = record.after(name, "answer", answers=answers, question="")
            else:
                more = proposed(name, spec, answer)
                if more:
                    stored.put_plan(self._expanded(board, name, more).items())
                product = stored.put_result(name, answer)
                record = record.after(name, "accept", ended=now, product=product)
            self._record(board, stored, name, record)

        self._change(give, f"{self.key}: {task_name(task)} is answered")

    def settle(self, key: str, *, happened: bool, result: object = None) -> None:
        """Decide whether an effect has happened whose outcome is unknown; see `EffectUnknown.key`.

        Raises:
            KeyNotFound: nothing was begun under this key.
            Invalid: its outcome is known.
        """
        settle_effect(self._journal.attempts(), key, happened=happened, result=result)

    # Decomposition

    def expand(self, parent: FlowTask | str | None, tasks: Iterable[FlowTask]) -> list[str]:
        """Add tasks to the run, as parts of one of its tasks; return their names.

        A new task that names nothing that it comes after comes after the parent. What comes after
        the parent waits for the new tasks too. Without a parent, nothing waits for them.

        Raises:
            Exists: there is a task of one of these names.
            KeyNotFound: one comes after, or calls, what is not there.
            Invalid: it would close a cycle; what comes after the parent has begun; the run was
                cancelled, or has too many tasks.
        """
        new = listed_tasks(tasks, len(self.graph))
        under = None if parent is None else task_name(parent)

        def add(board: Board, stored: StoredFlow) -> list[str]:
            stored.put_plan(self._expanded(board, under, new).items())
            return [each.name for each in new]

        return self._change(add, f"{self.key}: {len(new)} more tasks")

    def _expanded(
        self, board: Board, parent: str | None, tasks: Sequence[FlowTask]
    ) -> dict[str, TaskSpec]:
        functions = None if self.flow is None else self.flow.functions
        return expanded(board, self.key, parent, tasks, functions)

    def decompose(
        self,
        goal: str,
        *,
        model: Any,
        parent: FlowTask | str | None = None,
        approve: Approval | Literal["person"] | None = None,
        calls: Collection[str] | None = None,
        limit: int = MOST_PROPOSED,
    ) -> list[str]:
        """Let a model break a goal down into tasks, and add them as `expand` does.

        `model` is one of an agent, or a function of a prompt that returns a text or a list. `calls`
        are the functions that the tasks may call, by default all of the flow, `limit` is how many
        tasks there may be. `approve` is a function that gets the tasks, and returns True, False or
        others; with "person" they wait for `answer(task, True)`. Returns the names of the tasks
        that were added: with "person", of the one that asks.

        Raises:
            BadReply: the model proposed nothing that can be added, and was corrected twice.
            Invalid: the run was cancelled, or what comes after the parent has begun.
        """
        check_argument(goal, "goal", str, "a text")
        flow, under = self._flow(), None if parent is None else task_name(parent)
        names, cells = self.graph.names, self._stored.state.cells
        self._expanded(self._look(), under, [])

        def check(tasks: list[FlowTask]) -> None:
            for name, spec in self._expanded(self._look(), under, tasks).items():
                cells.put({name: spec.to_data()})

        proposer = Proposer(
            flow, calls=calls, limit=limit, known=names, inputs=self.inputs, parent=under
        )
        dialogue = getattr(getattr(self._state, "conversation", None), "dialogue", None)
        tasks = proposer.propose(goal, model, check=check, dialogue=dialogue)
        if approve == "person":
            tasks = [approval_task(goal, tasks, names, under)]
        elif approve is not None:
            tasks = approved(approve, tasks)
        return self.expand(under, tasks) if tasks else []

    # Its beginning, and code that came later

    @synchronized
    def begin(self, flow: Flow, inputs: Mapping[str, Any]) -> None:
        """Begin the run, unless it has begun: then it must be of this flow, with these inputs.

        Raises:
            Invalid: inputs are missing or unknown, or the run was begun with others.
            BadValue: an input cannot be stored.
        """
        check_name(self.key, "run")
        if not self._stored.exists:
            now, stored = self._now(), StoredFlow(self._journal, self.key)
            check_begin(flow, inputs)
            is_new = self._journal.transact(
                lambda _: put_run(stored, flow, inputs, now), f"{self.key}: a run of {flow.name}"
            )
            self._follow()
            if is_new:
                self.flow = flow
                return
        check_inputs(self._stored, inputs)
        self.adopt(flow)

    @synchronized
    def adopt(self, flow: Flow) -> None:
        """Work by this flow from now on: tasks that it has and the run has not are added.

        Raises:
            Invalid: it is another flow.
        """
        self.flow = flow
        board = self._look()
        assert board.head is not None
        if board.head.flow != flow.name:
            raise Invalid(
                f"run {self.key} is of the flow {board.head.flow!r}, not {flow.name!r}",
                hint="give another key",
            )
        if not outdated(board, flow):
            return

        def add(board: Board, stored: StoredFlow) -> None:
            stored.put_plan(outdated(board, flow).items())

        self._change(add, f"{self.key}: a newer version of {flow.name}")
