"""Transactions: functions that read, decide and write as one, and what is known of the last one.

Rule 1: a commit without a reply is asked for again, and sent again, by the branch that holds its
edits, until the store answers or patience is over. It swaps the head that the function has read, so
however often it is sent, it lands once.
Rule 2: a transaction whose outcome stays unknown is *unanswered*. The next one on the same handle
finds out first. If it is the same function, it is that transaction: what has landed is not run
again.
Rule 3: nobody guesses. A function with the code of an unanswered one, and perhaps with other
values, may be a repetition or another transaction: if the first has landed, the caller is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import iscoroutinefunction
from itertools import chain
from math import isfinite
from types import CodeType, EllipsisType
from typing import Any, Generic, Protocol, TypeVar

from otolith.core.backend import Backend
from otolith.core.committer import Committer
from otolith.core.history.commits import Commit
from otolith.core.stage import Stage
from otolith.errors import (
    AlreadyCommitted,
    Contention,
    Invalid,
    MergeConflict,
    StaleRef,
    Unavailable,
)
from otolith.stores import turn_at

R = TypeVar("R")

PATIENCE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Transaction(Generic[R]):
    """A function that was called with a state, its result, and the head that it depends on.

    `head` is `...` if its edits depend on nothing that it has read.
    """

    edit: Callable[..., R]
    result: R
    head: Commit | EllipsisType | None

    def is_same(self, edit: Callable[..., object]) -> bool:
        """Tell whether a function is the one that was called."""
        return self.edit == edit

    def may_be(self, edit: Callable[..., object]) -> bool:
        """Tell whether a function has the same code: a lambda that was made again, a `partial`."""
        return _code(self.edit) == _code(edit)

    def unanswered(self, ref: str, commit: Commit, error: Unavailable) -> Unavailable:
        """Return the error for a transaction of which nobody knows whether it has landed."""
        return Unavailable(
            f"{ref}: commit {commit.short} of this transaction got no reply, and the store has not"
            f" come back since: nobody knows whether it has landed ({error.message})",
            hint="call transact with the same function again, or commit(): both find out first, and"
            " it counts once; discard() gives it up, landed or not",
        )

    def landed(self, ref: str, commit: Commit) -> AlreadyCommitted:
        """Return the error for a call that may repeat what has landed."""
        return AlreadyCommitted(
            f"{ref}: the transaction before this one got no reply, and has landed as commit"
            f" {commit.short}; this call was not run, for it may be the same",
            commit=commit.id,
            hint="if it repeats the one before, it is done; if not, call it again",
        )


class EditableState(Protocol):
    """What a transaction needs of its branch."""

    @property
    def head(self) -> Commit | None:
        """The commit that it stands on."""
        ...

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing to commit, also of what changed in place."""
        ...

    def discard(self) -> None:
        """Drop all staged edits."""

    def refresh(self) -> Commit | None:
        """Move to the current head."""


