"""KeyView: what follows from the evidence of one key: what was set, what is learned, what changed.

The view is a function of the evidence, in the order of its stamps. Later evidence is added to it;
evidence of an earlier time, as after a merge, makes a new one. All that was set counts, and the
newest of the rest (`window`): so opening a profile takes the same time at any length of its past.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from otolith.profiles.evidence import Evidence, EvidenceKind, context_stems
from otolith.profiles.learner import Learner
from otolith.profiles.preference import Contradiction, PreferenceChange, values_of

_WINDOW = 512
_CLEAR_EVIDENCE = 3
"""How many pieces of evidence speak against what was set before that is a contradiction."""


@dataclass(slots=True)
class ContextView:
    """What follows from the evidence of a key in one context."""

    name: str = ""
    """The context, as it was named last."""
    explicit: Evidence | None = None
    """What the user set, unless it was unset since."""
    settled: list[Evidence] = field(default_factory=list)
    """What was set and unset, the oldest first."""
    learner: Learner = field(default_factory=Learner)
    learned: list[Evidence] = field(default_factory=list)
    """What the learner was told; places of the learner are places in this list."""

    def add(self, evidence: Evidence) -> None:
        """Add the next piece of evidence."""
        self.name = evidence.context
        if evidence.is_explicit:
            self.explicit = evidence if evidence.kind is EvidenceKind.SET else None
            self.settled.append(evidence)
        else:
            self.learner.add(evidence.option, evidence.weight)
            self.learned.append(evidence)

    def opposing_statements(self) -> tuple[Evidence, Evidence] | None:
        """Return the last two statements if they contradict each other, and nothing came after."""
        said = [each for each in self.learned if each.kind is EvidenceKind.STATEMENT][-2:]
        if len(said) < 2:
            return None
        first, last = said
        if first.weight < 0 and last.weight < 0:  # what somebody dislikes may be many things
            return None
        is_opposite = (first.weight > 0) != (last.weight > 0)
        if (first.option == last.option) != is_opposite:
            return None
        is_settled = bool(self.settled) and self.settled[-1].time > last.time
        return None if is_settled else (first, last)

    def against_explicit(self) -> list[Evidence]:
        """Return the evidence since the value was set, if it clearly speaks for another one."""
        if self.explicit is None:
            return []
        since = [each for each in self.learned if each.time > self.explicit.time]
        refused = [e for e in since if e.option == self.explicit.option and e.weight < 0]
        if len(refused) >= _CLEAR_EVIDENCE:
            return refused
        learner = Learner()
        for each in since:
            learner.add(each.option, each.weight)
        best = learner.best()
        if best is None or best.text == self.explicit.option or best.confidence < 0.5:
            return []
        found = [each for each in since if each.option == best.text and each.weight > 0]
        is_said = any(each.kind is EvidenceKind.STATEMENT for each in found)
        return found if is_said or len(found) >= _CLEAR_EVIDENCE else []


def window(count: int) -> int:
    """Return how many of the newest pieces of evidence count, of so many.

    It begins at the same piece for many counts in a row, so that a view can be extended.
    """
    return count if count < _WINDOW else _WINDOW // 2 + count % (_WINDOW // 2)


class KeyView:
    """What follows from the evidence of one key, by context."""

    def __init__(
        self, evidence: Iterable[Evidence], is_used: Callable[[Evidence], bool] = lambda _: True
    ) -> None:
        self._is_used = is_used
        self._ids: set[str] = set()
        self._last_stamp = ""
        self.contexts: defaultdict[str, ContextView] = defaultdict(ContextView)
        for each in evidence:
            self._add(each)

    def extend(self, evidence: Evidence) -> bool:
        """Add later evidence; return False, and add nothing, if it is earlier."""
        is_later = evidence.stamp > self._last_stamp
        if is_later:
            self._add(evidence)
        return is_later

    def _add(self, evidence: Evidence) -> None:
        if not evidence.is_explicit:
            self._last_stamp = evidence.stamp
        if evidence.id not in self._ids and self._is_used(evidence):
            self._ids.add(evidence.id)
            self.contexts[context_stems(evidence.context)].add(evidence)

    def context(self, context: str) -> ContextView:
        """Return the view of a context; of one that is unknown, an empty one."""
        return self.contexts.get(context_stems(context)) or ContextView()

    @property
    def oldest_time(self) -> int | None:
        """The time of the oldest evidence that is learned from; None without any."""
        times = [each.time for view in self.contexts.values() for each in view.learned[:1]]
        return min(times, default=None)


# Changes and contradictions, which are read off the evidence; neither decides what holds.


def changes_in(key: str, view: KeyView) -> Iterator[PreferenceChange]:
    """Yield what changed of a key, context by context."""
    for _, each in sorted(view.contexts.items()):
        yield from _settled(key, each)
        yield from _drift(key, each)


def _settled(key: str, view: ContextView) -> Iterator[PreferenceChange]:
    """Yield what was set and unset."""
    before: Any = None
    for each in view.settled:
        after = each.value if each.kind is EvidenceKind.SET else None
        if each.kind is EvidenceKind.UNSET or before is None or after != before:
            yield PreferenceChange(key, before, after, each.time, "set", (each,), view.name)
        before = after


def _drift(key: str, view: ContextView) -> Iterator[PreferenceChange]:
    """Yield where taste drifted, with the evidence for the new value from there on."""
    shifts = view.learner.shifts()
    for shift, following in zip_longest(shifts, shifts[1:]):
        end = len(view.learned) if following is None else following.at
        stretch = view.learned[shift.at : end]
        evidence = tuple(each for each in stretch if each.option == shift.new and each.weight > 0)
        old, new = json.loads(shift.old), json.loads(shift.new)
        time = view.learned[shift.at].time
        yield PreferenceChange(key, old, new, time, "learned", evidence, view.name)


def contradictions_in(key: str, view: KeyView) -> Iterator[Contradiction]:
    """Yield what of a key contradicts itself, context by context."""
    for _, each in sorted(view.contexts.items()):
        against = each.against_explicit()
        if against and each.explicit is not None:
            yield _contradiction(key, each.name, [each.explicit, *against])
        elif each.explicit is None and (said := each.opposing_statements()):
            yield _contradiction(key, each.name, list(said))


def _contradiction(key: str, context: str, found: list[Evidence]) -> Contradiction:
    first, last = found[0], found[-1]
    where = f" ({context})" if context else ""
    how = "set" if first.kind is EvidenceKind.SET else "said"
    if first.option == last.option:
        question = f"You {how} {key}{where}: {first.option}, and refused it since. Which holds?"
    else:
        then = {
            EvidenceKind.STATEMENT: "said",
            EvidenceKind.CHOICE: "chose",
            EvidenceKind.FEEDBACK: "liked",
        }[last.kind]
        question = (
            f"You {how} {key}{where}: {first.option}, and {then} {last.option} since. Which holds?"
        )
    return Contradiction(key, values_of(found), tuple(found), question, context)
