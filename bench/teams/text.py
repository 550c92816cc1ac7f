"""One text that three members edit at once, each on a fork, beside bare documents of its library.

Both do the same edits: 100, then a commit (or an exported update), and after five of these each
member has the edits of the others. Of the peer nothing is stored but the updates themselves, each
once; of otolith the whole file: states, commits, refs and their history.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path
from time import process_time
from typing import NamedTuple, Protocol, TypeVar

import loro

import otolith
from bench.disk import resting_bytes
from bench.ground import SESSION, Ground, tell
from bench.table import Budget, Figure, Row
from bench.words import Words

MEMBERS, COMMIT_EDITS, MERGE_EDITS = 3, 100, 500
PATH = "report"
_PEER = "loro, bare"

M = TypeVar("M")
T = TypeVar("T")


class Edit(NamedTuple):
    """Where in the text, as a share of it, and what is put in; nothing is a deletion."""

    place: float
    text: str


class Text(Protocol):
    """What a handle on a text and a text of the library have in common."""

    def insert(self, index: int, text: str, /) -> None: ...
    def delete(self, start: int, stop: int, /) -> None: ...


class Spent(NamedTuple):
    """Seconds of the processor, bytes, and the text at the end."""

    edits: float
    all: float
    stored: int
    text: str


def rows(ground: Ground) -> Iterator[Row]:
    """Yield the rows."""
    count = ground.sizes.text_edits
    tell(f"{count:,} edits of one text by {MEMBERS} members")
    edits = shares(count)
    took = [(ours(ground.place("text"), edits), bare(edits)) for _ in range(ground.sizes.logs)]
    mine, theirs = (
        min((pair[side] for pair in took), key=lambda spent: spent.all) for side in (0, 1)
    )
    work = f"{count:,} edits of one text by {MEMBERS} members"
    for name, what, unit, field, limit in (
        ("text-edits", "edits alone, processor", "s", "edits", 2.0),
        ("text-history", "with commits and merges, processor", "s", "all", 2.0),
        ("text-bytes", "stored", "B", "stored", 2.0),
    ):
        a, b = getattr(mine, field), getattr(theirs, field)
        yield Row(
            name,
            f"{work}: {what}",
            Figure(a, unit),
            _PEER,
            Figure(b, unit),
            a / b,
            Budget(limit, "x", of="ratio"),
        )


def shares(count: int) -> list[list[Edit]]:
    """Return the edits of each member: words at random places, and some deletions."""
    chance, words = random.Random(5), Words(5).text(1 << 16)
    found: list[list[Edit]] = [[] for _ in range(MEMBERS)]
    for number in range(count):
        at = chance.randrange(len(words) - 8)
        text = words[at : at + chance.randint(1, 8)] if chance.random() < 0.75 else ""
        found[number % MEMBERS].append(Edit(chance.random(), text))
    return found


def apply(text: Text, length: int, edits: list[Edit], *, end: int) -> int:
    """Make edits, and return how long the text is then; `end` is what a deletion's end counts from.

    The library takes how many characters to delete, a handle up to where.
    """
    for place, part in edits:
        at = int(place * length)
        if part:
            text.insert(at, part)
            length += len(part)
        elif length > 8:
            at = min(at, length - 4)
            text.delete(at, at * end + 4)
            length -= 4
    return length


def rounds(shares: list[list[Edit]]) -> Iterator[list[list[list[Edit]]]]:
    """Yield for each round, for each member, the edits of each commit."""
    for start in range(0, max(map(len, shares)), MERGE_EDITS):
        stop = start + MERGE_EDITS
        yield [
            [
                share[at : at + COMMIT_EDITS]
                for at in range(start, min(stop, len(share)), COMMIT_EDITS)
            ]
            for share in shares
        ]


def ours(place: Path, shares: list[list[Edit]]) -> Spent:
    """Edit in otolith, in a file."""
    with otolith.open(place, durability="fast") as repo:
        main = repo.session(SESSION)
        main.text(PATH).append("A report. ")
        main.commit("began")
        empty = resting_bytes(place)
        members = [main.fork(f"member-{number}") for number in range(MEMBERS)]
        texts = [member.text(PATH) for member in members]
        began, edited = process_time(), 0.0
        for turns in rounds(shares):
            for member, text, edits in each_commit(members, texts, turns):
                length = len(text)  # after a merge this takes the edits of others in
                start = process_time()
                apply(text, length, edits, end=1)
                edited += process_time() - start
                member.commit()
            for member, other in permutations(members, 2):
                assert member.merge(other).ok
        found = {str(text) for text in texts}
        spent = process_time() - began
        assert len(found) == 1, "the members have different texts"
        check_orders(main, members, found)
    return Spent(edited, spent, resting_bytes(place) - empty, found.pop())


def each_commit(
    members: Sequence[M], texts: Sequence[T], turns: list[list[list[Edit]]]
) -> Iterator[tuple[M, T, list[Edit]]]:
    """Yield the commits of a round: who makes it, in which text, and its edits."""
    for member, text, commits in zip(members, texts, turns, strict=True):
        for edits in commits:
            yield member, text, edits


def check_orders(main: otolith.Versioned, members: list[otolith.Versioned], text: set[str]) -> None:
    """Check that the text is the same in whatever order the members are merged."""
    for order in permutations(members):
        fork = main.fork("-".join(member.name for member in order))
        for member in order:
            fork.merge(member)
        assert {str(fork.text(PATH))} == text, "the order of merging changes the text"


def bare(shares: list[list[Edit]]) -> Spent:
    """Edit in documents of the library, which exchange updates."""
    members = [loro.LoroDoc() for _ in range(MEMBERS)]
    texts = [member.get_text(PATH) for member in members]
    texts[0].insert(0, "A report. ")
    first = members[0].export(loro.ExportMode.Updates(loro.VersionVector()))
    for member in members[1:]:
        member.import_(first)
    began, edited, stored = process_time(), 0.0, 0
    for turns in rounds(shares):
        known = {id(member): member.oplog_vv for member in members}
        updates: dict[int, list[bytes]] = {id(member): [] for member in members}
        for member, text, edits in each_commit(members, texts, turns):
            start = process_time()
            apply(text, text.len_unicode, edits, end=0)
            edited += process_time() - start
            made = member.export(loro.ExportMode.Updates(known[id(member)]))
            known[id(member)] = member.oplog_vv
            updates[id(member)].append(made)
            stored += len(made)
        for member, other in permutations(members, 2):
            member.import_batch(updates[id(other)])
    found = {text.to_string() for text in texts}
    spent = process_time() - began
    assert len(found) == 1, "the members have different texts"
    return Spent(edited, spent, stored, found.pop())
