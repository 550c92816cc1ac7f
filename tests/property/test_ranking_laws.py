"""The ranking of texts depends on the texts alone, not on what was added and removed before."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from otolith.text.ranking import TextIndex

WORDS = ("aisle", "seat", "seats", "window", "the", "Flug", "vegan", "fish", "酒店", "12c")
texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
keys = st.integers(0, 5)
steps = st.lists(st.tuples(keys, st.none() | st.tuples(texts, texts)), max_size=20)
options = st.fixed_dictionaries({"prefixes": st.booleans(), "related": st.booleans()})
ways = st.fixed_dictionaries(
    {"limit": st.none() | st.integers(0, 4), "closeness": st.booleans()},
    optional={"near": st.just(lambda at: [(at + 1, 0.7), (at - 1, 0.4)])},
)


def changed(steps, index):
    """Change an index step by step, and return its texts in the order of the last additions."""
    left: dict[int, Any] = {}
    for key, fields in steps:
        left.pop(key, None)
        if fields is None:
            index.remove(key)
        else:
            index.add(key, *fields)
            left[key] = fields
    return left


@given(steps, options, texts, ways)
def test_an_index_that_changed_ranks_as_one_built_at_once(steps, options, question, way):
    index, fresh = TextIndex[Any](**options), TextIndex[Any](**options)
    for key, fields in changed(steps, index).items():
        fresh.add(key, *fields)

    assert index.rank(question, **way) == fresh.rank(question, **way)


@given(steps, st.dictionaries(keys, st.tuples(texts)), options, texts)
def test_an_updated_index_ranks_as_one_built_at_once(steps, wanted, options, question):
    index, fresh = TextIndex[Any](**options), TextIndex[Any](**options)
    changed(steps, index)
    index.update(wanted)
    for key, fields in wanted.items():
        fresh.add(key, *fields)

    assert index.rank(question) == fresh.rank(question)


@given(st.lists(texts, max_size=6), texts, options)
def test_a_text_that_was_removed_is_as_one_never_added(said, gone, options):
    index, fresh = TextIndex[Any](**options), TextIndex[Any](**options)
    for key, text in enumerate(said):
        fresh.add(key, text)
    index.add("gone", gone)
    for key, text in enumerate(said):
        index.add(key, text)
    index.remove("gone")

    assert index.rank(gone) == fresh.rank(gone)
    assert repr(index) == repr(fresh)


@given(st.lists(texts, max_size=6), texts, st.integers(0, 6))
def test_a_limit_takes_the_first(said, question, limit):
    index = TextIndex[Any]()
    for key, text in enumerate(said):
        index.add(key, text)

    found = index.rank(question)
    telling = [match for match in found if set(match.words) - {"the"}]

    assert index.rank(question, limit)[: len(telling)] == telling[:limit]
