"""The golden stores open, hold what they held, and can be built upon; for ever."""

from __future__ import annotations

import json
import shutil

import pytest

from otolith.care import verify
from otolith.codecs import identical
from otolith.errors import RefNotFound
from otolith.stores import MemoryStore, SqliteStore
from tests.compat.golden_values import VALUES
from tests.compat.make_golden import (
    GOLDEN,
    expectations,
    golden_repo,
    row_kinds,
    tell,
)

EXPECTED = json.loads((GOLDEN / "format-v1.json").read_text())
COMMITS = EXPECTED["commits"]
PLACES = {"plain", "zstd", "splice", "patch", "base only"}


@pytest.fixture
def repo(tmp_path):
    place = tmp_path / "copy.db"
    shutil.copyfile(GOLDEN / "format-v1.db", place)
    repo = golden_repo(SqliteStore(place))
    yield repo
    repo.close()


def _named(message: str) -> str:
    return next(str(id) for id, commit in COMMITS.items() if commit["message"] == message)


def test_everything_is_as_it_was_written(repo):
    assert expectations(repo) == EXPECTED


def test_it_is_sound_all_the_way_down(repo):
    report = verify(repo, level="deep")

    assert (report.problems, report.commits) == ([], len(COMMITS))


def test_every_kind_of_value_comes_out_as_it_went_in(repo):
    state = repo.at(_named("every kind of value")).to_dict()

    assert state.keys() == VALUES.keys()
    assert [name for name in VALUES if not identical(state[name], VALUES[name])] == []


def test_it_holds_rows_of_every_form():
    assert {kind for kind, count in row_kinds(GOLDEN / "format-v1.db").items() if count} == PLACES


def test_it_stays_small():
    assert (GOLDEN / "format-v1.db").stat().st_size < 192 * 1024


def test_one_can_commit_on_top_of_it(repo):
    main = repo.session("values")
    main["number"], main["map/k0001"] = "new", "new"
    main.list("events").append("new")
    main.commit("on top")

    again = repo.session("values")
    assert (again["number"], again["map/k0001"]) == ("new", "new")
    assert verify(repo, level="deep").ok


def test_its_branches_merge(repo):
    merged = repo.session("merging")

    assert merged["tokens"] == 122
    assert merged["best/score"] == 7
    assert merged.policies()["best/*"] == "max"
    assert sorted(merged["notes"]) == ["base", "main", "right"]


OURS = {"dataclass/x": 7, "namedtuple/left": "l", "msgspec/role": "tool", "pydantic/name": "Bob"}
THEIRS = {"dataclass/y": 9.5, "namedtuple/right": "r", "msgspec/tokens": 9, "pydantic/age": 9}


def test_its_models_merge_by_field(repo):
    ours = repo.session("values").fork("ours", at=_named("every kind of value"))
    fork = ours.fork("theirs")
    for branch, edits in ((ours, OURS), (fork, THEIRS)):
        for path, value in edits.items():
            branch[f"models/{path}"] = value
        branch.commit("edited")

    assert ours.merge(fork).ok
    assert {path: ours[f"models/{path}"] for path in OURS | THEIRS} == OURS | THEIRS
    assert verify(repo, level="deep").ok


def test_what_was_put_away_can_be_gone_on_with(repo):
    main, ours = repo.session("values"), repo.session("conflict")
    main.unstash()
    ours.unstash()

    assert main["shelved"] == ["not", "committed", "yet"]
    assert [(each.path, each.ours, each.theirs) for each in ours.conflicts] == [
        ("plan", "ours", "theirs")
    ]


def test_a_deleted_branch_is_gone_and_remembered(repo):
    with pytest.raises(RefNotFound):
        repo.resolve("values/deleted")
    assert repo.store.moves("session/values/deleted")[0].note == "delete"


def test_telling_the_story_again_gives_the_same_commits():
    repo = golden_repo(MemoryStore())
    tell(repo)

    assert expectations(repo) == EXPECTED


ROOTS = {each["root"]: id for id, each in COMMITS.items() if each["kind"] != "stage"}


@pytest.mark.parametrize("id", ROOTS.values())
def test_a_state_built_from_nothing_has_the_same_root(repo, id):
    fresh = golden_repo(MemoryStore()).session("again")
    old = repo.at(id)
    for name, value in old.to_dict().items():
        fresh[name] = value
    for pattern, policy in old.get(".policy", {}).items():
        fresh.policy(pattern, policy)
    again = fresh.commit("all at once", allow_empty=True)

    assert again.root == COMMITS[id]["root"]
