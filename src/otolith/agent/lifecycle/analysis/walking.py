"""Walking: a Hypothesis machine that walks through a chart at random and checks what must hold.

Between any two steps it may send the snapshot through JSON, keep it as a branch, or go back to one
that was kept. All of it is the same run: a step gives the same from the snapshot and from its copy,
what was kept does not change, and active states fit together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, ClassVar

from otolith.agent.lifecycle.analysis.scripts import SECOND, Item, cues_of
from otolith.agent.lifecycle.analysis.surroundings import Alphabet, Move
from otolith.agent.lifecycle.model import Model
from otolith.agent.lifecycle.snapshot import Event, Snapshot
from otolith.agent.lifecycle.stepping import Step, advance, start, step
from otolith.errors import IllegalTransition, MissingExtra, StepFailed

MOST_KEPT = 8


class Walk:
    """One walk: the snapshot it is at, and those that were kept with how they looked then."""

    model: ClassVar[Model]
    start_data: ClassVar[Mapping[str, Any] | None] = None
    alphabet: ClassVar[Alphabet]

    def __init__(self) -> None:
        super().__init__()
        self.snapshot: Snapshot = start(self.model, self.start_data, session="walk").snapshot
        self.script: list[Item] = []
        """What was done since the start, so that a failure can be replayed."""
        self.kept: list[tuple[Snapshot, str, list[Item]]] = []
        self.keep()

    # ------------------------------------------------------------ what a walk does

    def moves(self) -> list[Move]:
        return list(self.alphabet.moves(self.model, self.snapshot).values())

    def send(self, which: int) -> None:
        """Send one of the events that active states name; one that is refused changes nothing."""
        moves = self.moves()
        if not moves:
            return
        move = moves[which % len(moves)]
        event = Event(move.event, move.data)
        before = _text(self.snapshot)
        try:
            found = step(self.model, self.snapshot, event, is_strict=True)
        except (IllegalTransition, StepFailed):
            assert _text(self.snapshot) == before, f"{event.name} was refused, and left a mark"
            return
        again = step(self.model, _copied(self.snapshot), event, is_strict=True)
        self._arrive(found, again, move.event if move.data is None else (move.event, move.data))

    def wait(self, seconds: int) -> None:
        """Let time pass; with 0, until the next timer is due."""
        due = self.snapshot.next_due
        now = self.snapshot.time + seconds * SECOND
        if not seconds:
            if due is None:
                return
            now = max(due, self.snapshot.time)
        passed = (now - self.snapshot.time) / SECOND
        try:
            found = advance(self.model, self.snapshot, now)
        except StepFailed:
            return
        self._arrive(found, advance(self.model, _copied(self.snapshot), now), ("after", passed))

    def store(self) -> None:
        """Go on with a copy that went through JSON."""
        copy = _copied(self.snapshot)
        assert copy == self.snapshot, "a snapshot is not the same after JSON"
        self.snapshot = copy

    def keep(self) -> None:
        """Keep the snapshot, as a branch does."""
        self.kept = self.kept[-MOST_KEPT + 1 :]
        self.kept.append((self.snapshot, _text(self.snapshot), list(self.script)))

    def go_back(self, which: int) -> None:
        """Go on from a snapshot that was kept."""
        self.snapshot, _, script = self.kept[which % len(self.kept)]
        self.script = list(script)

    # ------------------------------------------------------------ what must hold

    def active_states_fit_together(self) -> None:
        model = self.model
        mask = model.mask_of(self.snapshot.configuration)  # raises if they do not
        assert model.leaves_of(mask) == self.snapshot.configuration

    def kept_snapshots_do_not_change(self) -> None:
        for snapshot, text, _ in self.kept:
            assert _text(snapshot) == text, "a snapshot that was kept has changed"

    def _arrive(self, found: Step, again: Step, item: Item) -> None:
        assert found == again, "a step from the snapshot and from its copy are not the same"
        assert found.snapshot.time >= self.snapshot.time, "time went back"
        self.snapshot = found.snapshot
        self.script.append(item)


def machine_of(
    model: Model,
    *,
    events: Iterable[Item] | None = None,
    data: Mapping[str, Any] | None = None,
) -> type[Any]:
    """Return a `RuleBasedStateMachine` for a chart; its `TestCase` is what pytest runs.

    Subclass it to add an `@invariant()` of your own: `self.snapshot` is where the walk is.

    Args:
        model: The chart.
        events: What may be sent, as names or pairs with data; else what active states name.
        data: What the chart is started with.

    Raises:
        MissingExtra: Hypothesis is not installed.
    """
    stateful, strategies = _hypothesis()
    cues = None if events is None else cues_of(events)
    which = strategies.integers(0, 1_000)
    rule, invariant = stateful.rule, stateful.invariant
    body = {
        "__doc__": f"Random walks through {model.definition.name or 'a chart'}.",
        "__module__": __name__,
        "model": model,
        "start_data": data,
        "alphabet": Alphabet(None if cues is None else [cue.event for cue in cues if cue.event]),
        "sends": rule(which=which)(lambda self, which: self.send(which)),
        "waits": rule(seconds=strategies.integers(0, 10_000))(
            lambda self, seconds: self.wait(seconds)
        ),
        "is_stored_and_restored": rule()(lambda self: self.store()),
        "branches": rule()(lambda self: self.keep()),
        "goes_back": rule(which=which)(lambda self, which: self.go_back(which)),
        "fits_together": invariant()(lambda self: self.active_states_fit_together()),
        "keeps": invariant()(lambda self: self.kept_snapshots_do_not_change()),
    }
    name = "".join(word.capitalize() for word in model.definition.name.split()) or "Chart"
    return type(f"{name}Machine", (Walk, stateful.RuleBasedStateMachine), body)


def _hypothesis() -> tuple[ModuleType, ModuleType]:
    try:
        from hypothesis import stateful, strategies
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "random walks need hypothesis, which is not installed",
            hint="pip install 'otolith[testing]'",
        ) from error
    return stateful, strategies


def _text(snapshot: Snapshot) -> str:
    return json.dumps(snapshot.to_data())


def _copied(snapshot: Snapshot) -> Snapshot:
    return Snapshot.from_data(json.loads(_text(snapshot)))
