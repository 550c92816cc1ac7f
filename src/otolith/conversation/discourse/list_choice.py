"""Out of a list that was shown: the second, the last two, the cheapest, the one with breakfast."""

from __future__ import annotations

import re
from collections.abc import Iterator

from otolith.conversation.discourse.candidates import Situation, Weighed
from otolith.conversation.discourse.entities import Known, ShownList
from otolith.conversation.discourse.mentions import Found
from otolith.conversation.discourse.phrases import PhraseQuery
from otolith.text.words import content_words, stem

_ROW, _OLDER, _NOT_CALLED = 0.7, 0.75, 0.45
_PER_MESSAGE = 0.96
_LETTERS = "abcdefgh"


def picked(asked: PhraseQuery, now: Situation) -> list[Weighed]:
    """Return what a phrase may mean of the lists that were shown, the latest first."""
    found: list[Weighed] = []
    age = 0
    known = list(now.register.lists_before(now.moment))
    listed = [{member.id for member in shown.members} for shown in known]
    named = (
        each
        for each in _alike(now)
        if not any({m.id for m in each.members} <= ids for ids in listed)
    )
    for shown in [*known, *named]:
        weight, why = _weight(asked, shown, now, age)
        members, fit, how = _choose(asked, shown, now)
        age += not shown.is_row
        if members and weight * fit > 0:
            found.append(Weighed(members, min(weight * fit, 1.0), (how, why)))
    return found


def _weight(asked: PhraseQuery, shown: ShownList, now: Situation, age: int) -> tuple[float, str]:
    distance = now.distance(shown.moment[0])
    weight = _OLDER**age * _PER_MESSAGE**distance
    weight *= _ROW if shown.is_row else 1.0
    why = f"a list of {len(shown.members)} shown {distance} messages ago"
    if asked.head and not _is_called(asked.head, shown):
        return weight * _NOT_CALLED, f"{why}, of other things"
    return weight, why


def _is_called(head: str, shown: ShownList) -> bool:
    if shown.noun == head or (len(head) > 3 and shown.noun.endswith(head)):
        return True
    return any(
        head in member.heads or head in content_words(item.line)
        for member, item in zip(shown.members, shown.items, strict=True)
    )


def _alike(now: Situation) -> Iterator[ShownList]:
    """Yield things spoken of lately that are called by one noun, as if they were a list."""
    by_head: dict[str, list[Known]] = {}
    for known in reversed(now.register.recent(now.moment, 12)):
        if known.first.form == "noun" and known.number != "plural" and known.first.head:
            by_head.setdefault(known.first.head, []).append(known)
    yield from (_as_list(members, head) for head, members in by_head.items() if len(members) > 1)
    by_message: dict[tuple[int, str], list[Known]] = {}
    for known in reversed(now.register.recent(now.moment, 12)):
        if known.first.form == "name" and known.type != "file":
            by_message.setdefault((known.mentions[0].message, known.type), []).append(known)
    named = sorted(by_message.items(), key=lambda each: (each[0][0], len(each[1])), reverse=True)
    yield from (_as_list(members, "") for _, members in named if len(members) > 1)


def _as_list(members: list[Known], noun: str) -> ShownList:
    ordered = sorted(members, key=lambda known: known.id)
    last = ordered[-1].mentions[0]
    items = tuple(known.first for known in ordered)
    moment = (last.message, last.start)
    return ShownList(moment, last.source, noun, tuple(ordered), items, (), is_row=True)