class Transactions:
    """Lands the transactions of a branch, and remembers the one that is unanswered."""

    def __init__(self, backend: Backend, committer: Committer, stage: Stage, ref: str) -> None:
        self._backend = backend
        self._committer = committer
        self._stage = stage
        self._ref = ref
        self._unanswered: tuple[Transaction[Any], Commit] | None = None

    def until_landed(
        self,
        state: EditableState,
        run: Callable[[Commit | None], Transaction[R]],
        commit: Callable[..., Commit],
        attempts: int,
        patience_seconds: float,
        *,
        look_first: bool = True,
    ) -> R:
        """Run a transaction on the current head until it lands, in turn with other writers.

        Without a look first, it is run on the head that is known. Whether that is the current one
        is found out by what is written; by a look, if it raises (its other reads may be outdated).

        Raises:
            Contention: others were faster as many times as there are `attempts`.
        """
        with turn_at(self._backend.store, self._ref) as turn:
            for attempt in range(attempts):
                if attempt:
                    turn.wait()
                is_current = look_first or attempt > 0
                run_here = partial(run, state.refresh() if is_current else state.head)
                landed = self._attempt(
                    state, run_here, commit, patience_seconds, is_current=is_current
                )
                if landed is not None:
                    return landed.result
        raise Contention(
            f"{self._ref} moved {attempts} times while this transaction tried to land",
            hint="try again; nothing was written",
        )

    def _attempt(
        self,
        state: EditableState,
        run: Callable[[], Transaction[R]],
        commit: Callable[..., Commit],
        patience_seconds: float,
        *,
        is_current: bool,
    ) -> Transaction[R] | None:
        """Run a transaction and land it; None if another writer was faster.

        If it fails, what it has staged is discarded, unless it may have landed.
        """
        try:
            transaction = run()
        except BaseException as error:
            state.discard()
            if is_current or not isinstance(error, Exception) or not _has_moved(state):
                raise
            return None
        try:
            self.land(transaction, commit, patience_seconds)
        except (StaleRef, MergeConflict) as lost:
            state.discard()
            if getattr(lost, "name", self._ref) != self._ref:
                raise
            return None
        except BaseException:
            if self._committer.in_doubt is None:
                state.discard()
            raise
        return transaction

    def land(
        self, transaction: Transaction[Any], commit: Callable[..., Commit], patience_seconds: float
    ) -> None:
        """Commit what a transaction did; wait for a store that does not answer (rule 1).

        Raises:
            StaleRef: it has not landed, because another writer was faster.
            Unavailable: nobody knows whether it has landed.
        """
        self._unanswered = None
        send = partial(commit, expect=transaction.head)
        try:
            self._ask_until_answered(send, transaction, patience_seconds)
        except BaseException:
            if self._committer.in_doubt is not None:
                self._unanswered = transaction, self._committer.in_doubt
            raise

    def settle(
        self,
        state: EditableState,
        edit: Callable[..., R],
        commit: Callable[..., Commit],
        patience_seconds: float,
    ) -> Transaction[R] | None:
        """Find out about the unanswered transaction; return it if this call repeats it (rule 2).

        None means that it has not landed, that this is another one, or that more is staged.

        Raises:
            AlreadyCommitted: it has landed, and this function may repeat it (rule 3).
            Unavailable: it is still not known.
        """
        if self._unanswered is None or state.is_clean:
            return None
        before, commit_in_doubt = self._unanswered
        if not self._committer.is_doubted(commit_in_doubt, self._stage.root()):
            return None
        if before.is_same(edit):
            try:
                self.land(before, commit, patience_seconds)
            except StaleRef:
                state.discard()
                return None
            return before
        find_out, known = self._committer.settle_doubts, self._committer.head
        self._ask_until_answered(find_out, before, patience_seconds)
        head = self._committer.head
        state.discard()
        if head is not None and head is not known and before.may_be(edit):
            raise before.landed(self._ref, head)
        return None

    def _ask_until_answered(
        self, ask: Callable[[], object], transaction: Transaction[Any], patience_seconds: float
    ) -> None:
        """Ask a store; again, while there is no answer and a commit may have landed."""
        failure: Unavailable | None = None
        for _ in chain([None], self._backend.pauses(patience_seconds)):
            try:
                ask()
            except Unavailable as error:
                if self._committer.in_doubt is None:
                    raise
                failure = error
            else:
                return
        commit = self._committer.in_doubt
        assert commit is not None
        assert failure is not None
        raise transaction.unanswered(self._ref, commit, failure) from failure


def _has_moved(state: EditableState) -> bool:
    """Move to the current head; return whether that is another one than was known."""
    known = state.head
    return state.refresh() != known


def check_transaction(
    edit: object, attempts: object, patience_seconds: object, if_moved: object
) -> None:
    """Refuse arguments of `transact` that make no sense."""
    if if_moved not in ("rerun", "merge"):
        raise Invalid(
            f"transact: if_moved must be 'rerun' or 'merge', got {if_moved!r}",
            hint="give 'merge' for edits that do not depend on what was read",
        )
    if iscoroutinefunction(edit):
        raise Invalid(
            "transact: edit must be a plain function, got a coroutine function",
            hint="await what it needs first, and pass a function that only edits",
        )
    if not callable(edit):
        raise Invalid(
            f"transact: edit must be a function, got {type(edit).__name__}",
            hint='lambda state: state.update(plan="B")',
        )
    if type(attempts) is not int or attempts < 1:
        raise Invalid(
            f"transact: attempts must be an int, at least 1, got {attempts!r}",
            hint="attempts=1 tries once; 1000 is the default",
        )
    is_number = isinstance(patience_seconds, int | float) and isfinite(patience_seconds)
    if not is_number or not patience_seconds >= 0:  # type: ignore[operator]
        raise Invalid(
            f"transact: patience_seconds must be 0 or more, got {patience_seconds!r}",
            hint=f"0 does not wait for a store that is away; {PATIENCE_SECONDS:g} is the default",
        )


def _code(edit: Any) -> CodeType | type:
    """Return the code of a function, or the class of another object that can be called."""
    while isinstance(edit, partial):
        edit = edit.func
    code: CodeType | type = getattr(edit, "__code__", type(edit))
    return code
