"""Work on a number of slots, in virtual time: when it ends, and what that hangs on."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from otolith.errors import Invalid, KeyNotFound
from otolith.flows.bottlenecks import Halt, bottlenecks
from otolith.flows.graph import TaskGraph
from otolith.flows.schedules import (
    Estimate,
    Timeline,
    Work,
    best_priorities,
    eta,
    simulate,
    what_if,
)

TRIP = TaskGraph(
    {
        "plan": [],
        "flights": ["plan"],
        "hotels": ["plan"],
        "papers": ["plan"],
        "rank": ["hotels"],
        "book": ["flights", "rank"],
    }
)
PLAN, FLIGHTS, HOTELS, PAPERS, RANK, BOOK = range(6)
SECONDS = [4.0, 7.0, 8.0, 3.0, 2.0, 1.0]


def trip(slots, **more):
    return Work(TRIP, SECONDS, slots, **more)


def free(count):
    return TaskGraph({f"t{each}": [] for each in range(count)})


def fork_join(random, wings):
    """Return stages of tasks that all wait for the stage before, some taking much longer."""
    tasks: dict[str, list[str]] = {}
    stage: list[str] = []
    for number in range(wings):
        new = [f"s{number}-{each}" for each in range(random.randint(1, 12))]
        tasks |= dict.fromkeys(new, stage)
        stage = [f"join-{number}"]
        tasks[stage[0]] = new
    return tasks


def layered(random, count):
    return {
        f"t{each}": [
            f"t{random.randrange(max(0, each - 30), each)}" for _ in range(random.randrange(4))
        ]
        if each
        else []
        for each in range(count)
    }


def works(slots, shape=layered):
    """Yield works of different shapes, whose tasks have a few that take much longer than most."""
    for seed in range(12):
        random = Random(seed)
        graph = TaskGraph(shape(random, 150 if shape is layered else 8))
        yield Work(graph, [random.paretovariate(1.3) for _ in graph.names], slots)


def most_at_once(timeline, numbers):
    """Return how many of these tasks run at the same time at most."""
    changes = [(timeline.starts[each], 1) for each in numbers]
    changes += [(timeline.ends[each], -1) for each in numbers]
    most = now = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


def check(work, timeline):
    """Check that a timeline is one that workers could live."""
    graph, numbers = work.graph, range(len(work.graph))
    assert all(timeline.starts[each] >= timeline.ready(each) for each in numbers)
    assert all(
        timeline.ends[each] - timeline.starts[each] == pytest.approx(work.seconds[each])
        for each in numbers
    )
    assert most_at_once(timeline, numbers) <= work.slots
    for name, capacity in work.capacities.items():
        needing = [each for each in numbers if work.needs[each].get(name)]
        assert most_at_once(timeline, needing) <= capacity
    assert len(timeline.starts) == len(graph)


def test_a_slot_takes_the_task_that_the_longest_path_waits_for():
    timeline = simulate(trip(slots=1))

    assert sorted(range(6), key=timeline.starts.__getitem__) == [
        PLAN, HOTELS, FLIGHTS, PAPERS, RANK, BOOK,
    ]  # fmt: skip
    assert timeline.makespan == 25


def test_with_slots_for_all_the_critical_path_is_all_that_counts():
    assert simulate(trip(slots=3)).makespan == TRIP.schedule(SECONDS).length == 15
    assert simulate(trip(slots=3)).starts == TRIP.schedule(SECONDS).starts


def test_priorities_are_followed():
    timeline = simulate(trip(slots=1), [0, 1, 2, 9, 3, 4])

    assert timeline.starts[PAPERS] == 4
    assert timeline.starts[HOTELS] == 7


@pytest.mark.parametrize("slots", [1, 2, 8, 64])
@pytest.mark.parametrize("shape", [layered, fork_join])
def test_a_timeline_is_one_that_workers_could_live(slots, shape):
    for work in works(slots, shape):
        timeline = simulate(work)
        check(work, timeline)
        assert work.bound <= timeline.makespan * 1.000001
        # a list that never lets a slot be idle takes at most twice what the best one takes
        assert timeline.makespan <= 2 * work.bound


def test_a_slot_is_idle_only_if_nothing_can_begin():
    work = next(works(slots=3))
    timeline = simulate(work)

    for number, start in enumerate(timeline.starts):
        ready = timeline.ready(number)
        middle = (ready + start) / 2
        running = sum(a <= middle < b for a, b in zip(timeline.starts, timeline.ends, strict=True))
        assert start == ready or running == 3


def test_named_resources_limit_who_runs_at_once():
    needs = [{"api": 1} if each % 2 else {"gpu": 2, "api": 1} for each in range(20)]
    work = Work(free(20), [1.0] * 20, 20, needs=needs, capacities={"api": 3, "gpu": 2})

    timeline = simulate(work)

    check(work, timeline)
    assert timeline.makespan == 10  # a task with a gpu at a time, and two others beside it


def test_a_task_whose_resource_is_taken_lets_others_go_first():
    needs = [{"gpu": 1}, {"gpu": 1}, {}]
    work = Work(free(3), [5.0, 5.0, 1.0], 2, needs=needs, capacities={"gpu": 1})

    assert simulate(work, [3, 2, 1]).starts == [0, 5, 0]


def test_a_resource_without_capacity_has_no_limit():
    work = Work(free(3), [1.0] * 3, 3, needs=[{"api": 9}] * 3)

    assert simulate(work).makespan == 1


def test_work_that_could_never_be_done_is_refused():
    with pytest.raises(Invalid, match="'t0' needs 2 of 'gpu', and there are 1"):
        Work(free(1), [1.0], 1, needs=[{"gpu": 2}], capacities={"gpu": 1})
    with pytest.raises(Invalid, match="slots must be at least 1, got 0"):
        Work(free(1), [1.0], 0)


def test_what_is_settled_takes_no_time_and_what_has_begun_takes_the_rest():
    work = trip(slots=1, settled={PLAN, FLIGHTS}, begun={PAPERS: 2.0})

    timeline = simulate(work)

    assert (timeline.starts[PAPERS], timeline.ends[PAPERS]) == (-2, 1)
    assert timeline.starts[HOTELS] == 1
    assert timeline.makespan == 1 + 8 + 2 + 1


def test_more_may_have_begun_than_there_are_slots_now():
    work = Work(free(3), [3.0, 4.0, 1.0], 1, begun={0: 1.0, 1: 1.0})

    assert simulate(work).starts == [-1, -1, 3]


def test_what_waits_for_a_person_takes_no_slot():
    assert simulate(trip(slots=1, outside={HOTELS})).makespan == 17


@pytest.mark.parametrize("slots", [2, 4])
@pytest.mark.parametrize("shape", [layered, fork_join])
def test_the_best_priorities_are_no_worse_than_ranks_and_often_better(slots, shape):
    pairs = [
        (simulate(work).makespan, simulate(work, best_priorities(work)).makespan)
        for work in works(slots, shape)
    ]

    assert all(best <= ranks for ranks, best in pairs)
    assert sum(best < ranks for ranks, best in pairs) >= 6


def test_the_best_priorities_know_what_is_left_and_what_is_scarce():
    pairs = []
    for work in works(slots=4):
        first = simulate(work)
        now = first.makespan / 4
        settled = {each for each, end in enumerate(first.ends) if end <= now}
        begun = {
            each: now - start
            for each, start in enumerate(first.starts)
            if start < now and each not in settled
        }
        needs = [{"api": 1} if each % 3 else {} for each in range(len(work.graph))]
        left = replace(
            work, needs=needs, capacities={"api": 2}, settled=settled, begun=begun, outside={149}
        )
        best = simulate(left, best_priorities(left))
        pairs.append((simulate(left).makespan, best.makespan))
        assert most_at_once(best, [each for each in range(149) if needs[each]]) <= 2 + len(begun)
        assert all(best.starts[each] == -elapsed for each, elapsed in begun.items())

    assert all(best <= ranks for ranks, best in pairs)
    assert sum(best < ranks for ranks, best in pairs) >= 6


def test_the_best_priorities_are_the_same_each_time():
    work, again = next(works(2)), next(works(2))

    assert best_priorities(work) == best_priorities(again)


def test_nothing_is_tried_where_there_are_too_many_tasks():
    count = 100_000
    work = Work(free(count), [1.0 + each % 7 for each in range(count)], 8)

    assert best_priorities(work) is work.ranks


def test_an_estimate_without_spread_is_exact():
    assert eta(trip(slots=3), [0.0] * 6) == Estimate(15, 15, 15)


def test_an_estimate_is_wider_the_less_is_known_and_holds_in_eight_of_ten_cases():
    work = trip(slots=2)
    little, much = (eta(work, [share * each for each in SECONDS]) for share in (0.1, 0.5))
    random, inside = Random(7), 0
    for _ in range(500):
        lived = [random.gammavariate(4, each / 4) for each in SECONDS]  # deviations of a half
        inside += much.low <= simulate(Work(TRIP, lived, 2)).makespan <= much.high

    assert much.high - much.low > 2 * (little.high - little.low)
    assert little.low < little.expected < little.high
    assert abs(inside / 500 - 0.8) < 0.1


def test_a_task_that_runs_longer_than_it_ever_did_is_taken_to_end_at_any_moment():
    work = Work(free(1), [2.0], 1, begun={0: 500.0})

    assert eta(work, [0.5]) == Estimate(0, 0, 0)


def test_a_task_that_has_begun_takes_longer_than_it_has_taken():
    work = Work(free(1), [2.0], 1, begun={0: 2.5})

    assert 0 < eta(work, [1.0]).expected < 2


def test_what_if_a_task_took_half_is_told_with_what_that_saves():
    found = what_if(trip(slots=3), {"hotels": 0.5})

    assert (found.before, found.after, found.saved) == (15, 12, 3)  # then flights are as long


def test_what_if_knows_functions_as_well():
    functions = ["plan", "search", "search", "check", "rank", "book"]

    assert what_if(trip(slots=3), {"search": 0.5}, functions).after == 4 + 4 + 2 + 1
    assert what_if(trip(slots=3), {"plan": 0, "book": 2}, functions).after == 12


def test_shorter_tasks_never_make_it_longer():
    """Lists of tasks do not promise that by themselves: Graham's anomaly."""
    after = {"t8": ["t0"], "t4": ["t3"], "t5": ["t3"], "t6": ["t3"], "t7": ["t3"]}
    graph = TaskGraph({f"t{each}": after.get(f"t{each}", []) for each in range(9)})
    work = Work(graph, [3.0, 2.0, 2.0, 2.0, 4.0, 4.0, 4.0, 4.0, 9.0], 3)

    for name in graph.names:
        assert what_if(work, {name: 0.6}).saved >= 0
    for each in works(3):
        assert what_if(each, dict.fromkeys(each.graph.names[::3], 0.7)).saved >= 0


