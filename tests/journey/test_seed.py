"""The examples of the document that the states were made from run with its own names."""

from __future__ import annotations

import pytest

from otolith import (
    ActionEvent,
    Agent,
    Cache,
    Disk,
    KVStore,
    Live,
    Memory,
    Versioned,
    events,
    view,
)
from otolith.agent import ScriptedModel
from otolith.care import verify
from otolith.state import ErrorEvent, OutputEvent, SuccessEvent, TaskStartEvent, ToolCallEvent


@pytest.fixture
def build_analysis():
    agent = Agent(ScriptedModel([{"call": "mean", "data": [1, 2, 3]}, '{"mean": 2.0}']))

    @agent.tool
    def mean(data: list[float]) -> float:
        """Return the mean."""
        return sum(data) / len(data)

    @agent.task
    def build_analysis(data: list[float]) -> dict:  # type: ignore[empty-body, type-arg]
        """Build cumulative analysis with memory."""

    return build_analysis


@pytest.mark.parametrize("make", [lambda: None, Live, Versioned], ids=["none", "live", "versioned"])
def test_a_task_runs_with_each_kind_of_state(build_analysis, make):
    assert build_analysis([1, 2, 3], state=make()) == {"mean": 2.0}


def test_an_event_leads_to_the_memory_at_its_time(build_analysis):
    state = Versioned(Memory())
    build_analysis([1, 2, 3], state=state)

    all_events = events(state)
    action_event = next(e for e in all_events if isinstance(e, ActionEvent))
    commit_to_inspect = action_event.commit_hash
    assert commit_to_inspect is not None
    historical_state = state.checkout(commit_to_inspect)

    assert commit_to_inspect[:7] == historical_state.commit.id[:7]
    assert len(historical_state.events) < len(all_events)
    assert "mean" in view(historical_state, focus="full")
    with pytest.raises(TypeError):
        historical_state["x"] = 1  # type: ignore[index]


def test_the_events_of_a_task_have_the_classes_of_their_kinds(build_analysis):
    state = Live()
    build_analysis([1, 2, 3], state=state)

    found = [type(event) for event in events(state)]
    assert [kind for kind in found if issubclass(kind, ActionEvent)] == [
        OutputEvent,
        ToolCallEvent,
        OutputEvent,
    ]
    assert (found[0], SuccessEvent in found, ErrorEvent in found) == (TaskStartEvent, True, False)


def test_a_disk_with_a_limit_and_a_cache_over_a_disk(tmp_path):
    state = Versioned(Disk(str(tmp_path / "one"), size_limit=500 * 1024 * 1024))
    state["x"] = 1
    state.commit()
    state.close()
    state = Versioned(Cache(Disk(str(tmp_path / "one")), max_bytes=64 * 1024 * 1024))
    assert state["x"] == 1
    state.close()


class RedisStore(KVStore):
    """A store of the shape that the document describes, over a dict."""

    def __init__(self, data: dict[str, bytes]) -> None:
        self.data = data

    def get(self, key: str) -> bytes | None:
        return self.data.get(key)

    def set(self, key: str, value: bytes) -> None:
        self.data[key] = value

    def get_many(self, *keys):
        return {key: self.data[key] for key in keys if key in self.data}

    def set_many(self, **values):  # type: ignore[override]
        self.data.update(values)

    def items(self):
        return self.data.items()

    def __contains__(self, key):
        return key in self.data


def test_a_custom_backend_of_the_shape_of_the_document_is_a_store():
    data: dict[str, bytes] = {}
    state = Versioned(RedisStore(data))
    state["rows"] = [{"n": number, "text": "x" * 200} for number in range(500)]
    first = state.commit("many")
    state["rows"].append({"n": 500})
    state.commit("more")

    again = Versioned(RedisStore(data))
    assert (len(again["rows"]), len(again.at(first)["rows"])) == (501, 500)
    assert verify(again.repo).ok
