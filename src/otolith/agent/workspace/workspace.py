"""Workspace: variables, imports and files that outlive the process that made them.

The host side. It stages the work folder, lets a worker run a step on the state, takes over what the
worker hands over, and commits all of it together. It never unpickles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from otolith.agent.workspace.answers import FromState, Sign
from otolith.agent.workspace.comparing import Difference, differences
from otolith.agent.workspace.conversation import Conversation, Ending
from otolith.agent.workspace.crew import Crew, WorkerLine
from otolith.agent.workspace.folder import Folder
from otolith.agent.workspace.handover import TABLES, accept
from otolith.agent.workspace.messages import Begin, Done, Failure, Run
from otolith.agent.workspace.output import OnOutput, Output
from otolith.agent.workspace.reading import Readable
from otolith.agent.workspace.runner import Runner
from otolith.agent.workspace.step import Files, Picture, Step
from otolith.agent.workspace.trusted import load
from otolith.core import WORKSPACE, Branch, Commit, Merge, Target
from otolith.errors import Error, Invalid


class Workspace(Readable):
    """The variables and files of a session, and a way to run code on them."""

    def __init__(
        self, state: Branch, folder: str | Path, *, sign: Sign, runner: Runner | None = None
    ) -> None:
        self.state = state
        self.runner = runner or Runner()
        self.path = Path(folder).resolve()
        self.path.mkdir(parents=True, exist_ok=True)
        self._sign = sign
        self._folder = Folder(self.path)
        self._answers = FromState(state, sign)
        self._crew: Crew | None = None
        self._worker: WorkerLine | None = None
        self._worker_head: str | None = None  # the commit that a warm worker is at
        self._is_restored = False
        self._folder_number = 0

    # Running

    def run(
        self, code: str, *, message: str | None = None, on_output: OnOutput | None = None
    ) -> Step:
        """Run code as the next step, and commit what it did.

        A step that fails is committed too, with what it did before it failed; `undo` takes it back.
        A step whose process dies leaves the state as it was.
        """
        return self._step(code, message=message, on_output=on_output)

    def put(self, **values: object) -> Commit | None:
        """Set variables, as data."""
        cells = {name: self.state.cells.put(value) for name, value in values.items()}
        for name in values:
            if not name.isidentifier():
                raise Invalid(f"{name!r} cannot name a variable", hint="use an identifier")
        step = self._step("", put=cells, message=f"put {', '.join(values)}")
        return step.commit

    def _step(
        self,
        code: str,
        *,
        message: str | None = None,
        on_output: OnOutput | None = None,
        put: Mapping[str, bytes] | None = None,
    ) -> Step:
        self.restore()
        number = self._number() + 1
        limit = self.runner.output_bytes
        output = Output("stdout", limit_bytes=limit, listener=on_output)
        errors = Output("stderr", limit_bytes=limit, listener=on_output)
        order = Run(code, number, self._roots(), put=dict(put or {}))
        ending = self._talk(order, output, errors)
        if ending.done is None:
            return self._lost_step(ending, output, errors)
        try:
            accept(self.state, ending.done)
        except Error as error:
            self._dismiss()
            self.state.discard()
            return self._lost_step(Ending(None, why=error.message), output, errors)
        self._sign_pickles(ending.done)
        return self._committed(ending, code, message, output, errors)

    def _talk(self, order: Run, output: Output, errors: Output) -> Ending:
        crew = self._crew_here()
        worker = self._worker_for(crew)
        if self._worker_head is not None and self._worker_head == self._head_id():
            order = Run(order.code, order.step, None, put=order.put)
        ending = Conversation(crew, worker, self._answers, self.runner).run(order, output, errors)
        if ending.done is None or self.runner.mode == "cold":
            self._dismiss()
        return ending

    def _crew_here(self) -> Crew:
        """Return the crew; if the folder is another one than it was, a new one that sees it."""
        self.path.mkdir(parents=True, exist_ok=True)
        folder = self.path.stat().st_ino
        if self._crew is not None and folder != self._folder_number:
            self._dismiss()
            self._crew.close()
            self._crew = None
        self._folder_number = folder
        self._crew = self._crew or Crew(self.runner, self.path)
        return self._crew

    def _worker_for(self, crew: Crew) -> WorkerLine:
        if self._worker is None or self._worker.ended is not None:
            self._dismiss()
            self._worker = crew.fork(self._modules())
            limits = self.runner.limits
            self._worker.wire.send(
                Begin(
                    salt=self.state.cells.salt,
                    config=self._config(),
                    work=str(self.path),
                    limits=[
                        limits.memory_bytes,
                        limits.cpu_seconds,
                        limits.file_bytes,
                        limits.processes,
                        limits.open_files,
                    ],
                    resources=self._resources(),
                )
            )
        return self._worker

    def _dismiss(self) -> None:
        worker, self._worker, self._worker_head = self._worker, None, None
        if worker is not None:
            worker.close()

    def _committed(
        self, ending: Ending, code: str, message: str | None, output: Output, errors: Output
    ) -> Step:
        done = ending.done
        assert done is not None
        files = self._folder.capture(self.state)
        said = {"stdout": output.text(), "stderr": errors.text()}
        cell = self.state.cells.put(said)
        self.state.write_reserved((WORKSPACE, "output"), cell)
        meta = {"ok": done.ok, "sandbox": self._sandbox_name()}
        commit = self.state.commit(message or _title(code), kind="run", meta=meta)
        if self.runner.mode == "warm" and self._worker is not None:
            self._worker_head = commit.id
        elif self._crew is not None:
            self._crew.make_ready(done.modules)
        return Step(
            ok=done.ok,
            value=self._value(),
            shown=done.value,
            stdout=output.text(),
            stderr=errors.text(),
            error=self._told(done.failure, ending),
            created=tuple(done.created),
            changed=tuple(done.changed),
            deleted=tuple(done.deleted),
            lost=done.lost,
            files=files,
            figures=tuple(Picture(figure.png) for figure in done.figures),
            commit=commit,
            timing=done.seconds,
            sandbox=self._sandbox_name(),
            loaded=tuple(done.loaded),
            was_interrupted=done.was_interrupted or ending.was_stopped,
        )

    def _told(self, failure: Failure | None, ending: Ending) -> Failure | None:
        """Say why a step was interrupted."""
        if failure is None or not ending.was_stopped or failure.message:
            return failure
        why = f"it took longer than {self.runner.wall_seconds:g} s"
        return Failure(failure.type, why, failure.traceback, failure.line)

    def _lost_step(self, ending: Ending, output: Output, errors: Output) -> Step:
        """Return a step of which nothing is left: state and files are what they were."""
        files = self._folder.restore(self.state)
        failure = Failure("WorkerDied", ending.why, ending.why)
        return Step(
            ok=False, value=None, shown=None, stdout=output.text(), stderr=errors.text(),
            error=failure, created=(), changed=(), deleted=(), lost={}, files=files, figures=(),
            commit=None, timing={}, sandbox=self._sandbox_name(),
            was_interrupted=ending.was_stopped,
        )  # fmt: skip

    def _sign_pickles(self, done: Done) -> None:
        for place in done.pickles:
            table, _, key = place.partition("/")
            cell = self.state.cell_at((WORKSPACE, table, key)) if table in TABLES else None
            if cell is not None:
                signature = self._sign(place, self.state.cells.settle(cell))
                signed = self.state.cells.put(signature)
                self.state.write_reserved((WORKSPACE, "signatures", place), signed)
        for place in self._names("signatures"):
            table, _, key = place.partition("/")
            if self.state.cell_at((WORKSPACE, table, key)) is None:
                self.state.write_reserved((WORKSPACE, "signatures", place), None)

    # Reading

    def get(self, name: str, default: Any = None, *, trusted: bool = False) -> Any:
        """Return a variable, or the default if there is none.

        With `trusted`, what is not data is unpickled in this process, after its signature was
        checked: whoever wrote the code of the steps can then run code here.
        """
        if name not in self:
            return default
        entry = self._entry("vars", name)
        if not trusted or entry["kind"] in ("data", "lost"):
            return self[name]
        return load(self._answers, self._config(), self._roots(), name)

    # History

    def undo(self) -> Commit | None:
        """Take the last step back: the state, and the work folder with it."""
        commit = self.state.undo()
        self._dismiss()
        self._folder.restore(self.state)
        return commit

    def resource(self, name: str, *, factory: str) -> Commit:
        """Let a variable be made anew in each process, by a function, instead of being kept.

        `factory` names the function, as "package.module:function"; it is called without arguments,
        in the worker, when the variable is first used.
        """
        place, _, function = factory.partition(":")
        parts = [*place.split("."), *function.split(".")]
        if not name.isidentifier() or not all(part.isidentifier() for part in parts):
            raise Invalid(f"{factory!r} names no function", hint='say "package.module:function"')
        put = self.state.cells.put
        entry = {"kind": "resource", "type": "resource", "factory": factory, "step": self._number()}
        self.state.write_reserved((WORKSPACE, "resources", name), put(factory))
        self.state.write_reserved((WORKSPACE, "vars", name), put(entry))
        self._dismiss()
        return self.state.commit(f"resource {name}", kind="run")

    def fork(self, name: str, *, at: Target = "@") -> Workspace:
        """Return a workspace of a new branch, with a work folder of its own."""
        folder = self.path.with_name(quote(name, safe=""))
        return Workspace(self.state.fork(name, at=at), folder, sign=self._sign, runner=self.runner)

    def diff(self, old: Target | None = None, new: Target | None = None) -> list[Difference]:
        """Return what differs between two commits, by variable, column and file.

        By default: what the last step did, or what `new` did. Nothing is unpickled, and no frame
        is read.
        """
        after = self.state.resolve("@" if new is None else new)
        if old is not None:
            before: bytes | None = self.state.resolve(old).cell
        else:
            parent = after.parents[0] if after.parents else None
            before = None if parent is None else self.state.resolve(parent).cell
        return list(differences(self.state.cells, before, after.cell))

    def merge(self, other: str | Workspace) -> Merge:
        """Take in what another branch did: variables as values, frames by column, files.

        What both sides changed in different ways is a conflict: see `state.conflicts`.
        """
        name = other.state.name if isinstance(other, Workspace) else other
        merged = self.state.merge(name)
        self._dismiss()
        self._folder.restore(self.state)
        return merged

    def log(self, *, var: str | None = None, limit: int | None = None) -> Iterator[Commit]:
        """Yield the commits of this branch, or those that changed a variable, newest first."""
        if var is None:
            return self.state.log(limit=limit)
        return self.state.log(limit=limit, path=(WORKSPACE, "vars", var))

    def restore(self) -> Files:
        """Make the work folder what the state says, once; later it is what steps made of it."""
        if self._is_restored:
            return Files()
        self._is_restored = True
        if self.state.cell_at((WORKSPACE, "files")) is None:
            self._folder.capture(self.state)
            return Files()
        return self._folder.restore(self.state)

    def close(self) -> None:
        """End all processes."""
        self._dismiss()
        if self._crew is not None:
            self._crew.close()
        self._answers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Small things

    def _roots(self) -> dict[str, bytes]:
        found = {name: self.state.cell_at((WORKSPACE, name)) for name in (*TABLES, "signatures")}
        settle = self.state.cells.settle
        return {name: settle(cell) for name, cell in found.items() if cell is not None}

    def _number(self) -> int:
        cell = self.state.cell_at((WORKSPACE, "last", "step"))
        number = 0 if cell is None else self.state.cells.load(cell)
        return number if isinstance(number, int) else 0

    def _modules(self) -> list[str]:
        ambient = self._entry("ambient") or {}
        modules = ambient.get("modules", [])
        return [name for name in modules if isinstance(name, str)]

    def _resources(self) -> dict[str, str]:
        return dict(self._entry("resources") or {})

    def _config(self) -> bytes:
        store = self.state.cells.objects.stored.store
        hash = store.ref(".config")
        assert hash is not None
        return store.read([hash])[hash]

    def _head_id(self) -> str | None:
        return self.state.head.id if self.state.head is not None else None

    def _sandbox_name(self) -> str:
        return self._crew.sandbox.name if self._crew is not None else self.runner.sandbox


def _title(code: str) -> str:
    lines = [line.strip() for line in code.splitlines() if line.strip()]
    return lines[0][:100] if lines else "nothing"
