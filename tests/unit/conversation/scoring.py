"""How well topics and references are found: `python -m tests.unit.conversation.scoring`.

It scores the dialogues of `tests/dialogues`, which the rules were not written with, beside simple
answers. What counts as right was settled before the first run.

Topics. A boundary is right if it is before the same message. Small talk belongs to the topic before
it. Pk and WindowDiff are mistakes, with half the mean length of a topic as the window. A return is
right if it is at the same message and its topic has an earlier span on the same topic.

References. An answer is right if it is called what the reader calls the thing: the same words, or
one within the other with the noun among them. Several things are right if each is there, and no
other. For a reference that stands for nothing, or for two things alike, it is right to be unsure:
no candidate, a best score below 0.3, or a second within 5 % of the first.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from otolith.conversation.discourse import Candidate, Entity, Tracker, resolve, topics_of
from otolith.conversation.message import Message, Role, Text, ToolCall, ToolResult
from otolith.text import content_words, stem
from tests.dialogues.loading import Dialogue, Reference, dialogues

UNSURE, CLOSE = 0.3, 0.95
_AFTER = re.compile(
    r"\s(?:in|to|from|for|with|of|at|near|by|on|about|nach|von|aus|mit|für|am|im)\s"
)
_ARTICLE = re.compile(
    r"^(?:the|a|an|my|your|our|his|her|der|die|das|den|dem|ein|eine|einen|mein\w*)\s+"
)


def messages_of(dialogue: Dialogue) -> list[Message]:
    made = []
    for at, each in enumerate(dialogue.messages):
        if each.role == "tool":
            parts = (ToolCall(f"c{at}", each.tool or ""), ToolResult(f"c{at}", each.text))
            made.append(Message(Role.TOOL, parts))
        else:
            made.append(Message(Role(each.role), (Text(each.text),)))
    return made


# ---------------------------------------------------------------- topics


def gold_labels(dialogue: Dialogue) -> list[str]:
    labels: list[str] = []
    for at in range(len(dialogue.messages)):
        labels.append(dialogue.topic_of(at) or (labels[-1] if labels else ""))
    first = next((label for label in labels if label), "")
    return [label or first for label in labels]


def found_labels(dialogue: Dialogue) -> list[int]:
    labels = [0] * len(dialogue.messages)
    for topic in topics_of(messages_of(dialogue)):
        for span in topic.spans:
            labels[span.start : span.stop] = [topic.id] * (span.stop - span.start)
    return labels


def every(k: int, dialogue: Dialogue) -> list[int]:
    return [at // k for at in range(len(dialogue.messages))]


def boundaries(labels: Sequence[object]) -> set[int]:
    return {at for at in range(1, len(labels)) if labels[at] != labels[at - 1]}


def returns(labels: Sequence[object]) -> dict[int, object]:
    return {at: labels[at] for at in sorted(boundaries(labels)) if labels[at] in labels[:at]}


def right_returns(gold: Sequence[str], found: Sequence[int]) -> int:
    ours, right = returns(found), 0
    for at, label in returns(gold).items():
        if at in ours:
            earlier = {gold[i] for i in range(at) if found[i] == ours[at]}
            right += label in earlier
    return right


def window_errors(gold: Sequence[object], found: Sequence[object], k: int) -> tuple[int, int, int]:
    """Return the mistakes that Pk and WindowDiff count, and of how many windows."""
    a, b = boundaries(gold), boundaries(found)
    pk = diff = total = 0
    for at in range(len(gold) - k):
        ours = sum(at < each <= at + k for each in a)
        theirs = sum(at < each <= at + k for each in b)
        pk += (ours > 0) != (theirs > 0)
        diff += ours != theirs
        total += 1
    return pk, diff, total


def topic_scores(chosen: list[Dialogue], find: object) -> dict[str, float]:
    counts: Counter[str] = Counter()
    for dialogue in chosen:
        gold, found = gold_labels(dialogue), find(dialogue)  # type: ignore[operator]
        a, b = boundaries(gold), boundaries(found)
        k = max(2, round(len(gold) / (len(a) + 1) / 2))
        pk, diff, total = window_errors(gold, found, k)
        counts.update(
            gold=len(a), found=len(b), right=len(a & b), pk=pk, diff=diff, windows=total,
            near=sum(any(abs(one - other) <= 1 for other in b) for one in a),
            near_found=sum(any(abs(one - other) <= 1 for other in a) for one in b),
            returns=len(returns(gold)), found_returns=len(returns(found)),
            right_returns=right_returns(gold, found),
        )  # fmt: skip
    return {
        "precision": _share(counts["right"], counts["found"]),
        "recall": _share(counts["right"], counts["gold"]),
        "f1": _f1(counts["right"], counts["found"], counts["gold"]),
        "f1 within 1": _harmonic(
            _share(counts["near_found"], counts["found"]), _share(counts["near"], counts["gold"])
        ),
        "pk": _share(counts["pk"], counts["windows"]),
        "windowdiff": _share(counts["diff"], counts["windows"]),
        "return precision": _share(counts["right_returns"], counts["found_returns"]),
        "return recall": _share(counts["right_returns"], counts["returns"]),
        "boundaries": counts["gold"],
        "found": counts["found"],
        "returns": counts["returns"],
    }


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _harmonic(one: float, other: float) -> float:
    return 2 * one * other / (one + other) if one + other else 0.0


def _f1(right: int, found: int, gold: int) -> float:
    return _harmonic(_share(right, found), _share(right, gold))


# ---------------------------------------------------------------- references


def is_called(found: str, wanted: str) -> bool:
    one, other = (_ARTICLE.sub("", text.lower().strip(" .,:;*\"'")) for text in (found, wanted))
    if one == other:
        return True
    core = _AFTER.split(other)[0]
    ours, theirs = set(content_words(one)), set(content_words(core))
    if not ours or not theirs:
        return False
    head = stem(re.findall(r"\w+", core)[-1])
    return (ours <= theirs or theirs <= ours) and head in ours


def is_one(entity: Entity, names: Sequence[str]) -> bool:
    called = (entity.label, *entity.names)
    return not entity.members and any(is_called(each, name) for each in called for name in names)


def is_right(entity: Entity, reference: Reference) -> bool:
    wanted = reference.entities
    if len(wanted) == 1:
        return is_one(entity, (*wanted, *reference.also))
    members = entity.members
    if len(members) != len(wanted):
        return False
    return all(any(is_one(each, (name,)) for each in members) for name in wanted)


def is_unsure(found: list[Candidate]) -> bool:
    if not found or found[0].score < UNSURE:
        return True
    return len(found) > 1 and found[1].score >= CLOSE * found[0].score


def latest(messages: list[Message], reference: Reference) -> list[Entity]:
    """Return what was spoken of last: the simple answer."""
    tracker = Tracker()
    for message in messages[: reference.message + 1]:
        tracker.add(message)
    moment = (reference.message, reference.start)
    return [known.entity(moment) for known in tracker.register.recent(moment, 3)]


def reference_scores(chosen: list[Dialogue]) -> dict[str, Counter[str]]:
    scores: dict[str, Counter[str]] = defaultdict(Counter)
    for dialogue in chosen:
        messages = messages_of(dialogue)
        for each in dialogue.references:
            found = resolve(messages, each.phrase, at=each.message, start=each.start)
            if not each.entities:
                scores["nothing"].update(total=1, unsure=is_unsure(found))
                continue
            hits = [is_right(one.entity, each) for one in found[:3]]
            simple = [is_right(one, each) for one in latest(messages, each)]
            for kind in (each.kind, "all"):
                scores[kind].update(
                    total=1,
                    first=any(hits[:1]),
                    third=any(hits),
                    simple=any(simple[:1]),
                    simple3=any(simple),
                )
    return scores


# ---------------------------------------------------------------- the report


def report() -> None:
    everything = dialogues()
    sets = {
        "English": [each for each in everything if each.language == "en"],
        "German": [each for each in everything if each.language == "de"],
    }
    sizes = [len(d.messages) / (len(boundaries(gold_labels(d))) + 1) for d in everything]
    k = round(sum(sizes) / len(sizes))
    for language, chosen in sets.items():
        count = sum(len(each.messages) for each in chosen)
        print(f"## {language}: {len(chosen)} dialogues, {count} messages")
        finders = {
            "ours": found_labels,
            "no boundaries": lambda d: [0] * len(d.messages),
            f"every {k} messages": lambda d: every(k, d),
        }
        for name, find in finders.items():
            row = topic_scores(chosen, find)
            print(name, {key: round(value, 2) for key, value in row.items()})
        for kind, counts in sorted(reference_scores(chosen).items()):
            total = counts["total"]
            row = {key: round(value / total, 2) for key, value in counts.items() if key != "total"}
            print(kind, total, row)


if __name__ == "__main__":
    report()
