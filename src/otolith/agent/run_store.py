"""What must be known of a run even if its step is cut off: it is committed at once.

The base of the step, the ledger, what models answered, the forks of sub-agents. They are written
through a handle of their own, which leaves alone what the step has staged so far, and one at a
time: a step may call tools from several threads. See `record.py` for where they are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import Any

from otolith.agent.loop.ledger import LEDGER, Entry, entry_at, key_of, ledger_in
from otolith.agent.loop.looking import MAIN, value_at
from otolith.agent.loop.models.model import Recorded
from otolith.agent.session import Versioned
from otolith.core import LOOP, Path
from otolith.errors import Conflict, Invalid, MergeConflict

_NO_BRANCH = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Base:
    """The step that is under way: its number, and the commit and the branch that it began at.

    On a fork that was made in the middle of a step, it is still that step: what it has done to the
    world is not done again.
    """

    iteration: int
    commit: str
    ref: str = ""

    def to_data(self) -> str:
        """Return what is kept of it: one text, for two that differ cannot be merged."""
        return f"{self.iteration} {self.commit} {self.ref}"

    @classmethod
    def from_data(cls, kept: object) -> Base | None:
        """Return what `to_data` gave; None if nothing was kept."""
        if not isinstance(kept, str):
            return None
        iteration, commit, ref = kept.split(" ", 2)
        return cls(int(iteration), commit, ref)


class Journal:
    """The run of one name in a state, as far as it is written at once."""

    def __init__(self, state: Versioned, name: str = MAIN) -> None:
        """Find the run of this name in a state, or a place for it."""
        if not name or "/" in name:
            raise Invalid(f"{name!r} cannot name a run", hint="use a word")
        self.state = state
        self.name = name
        self.session = state.session
        self.path: Path = (LOOP, "runs", name)
        self.is_again = False
        """Whether the step that is under way was cut off before."""
        self._handle = Versioned(
            state.repo, session=state.session, branch=state.name, scope=state.scope
        )
        self._one_at_a_time = RLock()

    # The step

    def base(self, iteration: int) -> Base:
        """Return the step that is under way, as it was when it began, in whichever process."""
        with self._reading() as journal:
            kept = self._base(journal)
        self.is_again = kept is not None and kept.iteration == iteration
        if kept is not None and self.is_again:
            return kept
        head = self.state.head
        return Base(iteration, "" if head is None else head.id, self.state.ref)

    @property
    def began_at(self) -> str:
        """The commit at which the last step began that wrote anything here; "" if none did."""
        kept = self._base(self.state)
        return "" if kept is None else kept.commit

    def key(self, base: Base, *parts: Any) -> str:
        """Return a name for a call in a step."""
        return key_of(base.ref, self.name, base.commit, base.iteration, *parts, state=self.state)

    def note(
        self,
        kind: str,
        message: str,
        *,
        base: Base | None = None,
        asks_again: bool = False,
        **data: Any,
    ) -> None:
        """Commit that something happened; with `asks_again`, that no reply so far is used again."""
        with self._writing(message, kind="note", base=base) as journal:
            journal.events.append(kind, agent=self.name, **data)
            if asks_again:
                count = journal.cells.put(self._length("replies", journal))
                journal.write_reserved((*self.path, "asked_from"), count)

    # The ledger

    def entry(self, key: str) -> Entry | None:
        """Return what the ledger has under a key."""
        with self._reading() as journal:
            return entry_at(journal, key)

    def entries(self) -> list[Entry]:
        """Return the whole ledger."""
        with self._reading() as journal:
            return ledger_in(journal)

    def begun(self, base: Base) -> list[Entry]:
        """Return the calls of a step that were begun and have not ended."""
        return [
            entry
            for entry in self.entries()
            if (entry.status, entry.run, entry.iteration) == ("begun", self.name, base.iteration)
        ]

    def begin(self, entry: Entry, was: Entry | None, base: Base) -> None:
        """Commit that a call begins; `was` is what the ledger had when that was decided.

        Raises:
            Conflict: another process has begun it meanwhile.
        """
        with self._writing(f"begun {entry.tool}", kind="effect", base=base) as journal:
            if entry_at(journal, entry.key) != was:
                raise self._elsewhere()
            journal.write_reserved((*LEDGER, entry.key), journal.cells.put(entry.to_data()))

    def write(self, key: str, entry: Entry | None, base: Base | None = None) -> None:
        """Commit an entry of the ledger, or that there is none any more."""
        did = f"forget {key}" if entry is None else f"{entry.status} {entry.tool}"
        with self._writing(did, kind="effect", base=base) as journal:
            cell = None if entry is None else journal.cells.put(entry.to_data())
            journal.write_reserved((*LEDGER, key), cell)

    # Models

    def replies(self, iteration: int) -> list[Recorded]:
        """Return what models have answered in a step, in their order."""
        found: list[Recorded] = []
        with self._reading() as journal:
            used = value_at(journal, (*self.path, "asked_from")) or 0
            for at, each in self._backwards("replies"):
                recorded = Recorded.from_data(each)
                if at < used or recorded.iteration != iteration:
                    break
                found.append(recorded)
        return found[::-1]

    def record(self, reply: Recorded, base: Base) -> None:
        """Commit what a model answered."""
        with self._writing(f"reply of {reply.model}", kind="model", base=base) as journal:
            cell = journal.cells.put(reply.to_data())
            journal.extend_reserved((*self.path, "replies"), [cell])

    # Sub-agents

    def fork(self, name: str, base: Base) -> tuple[str, str]:
        """Return the branch on which a sub-agent works in a step, and what it is forked from.

        That there is one is committed. On a fork of this run that was made in the middle of the
        step, the sub-agent goes on from where it was on the other branch.
        """
        names = f"{_NO_BRANCH.sub('-', self.name)}.{_NO_BRANCH.sub('-', name)}"
        branch = f"{names}.{base.iteration}.{self.key(base, 'fork', name, self.state.ref)[:8]}"
        known = self.forks(base.iteration).get(name)
        if branch != known:
            with self._writing(f"delegate to {name}", kind="note", base=base) as journal:
                cell = journal.cells.put([base.iteration, name, branch])
                journal.extend_reserved((*self.path, "forks"), [cell])
        heads = self.state.repo.branches(self.session, scope=self.state.scope)
        return branch, known if known in heads else base.commit

    def forks(self, iteration: int) -> dict[str, str]:
        """Return the branches of the sub-agents of a step, by their names."""
        found: dict[str, str] = {}
        with self._reading():
            for _, (step, name, branch) in self._backwards("forks"):
                if step != iteration:
                    break
                found.setdefault(name, branch)
        return found

    # What was handed over

    @property
    def is_handed_over(self) -> bool:
        """Whether whoever asked for the last task was given what came of it."""
        with self._reading() as journal:
            given: object = value_at(journal, (*self.path, "given"))
            return given == self._last_step(journal)

    def hand_over(self) -> None:
        """Commit that the result of the last task is given to whoever asked for it."""
        with self._writing(f"{self.name} is handed over", kind="note") as journal:
            cell = journal.cells.put(self._last_step(journal))
            journal.write_reserved((*self.path, "given"), cell)

    def _last_step(self, state: Versioned) -> str:
        head = value_at(state, (*self.path, "head"))
        return str(head.get("step_id", "")) if isinstance(head, dict) else ""

    # Small things

    @contextmanager
    def _reading(self) -> Iterator[Versioned]:
        """Give what is committed by now."""
        with self._one_at_a_time:
            self._handle.refresh()
            yield self._handle

    @contextmanager
    def _writing(self, message: str, *, kind: str, base: Base | None = None) -> Iterator[Versioned]:
        """Give what is to be committed at once its place; if that fails, nothing of it stays."""
        with self._reading() as journal:
            try:
                yield journal
                if base is not None:
                    self._put_base(base, journal)
                journal.commit(message, kind=kind, meta={"run": self.name})
            except BaseException as error:  # Ctrl-C too: it must not be part of what comes next
                journal.discard()
                if isinstance(error, MergeConflict):
                    raise self._elsewhere() from error
                raise
            self.state.refresh()  # if nothing is staged; else the step's commit joins the two

    def _base(self, state: Versioned) -> Base | None:
        return Base.from_data(value_at(state, (*self.path, "base")))

    def _put_base(self, base: Base, journal: Versioned) -> None:
        kept = self._base(journal)
        is_other = kept is not None and kept.iteration == base.iteration and kept != base
        if is_other or iteration_at(journal, self.path) != base.iteration:
            raise self._elsewhere()
        if kept != base:
            journal.write_reserved((*self.path, "base"), journal.cells.put(base.to_data()))

    def _elsewhere(self) -> Conflict:
        return Conflict(
            f"another process runs session {self.session} at the same time, or has rolled it back",
            hint="let it end, and run it again",
        )

    def _length(self, part: str, state: Versioned) -> int:
        cell = state.cell_at((*self.path, part))
        return 0 if cell is None else state.cells.length(cell)

    def _backwards(self, part: str) -> Iterator[tuple[int, Any]]:
        cells, cell = self._handle.cells, self._handle.cell_at((*self.path, part))
        for at in reversed(range(0 if cell is None else cells.length(cell))):
            assert cell is not None
            yield at, cells.load(cells.element(cell, at))


def iteration_at(state: Versioned, path: Path) -> int:
    """Return how many steps of a run are behind it."""
    head = value_at(state, (*path, "head"))
    return int(head.get("iteration", 0)) if isinstance(head, dict) else 0
