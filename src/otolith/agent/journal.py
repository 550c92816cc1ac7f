"""Journal: the facts about a run that are committed at once, so that they survive a cut-off step.

These are the step in progress, the ledger of effects, the replies of models, and the forks of
sub-agents. Rules:

- They are written through a second handle on the same branch, which leaves alone what the step has
  staged on the first. The commit of the step merges both.
- One write at a time: a step may call tools from several threads. A write that fails, also by
  Ctrl-C, leaves nothing staged.
- A step is identified by its number, and by the commit and branch at which it began (`StepBase`).
  The first write of a step stores that. A process that finds another base for the same number, or
  another number, knows that the session was continued or rolled back elsewhere, and raises.

Layout of a run; `run_store.py` writes the parts that are committed with a step:

    .loop / runs / <name> / head       AgentState without messages and memory        run_store.py
                            memory     goal, plan, completed steps, notes            run_store.py
                            calls      finished tool calls, the oldest first         run_store.py
                            joins      branches of sub-agents that are to be merged  run_store.py
                            base       the step in progress: "<number> <commit> <ref>"
                            replies    answers of models: [step, number, request, model, reply]
                            asked_from how many replies are not to be used again
                            forks      branches of sub-agents: [step, name, branch]
                            given      the last step whose result was returned: see `agent.py`
                            untold     calls whose callers were told that their outcome is unknown:
                                       a digest of tool and arguments -> "<key> <key told>"
    .loop / ledger                     effects of all runs: see `ledger.py`
    .conversation / <name>             the messages of the run
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any, NamedTuple

from otolith.agent.history import FORKS, RUNS
from otolith.agent.ledger import LEDGER, LedgerEntry, call_key, entry_at, ledger_in
from otolith.agent.models.base import RecordedReply
from otolith.core import Attempt, Attempts, Path, StateReader
from otolith.errors import Conflict, Corrupt, MergeConflict
from otolith.frozen import thaw
from otolith.session import Versioned

HEAD = "head"
_BASE, _REPLIES, _RESULT_RETURNED = "base", "replies", "given"
_FIRST_USABLE_REPLY = "asked_from"
_UNTOLD = "untold"
_GIVEN_UP = "it was begun, and the step that began it was given up"
_NO_STEP = -1
_NOT_IN_BRANCH_NAME = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class StepBase:
    """The step in progress: its number, and the commit and the branch at which it began.

    A fork that was made in the middle of a step has the same base: effects of that step are not
    repeated on the fork.
    """

    iteration: int
    commit: str
    ref: str = ""

    def to_data(self) -> str:
        """Return it as stored: one text, because two different texts cannot be merged."""
        return f"{self.iteration} {self.commit} {self.ref}"

    @classmethod
    def of_task(cls, key: str, number: int) -> StepBase:
        """Return the base of a call in a task of a flow, which is not a step: it is not stored."""
        return cls(_NO_STEP, f"{key}/{number}")

    @classmethod
    def from_data(cls, stored: object) -> StepBase | None:
        """Return the base that `to_data` described; None if nothing was stored."""
        if not isinstance(stored, str):
            return None
        iteration, *rest = stored.split(" ", 2)
        if len(rest) != 2 or not (iteration.isascii() and iteration.isdigit()):
            why = f"{stored[:80]!r} is not a valid base of a step"
            raise Corrupt(why, hint="run otolith fsck")
        return cls(int(iteration[:20]), *rest)


class UntoldCall(NamedTuple):
    """A call that must not happen twice, whose caller was told that its outcome is unknown."""

    entry: LedgerEntry
    told_to: str
    """The key of the later call that was told the outcome; "" if none was."""


class Journal:
    """The part of a run in a state that is committed at once."""

    def __init__(self, state: Versioned, name: str) -> None:
        self._state = state
        self.name = name
        self.path: Path = (*RUNS, name)
        self.is_retry = False
        """Whether the step in progress was cut off before."""
        self.owner_id = ""
        """The owner of this run; see `owners.register_owner`."""
        self._handle = Versioned(
            state.repo, session=state.session, branch=state.name, scope=state.scope
        )
        self._lock = RLock()

    def __repr__(self) -> str:
        return f"<Journal {self.name} in {self._state.session}>"

    def now(self) -> int:
        """Return the time, in microseconds since 1970."""
        return self._state.repo.clock()

    # The step in progress

    def base(self, iteration: int) -> StepBase:
        """Return the base of the step of this number, as it was when any process began it."""
        with self._reading() as state:
            stored = self._stored_base(state)
        self.is_retry = stored is not None and stored.iteration == iteration
        if stored is not None and self.is_retry:
            return stored
        head = self._state.head
        return StepBase(iteration, "" if head is None else head.id, self._state.ref)

    def unused_iteration(self, iteration: int) -> int:
        """Return this number, or the next if a step of this number has begun and was abandoned.

        Replies, forks and keys of calls are found by the number of their step. The first step of a
        task therefore has a number that no step of an earlier task had.
        """
        with self._reading() as state:
            stored = self._stored_base(state)
        return iteration if stored is None else max(iteration, stored.iteration + 1)

    @property
    def last_base_commit(self) -> str:
        """The commit at which the last step began that wrote to the journal; "" if none did."""
        stored = self._stored_base(self._state)
        return "" if stored is None else stored.commit

    def key(self, base: StepBase, *parts: Any) -> str:
        """Return a key for something that a step does: the same each time the step runs."""
        return call_key(base.ref, self.name, base.commit, base.iteration, *parts, state=self._state)

    def record_event(
        self,
        kind: str,
        message: str,
        *,
        base: StepBase | None = None,
        forget_replies: bool = False,
        **data: Any,
    ) -> None:
        """Commit an event; with `forget_replies`, no reply so far is used again."""
        with self._writing(message, kind="note", base=base) as state:
            state.events.append(kind, agent=self.name, **data)
            if forget_replies:
                self._put(state, _FIRST_USABLE_REPLY, length_at(state, (*self.path, _REPLIES)))

    # The ledger

    def entry(self, key: str) -> LedgerEntry | None:
        """Return the ledger entry of a key."""
        with self._reading() as state:
            return entry_at(state, key)

    def entries(self) -> list[LedgerEntry]:
        """Return the whole ledger."""
        with self._reading() as state:
            return ledger_in(state)

    def unfinished_calls(self, base: StepBase) -> list[LedgerEntry]:
        """Return the calls of a step that were begun and have not ended."""
        wanted = ("begun", self.name, base.iteration)
        return [
            each for each in self.entries() if (each.status, each.run, each.iteration) == wanted
        ]

    def known_call(self, entry: LedgerEntry, base: StepBase) -> LedgerEntry | None:
        """Return what is known about a call; None if it was never begun.

        A call that must not happen twice may have been begun on another branch, or before an undo.
        Then the ledger of this branch takes over what the attempts of the session have.
        """
        stored = self.entry(entry.key)
        is_ended = stored is not None and stored.status not in ("begun", "unknown")
        if entry.effects != "once" or is_ended:
            return stored
        attempt = self._attempts(base).find(entry.key)
        if attempt is None:
            return stored
        if attempt.may_be_made_again:  # it was settled without the ledger: see `FlowRun.settle`
            self.write_entry(entry.key, None, base)
            return None
        found = replace(entry if stored is None else stored, **attempt._asdict())
        if found != stored:
            self._write_ledger(entry.key, found, base)
        return found

    def begin_call(self, entry: LedgerEntry, expected: LedgerEntry | None, base: StepBase) -> None:
        """Record that a call begins, if what is known about it is still the `expected` entry.

        Raises:
            Conflict: another process has begun it concurrently.
        """
        if entry.effects != "once":
            self._begin_in_ledger(entry, expected, base)
            return
        attempts = self._attempts(base)
        known = attempts.find(entry.key)
        is_expected = known is None or (expected is not None and known.by == expected.by)
        claim = Attempt("begun", entry.by, entry.time)
        if not is_expected or not attempts.swap(entry.key, known, claim):
            raise concurrent_run(self._state.session)
        try:
            self._begin_in_ledger(entry, expected, base)
        except BaseException:
            attempts.swap(entry.key, claim, known)  # nothing was called
            raise

    def write_entry(
        self,
        key: str,
        entry: LedgerEntry | None,
        base: StepBase | None = None,
        *,
        is_late: bool = False,
    ) -> None:
        """Record how a call ended; None if it did not happen, and may be begun again.

        A call that must not happen twice has ended on all branches. One whose outcome is unknown is
        noted, so that the same call is not made again before its caller is told the outcome.
        """
        if entry is None or entry.effects == "once":
            attempts = self._attempts(base)
            known, ended = attempts.find(key), None
            if entry is not None:
                result = thaw(entry.result)
                ended = Attempt(entry.status, entry.by, entry.time, result, entry.error)
            attempts.swap(key, known, ended)
        self._write_ledger(key, entry, base, is_late=is_late)

    def end_call(self, entry: LedgerEntry, base: StepBase | None = None) -> LedgerEntry:
        """Record the end of a call, unless another end is on record; return the one that is.

        A call that timed out may end at any moment, and the user may settle it: the thread of the
        call, and whoever waited for it, both record what they know. Without a base, it is the
        thread: then the state of the run is not moved, because its user may be reading it.
        """
        is_late = base is None
        with self._lock:
            stored = self.entry(entry.key)
            if stored is None or stored.status not in ("begun", "unknown"):
                return stored or entry
            if is_late or stored.status == "begun":
                self.write_entry(entry.key, entry, base, is_late=is_late)
                return entry
            return stored

    def give_up_calls(self, iteration: int) -> list[LedgerEntry]:
        """Record that the outcome of calls is unknown which a step began and will not repeat.

        Returns the entries. Until their outcome is known, the next task does not make them either.
        """
        found = [
            each.ended("unknown", error=_GIVEN_UP)
            for each in self.entries()
            if (each.status, each.effects) == ("begun", "once")
            and (each.run, each.iteration) == (self.name, iteration)
        ]
        for entry in found:
            self.write_entry(entry.key, entry)
        return found

    def untold_call(self, tool: str, arguments: Mapping[str, Any]) -> UntoldCall | None:
        """Return the call with these arguments whose caller does not know its outcome, if any."""
        with self._reading() as state:
            stored = value_at(state, self._untold_path(tool, arguments))
            if not isinstance(stored, str):
                return None
            key, _, told_to = stored.partition(" ")
            entry = entry_at(state, key)
            if entry is None:
                return None
            if entry.status == "unknown":  # it may have ended on a fork that was merged before
                attempt = self._attempts(None).find(key)
                if attempt is not None and attempt.status in ("done", "failed"):
                    entry = replace(entry, **attempt._asdict())
            return UntoldCall(entry, told_to)

    def mark_told(self, entry: LedgerEntry, told_to: str | None, base: StepBase) -> None:
        """Commit which call was told the outcome of an untold one; None if it may be repeated."""
        with self._writing(f"told about {entry.tool}", kind="effect", base=base) as state:
            text = None if told_to is None else f"{entry.key} {told_to}"
            cell = None if text is None else state.cells.put(text)
            state.write_reserved(self._untold_path(entry.tool, entry.arguments), cell)

    def _untold_path(self, tool: str, arguments: Mapping[str, Any]) -> Path:
        same = call_key(tool, thaw(arguments), state=self._state)
        return (*self.path, _UNTOLD, same)

    def _begin_in_ledger(
        self, entry: LedgerEntry, expected: LedgerEntry | None, base: StepBase
    ) -> None:
        with self._writing(f"begun {entry.tool}", kind="effect", base=base) as state:
            if entry_at(state, entry.key) != expected:
                raise concurrent_run(state.session)
            state.write_reserved((*LEDGER, entry.key), state.cells.put(entry.to_data()))

    def _write_ledger(
        self,
        key: str,
        entry: LedgerEntry | None,
        base: StepBase | None,
        *,
        is_late: bool = False,
    ) -> None:
        message = f"forget {key}" if entry is None else f"{entry.status} {entry.tool}"
        with self._writing(message, kind="effect", base=base, is_late=is_late) as state:
            cell = None if entry is None else state.cells.put(entry.to_data())
            state.write_reserved((*LEDGER, key), cell)
            if entry is not None and (entry.effects, entry.status) == ("once", "unknown"):
                path = self._untold_path(entry.tool, entry.arguments)
                state.write_reserved(path, state.cells.put(f"{key} "))

    def _attempts(self, base: StepBase | None) -> Attempts:
        """Return the attempts of the session in which a step began; a fork may be in another."""
        base = self._stored_base(self._state) if base is None else base
        return self._state.attempts("" if base is None else base.ref)

    # Replies of models

    def replies(self, iteration: int) -> list[RecordedReply]:
        """Return the recorded replies of a step that may be used again, in order."""
        found: list[RecordedReply] = []
        with self._reading() as state:
            first = value_at(state, (*self.path, _FIRST_USABLE_REPLY)) or 0
            for at, each in _backwards(state, (*self.path, _REPLIES)):
                reply = RecordedReply.from_data(each)
                if at < first or reply.iteration != iteration:
                    break
                found.append(reply)
        return found[::-1]

    def record_reply(self, reply: RecordedReply, base: StepBase) -> None:
        """Commit a reply of a model."""
        with self._writing(f"reply of {reply.model}", kind="model", base=base) as state:
            cell = state.cells.put(reply.to_data())
            state.extend_reserved((*self.path, _REPLIES), [cell])

    def cut_off_calls(self, iteration: int) -> set[str]:
        """Return the ids of tool calls in replies that were cut off, of this step and the last.

        A step may carry out the calls of the reply that the step before it has asked for.
        """
        found: set[str] = set()
        with self._reading() as state:
            for _, each in _backwards(state, (*self.path, _REPLIES)):
                recorded = RecordedReply.from_data(each)
                if recorded.iteration < iteration - 1:
                    break
                found |= recorded.reply.cut_off_calls
        return found

    # Sub-agents

    def fork(self, name: str, base: StepBase) -> tuple[str, str]:
        """Return the branch for a sub-agent in a step, and the commit or branch to fork it from.

        The branch is committed. On a fork of this run that was made in the middle of the step, the
        sub-agent continues from its branch on the other side.
        """
        names = ".".join(_NOT_IN_BRANCH_NAME.sub("-", each) for each in (self.name, name))
        key = self.key(base, "fork", name, self._state.ref)
        branch = f"{names}.{base.iteration}.{key[:8]}"
        known = self.forks(base.iteration).get(name)
        if branch != known:
            with self._writing(f"delegate to {name}", kind="note", base=base) as state:
                cell = state.cells.put([base.iteration, name, branch])
                state.extend_reserved((*self.path, FORKS), [cell])
        heads = self._state.repo.branches(self._state.session, scope=self._state.scope)
        return branch, known if known in heads else base.commit

    def forks(self, iteration: int) -> dict[str, str]:
        """Return the branches of the sub-agents of a step, by name."""
        found: dict[str, str] = {}
        with self._reading() as state:
            for _, (step, name, branch) in _backwards(state, (*self.path, FORKS)):
                if step != iteration:
                    break
                found.setdefault(name, branch)
        return found

    def subagent_names(self) -> list[str]:
        """Return the names of the sub-agents that any step of this run delegated to."""
        with self._reading() as state:
            return list(dict.fromkeys(each[1] for each in elements_at(state, (*self.path, FORKS))))

    # The result

    @property
    def is_result_returned(self) -> bool:
        """Whether the result of the last task was returned to its caller."""
        with self._reading() as state:
            stored: object = value_at(state, (*self.path, _RESULT_RETURNED))
            return bool(stored == head_value(state, self.path, "step_id", ""))

    def mark_result_returned(self) -> None:
        """Commit that the result of the last task was returned to its caller."""
        with self._writing(f"{self.name}: result returned", kind="note") as state:
            self._put(state, _RESULT_RETURNED, head_value(state, self.path, "step_id", ""))

    # The second handle

    @contextmanager
    def _reading(self) -> Iterator[Versioned]:
        """Return a context with a handle on the latest commit."""
        with self._lock:
            self._handle.refresh()
            yield self._handle

    @contextmanager
    def _writing(
        self, message: str, *, kind: str, base: StepBase | None = None, is_late: bool = False
    ) -> Iterator[Versioned]:
        """Return a context with a handle whose changes are committed at its end, or discarded.

        The state of the run moves to that commit, unless the write is late.
        """
        with self._reading() as state:
            try:
                yield state
                if base is not None:
                    self._store_base(base, state)
                state.commit(message, kind=kind, meta={"run": self.name})
            except BaseException as error:  # also Ctrl-C: it must not be part of the next commit
                state.discard()
                if isinstance(error, MergeConflict):
                    raise concurrent_run(state.session) from error
                raise
            if not is_late:
                self._state.refresh()  # if nothing is staged; else the commit of the step merges

    def _stored_base(self, state: Versioned) -> StepBase | None:
        return StepBase.from_data(value_at(state, (*self.path, _BASE)))

    def _store_base(self, base: StepBase, state: Versioned) -> None:
        if base.iteration == _NO_STEP:
            return
        stored = self._stored_base(state)
        is_other = stored is not None and stored.iteration == base.iteration and stored != base
        if is_other or head_value(state, self.path, "iteration", 0) != base.iteration:
            raise concurrent_run(state.session)
        if stored != base:
            self._put(state, _BASE, base.to_data())

    def _put(self, state: Versioned, part: str, value: Any) -> None:
        state.write_reserved((*self.path, part), state.cells.put(value))


def concurrent_run(session: str) -> Conflict:
    """Return the error for a session that another process changed concurrently."""
    return Conflict(
        f"another process runs session {session} at the same time, or has rolled it back",
        hint="let it end, and run it again",
    )


def value_at(state: StateReader, path: Path) -> Any:
    """Return the stored value at a path; None if there is none."""
    with state.lock:
        cell = state.cell_at(path)
        return None if cell is None else state.cells.load(cell)


def elements_at(state: StateReader, path: Path, start: int = 0) -> list[Any]:
    """Return the elements of a stored list from a position on; [] if there is no list."""
    with state.lock:
        cell, load = state.cell_at(path), state.cells.load
        return [] if cell is None else [load(each) for each in state.cells.elements(cell, start)]


def length_at(state: StateReader, path: Path) -> int:
    """Return the length of a stored list; 0 if there is none."""
    cell = state.cell_at(path)
    return 0 if cell is None else state.cells.length(cell)


def head_value(state: StateReader, run: Path, name: str, default: Any) -> Any:
    """Return a field of the stored head of a run, or the default if there is no run."""
    head = value_at(state, (*run, HEAD))
    return head.get(name, default) if isinstance(head, dict) else default


def _backwards(state: StateReader, path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the positions and elements of a stored list, the last first."""
    cells, cell = state.cells, state.cell_at(path)
    for at in reversed(range(0 if cell is None else cells.length(cell))):
        assert cell is not None
        yield at, cells.load(cells.element(cell, at))