@pytest.mark.parametrize(
    ("factors", "error", "said"),
    [
        ({"serach": 0.5}, KeyNotFound, "no task and no function 'serach'"),
        ({"book": -1.0}, Invalid, "'book' cannot take -1.0 times as long"),
        ({"book": float("nan")}, Invalid, "'book' cannot take nan times"),
    ],
)
def test_what_if_refuses_what_makes_no_sense(factors, error, said):
    with pytest.raises(error, match=said):
        what_if(trip(slots=3), factors)


def test_bottlenecks_are_what_the_end_hangs_on_with_what_each_would_save():
    found = bottlenecks(trip(slots=3))

    assert [(each.name, each.cause, each.seconds, each.saves) for each in found] == [
        ("plan", "runs", 4, 4),
        ("hotels", "runs", 8, 3),
        ("rank", "runs", 2, 2),
        ("book", "runs", 1, 1),
    ]


def test_failed_attempts_are_a_cause_of_their_own():
    found = bottlenecks(trip(slots=3), retried={HOTELS: 6.0})

    hotels = {each.cause: each for each in found if each.name == "hotels"}
    assert (hotels["retries"].seconds, hotels["retries"].saves) == (6, 3)
    assert hotels["runs"].seconds == 2


def test_waiting_for_a_slot_is_a_cause_and_one_more_slot_is_what_it_saves():
    work = Work(free(9), [1.0] * 9, 1)

    (waits, runs) = bottlenecks(work)

    assert (waits.cause, waits.seconds, waits.saves) == ("waits for a slot", 8, 4)
    assert (runs.name, runs.seconds, runs.saves) == (waits.name, 1, 1)


