"""State without history has the verbs of state with it, and one function takes them all."""

from __future__ import annotations

import gc
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from otolith import Cache, Chart, Disk, Live, Memory, Versioned, events, view
from otolith.errors import BadPath, KeyNotFound, Unsupported
from otolith.state import AnyState, Stateless, state_of

# ---------------------------------------------------------------- one agent, any state


def remember(question: str, *, state: AnyState | None = None) -> int:
    """A small agent: it counts what it was asked, and says so."""
    memory = state_of(state)
    memory["asked/count"] = memory.get("asked/count", 0) + 1
    memory.setdefault("questions", []).append(question)
    memory.events.append("action", agent="counter", question=question)
    count: int = memory["asked/count"]
    memory.events.append("success", agent="counter", count=count)
    memory.commit(f"asked {question}")
    return count


def counted(value, event):
    return (value or 0) + (event.kind == "action")


def remember_by_events(question: str, *, state: AnyState | None = None) -> int:
    """The same agent, which keeps nothing but what happened."""
    memory = state_of(state)
    memory.events.append("action", agent="counter", question=question)
    count: int = memory.events.rebuild(counted)
    memory.commit(f"asked {question}")
    return count


def places(tmp_path):
    return {
        "none": lambda: None,
        "live": Live,
        "memory": lambda: Versioned(Memory()),
        "disk": lambda: Versioned(Disk(tmp_path / "disk.db")),
        "cache": lambda: Versioned(Cache(Disk(tmp_path / "cache.db"))),
    }


@pytest.mark.parametrize("agent", [remember, remember_by_events])
@pytest.mark.parametrize("place", ["none", "live", "memory", "disk", "cache"])
def test_one_function_runs_with_any_state(place, agent, tmp_path):
    state = places(tmp_path)[place]()

    answers = [agent(question, state=state) for question in ("a", "b", "c")]

    assert answers == ([1, 1, 1] if place == "none" else [1, 2, 3])
    kinds = [event.data.get("question") for event in events(state, kind="action")]
    assert kinds == ([] if place == "none" else ["a", "b", "c"])
    assert view(state, "full")


@pytest.mark.parametrize("agent", [remember, remember_by_events])
@pytest.mark.parametrize("place", ["disk", "cache"])
def test_what_is_kept_in_a_file_goes_on_in_another_process(place, agent, tmp_path):
    for expected in (1, 2, 3):
        state = places(tmp_path)[place]()
        assert agent("again", state=state) == expected
        state.close()


@pytest.mark.parametrize("state", [Live(), Stateless(), Versioned(Memory())], ids=repr)
def test_all_of_them_are_states(state):
    assert isinstance(state, AnyState)


def test_a_dict_is_not_a_state():
    assert not isinstance({}, AnyState)


# ---------------------------------------------------------------- values


@pytest.fixture(params=[Live, lambda: Versioned(Memory())], ids=["live", "versioned"])
def state(request):
    return request.param()


def test_paths_mean_the_same(state):
    state["plan/steps"] = ["search", "book"]
    state["plan/who"] = "Ada"
    state[("users", 42)] = "Bob"

    assert state["plan/steps/1"] == state["plan/steps/-1"] == "book"
    assert state["users/~:42"] == "Bob"
    assert "plan/steps/1" in state
    assert "plan/steps/2" not in state
    assert "plan/who/first" not in state
    assert state.get("nothing", 5) == 5
    assert state.names("plan") == ["steps", "who"]
    state["plan/steps/0"] = "look"
    del state["plan/who"]
    assert state.to_dict() == {"plan": {"steps": ["look", "book"]}, "users": {42: "Bob"}}
    assert sorted(state) == ["plan", "users"]
    assert len(state) == 2


@pytest.mark.parametrize("path", ["x", "plan/x", "plan/steps/9", "plan/steps/9/x"])
def test_what_is_not_there_is_not_found(state, path):
    state["plan"] = {"steps": ["search"]}

    with pytest.raises(KeyNotFound):
        state[path]
    with pytest.raises(KeyNotFound):
        del state[path]


def test_what_has_no_parts_cannot_be_entered(state):
    state["n"] = 5

    with pytest.raises(BadPath):
        state["n/x"] = 1
    with pytest.raises(BadPath):
        state[""] = 1
    with pytest.raises(BadPath, match="belong to otolith"):
        state[".events"] = []


def test_a_key_may_have_a_slash_in_it(state):
    state["a~1b"] = 1

    assert list(state) == ["a~1b"]
    assert state["a~1b"] == 1


def test_containers_are_asked_for_alike(state):
    state.list("log").append("a")
    state.list("log").extend(["b"])
    state.map("users")[42] = "Bob"
    state.set("seen").add(3)
    state.counter("tokens").add(5)
    state.counter("tokens").add(2)

    assert state.to_dict() == {"log": ["a", "b"], "users": {42: "Bob"}, "seen": {3}, "tokens": 7}
    assert int(state.counter("tokens")) == 7
    with pytest.raises(BadPath, match="not a list"):
        state.list("users")


