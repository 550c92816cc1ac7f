"""`status` and `diff` show what was said, noted and computed, staged or committed."""

from __future__ import annotations

import asyncio

import pytest

from otolith import Versioned, aio
from otolith.views import ChangeLine


@pytest.fixture
def state() -> Versioned:
    state = Versioned(session="trip")
    state["budget"] = 500
    state.conversation.user("Find me a flight")
    state.commit("asked")
    return state


def test_staged_messages_and_notes_are_part_of_the_status(state):
    state["budget"] = 400
    state.conversation.assistant("To where?")
    state.memory.goal = "fly"
    state.memory.plan(["search"])
    state.memory.note("seat", "aisle")

    assert [(each.kind, each.path) for each in state.status()] == [
        ("changed", "budget"),
        ("added", ".conversation/main/1"),
        ("added", ".memory/goal"),
        ("added", ".memory/steps/search"),
        ("added", ".memory/notes/seat"),
    ]
    assert repr(state.status()[1]) == "<added message main[1]: assistant: To where?>"
    assert state.diff()
    assert repr(state.diff()) == repr(state.status())
    assert repr(state).endswith(", 5 staged>")


def test_the_sides_of_a_change_are_messages_and_values(state):
    state.memory.goal = "fly"
    state.commit("planned")
    state.conversation.pop()
    state.conversation.user("Find me a train")
    state.memory.goal = "go"

    message, goal = state.status()
    assert (message.kind, message.old.text, message.new.text) == (
        "changed",
        "Find me a flight",
        "Find me a train",
    )
    assert (goal.old, goal.new) == ("fly", "go")
    assert goal.summary == ChangeLine("goal", "goal", "changed", "go")


def test_a_difference_of_commits_has_the_rooms_too(state):
    state.conversation.assistant("To where?")
    state.commit("answered")
    state.conversation.user("To NYC")

    assert [each.path for each in state.diff("@~1", "@")] == [".conversation/main/1"]
    assert [each.path for each in state.diff("@~1")] == [
        ".conversation/main/1",
        ".conversation/main/2",
    ]
    assert [each.kind for each in state.diff("@", "@~1")] == ["removed"]
    state.discard()
    assert state.status() == []


def test_variables_and_files_are_in_a_difference(tmp_path):
    state = Versioned(session="lab")
    with state.workspace(folder=tmp_path) as lab:
        lab.run("a = 1")
        lab.run("a = 2; open('notes.txt', 'w').write('x')")

        assert [(each.path, each.old, each.new) for each in state.diff("@~1", "@")] == [
            (".workspace/vars/a", "int 1", "int 2"),
            (".workspace/files/notes.txt", None, None),
        ]
        assert list(map(repr, state.diff("@~1", "@"))) == [
            "<changed variable a: int 1 -> int 2>",
            "<added file notes.txt>",
        ]


async def _awaited_status(path: str) -> list[tuple[str, str]]:
    async with aio.open(path) as repo:
        state = await repo.session("trip")
        await state.conversation.user("Hello")
        (change,) = await state.status()
        new = await change.new()
        await state.discard()
        return [(change.path, new.text)]


def test_a_change_of_a_room_is_awaited_as_any(tmp_path):
    found = asyncio.run(_awaited_status(str(tmp_path / "a.db")))
    assert found == [(".conversation/main/0", "Hello")]
