"""Memory: what an agent works with, as a view of a state that shares its commits.

Everything is staged like any edit and committed with the rest. Whatever a state can do, the memory
in it can: it is read as it was, forked, rolled back and merged.

A look at the memory of a state: where it is, and what time it is.

Notes: written, used, fading, recalled and forgotten.

The task and its plan: what is to be reached, by which steps, and how far they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from otolith.core import MEMORY, Snapshot, StateReader
from otolith.errors import BadValue, KeyNotFound
from otolith.memory import relevance as choosing
from otolith.memory.notes import (
    HALF_LIFE_SECONDS,
    MOST_VERSIONS,
    Note,
    Recalled,
    Relevance,
    Words,
    is_number,
    relevances,
)
from otolith.memory.plan import (
    STATUSES,
    Planned,
    Step,
    StepState,
    TaskState,
    current_of,
    found,
    replanned,
    status_of,
)
from otolith.memory.storage import CALLS, DATA, GOAL, ID, NOTES, PLAN, STATUS, TASK, Record
from otolith.memory.tool_calls import ToolLog, ToolRecord
from otolith.state.base import clock_of
from otolith.text import tokens
from otolith.types import Clock


class View:
    """A part of the memory of a state; of one that is only read, as late as its commit."""

    def __init__(self, state: StateReader, *, clock: Clock | None = None) -> None:
        self.state = state
        self._clock = clock_of(state) if clock is None else clock
        self._record = Record(state)

    def _now(self) -> int:
        if self._clock is not None:
            return self._clock()
        return self.state.commit.time if isinstance(self.state, Snapshot) else 0


class Notes(Mapping[str, Note]):
    """The notes that are not forgotten, by key; each is read when it is asked for."""

    def __init__(self, state: StateReader, record: Record) -> None:
        self._state = state
        self._record = record

    def __getitem__(self, key: str) -> Note:
        with self._state.turn():
            note = self._record.note(key) if key and isinstance(key, str) else None
        if note is None or note.is_forgotten:
            raise KeyNotFound(f"nothing is noted under {key!r}", hint="see list(memory.notes)")
        return note

    def __iter__(self) -> Iterator[str]:
        return iter([note.key for note in self.all()])

    def __len__(self) -> int:
        return len(self.all())

    def __repr__(self) -> str:
        return f"<Notes: {', '.join(self) or 'none'}>"

    def all(self) -> list[Note]:
        """Return the notes, in the order of their keys."""
        with self._state.turn():
            notes = [self._record.load_note(*each) for each in self._record.note_cells()]
        return [note for note in notes if not note.is_forgotten]


class Noting(View):
    """The part of a memory that is about notes."""

    def __init__(
        self,
        state: StateReader,
        *,
        clock: Clock | None = None,
        half_life_seconds: float = HALF_LIFE_SECONDS,
        relevance: Relevance | None = None,
    ) -> None:
        if not (is_number(half_life_seconds) and half_life_seconds > 0):
            raise BadValue(f"half_life_seconds={half_life_seconds!r}", hint="use a number above 0")
        super().__init__(state, clock=clock)
        self.half_life_seconds = half_life_seconds
        self._relevance = relevance
        self._words = Words()

    @property
    def notes(self) -> Notes:
        """What is noted, by key."""
        return Notes(self.state, self._record)

    def note(
        self,
        key: str,
        value: Any,
        importance: float | None = None,
        *,
        pinned: bool | None = None,
        source: str = "",
        half_life_seconds: float | None = None,
        replaces: str = "",
    ) -> Note:
        """Note something under a key; what was noted there before is linked from it.

        `importance` is from 0 to 1: 0.5, or what it was before. What is pinned never fades, and
        stays pinned until somebody says otherwise. `replaces` is the key of another note that this
        one contradicts: it is not recalled any more, and says what replaced it.

        Raises:
            BadValue: the value cannot be kept, or the importance is no such number.
            KeyNotFound: there is no note to be replaced.
        """
        if type(key) is not str or not key:
            raise BadValue(f"{key!r} is no key", hint="use a word")
        with self.state.turn():
            before = self._record.note(key) or Note(key, None, is_forgotten=True)
            now = max(self._now(), before.time)
            made = _after(before, value, source, now, is_same=self._says(key, value))
            given: dict[str, Any] = {
                "importance": importance,
                "is_pinned": pinned,
                "half_life_seconds": half_life_seconds,
            }
            made = replace(made, **{n: each for n, each in given.items() if each is not None})
            if replaces:
                self._record.keep_note(replace(self.notes[replaces], replaced_by=key, time=now))
            self._record.keep_note(made)
        return made

    def use(self, *keys: str) -> None:
        """Say that notes served: they fade from now on, and more slowly.

        Raises:
            KeyNotFound: nothing is noted there.
        """
        with self.state.turn():
            for note in [self.notes[key] for key in keys]:
                used = max(self._now(), note.used)
                self._record.keep_note(replace(note, uses=note.uses + 1, used=used))

    def pin(self, key: str) -> None:
        """Let a note never fade."""
        with self.state.turn():
            self._record.keep_note(replace(self.notes[key], is_pinned=True))

    def unpin(self, key: str) -> None:
        """Let a note fade again, from now on."""
        with self.state.turn():
            note = self.notes[key]
            now = max(self._now(), note.used)
            self._record.keep_note(replace(note, is_pinned=False, used=now))

    def forget(self, key: str) -> None:
        """Drop a note from the view; the history of the state still has it.

        Raises:
            KeyNotFound: nothing is noted there.
        """
        with self.state.turn():
            note = self.notes[key]
            now = max(self._now(), note.time)
            self._record.keep_note(Note(key, None, time=now, is_forgotten=True))

    def strength(self, key: str, *, now: int | None = None) -> float:
        """Return what is left of the importance of a note; `now` is in microseconds since 1970."""
        if now is not None and not is_number(now):
            raise BadValue(f"now={now!r}", hint="use microseconds since 1970")
        note = self.notes[key]
        return note.strength(self._now() if now is None else now, **self._half_life())

    def recall(self, query: str, k: int = 5) -> list[Recalled]:
        """Return the notes that answer a question, by relevance x strength.

        Nothing is reinforced by that: say `use(key)` for those that served. A question without a
        word of its own ("what is it?") asks for the strongest.

        Raises:
            BadValue: `k` is no count, or the query no text.
        """
        if not isinstance(query, str):
            raise BadValue(f"{query!r} is no question", hint="ask in words")
        if type(k) is not int or k < 0:
            raise BadValue(f"k={k!r}", hint="use a count")
        return self._ranked(query)[:k]

    def _ranked(self, query: str, *, with_pinned: bool = False) -> list[Recalled]:
        there = {note.key: note for note in self.notes.all()}
        notes = {key: note for key, note in there.items() if note.replaced_by not in there}
        if self._relevance is None:
            words = {key: self._words.of(note) for key, note in notes.items()}
            relevant = relevances(query, words)
        else:
            relevant = {key: self._relevance(query, note) for key, note in notes.items()}
        now = self._now()
        found = list[Recalled]()
        for key, note in notes.items():
            strength = note.strength(now, **self._half_life())
            if relevant[key] > 0 or (with_pinned and note.is_pinned):
                score = relevant[key] * strength
                found.append(Recalled(note, score, relevant[key], strength))
        return sorted(found, key=lambda each: (-each.score, -each.note.time, each.key))

    def _says(self, key: str, value: Any) -> bool:
        """Tell whether a note says this already, by what would be kept of both."""
        kept = self._record.cell(NOTES, key, "value")
        return kept is not None and self.state.cells.same(kept, self.state.cells.put(value))

    def _half_life(self) -> dict[str, float]:
        return {"half_life_seconds": self.half_life_seconds}


def _after(before: Note, value: Any, source: str, now: int, *, is_same: bool) -> Note:
    """Return a note that takes the place of another one, which may say the same."""
    if before.is_forgotten:
        return Note(before.key, value, source=source, time=now)
    versions = () if is_same else (before.as_version(),)
    return replace(
        before,
        value=value,
        source=source,
        time=now,
        versions=(*versions, *before.versions)[:MOST_VERSIONS],
        replaced_by="",
    )


class Planning(View):
    """The part of a memory that is about the task."""

    # The task

    @property
    def goal(self) -> str:
        """What is to be reached; empty if nobody said."""
        with self.state.turn():
            return self._record.value(GOAL) or ""

    @goal.setter
    def goal(self, text: str) -> None:
        if not isinstance(text, str):
            raise BadValue(f"{text!r} is no goal", hint="say it in words")
        with self.state.turn():
            if text != self.goal:
                self._record.remove(TASK, STATUS)  # how the other task ended
            self._record.put(text, GOAL)

    def start(self, goal: str, *, id: str = "") -> None:
        """Begin another task: a goal, no plan, no data. Notes and calls stay."""
        with self.state.turn():
            self.goal = goal
            for part in (DATA, TASK):
                self._record.remove(part)
            if self._record.steps():
                self._record.keep_steps(())  # no plan at all could not be merged with another
            if id:
                self._record.put(id, TASK, ID)

    def finish(self, status: str) -> None:
        """Say how the task ended, whatever the plan says: done, failed, cancelled …

        Raises:
            BadValue: there is no such status.
        """
        if status not in STATUSES:
            raise BadValue(f"{status!r} is no status", hint=f"use one of {', '.join(STATUSES)}")
        with self.state.turn():
            self._record.put(status, TASK, STATUS)

    @property
    def task(self) -> TaskState:
        """The task as it is now."""
        with self.state.turn():
            goal, steps = self.goal, self._record.steps()
            kept = self._record.value(TASK) or {}
            data = self._record.value(DATA) or {}
        return TaskState(
            goal=goal,
            status=kept.get(STATUS) or status_of(goal, steps),
            steps_done=tuple(step for step in steps if step.state is StepState.DONE),
            steps_left=tuple(step for step in steps if not step.state.is_settled),
            current_step=current_of(steps),
            data=data,
            id=str(kept.get(ID) or getattr(self.state, "session", "")),
        )

    def gather(self, **data: Any) -> None:
        """Keep what the task has found out, by name; None takes a name out."""
        with self.state.turn():
            for name, value in data.items():
                if value is None:
                    self._record.remove(DATA, name)
                else:
                    self._record.put(value, DATA, name)

    # The plan

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the plan, in order."""
        with self.state.turn():
            return self._record.steps()

    def plan(self, steps: Iterable[Planned]) -> tuple[Step, ...]:
        """Plan steps in place of those that are left; what is settled stays in the plan.

        A step is a text, or a dict with `text` and `id`. One that was planned before keeps its
        state. The ids of the others are made of their texts.

        Raises:
            BadValue: this is no step, or two have one id.
        """
        if isinstance(steps, str):
            raise BadValue("a plan is a list of steps, not one text", hint=f"use [{steps!r}]")
        with self.state.turn():
            planned = replanned(self._record.steps(), steps, self._now())
            self._record.keep_steps(planned)
            self._record.remove(TASK, STATUS)
        return planned

    def begin(self, step: str | Step) -> Step:
        """Say that a step is being worked on."""
        return self._move(step, StepState.ACTIVE, "")

    def done(self, step: str | Step, result: str = "") -> Step:
        """Say that a step is done, and perhaps what came of it.

        Raises:
            KeyNotFound: the plan has no such step.
        """
        return self._move(step, StepState.DONE, result)

    def fail(self, step: str | Step, why: str = "") -> Step:
        """Say that a step has failed."""
        return self._move(step, StepState.FAILED, why)

    def skip(self, step: str | Step, why: str = "") -> Step:
        """Say that a step is not needed."""
        return self._move(step, StepState.SKIPPED, why)

    def reopen(self, step: str | Step) -> Step:
        """Say that a step has to be done after all."""
        return self._move(step, StepState.PENDING, "")

    def pending(self) -> list[Step]:
        """Return the steps that are left, the one being worked on as well."""
        return [step for step in self.steps if not step.state.is_settled]

    def _move(self, name: str | Step, state: StepState, why: str) -> Step:
        with self.state.turn():
            step = found(self._record.steps(), name)
            moved = replace(step, state=state, why=why, time=max(self._now(), step.time))
            self._record.put(moved.to_data(), PLAN, step.id)
            if not state.is_settled:
                self._record.remove(TASK, STATUS)
        return moved