def test_waiting_for_a_resource_saves_what_one_more_unit_would():
    work = Work(free(9), [1.0] * 9, 9, needs=[{"gpu": 1}] * 9, capacities={"gpu": 1})

    assert bottlenecks(work)[0].cause == "waits for gpu"
    assert bottlenecks(work)[0].saves == 4


def test_the_pieces_of_what_really_happened_add_up_to_all_of_it():
    lived = Timeline(TRIP, [0, 4, 5, 4, 14, 20], [4, 11, 13, 7, 17, 22])
    work = Work(TRIP, [b - a for a, b in zip(lived.starts, lived.ends, strict=True)], 3)

    found = bottlenecks(work, lived)

    assert sum(each.seconds for each in found) == lived.makespan == 22
    assert [TRIP.names[each] for each in lived.chain()] == ["plan", "hotels", "rank", "book"]
    waits = {each.name: each.seconds for each in found if each.cause == "waits for a slot"}
    assert waits == {"hotels": 1, "rank": 1, "book": 3}


def test_what_has_happened_and_what_is_expected_make_one_timeline():
    left = simulate(trip(slots=3, settled={PLAN, FLIGHTS, HOTELS, PAPERS}))
    happened = {PLAN: (0.0, 5.0), FLIGHTS: (5.0, 13.0), HOTELS: (5.0, 11.0), PAPERS: (5.0, 7.0)}

    timeline = left.since(13.0, happened)

    assert (timeline.starts[RANK], timeline.makespan) == (13, 16)
    assert timeline.ends[HOTELS] == 11


