"""Generated documents: texts that one or two writers made, apart or one after the other."""

from __future__ import annotations

from hypothesis import strategies as st

from otolith.codecs import Document

_parts = st.text(st.sampled_from("ab \n😀é"), min_size=1, max_size=5)
_edits = st.lists(st.tuples(st.integers(0, 20), _parts | st.integers(1, 4)), min_size=1, max_size=6)


def editor(document, writer):
    return document.editor(new_writer=lambda: writer)


def edited(document, writer, edits):
    """Return a document with edits by another writer: texts to put in, numbers to take out."""
    text = editor(document, writer)
    for at, what in edits:
        place = min(at, text.length)
        if isinstance(what, str):
            text.insert(place, what)
        else:
            text.delete(place, min(place + what, text.length))
    return Document(document.runs | text.new_runs())


def united(*documents):
    """Return the document with the edits of all of them."""
    return Document({key: run for each in documents for key, run in each.runs.items()})


@st.composite
def documents(draw):
    """Return a strategy for documents."""
    first = edited(Document({}), draw(st.integers(1, 2**63)), draw(_edits))
    sides = [
        edited(first, 2**40 + number, edits)
        for number, edits in enumerate(draw(st.lists(_edits, max_size=2)))
    ]
    return draw(st.sampled_from([first, united(first, *sides)]))
