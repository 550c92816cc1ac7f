"""How much speaks for it that a turn leaves its topic: each piece of evidence has a weight.

A weight is the logarithm of odds: 0.7 makes leaving twice as likely, -0.7 half as likely. Their
sum is above 0 if leaving is more likely than not. They were fitted to public dialogues and then
rounded; `docs/explanation/topics-and-references.md` says which. Cues like "by the way" and silence
are too rare there: those two weights are guesses, and so is all that is German.
"""

from __future__ import annotations

from collections.abc import Iterator

from otolith.agent.conversation.topics.cohesion import Rarity, shared_fields, shared_words
from otolith.agent.conversation.topics.subject import Subject, Turn

_MINUTE = 60_000_000
_LONG, _VERY_LONG = 30 * _MINUTE, 240 * _MINUTE
_LONG_GAP, _VERY_LONG_GAP = 1.5, 3.0
_IN_TOPIC, _IN_LAST_TURN, _ALIKE = -3.5, -6.0, -1.25
"""For all words shared with the topic, with its last turn, and for the same fields of meaning."""
_OTHER_FIELD, _NEW_THING = 1.1, 1.5
_ENOUGH, _MISSING_WORD = 4, -0.5
"""A turn of fewer words says less of what it is about."""
_YOUNG = -1.0
_CUES = {"new": 6.0, "requests": 1.2, "greets": 1.0, "refers": -1.0, "close": -1.0}
_GOES_ON = -0.7
_AFTER = {"asks": (-1.6, ""), "ends": (0.8, "the matter before was ended")}

Evidence = Iterator[tuple[float, str]]


def leaving(turn: Turn, subject: Subject, rarity: Rarity) -> tuple[float, str]:
    """Return how much speaks for another topic than the present one, and what does."""
    found = [*_by_words(turn, subject, rarity), *_by_manner(turn), *_by_place(turn, subject)]
    told = sorted((each for each in found if each[0] > 0 and each[1]), key=lambda each: -each[0])
    reasons = [why for _, why in told] or ["shares little with what was said before"]
    return sum(weight for weight, _ in found), ", ".join(reasons)


def _by_words(turn: Turn, subject: Subject, rarity: Rarity) -> Evidence:
    """Weigh what is spoken of."""
    topic = subject.vocabulary
    yield _IN_TOPIC * shared_words(turn.all, topic, rarity)[0], ""
    yield _IN_LAST_TURN * shared_words(turn.all, subject.last, rarity)[0], ""
    alike = shared_fields(turn.all, topic)
    yield _ALIKE * alike, ""
    if turn.asked.fields and topic.fields and not alike:
        yield _OTHER_FIELD, "about other things"
    new = next((each for each in turn.things if each and not topic.words.keys() & each), None)
    if new is not None:
        said = " ".join(map(rarity.surface, new))
        yield _NEW_THING, f"speaks of something new: {said}"
    yield _MISSING_WORD * max(0, _ENOUGH - len(turn.asked.words)), ""


def _by_manner(turn: Turn) -> Evidence:
    """Weigh how it is said."""
    for name, weight in _CUES.items():
        if name in turn.cues:
            yield weight, repr(turn.cues[name])
    if "on" in turn.cues and "requests" not in turn.cues:
        yield _GOES_ON, ""


def _by_place(turn: Turn, subject: Subject) -> Evidence:
    """Weigh what came before it."""
    if subject.is_young:
        yield _YOUNG, ""
    after = "ends" if subject.is_closed else turn.after
    if after:
        yield _AFTER[after]
    if turn.gap >= _LONG:
        weight = _VERY_LONG_GAP if turn.gap >= _VERY_LONG else _LONG_GAP
        yield weight, f"{turn.gap // _MINUTE} minutes later"
