"""Texts that several edit: nothing is lost, and all have one text, whoever merges whom."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import count, permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import otolith
from otolith.care import prune, verify
from otolith.codecs import Codecs, Document
from otolith.core import BareRepo
from otolith.core.merge.edit_sets import DocumentMerge
from otolith.errors import CommitNotFound, Corrupt, Uncommitted
from otolith.stores import MemoryStore
from otolith.types import RunKey, Tag

FEWER = settings(max_examples=max(settings().max_examples // 2, 20))

parts = st.text(
    st.sampled_from("ab \n\r\t😀é\u0301\u200d\0") | st.characters(codec="utf-8"), max_size=6
)
places = st.integers(-30, 30)
edits = st.one_of(
    st.tuples(st.just("insert"), places, parts),
    st.tuples(st.just("append"), parts),
    st.tuples(st.just("delete"), places, places | st.none()),
    st.tuples(st.just("replace"), places, places | st.none(), parts),
    st.tuples(st.just("edit"), st.text("ab \n", max_size=20)),
)


def memory():
    ticks = count(1)
    return otolith.open("memory:", clock=lambda: next(ticks) * 1000)


def edit(text, made):
    for verb, *arguments in made:
        getattr(text, verb)(*arguments)


# ---------------------------------------------------------------- one text


@given(st.lists(edits, max_size=12), st.lists(edits, max_size=6))
def test_a_text_is_edited_as_a_str_would_be(first, then):
    state, live = memory().session("s"), otolith.Live()
    for each in (state, live):
        edit(each.text("report"), first)
        each.commit()
        edit(each.text("report"), then)

    assert str(state.text("report")) == str(live.text("report"))
    assert str(Document(state["report"].runs)) == str(live.text("report")) if then else True


@given(st.lists(st.lists(edits, max_size=4), max_size=5), st.booleans())
def test_what_is_staged_is_what_the_document_is_stored_as(commits, is_large):
    state = memory().session("s")
    text = state.text("report")
    text.append("x" * 20_000 if is_large else "x")
    for made in commits:
        edit(text, made)
        state.commit()

    cell = state.cell_at(("report",))
    assert state.cells.same(cell, state.cells.put(state["report"]))


# ---------------------------------------------------------------- three members

sides = st.lists(edits, max_size=6)


def merged(start, others, name):
    fork = start.fork(name)
    for other in others:
        assert fork.merge(other).ok
    return fork


@FEWER
@given(st.lists(edits, max_size=4), st.tuples(sides, sides, sides))
def test_three_members_have_one_text_in_whatever_order_they_are_merged(base, made):
    main = memory().session("s")
    edit(main.text("report"), base)
    main.commit(allow_empty=True)
    members = [main.fork(name) for name in "abc"]
    for member, each in zip(members, made, strict=True):
        edit(member.text("report"), each)
        member.commit(allow_empty=True)

    found = [
        merged(main, order, "-".join(each.name for each in order))
        for order in permutations(members)
    ]
    for one, two, three in permutations(members):
        pair = merged(main, [two, three], f"pair-{two.name}{three.name}")
        found.append(merged(one, [pair], f"{one.name}-with-{pair.name}"))

    assert len({str(each.text("report")) for each in found}) == 1
    assert len({each.head.root for each in found}) == 1


@FEWER
@given(st.lists(edits, max_size=4), st.tuples(sides, sides, sides, sides))
def test_merges_that_crossed_have_one_text(base, made):
    main = memory().session("s")
    edit(main.text("report"), base)
    main.commit(allow_empty=True)
    ours, theirs = main.fork("ours"), main.fork("theirs")
    for mine, yours in (made[:2], made[2:]):
        edit(ours.text("report"), mine)
        ours.commit(allow_empty=True)
        edit(theirs.text("report"), yours)
        theirs.commit(allow_empty=True)
        before = ours.head
        assert ours.merge(theirs).ok
        assert theirs.merge(before).ok

    assert str(ours.text("report")) == str(theirs.text("report"))
    assert ours.head.root == theirs.head.root


# ---------------------------------------------------------------- a team, step by step

TOKEN = re.compile(r"<\d+>")
steps = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["insert"] * 4 + ["delete"] * 2 + ["commit"] * 3 + ["merge"] * 3 + ["gc"]),
        st.integers(0, 1000),
    ),
    max_size=40,
)


class Team:
    """Three members of one repo, each with the words that it should find in its text."""

    def __init__(self) -> None:
        self.repo = memory()
        main = self.repo.session("s")
        main.text("report").edit("")
        main.commit()
        self.members = [main.fork(name) for name in "abc"]
        self.texts = [member.text("report") for member in self.members]
        self.put_in: list[set[str]] = [set(), set(), set()]
        self.taken_out: list[set[str]] = [set(), set(), set()]
        self._numbers: Iterator[int] = count()

    def step(self, who, what, number):
        text, member = self.texts[who], self.members[who]
        words = list(TOKEN.finditer(str(text)))
        if what == "insert":
            word = f"<{next(self._numbers)}>"
            at = [0, *(each.end() for each in words)][number % (len(words) + 1)]
            text.insert(at, word)
            self.put_in[who].add(word)
        elif what == "delete" and words:
            word = words[number % len(words)]
            text.delete(*word.span())
            self.taken_out[who].add(word.group())
        elif what == "commit":
            member.commit()
        elif what == "gc":
            prune(self.repo)
        elif what == "merge":
            self.merge(who, (who + 1 + number % 2) % 3)

    def merge(self, who, other):
        self.members[who].commit()
        self.members[other].commit()
        assert self.members[who].merge(self.members[other]).ok
        self.put_in[who] |= self.put_in[other]
        self.taken_out[who] |= self.taken_out[other]

    def check(self, who):
        words = TOKEN.findall(str(self.texts[who]))
        assert sorted(words) == sorted(self.put_in[who] - self.taken_out[who])
        assert "".join(words) == str(self.texts[who])


@FEWER
@given(steps)
def test_a_team_loses_no_word_and_gets_none_back(steps):
    team = Team()
    for step in steps:
        team.step(*step)
        team.check(step[0])
    for who, other in [(0, 1), (0, 2), (1, 0), (2, 0)]:
        team.merge(who, other)
        team.check(who)

    assert len({str(text) for text in team.texts}) == 1
    for member in team.members:  # what was brought up to date is what is read anew
        assert str(Document(member.at("@")["report"].runs)) == str(member.text("report"))


moves = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(
            ["insert"] * 3 + ["delete", "commit", "merge", "merge", "rollback", "undo"]
        ),
        st.integers(0, 1000),
    ),
    max_size=40,
)


@FEWER
@given(moves)
def test_whoever_goes_back_every_text_can_be_read(moves):
    team = Team()
    for who, what, number in moves:
        if what in ("rollback", "undo"):
            with suppress(CommitNotFound, Uncommitted):
                team.members[who].earlier()
                getattr(team.members[who], what)()
        else:
            team.step(who, what, number)
        assert str(team.texts[who]) == str(Document(team.members[who]["report"].runs))
    for member in team.members[1:]:
        member.commit()
        team.members[0].commit()
        assert team.members[0].merge(member).ok

    assert verify(team.repo, level="deep").ok


# ---------------------------------------------------------------- the merge, against sets of edits


@st.composite
def histories(draw):
    """Return three closed sets of edits, the last two made from the first, and all deps."""
    deps: dict[tuple[int, int], tuple[int, int] | None] = {}

    def grown(have, writers, most):
        have = dict(have)
        for writer in draw(st.lists(st.sampled_from(writers), max_size=most)):
            others = [w for w in have if w != writer]
            on = draw(st.sampled_from(others)) if others and draw(st.booleans()) else None
            edit = (writer, have.get(writer, 0))
            deps[edit] = None if on is None else (on, have[on] - 1)
            have[writer] = edit[1] + 1
        return have

    def shrunk(have):
        have = {writer: draw(st.integers(0, n)) for writer, n in have.items()}
        while True:  # what was made on edits that are gone is gone, too
            gone = [
                e
                for e, d in deps.items()
                if e[1] < have.get(e[0], 0) and d and d[1] >= have.get(d[0], 0)
            ]
            if not gone:
                return {writer: n for writer, n in have.items() if n}
            for writer, number in gone:
                have[writer] = min(have[writer], number)

    base = grown({}, [1, 2, 3], 8)
    mine, yours = (shrunk(base) if draw(st.booleans()) else base for _ in range(2))
    # A writer that went back never goes on: its numbers would be used twice.
    own = [w for w in (1, 2) if mine.get(w, 0) == base.get(w, 0)]
    other = [w for w in (3,) if yours.get(w, 0) == base.get(w, 0)]
    return base, grown(mine, [*own, 4], 5), grown(yours, [*other, 5], 5), deps


def form_of(cells, runs):
    """Return the cell of the map of some runs, whatever they are."""
    edits = {cells.encoding.key(key): cells.put(run) for key, run in runs.items()}
    return cells.edit_map(cells.tag(cells.put(Document({}))).data, edits, is_table=True)


def edits_in(have):
    return {(writer, number) for writer, n in have.items() for number in range(n)}


def closed(found, deps):
    """Return edits with all that they were made on, and all before them."""
    waiting, found = list(found), set(found)
    while waiting:
        writer, number = edit = waiting.pop()
        for needed in (deps.get(edit), (writer, number - 1) if number else None):
            if needed is not None and needed not in found:
                found.add(needed)
                waiting.append(needed)
    return found


def stored(have, deps):
    runs = {}
    for writer, number in edits_in(have):
        on = deps[writer, number]
        others = b"" if on is None else on[0].to_bytes(8, "big")
        change = [0, [] if on is None else [1, on[1]], [0, 1], "x"]
        runs[RunKey(writer, number, number + 1).dump()] = [others, [change]]
    return runs


@given(histories())
def test_a_merge_has_what_either_side_added_and_what_that_was_made_on(history):
    base, ours, theirs, deps = history
    repo = BareRepo(
        MemoryStore(),
        codec=Codecs(),
        clock=lambda: 0,
        author="",
        entropy=bytes,
        cache_bytes=1 << 20,
    )
    cells = repo.session("s").cells

    def form(have):
        return form_of(cells, stored(have, deps))

    def merge(mine, yours):
        cell = DocumentMerge(cells, form(base), form(mine), form(yours)).merged()
        found: Any = cells.load(cells.tagged_cell(Tag.DOCUMENT, cell))
        return {(key.writer, key.start) for key in found.runs}

    before, mine, yours = map(edits_in, (base, ours, theirs))
    wanted = closed((before & mine & yours) | (mine - before) | (yours - before), deps)
    assert merge(ours, theirs) == wanted
    assert merge(theirs, ours) == wanted


# ---------------------------------------------------------------- what is stored may be anything

numbers = st.sampled_from(
    [0, 1, -1, 2, 3, 7, 255, 2**31 - 1, 2**31, -(2**31), 2**32, 2**63, -(2**63)]
)
garbage = st.recursive(
    st.none()
    | st.booleans()
    | numbers
    | st.binary(max_size=20)
    | st.text(max_size=4)
    | st.floats(),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=6,
)


def sample():
    main = memory().session("s")
    main.text("report").append("hello world")
    main.commit()
    fork = main.fork("f")
    fork.text("report").replace(2, 7, "😀y")
    fork.commit()
    main.text("report").delete(3, 6)
    main.commit()
    main.merge(fork)
    return {key.dump(): run for key, run in main["report"].runs.items()}


SAMPLE = sample()


def places_in(value, path=()):
    yield path
    for at, part in enumerate(value if isinstance(value, list) else []):
        yield from places_in(part, (*path, at))


def replaced(value, path, part):
    if not path:
        return part
    return [
        replaced(each, path[1:], part) if at == path[0] else each for at, each in enumerate(value)
    ]


@st.composite
def damaged(draw):
    """Return the runs of a document, of which a few things are other things."""
    runs = dict(SAMPLE)
    for _ in range(draw(st.integers(1, 3))):
        key = draw(st.sampled_from(sorted(runs)))
        kind = draw(st.sampled_from(["value"] * 6 + ["gone", "key", "cut"]))
        if kind == "gone":
            del runs[key]
        elif kind == "key":
            runs[draw(st.binary(max_size=20) | st.just(key[:12] + b"\xff" * 4))] = runs.pop(key)
        elif kind == "cut" and isinstance(runs[key], list):
            runs[key] = runs[key][: draw(st.integers(0, 1))]
        else:
            path = draw(st.sampled_from(list(places_in(runs[key]))))
            runs[key] = replaced(runs[key], path, draw(numbers | garbage))
        if not runs:
            break
    return runs


@settings(max_examples=4 * settings().max_examples)
@given(damaged())
def test_damaged_edits_are_corrupt_and_nothing_worse(runs):
    state = memory().session("s")
    cells = state.cells
    cell = cells.tagged_cell(Tag.DOCUMENT, form_of(cells, runs))
    state.write_cell(("notes", "report"), cell)

    try:
        text = state.text("notes/report")
    except Corrupt as error:
        found = error
    else:
        with suppress(Corrupt):
            text.append("!")
            state.commit()
            assert str(text) == str(state["notes/report"])
        return
    assert found.message.startswith("notes/report: ")
    with pytest.raises(Corrupt):
        str(state["notes/report"])
