"""Workspace: variables, imports and files that outlive the process that made them.

This is the host side. One step is, in this order:

    1. check the arguments, before anything runs;
    2. make work folder and state equal (`work_folder.py`), and commit the user's edits;
    3. let a worker run the code on the state (`step_runner.py`);
    4. check what the worker sends (`result_check.py`) and stage it, with the files of the folder;
    5. sign new pickles, and commit everything together.

A step that cannot be committed leaves state and folder as they were. The host never unpickles,
except for `get(name, trusted=True)`, which the user asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from keyword import iskeyword
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from otolith.codecs import Codecs
from otolith.core import WORKSPACE, Branch, Commit, Merge, Target
from otolith.errors import (
    BadValue,
    Closed,
    Denied,
    Error,
    Invalid,
    KeyNotFound,
    MergeConflict,
    NotKept,
)
from otolith.workspace.diff import Difference, workspace_diff
from otolith.workspace.inputs import InputValues, input_values
from otolith.workspace.merge_conflicts import WorkspaceConflict, WorkspaceConflicts
from otolith.workspace.protocol import Run, StepFailure, WorkerResult
from otolith.workspace.result_check import TABLES, verify_result
from otolith.workspace.step import FileChanges, OutputListener, Picture, Runner, Step, StepOutput
from otolith.workspace.step_runner import StepEnd, StepRunner, over_disk_limit
from otolith.workspace.variables import Variable, WorkspaceTables, variables_in
from otolith.workspace.work_folder import UntrackedFiles, WorkFolder, branch_folder
from otolith.workspace.worker.pickle_context import use_context
from otolith.workspace.worker.remote_state import RemoteState
from otolith.workspace.worker.variables import Variables
from otolith.workspace.worker_requests import LocalHost, RequestHandler, Signatures

_DEEPEST = 50
_RESERVED_META = frozenset({"ok", "sandbox", "stopped"})
"""The meta that a workspace adds to the commit of each step."""


class Workspace:
    """The variables and files of a session, and the way to run code on them.

    step = workspace.run("x = 1")    # a commit
    workspace["x"]                   # 1
    """

    def __init__(
        self,
        state: Branch,
        folder: str | Path,
        *,
        signatures: Signatures,
        runner: Runner | None = None,
    ) -> None:
        self.state = state
        self.runner = runner or Runner()
        self.path = Path(folder).resolve()
        store = getattr(state.cells.objects.stored.store, "path", None)
        if isinstance(store, str) and self.path in Path(store).resolve().parents:
            raise Invalid(
                f"the store is inside of {self.path}, and cannot be part of itself",
                hint="choose a folder that does not hold it",
            )
        self.path.mkdir(parents=True, exist_ok=True)
        self._signatures = signatures
        self._is_closed = False
        self._tables = WorkspaceTables(state)
        self._folder = WorkFolder(self.path, state)
        self._requests = RequestHandler(state, signatures)
        self._steps = StepRunner(
            state, self.path, self.runner, self._requests, on_start=self._folder.begin_sandbox
        )

    def __repr__(self) -> str:
        head = self.state.head.id[:10] if self.state.head is not None else "no commit"
        return f"<Workspace {self.state.name} {head} in {self.path}>"

    # Running

    def run(
        self,
        code: str,
        *,
        message: str | None = None,
        meta: Mapping[str, Any] | None = None,
        on_output: OutputListener | None = None,
    ) -> Step:
        """Run code as the next step and commit what it did; `meta` goes into the commit.

        A step that fails is committed too, with what it did before it failed; `undo` reverts it.
        A step whose process dies does not change the state. Neither does one that is left by an
        exception of this process, such as a Ctrl-C; `interrupt` is the way to keep what it has
        done.

        Raises:
            Invalid: code or meta cannot be stored, or the work folder has files that are in no
                commit.
            BadValue: meta is not plain data.
        """
        _check_meta(meta)
        _check_code(code)
        return self._run_step(code, message=message, meta=meta, on_output=on_output)

    def put(self, **values: object) -> Commit:
        """Set variables: data as data, other objects as pickles that are loaded in the sandbox.

        Raises:
            BadValue: one of them cannot be sent or stored; then none of them is set.
        """
        for name in values:
            if not name.isidentifier() or iskeyword(name):
                raise Invalid(f"{name!r} cannot name a variable", hint="use an identifier")
        names, error = ", ".join(values), None
        # What looks like data may hold objects that are not, such as a column of enums: try twice.
        for are_objects in (False, True):
            inputs = input_values(values, self.state, are_objects=are_objects)
            step = self._run_step("", put=inputs, message=f"put {names}")
            if step.commit is not None:
                return step.commit
            error = step.error
        raise BadValue(
            f"cannot set {names}: {error.message if error is not None else 'it failed'}",
            hint="send data, or the path of a file that the code reads",
        )

    def interrupt(self) -> bool:
        """Interrupt the running step, from another thread or from a signal handler.

        It gets a KeyboardInterrupt, and is committed as failed with what it has done. Tells whether
        a step was running.
        """
        return self._steps.request_stop("interrupted")

    def kill(self) -> bool:
        """End the process of the running step, of which nothing is stored then.

        From another thread or from a signal handler. Tells whether a step was running.
        """
        return self._steps.request_stop("killed")

    def _run_step(
        self,
        code: str,
        *,
        message: str | None = None,
        meta: Mapping[str, Any] | None = None,
        on_output: OutputListener | None = None,
        put: InputValues | None = None,
    ) -> Step:
        """Run one step, in the order that the head of this module lists."""
        if self._is_closed:
            raise Closed("the workspace is closed", hint="open it again: state.workspace()")
        self.restore()
        output = StepOutput.limited(self.runner.output_bytes, on_output)
        cells, pickled = put or InputValues({}, b"")
        number = self._tables.step_number + 1
        order = Run(code, number, self._tables.roots(), put=cells, pickled=pickled)
        self._folder.begin_step()
        try:
            end = self._steps.run(order, output, folder_bytes=self._folder.disk_bytes)
        except BaseException:
            self._folder.undo_step()
            raise
        files = None
        if end.result is not None:
            end, files = self._stage(end, end.result, is_put=put is not None)
        if end.result is None or files is None:
            return self._lost_step(end, output)
        self._sign_pickles(end.result)
        failure = self._failure(end.result.failure, end)
        self._store_output(end.result, failure, output)
        details = {"ok": end.result.ok, "sandbox": self._steps.sandbox}
        if end.stopped is not None:
            details["stopped"] = end.stopped
        commit = self.state.commit(
            message or _title(code), kind="run", meta={**(meta or {}), **details}
        )
        self._folder.step_committed()
        self._steps.step_committed(commit.id, end.result.modules)
        return self._committed_step(commit, end, failure, files, output)

    def _stage(
        self, end: StepEnd, result: WorkerResult, *, is_put: bool
    ) -> tuple[StepEnd, FileChanges | None]:
        """Stage what a worker has sent and the files of the folder; or return why not."""
        refused = _put_failure(result) if is_put else None
        if refused is not None:
            self._steps.dismiss_worker()
            return StepEnd(None, why=refused), None
        try:
            verify_result(self.state, result, end.early)
        except Error as error:
            end = StepEnd(None, why=error.message)
        else:
            files = self._folder.capture(limit_bytes=self.runner.disk_bytes)
            if files is not None:
                return end, files
            end = StepEnd(None, "over disk limit", over_disk_limit(self.runner))
        self._steps.dismiss_worker()
        self.state.discard()
        return end, None

    def _store_output(
        self, result: WorkerResult, failure: StepFailure | None, output: StepOutput
    ) -> None:
        """Stage what a step printed, returned and raised."""
        record = {"stdout": output.stdout.text(), "stderr": output.stderr.text()}
        if result.value is not None:
            record["shown"] = result.value
        if failure is not None:
            record["error"] = failure.traceback
        self.state.write_reserved((WORKSPACE, "output"), self.state.cells.put(record))

    def _committed_step(
        self,
        commit: Commit,
        end: StepEnd,
        failure: StepFailure | None,
        files: FileChanges,
        output: StepOutput,
    ) -> Step:
        result = end.result
        assert result is not None
        return Step(
            ok=result.ok,
            value=self._tables.entry("last", "value"),
            shown=result.value,
            stdout=output.stdout.text(),
            stderr=output.stderr.text(),
            error=failure,
            created=tuple(name for name in result.created if name not in result.lost),
            changed=tuple(name for name in result.changed if name not in result.lost),
            deleted=tuple(result.deleted),
            lost=result.lost,
            files=files,
            figures=tuple(Picture(figure.png) for figure in result.figures),
            commit=commit,
            timing=result.seconds,
            sandbox=self._steps.sandbox,
            loaded=tuple(result.loaded),
            stopped=end.stopped,
        )

    def _lost_step(self, end: StepEnd, output: StepOutput) -> Step:
        """Return a step of which nothing is stored, after its files were put back."""
        return Step(
            ok=False,
            value=None,
            shown=None,
            stdout=output.stdout.text(),
            stderr=output.stderr.text(),
            error=StepFailure("WorkerDied", end.why, end.why),
            files=self._folder.undo_step(),
            sandbox=self._steps.sandbox,
            stopped=end.stopped,
        )

    def _failure(self, failure: StepFailure | None, end: StepEnd) -> StepFailure | None:
        """Return the failure of a step; that of an interrupted one says why."""
        if failure is None or end.stopped is None or failure.message:
            return failure
        why = "it was interrupted"
        if end.stopped == "timed out":
            why = f"it took longer than {self.runner.wall_seconds:g} s"
        return StepFailure(failure.type, why, failure.traceback, failure.line)

    def _sign_pickles(self, result: WorkerResult) -> None:
        """Sign new pickles, and drop the signatures of those that are gone."""
        for place in result.pickles:
            table, _, key = place.partition("/")
            cell = self._tables.cell(table, key) if table in TABLES else None
            if cell is not None:
                signature = self._signatures(place, self.state.cells.settle(cell))[0]
                signed = self.state.cells.put(signature)
                self.state.write_reserved((WORKSPACE, "signatures", place), signed)
        for place in self._tables.names("signatures"):
            table, _, key = place.partition("/")
            if self._tables.cell(table, key) is None:
                self.state.write_reserved((WORKSPACE, "signatures", place), None)

    # Reading

    def vars(self) -> list[Variable]:
        """Return the descriptions of all variables. Nothing is unpickled."""
        return variables_in(self.state)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._tables.cell("vars", name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables.names("vars"))

    def __getitem__(self, name: str) -> Any:
        """Return a variable that is data.

        Raises:
            KeyNotFound: there is none.
            NotKept: it could not be stored.
            Denied: it is a pickle; `get(name, trusted=True)` loads it all the same.
        """
        entry = self._tables.entry("vars", name)
        if entry is None:
            raise KeyNotFound(f"there is no variable {name}", hint="see vars()")
        if entry["kind"] == "data":
            return self._tables.entry("data", name)
        if entry["kind"] == "lost":
            raise NotKept(
                f"{name} could not be stored: it was a {entry['type']}, and {entry['why']}",
                hint=entry.get("hint", ""),
            )
        article = "an" if entry["kind"] == "object" else "a"
        raise Denied(
            f"{name} is a {entry['type']}, stored as {article} {entry['kind']}:"
            " it is not loaded into this process",
            hint="look at it in a step, or get(name, trusted=True) if you trust what ran",
        )

    def get(self, name: str, default: Any = None, *, trusted: bool = False) -> Any:
        """Return a variable, or the default if there is none.

        With `trusted`, what is not data is unpickled in this process, after its signature was
        checked: the author of the code of the steps can then run code here.
        """
        if name not in self:
            return default
        if not trusted or self._tables.entry("vars", name)["kind"] in ("data", "lost"):
            return self[name]
        host, codecs = LocalHost(self._requests), Codecs()
        state = RemoteState(host, self._tables.config(), codecs)
        state.start(self._tables.roots())
        variables = Variables(state, host, codecs, {})
        variables.namespace["__name__"] = "__main__"
        variables.namespace["__builtins__"] = __builtins__
        with use_context(variables.context):
            return variables.namespace[name]

    # History

    def undo(self) -> Commit | None:
        """Revert the last step: the state, and the work folder with it.

        What was put into the folder since that step stays there.
        """
        self._folder.enter()
        edited = self._folder.edited()
        commit = self.state.undo()
        self._steps.dismiss_worker()
        self._folder.follow(edited)
        return commit

    def resource(self, name: str, *, factory: str) -> Commit:
        """Have each process make a variable by calling a function, instead of storing it.

        `factory` names the function, as "package.module:function"; it is called without arguments,
        in the worker, when the variable is first used.

        Raises:
            Invalid: `name` or `factory` is not of that form.
        """
        module, _, function = factory.partition(":")
        parts = [*module.split("."), *function.split(".")]
        if not name.isidentifier() or not all(part.isidentifier() for part in parts):
            raise Invalid(
                f"{factory!r} does not name a function", hint='use "package.module:function"'
            )
        put, number = self.state.cells.put, self._tables.step_number
        entry = {"kind": "resource", "type": "resource", "factory": factory, "step": number}
        self.state.write_reserved((WORKSPACE, "resources", name), put(factory))
        self.state.write_reserved((WORKSPACE, "vars", name), put(entry))
        self._steps.dismiss_worker()
        return self.state.commit(f"resource {name}", kind="run")

    def fork(self, name: str, *, at: Target = "@") -> Workspace:
        """Return a workspace of a new branch, with its own work folder."""
        state = self.state.fork(name, at=at)
        folder = branch_folder(self.path.parent, name)
        return Workspace(state, folder, signatures=self._signatures, runner=self.runner)

    def diff(self, old: Target | None = None, new: Target | None = None) -> list[Difference]:
        """Return what differs between two commits, by variable, column and file.

        By default: what the last step did, or what `new` did. Nothing is unpickled, and no frame
        is read.
        """
        return workspace_diff(self.state, old, new)

    def merge(self, other: str | Workspace) -> Merge:
        """Merge another branch: variables as values, frames by column, files.

        What both sides changed in different ways is a conflict: see `conflicts`.

        Raises:
            MergeConflict: one side has a file where the other has a folder. Nothing was merged.
        """
        name = other.state.name if isinstance(other, Workspace) else other
        self.restore()
        merged = self.state.merge(name)
        self._steps.dismiss_worker()
        try:
            self._folder.follow({})
        except Invalid as clash:
            (self.state.discard if merged.commit is None else self.state.undo)()
            hint = "rename one of the two, and merge again"
            raise MergeConflict(clash.message, paths=(), hint=hint) from None
        return merged

    @property
    def conflicts(self) -> list[WorkspaceConflict]:
        """The variables and files that the merge in progress leaves to decide."""
        with self.state.lock:
            return list(WorkspaceConflicts(self.state))

    def resolve_conflict(self, name: str, *, take: str) -> None:
        """Settle the conflict of a variable or file by a side, "ours" or "theirs".

        An object is taken with the variables that share objects with it. When all conflicts are
        settled, `state.commit` commits the merge.

        Raises:
            KeyNotFound: there is no conflict of this name.
            Invalid: the side is unknown.
        """
        with self.state.lock:
            found = WorkspaceConflicts(self.state)
            conflict = found.find(name)
            self._folder.enter()
            edited = self._folder.edited()
            found.take(conflict, take)
            if conflict.what == "file":
                self._folder.follow({path: cell for path, cell in edited.items() if path != name})
        self._steps.dismiss_worker()

    def log(self, *, var: str | None = None, limit: int | None = None) -> Iterator[Commit]:
        """Yield the commits of this branch, or those that changed a variable, newest first."""
        if var is None:
            return self.state.log(limit=limit)
        return self.state.log(limit=limit, path=(WORKSPACE, "vars", var))

    def restore(self, *, untracked: UntrackedFiles = "refuse") -> FileChanges:
        """Make work folder and state equal, as each step does before it runs.

        At first, the folder is made what the state says. Files that are in no commit are never
        removed: where the state has no files, or is as it was when it left this folder, they are
        committed by themselves; so are those that are put there later. In other cases `untracked`
        says what to do with them: "refuse", "adopt" or "discard".

        Raises:
            Invalid: there are such files, and `untracked` is "refuse".
        """
        self.state.refresh()  # another process may have moved the branch
        return self._folder.synchronize(untracked)

    def close(self) -> None:
        """End all processes; a step after this raises Closed."""
        self._is_closed = True
        self._steps.close()
        self._requests.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _check_code(code: str) -> None:
    """Refuse code that is not text, or has half a character: bytes decoded as something else."""
    if not isinstance(code, str):
        raise Invalid(
            f"code must be a str, got {type(code).__name__}",
            hint="give the source: run('x = 1'); put(x=…) sets a value",
        )
    try:
        code.encode()
    except UnicodeEncodeError as error:
        line = code.count("\n", 0, error.start) + 1
        raise Invalid(
            f"line {line} of the code is not valid text", hint="read it as UTF-8"
        ) from None


def _check_meta(meta: Mapping[str, Any] | None) -> None:
    """Refuse meta that a commit could not store, before anything runs."""
    if meta is None:
        return
    if not _is_plain(dict(meta)):
        raise BadValue(
            "the meta of a step is not plain data",
            hint="use None, bool, numbers, str, bytes, and lists and str-keyed dicts of them",
        )
    if reserved := sorted(_RESERVED_META & meta.keys()):
        raise Invalid(
            f"the workspace itself sets {reserved[0]!r} in the meta of a step",
            hint=f"use other keys than {', '.join(sorted(_RESERVED_META))}",
        )


def _is_plain(value: object, depth: int = 0) -> bool:
    """Tell whether a commit returns exactly this value after it was written and read."""
    if type(value) is dict and depth < _DEEPEST:
        return all(type(key) is str and _is_plain(part, depth + 1) for key, part in value.items())
    if type(value) is list and depth < _DEEPEST:
        return all(_is_plain(part, depth + 1) for part in value)
    return value is None or type(value) in (bool, int, float, str, bytes)


def _put_failure(result: WorkerResult) -> str | None:
    """Return why variables of `put` could not be set, or could not be stored."""
    if result.failure is not None:
        return f"{result.failure.type}: {result.failure.message}"
    return next((f"{name}: {lost}" for name, lost in result.lost.items()), None)


def _title(code: str) -> str:
    lines = [line.strip() for line in code.splitlines() if line.strip()]
    return lines[0][:100] if lines else "nothing"