def test_each_of_a_chain_could_begin_when_the_one_before_it_was_done():
    for work in works(3):
        timeline = simulate(work)
        chain = timeline.chain()
        assert timeline.ready(chain[0]) == 0
        assert timeline.ends[chain[-1]] == timeline.makespan
        assert all(timeline.ready(two) == timeline.ends[one] for one, two in pairwise(chain))


def test_a_rate_spreads_what_is_simulated():
    work = Work(
        free(7), [0.5] * 7, 7, needs=[{"api": 1}] * 7, capacities={"api": 9}, rates={"api": (2, 1)}
    )
    timeline = simulate(work)

    assert sorted(timeline.starts) == [0, 0, 1, 1, 2, 2, 3]
    assert timeline.makespan == 3.5


def test_a_rate_holds_up_only_what_needs_it():
    needs: list[dict[str, int]] = [{"api": 1}, {"api": 1}, {}, {}]
    timeline = simulate(Work(free(4), [0.1] * 4, 1, needs=needs, rates={"api": (1, 10)}))

    assert sorted(timeline.starts[2:]) == [0.1, 0.2]
    assert sorted(timeline.starts[:2]) == [0, 10]


def test_what_waits_for_a_rate_is_named_and_saves_what_no_rate_would():
    work = Work(free(6), [1.0] * 6, 9, needs=[{"api": 1}] * 6, rates={"api": (1, 5)})
    waits = bottlenecks(work)[0]

    assert (waits.cause, waits.seconds, waits.saves) == ("waits for the rate of api", 25, 25)


def test_what_waits_for_a_person_is_named():
    graph = TaskGraph({"make": [], "sign": ["make"], "send": ["sign"]})
    work = Work(graph, [1.0, 20.0, 1.0], 2, outside={1})

    assert bottlenecks(work)[0] == ("sign", "waits for an answer", 20, 20)


def test_a_pause_is_no_wait_for_a_slot():
    graph = TaskGraph({"one": [], "two": ["one"]})
    lived = Timeline(graph, [0, 9], [1, 10])
    halts = {None: [Halt("paused", 1, 8)], 1: [Halt("waits for an answer", 7, 8.5)]}
    found = bottlenecks(Work(graph, [1.0, 1.0], 1), lived, halts=halts)

    assert {each.cause: each.seconds for each in found if each.name == "two"} == {
        "paused": 6.5, "waits for an answer": 1.5, "runs": 1,
    }  # fmt: skip
