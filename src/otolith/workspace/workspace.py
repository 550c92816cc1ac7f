"""Workspace: variables, imports and files that outlive the process that made them.

The host side. It checks what is asked for before anything is run, stages the work folder, lets a
worker run a step on the state, takes over what the worker hands over, and commits all of it
together. It never unpickles, but for `load`, which the user asks for by `get(name, trusted=True)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from keyword import iskeyword
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from otolith.codecs import Codecs
from otolith.core import WORKSPACE, Branch, Commit, Merge, Target
from otolith.errors import BadValue, Error, Invalid, MergeConflict
from otolith.types import Hash
from otolith.workspace.answers import Answers, FromState, Sign
from otolith.workspace.diff import Difference, workspace_diff
from otolith.workspace.inputs import InputValues, gift_of
from otolith.workspace.protocol import Done, Failure, Run
from otolith.workspace.result_check import TABLES, verify_result
from otolith.workspace.step import Files, OnOutput, Output, Picture, Runner, Step
from otolith.workspace.step_exchange import StepEnd, over_disk_limit
from otolith.workspace.variables import Readable
from otolith.workspace.work_folder import UntrackedFiles, WorkFolder, branch_folder
from otolith.workspace.worker.pickle_context import use
from otolith.workspace.worker.remote_state import Shadow
from otolith.workspace.worker.variables import Variables
from otolith.workspace.worker_host import StepRunner
from otolith.workspace.worker_pool import WorkerPool

_DEEPEST = 50
OURS = frozenset({"ok", "sandbox", "stopped"})
"""What a workspace says of each step: whether it went well, where it ran, what ended it."""


def check_code(code: str) -> None:
    """Refuse what is no text.

    Raises:
        Invalid: it holds half a character, as bytes do that were not decoded as what they are.
    """
    try:
        code.encode()
    except UnicodeEncodeError as error:
        line = code.count("\n", 0, error.start) + 1
        raise Invalid(f"line {line} of the code is no text", hint="read it as UTF-8") from None


def check_meta(meta: Mapping[str, Any] | None) -> None:
    """Refuse what a commit could not keep, before anything is run.

    Raises:
        Invalid: a word of it is one that a workspace says itself.
        BadValue: it is not plain data.
    """
    if meta is None:
        return
    if not _is_plain(dict(meta)):
        raise BadValue(
            "the meta of a step is not plain data",
            hint="use None, bool, numbers, str, bytes, and lists and str-keyed dicts of them",
        )
    if taken := sorted(OURS & meta.keys()):
        raise Invalid(
            f"{taken[0]!r} in the meta of a step is what a workspace says of it",
            hint=f"choose another word than {', '.join(sorted(OURS))}",
        )


def _is_plain(value: object, depth: int = 0) -> bool:
    """Tell whether this is the same after it was written and read, as a commit sees it."""
    if type(value) is dict and depth < _DEEPEST:
        return all(type(key) is str and _is_plain(part, depth + 1) for key, part in value.items())
    if type(value) is list and depth < _DEEPEST:
        return all(_is_plain(part, depth + 1) for part in value)
    return value is None or type(value) in (bool, int, float, str, bytes)


class LocalHost:
    """What a worker would ask a host for, asked in the same process."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are there."""
        found = zip(hashes, self._answers.read(list(hashes)), strict=True)
        return {hash: data for hash, data in found if data is not None}

    def map(self, cell: bytes) -> None:
        """Map nothing: what is loaded here belongs to the user's process."""

    def hand(self, objects: Sequence[bytes]) -> bool:
        """Hand nothing over: nothing is kept of what is done here."""
        return False

    def vouches(self, place: str, cell: bytes, signature: bytes) -> bool:
        """Tell whether a pickle was signed by this repo."""
        return self._answers.vouches(place, cell, signature)


