"""Documents: the form in which their edits are stored, and what is not such a form."""

from __future__ import annotations

from contextlib import suppress

import pytest

from otolith.codecs import Codecs, Document, text_editor
from otolith.errors import Corrupt, Invalid
from otolith.types import RunKey, Tag
from tests.unit.codecs.texts import edited, editor, united

CODECS = Codecs()


def lift(runs):
    return CODECS.lift(Tag.DOCUMENT, {RunKey(*key).dump(): run for key, run in runs.items()})


def text_of(*changes, key=None, others=b""):
    """Return the text of one run of a writer."""
    count = sum(abs(n) for *_, edits, _ in changes for n in _sizes(edits))
    return str(lift({key or (7, 0, count): [others, list(changes)]}))


def _sizes(edits):
    numbers = iter(edits)
    for _ in numbers:
        size = next(numbers)
        if size == 0:
            size = next(numbers)
            next(numbers), next(numbers)
        yield size


def test_the_form_of_a_document_is_what_the_page_of_the_format_says():
    first = edited(Document({}), 7, [(0, "hello"), (5, " 😀"), (0, 2)])
    both = edited(first, 9, [(0, "J"), (1, 1)])

    assert CODECS.lower(both) == (
        Tag.DOCUMENT,
        {
            bytes.fromhex("0000000000000007 00000000 00000009"): [
                b"",
                [[0, [], [0, 7, 0, 0, 2, 0, 0], "hello 😀"]],
            ],
            bytes.fromhex("0000000000000009 00000000 00000002"): [
                (7).to_bytes(8, "big"),
                [[9, [1, 8], [0, 1, 1, 0, 1, 1, 2], "J"]],
            ],
        },
    )
    assert (str(first), str(both)) == ("llo 😀", "Jlo 😀")


def test_what_is_taken_out_backwards_is_one_edit_with_a_negative_length():
    typed = edited(Document({}), 7, [(0, "hello"), (4, 1), (3, 1), (2, 1)])
    (run,) = typed.runs.values()

    assert run == [b"", [[0, [], [0, 5, 4, 0, -3, 0, 2], "hello"]]]
    assert str(typed) == "he"


def test_documents_with_the_same_edits_are_one():
    first = edited(Document({}), 7, [(0, "hello")])
    mine, yours = edited(first, 8, [(0, "a")]), edited(first, 9, [(0, "b")])

    assert united(mine, yours) == united(yours, mine) != mine
    assert hash(united(mine, yours)) == hash(united(yours, mine))
    assert len({united(mine, yours), united(yours, mine), first}) == 2
    assert first != "hello"


def test_an_editor_takes_over_only_what_goes_on_from_it():
    first = edited(Document({}), 7, [(0, "hello")])
    more = edited(first, 8, [(5, "!")])
    text = editor(first, 9)

    assert text.take_over(more.runs, lambda keys: {key: more.runs[key] for key in keys})
    assert text.value == "hello!"
    assert not text.take_over(first.runs, lambda keys: {})


def test_an_editor_keeps_its_own_edits_when_it_takes_others_over():
    first = edited(Document({}), 7, [(0, "hello")])
    more = edited(first, 8, [(0, "> ")])
    text = editor(first, 9)
    text.insert(5, "!")
    assert text.take_over(more.runs, lambda keys: {key: more.runs[key] for key in keys})

    assert text.value == "> hello!"
    assert str(Document(more.runs | text.new_runs())) == "> hello!"


def test_a_number_of_its_own_that_others_have_used_is_not_taken_over():
    first = edited(Document({}), 7, [(0, "hello")])
    text = editor(first, 8)
    text.insert(0, "a")
    text.new_runs()
    other = edited(first, 8, [(0, "bcd")])

    assert not text.take_over(other.runs, lambda keys: {key: other.runs[key] for key in keys})


def test_a_new_writer_has_never_edited_the_text_before():
    first = edited(Document({}), 7, [(0, "hello")])
    with pytest.raises(Invalid, match="0000000000000007 was to be a new writer"):
        editor(first, 7).insert(0, "x")


# ---------------------------------------------------------------- what is not a document

