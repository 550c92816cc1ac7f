"""The golden store of dicts with an order opens, and they have that order; for ever."""

from __future__ import annotations

import json
import shutil

import pytest

from otolith.care import verify
from otolith.stores import MemoryStore, SqliteStore
from tests.compat.make_golden import golden_repo
from tests.compat.make_golden_ordered import (
    EXPECTED,
    STORE,
    json_digest,
    ordered_expectations,
    tell_ordered,
)
from tests.compat.reader import Reader
from tests.compat.reader_values import parse, plain

STATES = json.loads(EXPECTED.read_text())


@pytest.fixture
def repo(tmp_path):
    place = tmp_path / "copy.db"
    shutil.copyfile(STORE, place)
    repo = golden_repo(SqliteStore(place))
    yield repo
    repo.close()


@pytest.mark.parametrize("message", STATES)
def test_dicts_come_out_in_the_order_they_went_in(repo, message):
    expected = STATES[message]

    assert json_digest(repo.at(expected["id"]).to_dict()) == expected["state"]


@pytest.mark.parametrize("message", STATES)
def test_the_order_can_be_read_from_the_page_alone(message):
    reader = Reader(str(STORE))
    state = plain(parse(reader.commit(bytes.fromhex(STATES[message]["id"]))["state"]))
    reader.rows.close()

    assert json_digest(state) == STATES[message]["state"]


def test_it_is_sound_all_the_way_down(repo):
    assert verify(repo, level="deep").problems == []


def test_telling_the_story_again_gives_the_same_commits():
    repo = golden_repo(MemoryStore())
    tell_ordered(repo)

    assert ordered_expectations(repo) == STATES


@pytest.mark.parametrize("message", STATES)
def test_a_state_built_from_nothing_has_the_same_root(repo, message):
    fresh = golden_repo(MemoryStore()).session("again")
    for name, value in repo.at(STATES[message]["id"]).to_dict().items():
        fresh[name] = value

    assert fresh.commit("all at once").root == STATES[message]["root"]


def test_one_can_commit_on_top_of_it(repo):
    main = repo.session("order")
    before = list(main["tree"])
    main["tree/on top"] = 1
    main.commit("on top")

    assert list(repo.session("order")["tree"]) == [*before, "on top"]
    assert verify(repo, level="deep").ok