def load(answers: Answers, config: bytes, roots: dict[str, bytes], name: str) -> object:
    """Return a variable, unpickled after its signature was checked."""
    host, codecs = LocalHost(answers), Codecs()
    shadow = Shadow(host, config, codecs)
    shadow.start(roots)
    variables = Variables(shadow, host, codecs, {})
    variables.namespace["__name__"] = "__main__"
    variables.namespace["__builtins__"] = __builtins__
    with use(variables.world):
        return variables.namespace[name]


_GIVE_DATA = "hand over data, or the path of a file that the code reads"


class Workspace(Readable):
    """The variables and files of a session, and a way to run code on them."""

    def __init__(
        self, state: Branch, folder: str | Path, *, sign: Sign, runner: Runner | None = None
    ) -> None:
        super().__init__(state)
        self.runner = runner or Runner()
        self.path = Path(folder).resolve()
        _check_folder(self.path, state)
        self.path.mkdir(parents=True, exist_ok=True)
        self._sign = sign
        self._premises = WorkFolder(self.path, state)
        self._answers = FromState(state, sign)
        self._foreman = StepRunner(
            state, self.path, self.runner, self._answers, on_start=self._premises.begin_sandbox
        )

    # Running

    def run(
        self,
        code: str,
        *,
        message: str | None = None,
        meta: Mapping[str, Any] | None = None,
        on_output: OnOutput | None = None,
    ) -> Step:
        """Run code as the next step, and commit what it did; `meta` goes into the commit.

        A step that fails is committed too, with what it did before it failed; `undo` takes it back.
        A step whose process dies leaves the state as it was. So does one that is left by an
        exception of this process, such as a Ctrl-C; `interrupt` is the way to keep what it reached.

        Raises:
            Invalid: code or meta cannot be kept, or the work folder has files that are in no
                commit.
        """
        check_meta(meta)
        check_code(code)
        return self._step(code, message=message, meta=meta, on_output=on_output)

    def put(self, **values: object) -> Commit:
        """Set variables: data as data, other objects as pickles that are loaded in the sandbox.

        Raises:
            BadValue: one of them cannot be handed over, or not be kept; then none of them is set.
        """
        for name in values:
            if not name.isidentifier() or iskeyword(name):
                raise Invalid(f"{name!r} cannot name a variable", hint="use an identifier")
        message = f"put {', '.join(values)}"
        step = self._step("", put=gift_of(values, self.state), message=message)
        if step.commit is None:  # data may hold objects that are none, such as a column of enums
            gift = gift_of(values, self.state, are_objects=True)
            step = self._step("", put=gift, message=message)
        if step.commit is None:
            why = step.error.message if step.error is not None else "it failed"
            raise BadValue(f"cannot set {', '.join(values)}: {why}", hint=_GIVE_DATA)
        return step.commit

    def interrupt(self) -> bool:
        """Interrupt the step that runs: from another thread, or from a signal handler.

        It gets a KeyboardInterrupt, and is committed as failed with what it reached. Tells whether
        there was a step to interrupt.
        """
        return self._foreman.ask("interrupted")

    def kill(self) -> bool:
        """End the process of the step that runs: nothing of the step is kept.

        From another thread, or from a signal handler. Tells whether there was a step to end.
        """
        return self._foreman.ask("killed")

    def _step(
        self,
        code: str,
        *,
        message: str | None = None,
        meta: Mapping[str, Any] | None = None,
        on_output: OnOutput | None = None,
        put: InputValues | None = None,
    ) -> Step:
        self.restore()
        limit = self.runner.output_bytes
        output = Output("stdout", limit_bytes=limit, listener=on_output)
        errors = Output("stderr", limit_bytes=limit, listener=on_output)
        cells, pickled = put or InputValues({}, b"")
        number = self._tables.number + 1
        order = Run(code, number, self._tables.roots(), put=cells, pickled=pickled)
        self._premises.enter()
        try:
            folder_bytes = self._premises.taken_bytes
            ending = self._foreman.work(order, output, errors, folder_bytes=folder_bytes)
        except BaseException:
            self._premises.take_back()
            raise
        refused = None if put is None else _not_taken(ending.done)
        if refused is not None:
            self._foreman.dismiss()
            ending = StepEnd(None, why=refused)
        if ending.done is None:
            return self._lost_step(ending, output, errors)
        try:
            verify_result(self.state, ending.done, ending.arrived)
        except Error as error:
            self._foreman.dismiss()
            lost = self._lost_step(StepEnd(None, why=error.message), output, errors)
            self.state.discard()
            return lost
        files = self._premises.capture(limit_bytes=self.runner.disk_bytes)
        if files is None:
            self._foreman.dismiss()
            ending = StepEnd(None, "over disk limit", over_disk_limit(self.runner))
            self.state.discard()
            return self._lost_step(ending, output, errors)
        message = message or _title(code)
        return self._committed(ending, files, (output, errors), message, dict(meta or {}))

    def _committed(
        self,
        ending: StepEnd,
        files: Files,
        printed: tuple[Output, Output],
        message: str,
        meta: dict[str, Any],
    ) -> Step:
        done = ending.done
        assert done is not None
        output, errors = printed
        self._sign_pickles(done)
        said = {"stdout": output.text(), "stderr": errors.text()}
        if done.value is not None:
            said["shown"] = done.value
        failure = self._told(done.failure, ending)
        if failure is not None:
            said["error"] = failure.traceback
        self.state.write_reserved((WORKSPACE, "output"), self.state.cells.put(said))
        ours = {"ok": done.ok, "sandbox": self._foreman.sandbox}
        if ending.stopped is not None:
            ours["stopped"] = ending.stopped
        commit = self.state.commit(message, kind="run", meta=meta | ours)
        self._premises.leave()
        self._foreman.arrived(commit.id, done.modules)
        return Step(
            ok=done.ok,
            value=self._tables.entry("last", "value"),
            shown=done.value,
            stdout=output.text(),
            stderr=errors.text(),
            error=failure,
            created=tuple(name for name in done.created if name not in done.lost),
            changed=tuple(name for name in done.changed if name not in done.lost),
            deleted=tuple(done.deleted),
            lost=done.lost,
            files=files,
            figures=tuple(Picture(figure.png) for figure in done.figures),
            commit=commit,
            timing=done.seconds,
            sandbox=self._foreman.sandbox,
            loaded=tuple(done.loaded),
            stopped=ending.stopped,
        )

    def _told(self, failure: Failure | None, ending: StepEnd) -> Failure | None:
        """Say why a step was interrupted."""
        if failure is None or ending.stopped is None or failure.message:
            return failure
        why = "it was interrupted"
        if ending.stopped == "timed out":
            why = f"it took longer than {self.runner.wall_seconds:g} s"
        return Failure(failure.type, why, failure.traceback, failure.line)

    def _lost_step(self, ending: StepEnd, output: Output, errors: Output) -> Step:
        """Return a step of which nothing is left: state and files are what they were."""
        files = self._premises.take_back()
        failure = Failure("WorkerDied", ending.why, ending.why)
        return Step(
            ok=False, value=None, shown=None, stdout=output.text(), stderr=errors.text(),
            error=failure, created=(), changed=(), deleted=(), lost={}, files=files, figures=(),
            commit=None, timing={}, sandbox=self._foreman.sandbox, stopped=ending.stopped,
        )  # fmt: skip

    def _sign_pickles(self, done: Done) -> None:
        for place in done.pickles:
            table, _, key = place.partition("/")
            cell = self.state.cell_at((WORKSPACE, table, key)) if table in TABLES else None
            if cell is not None:
                signature = self._sign(place, self.state.cells.settle(cell))
                signed = self.state.cells.put(signature)
                self.state.write_reserved((WORKSPACE, "signatures", place), signed)
        for place in self._tables.names("signatures"):
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
        entry = self._tables.entry("vars", name)
        if not trusted or entry["kind"] in ("data", "lost"):
            return self[name]
        return load(self._answers, self._tables.config(), self._tables.roots(), name)

    # History

    def undo(self) -> Commit | None:
        """Take the last step back: the state, and the work folder with it.

        What was put into the folder since that step stays there.
        """
        self._premises.move_in()
        edited = self._premises.edited()
        commit = self.state.undo()
        self._foreman.dismiss()
        self._premises.follow(edited)
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
        number = self._tables.number
        entry = {"kind": "resource", "type": "resource", "factory": factory, "step": number}
        self.state.write_reserved((WORKSPACE, "resources", name), put(factory))
        self.state.write_reserved((WORKSPACE, "vars", name), put(entry))
        self._foreman.dismiss()
        return self.state.commit(f"resource {name}", kind="run")

    def fork(self, name: str, *, at: Target = "@") -> Workspace:
        """Return a workspace of a new branch, with a work folder of its own."""
        folder = branch_folder(self.path.parent, name)
        return Workspace(self.state.fork(name, at=at), folder, sign=self._sign, runner=self.runner)

    def diff(self, old: Target | None = None, new: Target | None = None) -> list[Difference]:
        """Return what differs between two commits, by variable, column and file.

        By default: what the last step did, or what `new` did. Nothing is unpickled, and no frame
        is read.
        """
        return workspace_diff(self.state, old, new)

    def merge(self, other: str | Workspace) -> Merge:
        """Take in what another branch did: variables as values, frames by column, files.

        What both sides changed in different ways is a conflict: see `state.conflicts`.

        Raises:
            MergeConflict: one side has a file where the other has a folder. Nothing was merged.
        """
        name = other.state.name if isinstance(other, Workspace) else other
        self.restore()
        merged = self.state.merge(name)
        self._foreman.dismiss()
        try:
            self._premises.follow({})
        except Invalid as clash:
            (self.state.discard if merged.commit is None else self.state.undo)()
            hint = "rename one of the two, and merge again"
            raise MergeConflict(clash.message, paths=(), hint=hint) from None
        return merged

    def log(self, *, var: str | None = None, limit: int | None = None) -> Iterator[Commit]:
        """Yield the commits of this branch, or those that changed a variable, newest first."""
        if var is None:
            return self.state.log(limit=limit)
        return self.state.log(limit=limit, path=(WORKSPACE, "vars", var))

    def restore(self, *, strangers: UntrackedFiles = "refuse") -> Files:
        """Make work folder and state agree; a step does it before it runs.

        At first, the folder is made what the state says. Files that are in no commit are never
        removed: where the state has no files, or is as it was when it left this folder, they become
        part of the state, by a commit of their own; so do those that are put there later. In other
        cases `strangers` says what to do with them: "refuse", "adopt" or "discard".

        Raises:
            Invalid: there are such files, and nobody has said what to do with them.
        """
        self.state.refresh()  # another process may have gone back, or on
        return self._premises.settle(strangers)

    def close(self) -> None:
        """End all processes."""
        self._foreman.close()
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

    @property
    def _crew(self) -> WorkerPool | None:
        return self._foreman.crew


def _check_folder(path: Path, state: Branch) -> None:
    store = getattr(state.cells.objects.stored.store, "path", None)
    if isinstance(store, str) and path in Path(store).resolve().parents:
        raise Invalid(
            f"the store is inside of {path}, and cannot be part of itself",
            hint="choose a folder that does not hold it",
        )


def _not_taken(done: Done | None) -> str | None:
    """Return why variables that were given could not be set, or could not be kept."""
    if done is None:
        return None
    if done.failure is not None:
        return f"{done.failure.type}: {done.failure.message}"
    return next((f"{name}: {lost}" for name, lost in done.lost.items()), None)


def _title(code: str) -> str:
    lines = [line.strip() for line in code.splitlines() if line.strip()]
    return lines[0][:100] if lines else "nothing"