HELLO = [0, [], [0, 5], "hello"]


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {"a": []},
        {b"short": [b"", [HELLO]]},
        {RunKey(7, 0, 0).dump(): [b"", [HELLO]]},
        {RunKey(7, 5, 0).dump(): [b"", [HELLO]]},
        {RunKey(7, 0, 2**32 - 1).dump(): [b"", [HELLO]]},
        {RunKey(7, 1, 6).dump(): [b"", [HELLO]]},  # the first edit is missing
        {RunKey(7, 0, 5).dump(): [b"", [HELLO]], RunKey(7, 4, 9).dump(): [b"", [HELLO]]},
        {RunKey(7, 0, 5).dump(): None},
        {RunKey(7, 0, 5).dump(): [b""]},
        {RunKey(7, 0, 5).dump(): ["", [HELLO]]},
        {RunKey(7, 0, 5).dump(): [b"", [[0.0, *HELLO[1:]]]]},
        {RunKey(7, 0, 5).dump(): [b"", [[0, [-1, 0], *HELLO[2:]]]]},
        {RunKey(7, 0, 5).dump(): [b"", [[0, [], [True, 5], "hello"]]]},
        {RunKey(7, 0, 5).dump(): [b"", [[0, [], [0, 5], b"hello"]]]},
    ],
    ids=repr,
)
def test_what_has_another_form_is_corrupt(data):
    with pytest.raises(Corrupt, match="a document cannot be read"):
        CODECS.lift(Tag.DOCUMENT, data)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([[0, [], [0, 6], "hello"]], "do not add up"),
        ([[0, [], [0, 4], "hello"]], "do not add up"),
        ([[0, [], [], ""]], "do not add up"),
        ([[0, [], [-1, 5], "hello"]], "a position is negative"),
        ([[0, [], [0, -5], "hello"]], "are not"),
        ([[0, [], [0], ""]], "are not"),
        ([[0, [], [0, 5, 0, 0, 1], "hello"]], "are not"),
        ([[0, [], [0, 5, 0, 0, 0, 0, 0], "hello"]], "do not add up"),
        ([[0, [], [0, 5, 0, 0, 1, 3, 0], "hello"]], "are not"),
        ([[0, [], [0, 5, 0, 0, 1, -1, 0], "hello"]], "do not add up"),
        ([[0, [], [0, 5, 0, 0, 1, 0, 2**40], "hello"]], "do not add up"),
        ([[0, [0], [0, 5], "hello"]], "are not"),
        ([[0, [4, 1], [0, 5], "hello"]], "are not"),
        ([[3, [], [0, 5], "hello"]], "another time"),
        ([[0, [], [0, 5], "hello"], [9, [0, 4], [0, 1], "x"]], "another time"),
        ([[0, [], [0, 5], "hello"], [0, [], [0, 1], "x"]], "another time"),
        ([[0, [], [0, 5], "hello"], [2, [0, 1], [0, 1], "x"]], "another time"),
        ([[6, [0, 5], [0, 5], "hello"]], "edit 5 of 0000000000000007 is missing"),
        ([[0, [], [9, 5], "hello"]], "do not make a text"),
        ([[0, [], [0, 5, 3, 0, 4, 0, 3], "hello"]], "do not make a text"),
    ],
    ids=repr,
)
def test_edits_that_contradict_each_other_are_corrupt(changes, why):
    count = max(1, sum(abs(n) for _, _, edits, _ in changes for n in edits[1:2]))
    count += sum(abs(edits[4]) for _, _, edits, _ in changes if len(edits) == 7)
    with pytest.raises(Corrupt, match=why):
        str(lift({(7, 0, count): [b"", changes]}))


def test_bytes_that_are_no_writers_are_corrupt():
    with pytest.raises(Corrupt, match="are not"):
        str(lift({(7, 0, 5): [b"short", [HELLO]]}))


def test_a_writer_may_be_any_number():
    for writer in (0, 1, 2**63, 2**64 - 2):
        assert str(lift({(writer, 0, 5): [b"", [HELLO]]})) == "hello"
    with suppress(Corrupt):  # the library has a use of its own for this one
        str(lift({(2**64 - 1, 0, 5): [b"", [HELLO]]}))


def test_a_claim_of_very_many_edits_takes_no_memory():
    huge = [[0, [], [0, 5, 0, 0, 2**30, 0, 0], "hello"]]
    with pytest.raises(Corrupt, match="do not make a text"):
        str(lift({(7, 0, 5 + 2**30): [b"", huge]}))


def test_a_panic_of_the_library_is_corrupt(monkeypatch, capfd):
    monkeypatch.setattr(text_editor, "_check_times", lambda changes, lamport_of: None)
    runs = {RunKey(7, 0, 6): [b"", [HELLO, [2, [0, 1], [0, 1], "x"]]]}
    with pytest.raises(Corrupt, match="lamport is not continuous"):
        Document(runs).editor(new_writer=lambda: 8)

    capfd.readouterr()  # the library tells of its panics


def test_a_text_that_is_right_is_read():
    assert text_of(HELLO, [5, [0, 4], [5, 1, 0, 0, 1, 0, 0], "!"]) == "ello!"