_RECENT_CALLS = 20


class Memory(Noting, Planning):
    """What an agent works with: `state.memory`.

    There is always one, if an empty one. `half_life_seconds` is how long it takes until half of a
    note is gone, for notes that do not say. `relevance` is a judge of your own for `recall`.
    Without a clock it is that of the repo, or the time of the commit that is looked at.
    """

    def __repr__(self) -> str:
        task = self.task
        done, left = len(task.steps_done), len(task.steps_left)
        return f"<Memory {task.goal!r} {task.status}: {done} done, {left} left>"

    def relevant(
        self, decision: str, budget: int, *, count: Callable[[str], int] | None = None
    ) -> choosing.Choice:
        """Return what fits into a budget of tokens of what matters for a decision.

        The goal and the step at hand come first, then pinned notes, then notes, calls of tools and
        the rest of the plan by their scores. `count` counts the tokens of a text; without one they
        are estimated.

        Raises:
            BadValue: the budget is no count, or the decision no text.
        """
        if not isinstance(decision, str):
            raise BadValue(f"{decision!r} is no decision", hint="say in words what is decided")
        with self.state.turn():
            task = self.task
            notes = choosing.note_items(self._ranked(decision, with_pinned=True))
            calls = choosing.call_items(decision, self.tool_calls[-_RECENT_CALLS:])
        items = [*choosing.task_items(task), *notes, *calls]
        return choosing.choose(items, budget, count=count or tokens.estimate_tokens)

    # Tools

    @property
    def tool_calls(self) -> ToolLog:
        """The calls of tools, the oldest first."""
        return ToolLog(self.state, (MEMORY, CALLS))

    def record(self, call: ToolRecord) -> ToolRecord:
        """Keep a call of a tool; one without a time gets the time it is."""
        if not isinstance(call, ToolRecord):
            raise BadValue(f"{call!r} is no ToolRecord", hint="use memory.record(ToolRecord(…))")
        return self.tool_calls.append(call, self._now())

    # All of it

    def to_dict(self) -> dict[str, Any]:
        """Return the memory as plain data: goal, plan, what is done, notes and calls."""
        steps = self.steps
        return {
            "current_goal": self.goal,
            "plan_steps": [step.text for step in steps],
            "completed_steps": [step.text for step in steps if step.state is StepState.DONE],
            "notes": {note.key: note.value for note in self.notes.all()},
            "tool_calls": [call.to_data() for call in self.tool_calls],
        }
