"""InWorker: what a job can do in the process of its worker, beside its arguments and its result.

    state     a handle on the branch of the run: what is changed lands with the result
    branch    a branch for what commits by itself, such as an agent: it is merged with the result
    once      a call with an effect on the world, at most once

Rules of branches
1. A branch is on record in the run (`storage.TaskBranch`) before it is made. So whoever takes the
   task over goes on with it, and what was done there is done.
2. An attempt that fails closes its branch, and nothing of it reaches the run: the next attempt gets
   a new one. A task that wants to go on where it was says so (`resumes`).
3. A fork of the run that has the record, but not the branch, starts from what the other side did.
4. Its head is merged in the commit that has the result. A conflict is a failed attempt.

Rules of effects
1. The attempt is on record, beside all branches, before the call begins; its owner lives as long as
   the call, also if nobody waits for it any more.
2. An exception says that it did not happen, so that it may be called again; all but a time-out,
   after which nobody knows.
3. What may have happened is never called again before somebody says that it did not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from otolith.core import Attempt, Attempts, Branch, Commit, digest, scope_ref, split_ref
from otolith.errors import (
    BadValue,
    Busy,
    Conflict,
    EffectUnknown,
    Invalid,
    KeyNotFound,
    MergeConflict,
    NotFound,
    RefExists,
    TimedOut,
)
from otolith.flows.jobs import TaskQuestion, error_text
from otolith.flows.storage import StoredFlow, TaskBranch
from otolith.owners import is_owner_alive, register_owner

_NOT_IN_BRANCH_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_NAME_LETTERS = 40


class InWorker:
    """What one job can do in the process of its worker."""

    def __init__(
        self,
        open: Callable[[str], Branch],
        attempts: Callable[[], Attempts],
        *,
        ref: str,
        run: str,
        task: str,
        key: str,
    ) -> None:
        """Make one; `open` opens a branch by its ref, and `ref` is that of the run."""
        self._open = open
        self._ref = ref
        self._attempts = attempts
        self._run = run
        self._task = task
        self._key = key
        self._own: Branch | None = None
        self.opened: Branch | None = None
        self.last_branch = ""
        """The branch of the last attempt that failed; "" if there was none."""
        self.resumes = False
        """Whether the next attempt goes on with the same branch if this one fails."""

    def __repr__(self) -> str:
        return f"<InWorker {self._run}/{self._task}>"

    @property
    def has_edits(self) -> bool:
        """Whether there is something to land beside the result."""
        return self._own is not None or (self.opened is not None and not self.opened.is_clean)

    def state(self) -> Branch:
        """Return the handle on the state that the task edits; it is opened when first asked for."""
        if self.opened is None:
            self.opened = self._open(self._ref)
            self.opened.hold_commits("it is committed with the result; task.branch() has commits")
        return self.opened

    def reopened(self) -> Branch:
        """Return another handle on the branch of the run, for what is committed at once."""
        return self._open(self._ref)

    # The branch

    def branch(self) -> Branch:
        """Return the branch of this task; it is made when first asked for."""
        if self._own is None:
            self._own = self._open_branch()
        return self._own

    def _open_branch(self) -> Branch:
        home = self._open(self._ref)
        stored = StoredFlow(home, self._run)

        def record(state: Branch) -> tuple[str, str]:
            known = {
                name: each
                for name, each in stored.branches()
                if (each.task, each.key) == (self._task, self._key)
            }
            closed = [name for name in known if known[name].is_closed]
            self.last_branch = max(closed, key=lambda name: known[name].number, default="")
            left = {name: each for name, each in known.items() if not each.is_closed}
            for name, each in left.items():
                if each.of == state.name:
                    return name, each.at
            assert state.head is not None
            parts = [state.ref, self._key, state.head.id, len(known)]
            short = digest(state.cells.encoding.encode(parts))[:4].hex()
            words = (_word(self._run), _word(self._task), short)
            made = TaskBranch(self._task, self._key, state.name, state.head.id, len(known))
            stored.put_branch(name := ".".join(("flow", *words)), made)
            return name, next(iter(left), made.at)

        name, start = home.transact(record, f"{self._run}: a branch for {self._task}")
        try:
            return self._forked(home, name, start)
        except RefExists:  # by an attempt whose process died
            return self._open(scope_ref(*split_ref(self._ref)[:2], name))

    @staticmethod
    def _forked(home: Branch, name: str, start: str) -> Branch:
        try:
            return home.fork(name, at=start)
        except NotFound:  # the branch on the other side of a fork was deleted
            return home.fork(name)

    def close_branch(self, stored: StoredFlow) -> None:
        """Stage that the next attempt gets another branch, unless it wants this one."""
        if self._own is not None and not self.resumes:
            found = stored.branch(self._own.name)
            if found is not None:
                stored.put_branch(self._own.name, found.closed())

    def commit_branch(self) -> Commit | None:
        """Commit what is staged on the branch of the task, and return its head."""
        if self._own is None:
            return None
        self._own.commit(f"{self._run}: {self._task}")
        self._own.refresh()
        return self._own.head

    @staticmethod
    def merge(state: Branch, commit: Commit) -> None:
        """Stage what a branch has changed.

        Raises:
            MergeConflict: others have changed the same in another way since.
        """
        paths = tuple(each.path for each in state.stage_merge(commit))
        if paths:
            raise MergeConflict(
                f"others have changed {', '.join(paths[:5])} since",
                paths=paths,
                hint="the next attempt begins on what they did",
            )

    # Effects

    def once(
        self, key: str, act: Callable[[], Any], *, name: str, asks: Callable[[str], Any] | None
    ) -> Any:
        """Call a function at most once; see `TaskContext.once`."""
        attempts = self._attempts()
        with register_owner() as owner:
            claim = Attempt("begun", by=owner)
            while True:
                found = self._found_out(attempts, key, name, asks)
                if found is not None and found.status == "done":
                    return found.result
                if attempts.swap(key, found, claim):
                    return self._act(attempts, key, claim, act)

    @staticmethod
    def _act(attempts: Attempts, key: str, claim: Attempt, act: Callable[[], Any]) -> Any:
        """Call a function whose attempt was begun, and record how it ended."""
        try:
            result = act()
        except TaskQuestion:  # it asks a person before it acts
            attempts.swap(key, claim, None)
            raise
        except (TimedOut, TimeoutError) as error:
            why = f"it timed out: {error_text(error)}"
            attempts.swap(key, claim, claim.ended("unknown", error=why))
            raise
        except Exception as error:
            attempts.swap(key, claim, claim.ended("failed", error=error_text(error)))
            raise
        try:
            attempts.swap(key, claim, claim.ended("done", result=result))
        except (BadValue, RecursionError):
            why = "it has happened, and its result cannot be stored"
            attempts.swap(key, claim, claim.ended("unknown", error=why))
            raise
        return result

    @staticmethod
    def _found_out(
        attempts: Attempts, key: str, name: str, asks: Callable[[str], Any] | None
    ) -> Attempt | None:
        """Return the last attempt, with its end if that was unknown and `asks` knows it.

        Raises:
            EffectUnknown: nobody knows whether it happened.
        """
        found = attempts.find(key)
        if found is None or found.status not in ("begun", "unknown"):
            return found
        if found.status == "begun" and is_owner_alive(found.by):
            raise unknown_effect(key, name, "it is still in the middle of it")
        if asks is None:
            why = found.error or "the process that began it has died"
            raise unknown_effect(key, name, why)
        answer = asks(key)
        if answer is None:
            return found
        ended = found.ended("done", result=answer)
        attempts.swap(key, found, ended)
        return ended


def settle_effect(attempts: Attempts, key: str, *, happened: bool, result: object) -> None:
    """Decide whether an effect has happened whose outcome is unknown.

    Raises:
        KeyNotFound: nothing was begun under this key.
        Invalid: its outcome is known.
        Busy: a process is in the middle of it.
    """
    found = attempts.find(key)
    if found is None:
        raise KeyNotFound(f"nothing was begun under the key {key!r}", hint="see the error")
    if found.status not in ("begun", "unknown"):
        raise Invalid(f"its outcome is known: {found.status}", hint="nothing is left to decide")
    if found.status == "begun" and is_owner_alive(found.by):
        raise Busy("a process is in the middle of it", hint="let it end; settle it if it dies")
    if not attempts.swap(key, found, found.settled(happened=happened, result=result)):
        raise Conflict(f"the outcome of {key!r} has just changed", hint="look again")


def unknown_effect(key: str, name: str, why: str) -> EffectUnknown:
    """Return the error for an effect of which nobody knows whether it happened."""
    return EffectUnknown(
        f"{name} was begun, and may have happened: {why}",
        key=key,
        hint=f"find out, then run.settle({key!r}, happened=True or False); or give asks=",
    )


def _word(text: str) -> str:
    return _NOT_IN_BRANCH_NAME.sub("-", text)[:_NAME_LETTERS]