def test_live_holds_any_object_by_reference():
    state = Live()
    rows = (x for x in "ab")
    state["rows"] = rows
    state["deep/lock"] = lock = threading.Lock()

    assert state["rows"] is rows
    assert state["deep/lock"] is lock


def test_live_starts_with_values():
    assert Live({"a/b": 1}).to_dict() == {"a": {"b": 1}}


# ---------------------------------------------------------------- verbs


def test_a_commit_of_live_state_keeps_everything_in_place():
    state = Live({"x": 1})
    state.events.append("note")

    details: dict[str, Any] = {"kind": "tool", "meta": {"cost": 1}, "skip_unstorable": True}
    assert state.commit("step", **details) is None  # type: ignore[func-returns-value]
    assert state["x"] == 1
    assert len(state.events) == 1
    assert state.head is None
    assert state.is_clean
    assert state.status() == []
    assert state.diff() == []
    assert list(state.log()) == []


@pytest.mark.parametrize(
    "verb",
    [
        lambda state: state.at("main"),
        lambda state: state.checkout("main"),
        lambda state: state.rollback(),
        lambda state: state.undo(),
        lambda state: state.redo(),
        lambda state: state.merge(state),
        lambda state: state.blame(),
        lambda state: state.discard(),
        lambda state: state.transact(lambda state: None),
        lambda state: state.commit(expect="main"),
        lambda state: state.resolve("main"),
        lambda state: state.diff("main"),
        lambda state: state.log("main"),
        lambda state: state.fork("other", at="main"),
    ],
)
def test_what_needs_history_says_so_and_what_to_use(verb):
    with pytest.raises(Unsupported, match=r"no history.*Versioned\(Memory\(\)\)"):
        verb(Live({"x": 1}))


def test_a_fork_of_live_state_goes_its_own_way():
    rows = iter("ab")
    state = Live({"plan": {"steps": ["search"]}, "rows": rows})
    state["same"] = state["plan"]
    state.events.append("note")
    other = state.fork("other")
    other["plan/steps"].append("book")
    other["x"] = 1
    other.events.append("note")

    assert state["plan"] == {"steps": ["search"]}
    assert "x" not in state
    assert len(state.events) == 1
    assert len(other.events) == 2
    assert other["rows"] is rows
    assert other["same"] is other["plan"]


def test_a_fork_copies_what_contains_itself():
    state = Live()
    loop: list[object] = []
    state["loop"] = loop
    loop.append(loop)

    twin = state.fork("twin")["loop"]

    assert twin is not loop
    assert twin[0] is twin


def test_nothing_survives_the_commit_of_no_state():
    state = Stateless()
    state["x"] = 1
    state.events.append("note")
    assert state["x"] == 1

    state.commit("done", kind="tool")

    assert dict(state) == {}
    assert events(state) == []


def test_threads_share_live_state():
    state = Live()

    def work():
        for _ in range(500):
            state.counter("n").add(1)
            state.events.append("note")

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert state["n"] == 2000
    assert [event.index for event in state.events] == list(range(2000))


def test_a_state_is_a_mapping(state):
    state.update({"a": 1, "b": 2})

    assert dict(state.items()) == {"a": 1, "b": 2}
    assert state.pop("a", None) == 1
    assert state.pop("a", None) is None
    assert state.setdefault("b", 5) == 2
    assert isinstance(state, Mapping)


def test_what_is_said_noted_and_run_is_remembered_as_long_as_the_state(tmp_path):
    chart = Chart.from_table({("red", "go"): "green", ("green", "stop"): "red"}, initial="red")
    state = Live({"lock": threading.Lock()})
    state.conversation.user("Hello")
    state.memory.note("seat", "aisle")
    state.lifecycle(chart).send("go")
    with state.workspace(folder=tmp_path) as lab:
        lab.run("x = 1")

    assert [message.text for message in state.conversation] == ["Hello"]
    assert state.memory.notes["seat"].value == "aisle"
    assert state.lifecycle(chart).phase == "green"
    with state.workspace(folder=tmp_path) as lab:
        assert lab["x"] == 1
    assert list(state) == ["lock"]


def test_a_copy_has_its_own_conversation():
    state = Live()
    state.conversation.user("Hello")
    copies = [state.fork("copy"), state.fork("copy")]
    copies[0].conversation.user("Are you there?")

    assert [len(each.conversation) for each in (state, *copies)] == [1, 2, 1]
    assert not Live().has_rooms


@pytest.mark.filterwarnings("error")
def test_a_live_state_is_dropped_without_a_warning_of_staged_edits():
    state = Live()
    state.conversation.user("Hello")
    state.close()
    del state
    gc.collect()
