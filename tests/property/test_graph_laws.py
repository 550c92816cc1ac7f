"""The graph keeps its laws: common ancestors, order and ancestry equal brute force."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from otolith.codecs import Codecs
from otolith.core.history.commits import Commit, Graph, make_commit
from otolith.core.trees.cells import Cells
from otolith.core.trees.encoding import Encoding
from otolith.core.trees.objects import Buffer, Objects
from otolith.stores import Batch, MemoryStore, Object

MANY = settings(max_examples=4 * settings().max_examples)


@st.composite
def graphs(draw):
    """Draw the parents of each commit: up to three earlier ones; and the time of each clock."""
    count = draw(st.integers(1, 14))
    parents = [
        draw(st.lists(st.integers(0, number - 1), max_size=3, unique=True)) if number else []
        for number in range(count)
    ]
    clocks = draw(st.lists(st.integers(0, 5), min_size=count, max_size=count))
    return list(zip(parents, clocks, strict=True))


def built(drawn):
    store = MemoryStore()
    cells = Cells(Buffer(Objects(store)), Encoding(Codecs()), 0)
    root = cells.root(cells.put({}))
    store.write(Batch(objects=[*cells.objects.fresh.values()]))
    made: list[Commit] = []
    for number, (parents, clock) in enumerate(drawn):
        commit, data = make_commit(
            root,
            tuple(made[parent] for parent in parents),
            now=clock,
            author="",
            message=str(number),
        )
        store.write(Batch(objects=[Object(commit.hash, data)]))
        made.append(commit)
    return Graph(Objects(store)), made


def closure(drawn):
    """Return for each commit the numbers of itself and all before it."""
    found: list[set[int]] = []
    for number, (parents, _) in enumerate(drawn):
        found.append({number}.union(*(found[parent] for parent in parents)))
    return found


def some(draw, made):
    return draw.draw(st.lists(st.integers(0, len(made) - 1), min_size=1, max_size=3, unique=True))


@MANY
@given(graphs(), st.data())
def test_the_lowest_common_ancestors_equal_brute_force(drawn, data):
    graph, made = built(drawn)
    before = closure(drawn)
    left, right = some(data, made), some(data, made)
    common = set().union(*(before[n] for n in left)) & set().union(*(before[n] for n in right))
    lowest = {n for n in common if not any(n in before[m] and n != m for m in common)}
    found = graph.bases([made[n] for n in left], [made[n] for n in right])
    assert {int(commit.message) for commit in found} == lowest
    assert len(found) == len(lowest)
    assert found == sorted(found, key=lambda commit: (commit.time, commit.id))


@given(graphs(), st.data())
def test_the_log_shows_every_ancestor_once_and_after_its_descendants(drawn, data):
    graph, made = built(drawn)
    before = closure(drawn)
    tips = some(data, made)
    shown = [int(commit.message) for commit in graph.log(*(made[n] for n in tips))]
    assert sorted(shown) == sorted(set().union(*(before[n] for n in tips)))
    for place, number in enumerate(shown):
        assert not before[number] & set(shown[:place]) - {number}


@given(graphs(), st.data())
def test_ancestry_equals_brute_force(drawn, data):
    graph, made = built(drawn)
    before = closure(drawn)
    numbers = st.integers(0, len(made) - 1)
    for _ in range(5):
        old, new = data.draw(numbers), data.draw(numbers)
        assert graph.is_ancestor(made[old], made[new]) == (old in before[new])


@given(graphs())
def test_generations_and_times_grow_along_every_edge(drawn):
    graph, made = built(drawn)
    for commit in made:
        for parent in graph.parents(commit):
            assert parent.generation < commit.generation
            assert parent.time < commit.time
