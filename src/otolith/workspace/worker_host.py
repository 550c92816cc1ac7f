"""The processes of a workspace: a worker for each step, told what there is, and let go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path

from msgspec.structs import replace

from otolith.core import Branch
from otolith.workspace.answers import FromState
from otolith.workspace.disk_watch import DiskWatch
from otolith.workspace.protocol import Begin, Run
from otolith.workspace.sandbox import ProcessId
from otolith.workspace.step import Output, Runner, Stop, Wish
from otolith.workspace.step_exchange import StepEnd, StepExchange
from otolith.workspace.variables import Tables
from otolith.workspace.wire import Gone
from otolith.workspace.work_folder import KEPT_FILE_BYTES
from otolith.workspace.worker_pool import WorkerLine, WorkerPool


class StepRunner:
    """The processes of a workspace: none until there is a step to run."""

    def __init__(
        self,
        state: Branch,
        path: Path,
        runner: Runner,
        answers: FromState,
        *,
        on_start: Callable[[list[ProcessId]], None],
    ) -> None:
        self._state = state
        self._tables = Tables(state)
        self._path = path
        self._runner = runner
        self._answers = answers
        self._on_start = on_start  # before code runs in a new sandbox: the processes that end last
        self._stop = Stop()
        self.crew: WorkerPool | None = None
        self._folder_number = 0
        self._worker: WorkerLine | None = None
        self._worker_head: str | None = None  # the commit that a warm worker is at

    def work(self, order: Run, output: Output, errors: Output, *, folder_bytes: int = 0) -> StepEnd:
        """Let a worker do a step in a folder that takes so much.

        If this is left by an exception, nothing of the step remains.
        """
        self._stop.begin()
        try:
            ending = self._talk(order, output, errors, folder_bytes)
        except BaseException:
            self._give_up()
            raise
        finally:
            self._stop.end()
        if ending.done is None or self._runner.mode == "cold" or not ending.is_settled:
            self.dismiss()
        elif self.crew is not None:
            self.crew.sweep()
        return ending

    def ask(self, wish: Wish) -> bool:
        """Stop the step that runs; tell whether there is one."""
        return self._stop.ask(wish)

    def arrived(self, commit: str, modules: list[str]) -> None:
        """Note the commit of the last step; a worker for the next one is made meanwhile."""
        if self._worker is not None:
            self._worker_head = commit
        elif self.crew is not None:
            self.crew.make_ready(modules)

    def dismiss(self) -> None:
        """Let the worker go, if there is one."""
        worker, self._worker, self._worker_head = self._worker, None, None
        if worker is not None:
            worker.close()
            if self.crew is not None and worker.ended is None:
                self.crew.end(worker)

    def _give_up(self) -> None:
        """End everything: nobody knows any more what was about to be said."""
        self.dismiss()
        if self.crew is not None:
            self.crew.close()

    def close(self) -> None:
        """End all processes."""
        self.dismiss()
        if self.crew is not None:
            self.crew.close()
        self._stop.close()

    @property
    def sandbox(self) -> str:
        """What steps run in, or what was asked for if none has run yet."""
        return self.crew.sandbox.name if self.crew is not None else self._runner.sandbox

    def _talk(self, order: Run, output: Output, errors: Output, folder_bytes: int) -> StepEnd:
        crew = self._crew_here()
        try:
            worker = self._worker_for(crew)
        except Gone:
            if not self._stop.is_kill_wished:
                raise
            return StepEnd(None, "killed", "it was killed")
        head = self._state.head
        if head is not None and self._worker_head == head.id:
            order = replace(order, roots=None)
        else:
            order = replace(order, along=self._answers.tops(order.roots or {}))
        disk = self._disk_watch(crew, folder_bytes)
        talk = StepExchange(crew, worker, self._answers, self._runner, self._stop, disk=disk)
        return talk.run(order, output, errors)

    def _disk_watch(self, crew: WorkerPool, folder_bytes: int) -> DiskWatch | None:
        if self._runner.disk_bytes is None:
            return None
        return DiskWatch(
            self._path,
            before_bytes=folder_bytes,
            limit_bytes=self._runner.disk_bytes,
            kept_bytes=KEPT_FILE_BYTES,
            processes=crew.processes,
        )

    def _crew_here(self) -> WorkerPool:
        """Return the pool; if the folder is another one than it was, a new one that sees it."""
        self._path.mkdir(parents=True, exist_ok=True)
        folder = self._path.stat().st_ino
        if self.crew is not None and folder != self._folder_number:
            self.dismiss()
            self.crew.close()
            self.crew = None
        self._folder_number = folder
        self.crew = self.crew or WorkerPool(
            self._runner, self._path, on_start=self._on_start, stop=self._stop
        )
        return self.crew

    def _worker_for(self, crew: WorkerPool) -> WorkerLine:
        if self._worker is not None:
            crew.catch_up()
        if self._worker is None or self._worker.ended is not None:
            self.dismiss()
            self._worker = crew.fork(self._tables.modules)
            self._worker.wire.send(
                Begin(
                    salt=self._state.cells.salt,
                    config=self._tables.config(),
                    work=str(self._path),
                    limits=list(astuple(self._runner.limits)),
                    resources=self._tables.resources,
                    shown_chars=self._runner.shown_chars,
                )
            )
        return self._worker
