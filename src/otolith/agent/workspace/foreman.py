"""The foreman of a workspace: has a worker there for each step, briefs it, and lets it go."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path

from msgspec.structs import replace

from otolith.agent.workspace.answers import FromState
from otolith.agent.workspace.conversation import Conversation, Ending
from otolith.agent.workspace.crew import Crew, WorkerLine
from otolith.agent.workspace.messages import Begin, Run
from otolith.agent.workspace.output import Output
from otolith.agent.workspace.runner import Runner
from otolith.agent.workspace.stop import Stop, Wish
from otolith.agent.workspace.tables import Tables
from otolith.core import Branch


class Foreman:
    """The processes of a workspace: none until there is a step to run."""

    def __init__(self, state: Branch, path: Path, runner: Runner, answers: FromState) -> None:
        self._state = state
        self._tables = Tables(state)
        self._path = path
        self._runner = runner
        self._answers = answers
        self._stop = Stop()
        self.crew: Crew | None = None
        self._folder_number = 0
        self._worker: WorkerLine | None = None
        self._worker_head: str | None = None  # the commit that a warm worker is at

    def work(self, order: Run, output: Output, errors: Output) -> Ending:
        """Let a worker do a step. If this is left by an exception, nothing of the step remains."""
        self._stop.begin()
        try:
            ending = self._talk(order, output, errors)
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

    def _give_up(self) -> None:
        """End everything: who was about to say what is not known any more."""
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

    def _talk(self, order: Run, output: Output, errors: Output) -> Ending:
        crew = self._crew_here()
        worker = self._worker_for(crew)
        head = self._state.head
        if head is not None and self._worker_head == head.id:
            order = replace(order, roots=None)
        else:
            order = replace(order, along=self._answers.tops(order.roots or {}))
        talk = Conversation(crew, worker, self._answers, self._runner, self._stop)
        return talk.run(order, output, errors)

    def _crew_here(self) -> Crew:
        """Return the crew; if the folder is another one than it was, a new one that sees it."""
        self._path.mkdir(parents=True, exist_ok=True)
        folder = self._path.stat().st_ino
        if self.crew is not None and folder != self._folder_number:
            self.dismiss()
            self.crew.close()
            self.crew = None
        self._folder_number = folder
        self.crew = self.crew or Crew(self._runner, self._path)
        return self.crew

    def _worker_for(self, crew: Crew) -> WorkerLine:
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
