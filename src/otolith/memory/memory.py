"""The working memory of an agent: goal, plan, notes and tool calls, as a view of a state.

Every change is staged like any edit of the state and committed with the rest. So whatever a state
can do, its memory can: it is read at an older commit, forked, rolled back and merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from otolith.core import MEMORY, Snapshot, StateReader
from otolith.errors import BadValue, KeyNotFound
from otolith.memory import relevance as ranking
from otolith.memory.notes import (
    HALF_LIFE_SECONDS,
    MAX_VERSIONS,
    Note,
    check_half_life,
    current_notes,
    is_number,
)
from otolith.memory.plan import STATUSES, PlanStep, StepLike, StepState, TaskState
from otolith.memory.relevance import NoteIndex, RecalledNote, Relevance, RelevantItems
from otolith.memory.storage import CALLS, DATA, GOAL, ID, NOTES, PLAN, STATUS, TASK, StoredMemory
from otolith.memory.tool_calls import ToolLog, ToolRecord
from otolith.shapes import check_argument
from otolith.state.base import clock_of
from otolith.text.lines import clip_line
from otolith.text.tokens import estimate_tokens
from otolith.types import Clock

_RECENT_CALLS = 20
"""How many of the last tool calls `relevant` considers."""


class Notes(Mapping[str, Note]):
    """The notes that are not forgotten, by key; each is read when it is asked for."""

    def __init__(self, state: StateReader) -> None:
        self._state = state
        self._store = StoredMemory(state)

    def __getitem__(self, key: str) -> Note:
        with self._state.lock:
            note = self._store.note(key) if key and isinstance(key, str) else None
        if note is None or note.is_forgotten:
            raise KeyNotFound(f"there is no note {key!r}", hint="see list(memory.notes)")
        return note

    def __iter__(self) -> Iterator[str]:
        return iter([note.key for note in self.all()])

    def __len__(self) -> int:
        return len(self.all())

    def __repr__(self) -> str:
        return f"<Notes {clip_line(', '.join(self), 120) or 'none'}>"

    def all(self) -> list[Note]:
        """Return the notes, in the order of their keys."""
        with self._state.lock:
            return [note for note in self._store.notes() if not note.is_forgotten]


class Memory:
    """What an agent works with: `state.memory`.

        memory = state.memory
        memory.note("airline", "Delta", importance=0.9)
        memory.recall("which airline?")[0].value         # "Delta"

    Every state has a memory, empty at first. `half_life_seconds` is the half-life of notes that
    have none themselves. `relevance` is a judge of your own for `recall`. `clock` is the clock of
    the repo by default; the memory of a snapshot uses the time of its commit.
    """

    def __init__(
        self,
        state: StateReader,
        *,
        clock: Clock | None = None,
        half_life_seconds: float = HALF_LIFE_SECONDS,
        relevance: Relevance | None = None,
    ) -> None:
        check_half_life(half_life_seconds)
        self.state = state
        self.half_life_seconds = half_life_seconds
        self._clock = clock_of(state) if clock is None else clock
        self._relevance = relevance
        self._store = StoredMemory(state)
        self._index = NoteIndex()

    def __repr__(self) -> str:
        task = self.task
        done, left = len(task.steps_done), len(task.steps_left)
        return (
            f"<Memory {clip_line(task.goal, 80)!r} {task.status}, {done} steps done, {left} left>"
        )

    def _now(self) -> int:
        if self._clock is not None:
            return self._clock()
        return self.state.commit.time if isinstance(self.state, Snapshot) else 0

    # Notes

    @property
    def notes(self) -> Notes:
        """The notes that are not forgotten, by key."""
        return Notes(self.state)

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
        """Write a note under a key; its former value becomes a version of it.

        `importance` is from 0 to 1; by default 0.5, or what it was before. A pinned note never
        fades, and stays pinned until `unpin` or `pinned=False`. `replaces` is the key of another
        note that this one contradicts: `recall` no longer returns it.

        Raises:
            BadValue: the value cannot be stored, or a number is out of range.
            KeyNotFound: there is no note `replaces`.
        """
        if type(key) is not str or not key:
            raise BadValue(f"the key of a note must be a text, got {key!r}", hint="use a word")
        given = {
            "importance": importance,
            "is_pinned": pinned,
            "half_life_seconds": half_life_seconds,
        }
        with self.state.lock:
            before = self._store.note(key) or Note(key, None, is_forgotten=True)
            now = max(self._now(), before.time)
            if before.is_forgotten:
                note = Note(key, value, source=source, time=now)
            else:
                is_same = self._store.equals(value, NOTES, key, "value")
                versions = (*(() if is_same else (before.as_version(),)), *before.versions)
                note = replace(
                    before,
                    value=value,
                    source=source,
                    time=now,
                    versions=versions[:MAX_VERSIONS],
                    replaced_by="",
                )
            fields: dict[str, Any] = {n: each for n, each in given.items() if each is not None}
            note = replace(note, **fields)
            if replaces:
                self._store.put_note(replace(self.notes[replaces], replaced_by=key))
            self._store.put_note(note)
        return note

    def use(self, *keys: str) -> None:
        """Record that notes helped: they fade from now on, and more slowly.

        Raises:
            KeyNotFound: there is no such note; then no note is changed.
        """
        with self.state.lock:
            for note in [self.notes[key] for key in keys]:
                used = max(self._now(), note.used)
                self._store.put_note(replace(note, uses=note.uses + 1, used=used))

    def pin(self, key: str) -> None:
        """Let a note never fade."""
        with self.state.lock:
            self._store.put_note(replace(self.notes[key], is_pinned=True))

    def unpin(self, key: str) -> None:
        """Let a note fade again, from now on."""
        with self.state.lock:
            note = self.notes[key]
            now = max(self._now(), note.used)
            self._store.put_note(replace(note, is_pinned=False, used=now))

    def forget(self, key: str) -> None:
        """Drop a note; the history of the state still has it.

        Raises:
            KeyNotFound: there is no such note.
        """
        with self.state.lock:
            now = max(self._now(), self.notes[key].time)
            self._store.put_note(Note(key, None, time=now, is_forgotten=True))

    def strength(self, key: str, *, now: int | None = None) -> float:
        """Return what is left of the importance of a note; `now` is in microseconds since 1970."""
        if now is not None and not is_number(now):
            raise BadValue(f"now must be a number, got {now!r}", hint="use microseconds since 1970")
        at = self._now() if now is None else now
        return self.notes[key].strength(at, half_life_seconds=self.half_life_seconds)

    def recall(self, query: str, k: int = 5) -> list[RecalledNote]:
        """Return the best `k` notes for a question, by relevance x strength.

        Recalling does not reinforce a note: call `use(key)` for those that helped. A question
        without content words ("what is it?") returns the strongest notes.

        Raises:
            BadValue: `k` is not a count, or the query not a text.
        """
        if not isinstance(query, str):
            raise BadValue(f"the query must be a text, got {query!r}", hint="ask in words")
        if type(k) is not int or k < 0:
            raise BadValue(f"k must be 0 or more, got {k!r}", hint="use a count")
        return self._ranked_notes(query)[:k]

    def _ranked_notes(self, query: str, *, with_pinned: bool = False) -> list[RecalledNote]:
        """Return the notes with a relevance above 0, and pinned ones if wanted, the best first."""
        notes = current_notes({note.key: note for note in self.notes.all()})
        if self._relevance is None:
            with self.state.lock:  # several threads may recall at once
                relevances = self._index.relevances(query, notes.values())
        else:
            relevances = {key: self._relevance(query, note) for key, note in notes.items()}
        now = self._now()
        found: list[RecalledNote] = []
        for key, note in notes.items():
            relevance = relevances[key]
            if relevance > 0 or (with_pinned and note.is_pinned):
                strength = note.strength(now, half_life_seconds=self.half_life_seconds)
                found.append(RecalledNote(note, relevance * strength, relevance, strength))
        return sorted(found, key=lambda each: (-each.score, -each.note.time, each.key))

    # The task

    @property
    def goal(self) -> str:
        """The goal of the task; empty if there is none. Assign to it to change it."""
        with self.state.lock:
            return self._store.value(GOAL) or ""

    @goal.setter
    def goal(self, text: str) -> None:
        if not isinstance(text, str):
            raise BadValue(f"the goal must be a text, got {text!r}", hint="say it in words")
        with self.state.lock:
            if text != self.goal:
                self._store.remove(TASK, STATUS)  # it belongs to the former task
            self._store.put(text, GOAL)

    def start(self, goal: str, *, id: str = "") -> None:
        """Begin another task: a goal, no plan, no data. Notes and tool calls stay."""
        with self.state.lock:
            self.goal = goal
            for part in (DATA, TASK):
                self._store.remove(part)
            if self._store.plan().steps:
                self._store.put({}, PLAN)  # an absent plan could not be merged with another
            if id:
                self._store.put(id, TASK, ID)

    def finish(self, status: str) -> None:
        """Record how the task ended, whatever the plan says: done, failed, cancelled …

        Raises:
            BadValue: the status is not one of the known ones.
        """
        if status not in STATUSES:
            raise BadValue(f"unknown status {status!r}", hint=f"use one of {', '.join(STATUSES)}")
        with self.state.lock:
            self._store.put(status, TASK, STATUS)

    @property
    def task(self) -> TaskState:
        """The current task: goal, status, steps and data."""
        with self.state.lock:
            goal, plan = self.goal, self._store.plan()
            stored = self._store.value(TASK) or {}
            data = self._store.value(DATA) or {}
        return TaskState(
            goal=goal,
            status=stored.get(STATUS) or plan.status(goal),
            steps_done=plan.done,
            steps_left=plan.left,
            current_step=plan.current,
            data=data,
            id=str(stored.get(ID) or getattr(self.state, "session", "")),
        )

    def gather(self, **data: Any) -> None:
        """Store data of the task by name; None removes a name."""
        with self.state.lock:
            for name, value in data.items():
                if value is None:
                    self._store.remove(DATA, name)
                else:
                    self._store.put(value, DATA, name)

    # The plan

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        """The steps of the plan, in order."""
        with self.state.lock:
            return self._store.plan().steps

    def plan(self, steps: Iterable[StepLike]) -> tuple[PlanStep, ...]:
        """Replace the steps that are left to do, and return all; settled steps stay in the plan.

        A step is a text, or a dict with `text` and `id`. A step that was planned before keeps its
        state. Ids are made from texts where none is given.

        Raises:
            BadValue: something is not a step, or two steps have one id.
        """
        if isinstance(steps, str):
            raise BadValue("a plan is a list of steps, not one text", hint=f"use [{steps!r}]")
        check_argument(steps, "steps", Iterable, "a list of steps", hint='use ["search", "book"]')
        with self.state.lock:
            plan = self._store.plan().replan(steps, self._now())
            self._store.put(plan.to_data(), PLAN)
            self._store.remove(TASK, STATUS)
        return plan.steps

    def begin(self, step: str | PlanStep) -> PlanStep:
        """Mark a step as active."""
        return self._set_step(step, StepState.ACTIVE, "")

    def done(self, step: str | PlanStep, result: str = "") -> PlanStep:
        """Mark a step as done, perhaps with its result.

        Raises:
            KeyNotFound: the plan has no such step.
        """
        return self._set_step(step, StepState.DONE, result)

    def fail(self, step: str | PlanStep, why: str = "") -> PlanStep:
        """Mark a step as failed."""
        return self._set_step(step, StepState.FAILED, why)

    def skip(self, step: str | PlanStep, why: str = "") -> PlanStep:
        """Mark a step as not needed."""
        return self._set_step(step, StepState.SKIPPED, why)

    def reopen(self, step: str | PlanStep) -> PlanStep:
        """Mark a settled step as pending again."""
        return self._set_step(step, StepState.PENDING, "")

    def pending(self) -> list[PlanStep]:
        """Return the steps that are left, the active one included."""
        return [step for step in self.steps if not step.state.is_settled]

    def _set_step(self, name: str | PlanStep, state: StepState, why: str) -> PlanStep:
        with self.state.lock:
            step = self._store.plan().find(name)
            changed = replace(step, state=state, why=why, time=max(self._now(), step.time))
            self._store.put(changed.to_data(), PLAN, step.id)
            if not state.is_settled:
                self._store.remove(TASK, STATUS)
        return changed

    # Tool calls

    @property
    def tool_calls(self) -> ToolLog:
        """The tool calls, the oldest first."""
        return ToolLog(self.state, (MEMORY, CALLS))

    def record(self, call: ToolRecord) -> ToolRecord:
        """Store a tool call and return it; one without a time gets the current time."""
        if not isinstance(call, ToolRecord):
            raise BadValue(
                f"record takes a ToolRecord, got {call!r}", hint="use memory.record(ToolRecord(…))"
            )
        return self.tool_calls.append(call, self._now())

    # All of it

    def relevant(
        self, decision: str, budget: int, *, count: Callable[[str], int] | None = None
    ) -> RelevantItems:
        """Return the notes, steps and tool calls that matter most for a decision, within a budget.

        The goal and the current step come first, then pinned notes, then notes, tool calls and
        the rest of the plan by their scores. `count` counts the tokens of a text; by default they
        are estimated.

        Raises:
            BadValue: the budget is not a count, or the decision not a text.
        """
        if not isinstance(decision, str):
            raise BadValue(
                f"the decision must be a text, got {decision!r}", hint="say what is decided"
            )
        with self.state.lock:
            task = self.task
            notes = self._ranked_notes(decision, with_pinned=True)
            calls = self.tool_calls[-_RECENT_CALLS:]
        items = [
            *ranking.task_items(task),
            *ranking.note_items(notes),
            *ranking.call_items(decision, calls),
        ]
        return ranking.choose(items, budget, count=count or estimate_tokens)

    def to_dict(self) -> dict[str, Any]:
        """Return the memory as plain data: goal, plan, done steps, notes and tool calls."""
        plan = self.steps
        return {
            "current_goal": self.goal,
            "plan_steps": [step.text for step in plan],
            "completed_steps": [step.text for step in plan if step.state is StepState.DONE],
            "notes": {note.key: note.value for note in self.notes.all()},
            "tool_calls": [call.to_data() for call in self.tool_calls],
        }
