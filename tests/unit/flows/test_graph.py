"""A graph of tasks: what comes after what, in what order, and what the whole takes."""

from __future__ import annotations

import pytest

from otolith.errors import Exists, Invalid, KeyNotFound
from otolith.flows.graph import TaskGraph

TRIP = {
    "plan": [],
    "flights": ["plan"],
    "hotels": ["plan"],
    "rank": ["hotels"],
    "book": ["flights", "rank"],
    "papers": ["plan"],
}
SECONDS = {"plan": 4.0, "flights": 7.0, "hotels": 8.0, "rank": 2.0, "book": 1.0, "papers": 3.0}


@pytest.fixture
def trip():
    return TaskGraph(TRIP)


def contents(graph):
    edges = {name: (sorted(graph.waits_for(name)), sorted(graph.unlocks(name))) for name in TRIP}
    return edges, [*graph.names], dict(graph.number), [*graph.order]


def named(graph, values):
    return dict(zip(graph.names, values, strict=True))


def test_tasks_know_what_they_wait_for_and_what_they_unlock(trip):
    assert trip.waits_for("book") == ["flights", "rank"]
    assert trip.unlocks("plan") == ["flights", "hotels", "papers"]
    assert trip.downstream("hotels") == ["rank", "book"]
    assert (len(trip), "rank" in trip, "visa" in trip) == (6, True, False)


def test_tasks_that_can_run_in_the_order_they_were_added_are_in_that_order(trip):
    assert [trip.names[each] for each in trip.order] == [*TRIP]


def test_a_task_that_was_added_before_what_it_waits_for_moves_behind_it_and_no_other_does():
    graph = TaskGraph({"last": ["first"], "a": [], "first": ["a"], "b": []})

    assert [graph.names[each] for each in graph.order] == ["a", "first", "last", "b"]
    assert graph.downstream("a") == ["first", "last"]


def test_a_task_that_is_named_twice_in_what_another_waits_for_counts_once():
    graph = TaskGraph({"a": [], "b": ["a", "a"]})
    graph.add({}, [("a", "b")])

    assert graph.waits_for("b") == ["a"]
    assert graph.unlocks("a") == ["b"]


def test_a_link_makes_an_earlier_task_wait_for_a_later_one(trip):
    trip.add({"visa": ["plan"]}, [("visa", "book")])

    assert trip.waits_for("book") == ["flights", "rank", "visa"]
    assert [trip.names[each] for each in trip.order][-2:] == ["visa", "book"]


@pytest.mark.parametrize(
    ("tasks", "links", "path"),
    [
        ({"a": ["a"]}, [], "a -> a"),
        ({"a": ["b"], "b": ["a"]}, [], "a -> b -> a"),
        ({}, [("book", "plan")], "plan -> flights -> book -> plan"),
        ({"visa": ["book"]}, [("visa", "hotels")], "visa -> hotels -> rank -> book -> visa"),
    ],
)
def test_a_cycle_is_refused_with_its_path_and_nothing_of_it_is_added(trip, tasks, links, path):
    before = contents(trip)

    with pytest.raises(Invalid, match="wait for each other") as refused:
        trip.add({"fine": ["plan"], **tasks}, links)

    assert refused.value.message == f"these tasks wait for each other: {path}"
    assert contents(trip) == before


def test_the_path_of_a_long_cycle_is_cut():
    chain = {f"t{each}": [f"t{each - 1}"] for each in range(1, 1000)}

    with pytest.raises(Invalid) as refused:
        TaskGraph({"t0": ["t999"], **chain})

    assert refused.value.message.endswith("t17 -> t18 -> (981 more) -> t0")


def test_a_cycle_over_links_that_lead_back_and_forth_is_found():
    graph = TaskGraph({"a": [], "b": [], "c": []})
    graph.add({}, [("c", "a")])

    with pytest.raises(Invalid, match="b -> c -> a -> b"):
        graph.add({}, [("a", "b"), ("b", "c")])


@pytest.mark.parametrize(
    ("tasks", "links", "said"),
    [
        ({"visa": ["plan", "paln"]}, [], "'visa' comes after 'paln', and there is no such task"),
        ({}, [("plan", "bok")], "a link leads from 'plan' to 'bok', and there is no such task"),
    ],
)
def test_a_task_that_is_unknown_is_named_with_those_there_are(trip, tasks, links, said):
    before = contents(trip)

    with pytest.raises(KeyNotFound) as refused:
        trip.add(tasks, links)

    assert refused.value.message == said
    assert "plan, flights, hotels" in refused.value.hint
    assert contents(trip) == before


def test_a_name_is_given_once(trip):
    with pytest.raises(Exists, match="'plan'"):
        trip.add({"visa": [], "plan": []})

    assert "visa" not in trip


def test_a_schedule_says_when_tasks_can_and_must_begin(trip):
    schedule = trip.schedule(SECONDS.__getitem__)

    assert schedule.length == 15
    assert schedule.critical_path == ["plan", "hotels", "rank", "book"]
    assert named(trip, schedule.starts) == {
        "plan": 0, "flights": 4, "hotels": 4, "rank": 12, "book": 14, "papers": 4,
    }  # fmt: skip
    assert named(trip, schedule.latest_starts) == {
        "plan": 0, "flights": 7, "hotels": 4, "rank": 12, "book": 14, "papers": 12,
    }  # fmt: skip
    assert named(trip, schedule.slack) == {
        "plan": 0, "flights": 3, "hotels": 0, "rank": 0, "book": 0, "papers": 8,
    }  # fmt: skip
    assert named(trip, schedule.ranks)["hotels"] == 11


def test_seconds_that_do_not_add_up_exactly_leave_no_slack_on_the_critical_path():
    graph = TaskGraph({"a": [], "b": ["a"], "c": ["b"], "d": ["c"]})

    assert graph.schedule([0.1, 0.2, 0.3, 0.7]).slack == [0, 0, 0, 0]


def test_an_empty_graph_takes_no_time():
    schedule = TaskGraph().schedule([])

    assert (schedule.length, schedule.critical_path, schedule.slack) == (0, [], [])


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_seconds_that_are_no_duration_are_refused(trip, seconds):
    with pytest.raises(Invalid, match=f"'flights' would take {seconds}"):
        trip.schedule([1.0, seconds, 1.0, 1.0, 1.0, 1.0])


def test_seconds_of_another_number_of_tasks_are_refused(trip):
    with pytest.raises(Invalid, match="6 tasks and seconds of 2"):
        trip.schedule([1.0, 1.0])
