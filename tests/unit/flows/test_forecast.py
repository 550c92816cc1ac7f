"""What a run still takes, what its end hangs on, and pictures of it."""

from __future__ import annotations

from itertools import pairwise

import pytest

import otolith
from otolith.core import Branch
from otolith.errors import Invalid, KeyNotFound
from otolith.flows import Flow, FlowTask, TaskRecord
from otolith.flows.storage import StoredFlow

SECOND = 1_000_000


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.now = 1_000 * SECOND

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def state(clock):
    with otolith.open("memory:", clock=clock) as repo:
        yield repo.session("trip")


def half_done(state, clock):
    """Return a run: `a` took 4 s, `b` runs since 1 s, two more of its function are left."""
    flow = Flow("trip")
    flow.task(lambda: 1, name="a")
    long = flow.task(lambda: 1, name="b", after="a")
    flow.add(FlowTask("c", call=long, after="a"))
    flow.add(FlowTask("d", call=long, after=["b", "c"]))
    run = state.flow(flow)
    begun = clock.now
    branch = Branch(state.repo.backend, state.ref)
    stored = StoredFlow(branch, run.key)
    a = {"attempt": 1, "began": begun, "ended": begun + 4 * SECOND, "ran": 4 * SECOND}
    stored.put_record("a", TaskRecord("done", **a))
    b = {"attempt": 1, "began": begun + 4 * SECOND, "worker": "w@main"}
    stored.put_record("b", TaskRecord("running", **b))
    clock.now = begun + 5 * SECOND
    branch.commit("half done")
    return run


def test_what_is_not_known_takes_as_long_as_what_is(state, clock):
    run = half_done(state, clock)

    assert run.critical_path() == {"a": 4.0, "b": 4.0, "d": 4.0}
    assert run.progress().percent == 25.0
    assert run.eta(slots=1).expected > run.eta(slots=2).expected > 0


def test_what_runs_has_less_left(state, clock):
    run = half_done(state, clock)

    before = run.what_if({}).before
    clock.now += 2 * SECOND
    assert run.what_if({}).before < before


def test_what_if_a_function_took_half_the_time(state, clock):
    run = half_done(state, clock)

    found = run.what_if(b=0.5)
    assert 0 < found.after < found.before
    assert found.saved == found.before - found.after
    with pytest.raises(KeyNotFound, match="no task and no function 'x'"):
        run.what_if(x=0.5)
    with pytest.raises(Invalid, match="-1 times as long"):
        run.what_if(b=-1)


def test_bottlenecks_name_what_would_save_time(state, clock):
    run = half_done(state, clock)

    found = run.bottlenecks(slots=2)
    assert (found[0].name, found[0].cause, found[0].seconds) == ("a", "runs", 4.0)
    assert all(one.saves >= two.saves for one, two in pairwise(found))
    assert {each.name for each in run.bottlenecks(slots=1, most=20)} >= {"a", "d"}


def test_a_run_that_is_over_has_nothing_left(state):
    flow = Flow("f")
    flow.task(lambda: 1, name="one")
    run = state.flow(flow)
    run.work()

    assert run.eta() == (0.0, 0.0, 0.0)
    assert list(run.critical_path()) == ["one"]


def test_a_forecast_needs_a_slot(state, clock):
    with pytest.raises(Invalid, match="at least 1, got 0"):
        half_done(state, clock).eta(slots=0)


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("run.html", "<!DOCTYPE html>"),
        ("run.svg", "<svg"),
        ("run.gantt.svg", "<svg"),
        ("run.mmd", "flowchart"),
    ],
)
def test_a_run_is_drawn_into_a_file(state, clock, tmp_path, name, begins):
    run = half_done(state, clock)

    path = run.write(tmp_path / name)
    text = path.read_text()
    assert text.lower().startswith(begins.lower())
    assert "trip" in text or name.endswith(".mmd")


def test_a_file_of_another_kind_is_refused(state, clock, tmp_path):
    with pytest.raises(Invalid, match="does not say what to draw"):
        half_done(state, clock).write(tmp_path / "run.png")


def test_the_past_has_a_forecast_too(state, clock):
    run = half_done(state, clock)

    assert list(run.at(state.head).critical_path()) == ["a", "b", "d"]
    assert run.at(state.head).workers() == {}


def causes(run):
    return {(each.name, each.cause): each.seconds for each in run.bottlenecks()}


def test_who_answered_and_when_is_recorded_and_the_wait_is_named(state, clock):
    flow = Flow("signed")
    flow.task(lambda: 1, name="draw")
    flow.add(FlowTask("sign", goal="Sign it", after="draw"))
    flow.task(lambda task: task.ask("Send?"), name="send", after="sign")
    run = state.flow(flow)
    run.work()
    asked = clock.now
    clock.now += 60 * SECOND
    run.answer("sign", True, by="ann")
    run.work()
    clock.now += 30 * SECOND
    run.answer("send", True)
    run.work()

    sign, send = run.task("sign").record, run.task("send").record
    assert sign.asked == pytest.approx(asked, abs=9)
    assert (sign.answered, sign.answered_by) == (pytest.approx(asked + 60 * SECOND, abs=9), "ann")
    assert send.answered == pytest.approx(asked + 90 * SECOND, abs=9)
    assert send.answered_by == state.repo.backend.author
    found = causes(run)
    assert found["sign", "waits for an answer"] == pytest.approx(60, abs=0.1)
    assert found["send", "waits for an answer"] == pytest.approx(30, abs=0.1)
    assert found.get(("send", "waits for a slot"), 0) < 0.1


def test_a_pause_is_named(state, clock):
    flow = Flow("paused")
    flow.task(lambda: 1, name="a")
    run = state.flow(flow)
    run.pause("lunch")
    clock.now += 60 * SECOND
    assert causes(run)["a", "paused"] == pytest.approx(60)
    run.resume()
    run.work()

    assert causes(run)["a", "paused"] == pytest.approx(60)
    assert causes(state.flow(key="paused"))["a", "paused"] == pytest.approx(60)


def test_a_resource_and_a_rate_are_named(state, clock):
    for key, flow in {
        "waits for gpu": Flow("units", resources={"gpu": 1}),
        "waits for the rate of gpu": Flow("rate", resources={"gpu": 9}, rates={"gpu": "1/s"}),
    }.items():
        for number in range(4):
            flow.task(lambda: 1, name=f"t{number}", needs={"gpu": 1})
        run = state.flow(flow)
        branch = Branch(state.repo.backend, state.ref)
        stored = StoredFlow(branch, run.key)
        for number in range(4):
            begun = clock.now + number * SECOND
            ran = SECOND if "rate" not in key else SECOND // 10
            times = {"began": begun, "ended": begun + ran, "ran": ran}
            stored.put_record(f"t{number}", TaskRecord("done", attempt=1, **times))
        branch.commit("done")

        assert ("t3", key) in causes(run)


def test_the_estimate_knows_of_rates(state, clock):
    flow = Flow("slow", resources={"api": 9}, rates={"api": "1/s"})
    for number in range(20):
        flow.task(lambda: 1, name=f"t{number}", needs={"api": 1})
    run = state.flow(flow)

    assert run.eta(slots=4).expected >= 19
