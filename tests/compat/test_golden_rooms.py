"""A store that every room wrote before modules moved is found, read and gone on with."""

from __future__ import annotations

import re
import shutil

import pytest

import otolith
from otolith.agent import load_run
from otolith.care import verify
from otolith.statecharts import AGENT, Chart
from tests.compat.make_golden_rooms import BOOKING, GOLDEN_ROOMS, Booker, own_values, pay
from tests.compat.reader_rows import Rows

STORED_CLASSES = {
    "otolith.agent.conversation.message:Role",
    "otolith.agent.conversation.message:Text",
    "otolith.agent.lifecycle.phases:Phase",
    "otolith.agent.loop.models.model:Usage",
    "otolith.agent.memory.calls:ToolRecord",
    "otolith.agent.memory.note:Note",
    "otolith.agent.memory.plan:Step",
    "otolith.agent.memory.plan:StepState",
    "otolith.agent.memory.recalling:Recalled",
    "otolith.agent.memory.task:TaskState",
    "otolith.agent.workspace.runner:Runner",
}
PICKLED_MODULES = {
    "otolith.agent.conversation.message",
    "otolith.agent.loop.models.model",
    "otolith.agent.workspace.worker.caches",
    "otolith.agent.workspace.worker.classes",
    "otolith.agent.workspace.worker.definitions",
    "otolith.agent.workspace.worker.world",
}


@pytest.fixture
def repo(tmp_path, monkeypatch):
    monkeypatch.setenv("OTOLITH_KEY", "07" * 32)
    place = tmp_path / "rooms.db"
    shutil.copyfile(GOLDEN_ROOMS, place)
    repo = otolith.open(place)
    yield repo
    repo.close()


def test_it_holds_names_of_classes_and_functions_as_they_were_before_the_move():
    stored = b"\n".join(Rows(str(GOLDEN_ROOMS)).objects())
    classes = {name.decode() for name in re.findall(rb"otolith[\w.]+:\w+", stored)}
    modules = {name.decode() for name in re.findall(rb"\x8c.(otolith[\w.]+)\x94", stored)}

    assert classes == STORED_CLASSES
    assert modules == PICKLED_MODULES


def test_it_is_sound_all_the_way_down(repo):
    assert verify(repo, level="deep").ok


@pytest.mark.parametrize("name", sorted(own_values()))
def test_a_value_of_our_own_class_comes_out_as_it_went_in(repo, name):
    expected = own_values()[name]
    found = repo.session("own")[name]

    assert type(found) is type(expected)
    assert repr(found) == repr(expected)


def test_what_was_said_and_remembered_is_found(repo):
    state = repo.session("talk")

    assert [message.role for message in state.conversation] == [
        "system", "user", "assistant", "tool", "assistant",
    ]  # fmt: skip
    assert state.conversation[1].parts[1].data == b"\x89PNG..."
    assert [step.text for step in state.memory.pending()] == ["book"]
    assert state.memory.recall("airline")[0].value == "Delta"
    assert state.memory.tool_calls[-1].duration_ms == 412.0


def test_a_run_that_paused_goes_on_and_pays_nothing_twice(repo):
    outcome = Booker(repo, tools=[pay]).run(session="run", answer="aisle")

    assert outcome.answer == "aisle, paid once"


def test_a_task_that_ended_is_found(repo):
    run = load_run(repo.session("task"))

    assert run is not None
    assert (run.phase, run.final_answer) == ("done", 2.0)


def test_machines_are_where_they_were(repo):
    state = repo.session("charts")

    assert state.lifecycle(AGENT).phase == "planning"
    assert state.lifecycle(Chart.from_data(BOOKING), name="booking").phase == "booked"


SURVIVORS = {
    "total() == 200 and later() == 201": "functions, and what is bound to them",
    "repr(trip) == 'Trip(NYC)' and again is trip and trip.loud == 'NYC'": "classes",
    "Trip.fare() == 200 and type(Trip.home()) is Trip": "static and class methods",
    "leg.trip is trip and leg == Leg(trip) and leg.seat is Seat.AISLE": "dataclasses and enums",
    "add() == 10": "closures",
    "square.cache_info().currsize == 2": "caches",
    "math.answer == 42": "attributes set on modules",
    "row.base is base or row.base is base.base": "views of arrays",
    "column.tolist() == [0, 2, 4] and not fixed.flags.writeable": "arrays no variable owns",
    "error.args == ('bad', 3) and error.legs[0] is leg": "exceptions",
    "next(rest) == 2": "iterators",
    "box[0] is trip and box[1] is base and box[2] is total": "identity",
    "open('note.txt').read() == 'kept'": "files",
}


def test_a_workspace_session_goes_on_with_all_it_defined(repo):
    with repo.session("code").workspace() as work:
        found = {code: work.run(code).value for code in SURVIVORS}

    assert [SURVIVORS[code] for code, value in found.items() if value is not True] == []