def _choose(
    asked: PhraseQuery, shown: ShownList, now: Situation
) -> tuple[tuple[Known, ...], float, str]:
    """Return the members that a phrase picks, how sure that is, and why."""
    members = shown.members
    if asked.kind == "ordinal":
        return _by_place(asked, shown)
    if asked.kind == "superlative":
        return _by_measure(asked, shown)
    if asked.kind == "described":
        return _by_words(asked, shown)
    if asked.kind == "several":
        fits = len(members) > 1 and asked.count in (0, len(members))
        return (members, 1.0, "all of it") if fits else ((), 0.0, "")
    if asked.kind == "middle":
        middle = members[len(members) // 2 : len(members) // 2 + 1]
        return (middle, 1.0, "in the middle") if len(members) % 2 else ((), 0.0, "")
    return _by_last(asked, shown, now)


def _by_place(asked: PhraseQuery, shown: ShownList) -> tuple[tuple[Known, ...], float, str]:
    members = shown.members
    if asked.mark:
        at = _marked(asked.mark, shown)
        return ((), 0.0, "") if at is None else ((members[at],), 1.0, f"marked {asked.mark}")
    first = asked.first if asked.first >= 0 else len(members) + asked.first
    taken = members[first : first + asked.count] if first >= 0 else ()
    if len(taken) < asked.count:
        return (), 0.0, ""
    return taken, 1.0, f"number {first + 1} of {len(members)}"


def _marked(mark: str, shown: ShownList) -> int | None:
    if mark in shown.marks:
        return shown.marks.index(mark)
    at = int(mark) - 1 if mark.isdigit() else _LETTERS.find(mark)
    return at if 0 <= at < len(shown.members) and not any(shown.marks) else None


def _by_measure(asked: PhraseQuery, shown: ShownList) -> tuple[tuple[Known, ...], float, str]:
    for measure in asked.measures:
        numbers = [item.measures.get(measure) for item in shown.items]
        known = [number for number in numbers if number is not None]
        if len(known) < 2:
            continue
        best = (max if asked.is_most else min)(known)
        at = [at for at, number in enumerate(numbers) if number == best]
        sure = len(known) / len(numbers) / len(at)
        sure *= 1.0 if asked.count in (1, len(known)) else 0.5  # "the cheaper one" is one of two
        which = "most" if asked.is_most else "least"
        return (shown.members[at[0]],), sure, f"the {which} {measure}: {best:g}"
    return (), 0.0, ""


def _by_words(asked: PhraseQuery, shown: ShownList) -> tuple[tuple[Known, ...], float, str]:
    fits = [_share(asked.words, item) for item in shown.items]
    best = max(fits, default=0.0)
    if best < 0.5:
        return (), 0.0, ""
    at = [place for place, fit in enumerate(fits) if fit == best]
    if asked.number == "plural":
        return tuple(shown.members[place] for place in at), best, "these say so"
    return (shown.members[at[0]],), best / len(at), f"it says {', '.join(asked.words)}"


def _share(words: tuple[str, ...], item: Found) -> float:
    said = {stem(word) for word in re.findall(r"\w+", f"{item.text} {item.line}")} | set(item.words)
    hits = sum(word in said or any(_begins(word, each) for each in said) for word in words)
    return hits / len(words)


def _begins(word: str, other: str) -> bool:
    return len(word) > 4 and len(other) > 4 and (other.startswith(word) or word.startswith(other))


def _by_last(
    asked: PhraseQuery, shown: ShownList, now: Situation
) -> tuple[tuple[Known, ...], float, str]:
    """Pick by what was spoken of last in the list: the next one, the previous, the others."""
    spoken = [_spoken(member, shown, now) for member in shown.members]
    if not any(spoken) and asked.kind != "other":
        return (), 0.0, ""
    last = max(range(len(spoken)), key=lambda at: spoken[at])
    if asked.kind == "other":
        if not any(spoken):
            return (), 0.0, ""
        rest = tuple(member for at, member in enumerate(shown.members) if at != last)
        fits = len(rest) == 1 or asked.number == "plural"
        return (rest, 1.0, "not the one spoken of last") if fits and rest else ((), 0.0, "")
    at = last + (1 if asked.kind == "next" else -1)
    inside = 0 <= at < len(shown.members)
    return ((shown.members[at],), 1.0, f"{asked.kind} in the list") if inside else ((), 0.0, "")


def _spoken(member: Known, shown: ShownList, now: Situation) -> tuple[int, int] | tuple[()]:
    """Return when a member was spoken of after it was listed."""
    later = [
        (each.message, each.start)
        for each in member.before(now.moment)
        if (each.message, each.start) > shown.moment
        and each.form != "item"
        and each.message > shown.moment[0]
    ]
    return later[-1] if later else ()
