"""Graphs of tasks keep their laws: they agree with networkx, in pieces as at once."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otolith.errors import Invalid
from otolith.flows.graph import TaskGraph

MANY = settings(max_examples=4 * settings().max_examples)


@st.composite
def tasks(draw):
    """Draw tasks, each with what it comes after: mostly earlier ones, in any order of names."""
    count = draw(st.integers(1, 14))
    order = draw(st.permutations(range(count)))
    ends = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    edges = {
        (min(one, two), max(one, two)) for one, two in draw(st.lists(ends, max_size=3 * count))
    }
    found: dict[str, list[str]] = {f"t{each}": [] for each in range(count)}
    for one, two in sorted(edges):
        if one != two:
            found[f"t{order[two]}"].append(f"t{order[one]}")
    return found


@st.composite
def timed_tasks(draw):
    drawn = draw(tasks())
    return drawn, draw(st.lists(st.integers(0, 5), min_size=len(drawn), max_size=len(drawn)))


def digraph(tasks):
    graph = nx.DiGraph()
    graph.add_nodes_from(tasks)
    graph.add_edges_from((one, two) for two, many in tasks.items() for one in many)
    return graph


def contents(graph):
    before, after = ([sorted(many) for many in side] for side in (graph.before, graph.after))
    return [*graph.names], dict(graph.number), before, after, [*graph.order]


@MANY
@given(tasks())
def test_the_order_has_all_tasks_each_after_those_it_waits_for_and_the_first_added_first(drawn):
    graph = TaskGraph(drawn)
    oracle = nx.lexicographical_topological_sort(digraph(drawn), key=graph.number.__getitem__)

    assert [graph.names[each] for each in graph.order] == [*oracle]


@MANY
@given(timed_tasks())
def test_the_length_is_that_of_the_longest_path_of_networkx(timed):
    drawn, seconds = timed
    took = dict(zip(drawn, seconds, strict=True))
    oracle = digraph(drawn)
    oracle.add_weighted_edges_from((one, two, took[two]) for one, two in [*oracle.edges])
    oracle.add_weighted_edges_from(("start", name, took[name]) for name in drawn)

    schedule = TaskGraph(drawn).schedule([*map(float, seconds)])

    assert schedule.length == nx.dag_longest_path_length(oracle)
    assert schedule.length == sum(took[name] for name in schedule.critical_path)
    assert nx.is_path(digraph(drawn), schedule.critical_path)


@MANY
@given(timed_tasks())
def test_slack_is_what_a_task_can_be_late_without_delaying_the_end(timed):
    drawn, seconds = timed
    graph = TaskGraph(drawn)
    schedule = graph.schedule([*map(float, seconds)])

    for number, slack in enumerate(schedule.slack):
        later = [*schedule.seconds]
        later[number] += slack
        assert graph.schedule(later).length == schedule.length
        later[number] += 1
        assert graph.schedule(later).length == schedule.length + 1
    assert {*schedule.critical_path} <= {
        name for name, slack in zip(graph.names, schedule.slack, strict=True) if not slack
    }


@MANY
@given(tasks(), st.data())
def test_tasks_and_links_in_pieces_make_the_graph_that_they_make_at_once(drawn, data):
    whole, pieces = TaskGraph(drawn), TaskGraph()
    names = [*drawn]
    while len(pieces) < len(names):
        stop = data.draw(st.integers(len(pieces) + 1, len(names)))
        new = names[len(pieces) : stop]
        known = {*names[:stop]}
        links = [(one, two) for two in names[: len(pieces)] for one in drawn[two] if one in new]
        pieces.add({two: [one for one in drawn[two] if one in known] for two in new}, links)
        if data.draw(st.booleans()):
            assert sorted(pieces.order) == [*range(stop)]

    assert contents(pieces) == contents(whole)


@MANY
@given(tasks(), st.data())
def test_a_graph_refuses_exactly_what_closes_a_cycle_and_is_then_as_before(drawn, data):
    graph = TaskGraph(drawn)
    ends = st.sampled_from([*drawn, "new"])
    links = data.draw(st.lists(st.tuples(ends, ends), min_size=1, max_size=4))
    after = data.draw(st.lists(st.sampled_from([*drawn]), max_size=3))
    oracle = digraph({**drawn, "new": after})
    oracle.add_edges_from(links)
    before = contents(graph)

    if nx.is_directed_acyclic_graph(oracle):
        graph.add({"new": after}, links)
        assert {(one, two) for two in graph.names for one in graph.waits_for(two)} == {
            *oracle.edges
        }
    else:
        with pytest.raises(Invalid) as refused:
            graph.add({"new": after}, links)
        path = refused.value.message.rpartition(": ")[2].split(" -> ")
        assert path[0] == path[-1]
        assert all(oracle.has_edge(one, two) for one, two in pairwise(path))
        assert contents(graph) == before
