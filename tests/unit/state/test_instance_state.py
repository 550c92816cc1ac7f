"""A class that says what of it is to be stored is heard, and changes are seen through it."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

import pytest

from otolith import Disk, Versioned


@dataclass
class Client:
    user: str
    token: str | None = None
    history: list[str] = field(default_factory=list)

    def __getstate__(self):
        return {"user": self.user, "token": None, "history": self.history}


@dataclass
class Worker:
    name: str
    lock: object = field(default_factory=Lock, compare=False)

    def __getstate__(self):
        return {"name": self.name}

    def __setstate__(self, state):
        self.name, self.lock = state["name"], Lock()


@dataclass
class Document:
    text: str

    def __post_init__(self):
        self.words = self.text.split()


class Chapter(Document):
    """No dataclass itself."""


@pytest.fixture
def disk(tmp_path):
    return Disk(tmp_path / "a.db")


def test_a_secret_that_getstate_leaves_out_is_in_no_file(tmp_path, disk):
    state = Versioned(disk)
    state["client"] = Client("me", "SECRET-TOKEN")
    state.commit("one")

    stored = b"".join(each.read_bytes() for each in tmp_path.iterdir() if each.is_file())
    assert b"SECRET-TOKEN" not in stored
    assert Versioned(disk)["client"] == Client("me")


def test_changes_are_seen_through_getstate(disk):
    state = Versioned(disk)
    state["client"] = Client("me", "a")
    first = state.commit("one")
    state["client"].token = "b"
    assert state.commit("nothing that is stored") == first
    state["client"].history.append("hello")
    assert state.commit("two") != first
    assert Versioned(disk)["client"].history == ["hello"]


def test_what_cannot_be_stored_may_be_left_out_by_getstate(disk):
    state = Versioned(disk)
    state["worker"] = Worker("w")
    state.commit("one")
    later = Versioned(disk)
    assert later["worker"] == Worker("w")
    assert later["worker"].lock is not None
    assert later.is_clean


@pytest.mark.parametrize("kind", [Document, Chapter])
def test_attributes_that_are_not_fields_are_tracked_and_stored(disk, kind):
    state = Versioned(disk)
    state["document"] = kind("a b")
    state.commit("one")
    state["document"].words.append("c")
    state["document"].note = "new"
    state.commit("two")
    assert vars(Versioned(disk)["document"]) == {
        "text": "a b",
        "words": ["a", "b", "c"],
        "note": "new",
    }


def test_an_attribute_that_is_not_a_field_may_be_an_alias(disk):
    state = Versioned(disk)
    state["document"] = Document("a b")
    state["words"] = state["document"].words
    state.commit("one")
    later = Versioned(disk)
    assert later["words"] is later["document"].words
