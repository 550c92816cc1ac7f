"""The golden store of documents opens, and its texts are what they were; for ever."""

from __future__ import annotations

import json
import shutil

import pytest

from otolith import Versioned
from otolith.care import verify
from otolith.stores import MemoryStore, SqliteStore
from tests.compat.make_golden_documents import (
    EXPECTED,
    STORE,
    document_expectations,
    documents_repo,
    tell_documents,
)
from tests.compat.reader import Reader
from tests.compat.reader_documents import Document
from tests.compat.reader_values import parse

STATES = json.loads(EXPECTED.read_text())


@pytest.fixture
def repo(tmp_path):
    place = tmp_path / "copy.db"
    shutil.copyfile(STORE, place)
    repo = documents_repo(SqliteStore(place))
    yield repo
    repo.close()


def test_the_texts_come_out_as_they_went_in(repo):
    assert document_expectations(repo) == STATES


def test_it_is_sound_all_the_way_down(repo):
    assert verify(repo, level="deep").problems == []


def test_telling_the_story_again_gives_the_same_commits():
    repo = documents_repo(MemoryStore())
    tell_documents(repo)

    assert document_expectations(repo) == STATES


def test_one_can_edit_on_top_of_it(repo):
    state = Versioned(repo, session="documents")
    before = str(state.text("together"))
    state.text("together").append(" More.")
    state.commit("on top")

    assert str(state.at("@").text("together")) == f"{before} More."
    assert verify(repo, level="deep").ok


@pytest.mark.parametrize("message", STATES)
def test_the_edits_can_be_read_from_the_page_alone(message):
    reader = Reader(str(STORE))
    state = dict(parse(reader.commit(bytes.fromhex(STATES[message]["id"]))["state"]))
    reader.rows.close()

    for name, text in STATES[message]["texts"].items():
        document = Document(parse(state[name].data))
        assert (state[name].code, document.characters()) == (35, sorted(text))
        if document.is_one_line():
            assert document.text() == text


def test_most_texts_of_the_golden_store_can_be_made_edit_by_edit():
    reader = Reader(str(STORE))
    plain = {
        (message, name)
        for message, expected in STATES.items()
        for name, value in parse(reader.commit(bytes.fromhex(expected["id"]))["state"])
        if not name.startswith(".") and Document(parse(value.data)).is_one_line()
    }
    reader.rows.close()

    assert {("alone", "alone"), ("edited", "alone"), ("in turn", "alone")} <= plain
    assert ("together", "alone") not in plain
