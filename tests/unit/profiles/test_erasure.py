"""Forgetting a key, and erasing a person."""

from __future__ import annotations

import pytest

import otolith
from otolith.errors import Erased, Invalid, KeyNotFound, RefNotFound
from otolith.stores import MemoryStore

SECRET = "gluten free from 1983"


def test_a_forgotten_key_is_gone(ann, reopened):
    ann.set("seat", "aisle")
    ann.observe("seat", "window")
    ann.forget("seat")
    found = reopened()

    assert found.keys() == []
    assert found.prefer("seat").basis == "default"


def test_forgetting_leaves_no_name_behind(ann):
    ann.set("my secret key", "aisle")
    ann.forget("my secret key")

    assert "my secret key" not in str(ann.export())
    assert "my secret key" not in str(ann.state.to_dict())


def test_an_unknown_key_cannot_be_forgotten(ann):
    with pytest.raises(KeyNotFound, match="nothing is known"):
        ann.forget("seat")


def test_what_is_older_than_the_forgetting_is_not_learned_again(ann, clock):
    class Message:
        id = "m1"
        time = clock.now

    clock.advance(days=1)
    ann.observe("seat", "window", source=Message)
    ann.forget("seat")
    ann.observe("seat", "window", source=Message)

    assert "seat" not in ann


def test_what_is_newer_is_learned(ann, clock):
    ann.observe("seat", "window")
    ann.forget("seat")
    ann.observe("seat", "aisle")

    assert ann.prefer("seat").value == "aisle"


def test_an_erased_person_stays_erased(repo, ann, reopened):
    ann.set("seat", "aisle")
    reopened()

    receipt = ann.erase()

    assert receipt.refs == 1
    for attempt in (
        lambda: repo.user("ann"),
        lambda: ann.prefer("seat"),
        lambda: ann.set("seat", "window"),
        lambda: repo.session("trip", user="ann"),
    ):
        with pytest.raises(Erased, match="erased"):
            attempt()
    assert repo.user("bob").profile.keys() == []


def test_what_another_handle_was_learning_does_not_bring_them_back(repo, ann, reopened):
    ann.set("seat", "aisle")
    other = reopened()
    head = other.state.head
    other.observe("seat", "window")

    ann.erase()

    with pytest.raises(Erased):
        other.commit("learned")
    with pytest.raises(Erased):
        other.state.fork("later", at=head)
    with pytest.raises(Erased):
        other.state.stash()
    assert not [ref for ref in repo.store.refs() if "ann" in ref]


def test_a_handle_from_before_the_first_commit_does_not_bring_them_back(repo, ann):
    early = repo.user("ann").profile
    ann.set("seat", "aisle")
    ann.commit("set")
    ann.erase()
    early.observe("seat", "window")

    with pytest.raises(Erased):
        early.commit("learned")


def test_branches_stashes_tags_and_fetched_copies_go_too(repo, ann):
    ann.set("seat", "aisle")
    first = ann.commit("set")
    ann.state.fork("draft")
    repo.tag("ann-2026", first)
    ann.set("seat", "window")
    ann.state.stash()
    copy = MemoryStore()
    repo.clone(copy)
    repo.fetch(copy)

    ann.erase()

    left = [ref for ref in repo.store.refs() if not ref.startswith(".")]
    assert left == []


def test_linked_sessions_must_be_decided_about(repo, ann):
    ann.set("seat", "aisle")
    ann.commit("set")
    trip = repo.session("trip", user="ann")
    trip["copy"] = "aisle"
    trip.commit("copied")

    with pytest.raises(Invalid, match="sessions are linked to ann: trip; 1 in all"):
        ann.erase()
    kept = ann.erase(sessions="keep")

    assert kept.kept_sessions == ("trip",)
    assert not kept.erased
    assert kept.residue == "1 of its commits are part of other histories: trip"
    assert not otolith.care.erase(repo, "ann", sessions="keep").erased
    assert repo.session("trip")["copy"] == "aisle"
    with pytest.raises(Erased):
        repo.session("trip").user  # noqa: B018


def test_linked_sessions_are_deleted_if_they_are_to_be(repo, ann):
    ann.set("seat", "aisle")
    ann.commit("set")
    trip = repo.session("trip", user="ann")
    trip["copy"] = "aisle"
    trip.commit("copied")

    assert ann.erase(sessions="delete").sessions == ("trip",)
    assert repo.sessions() == []


def test_no_byte_of_it_is_in_the_files(tmp_path):
    place = tmp_path / "agent.db"
    with otolith.open(place) as repo:
        ann = repo.user("ann").profile
        ann.set("food", SECRET)
        ann.commit("set")
        other = repo.session("other")
        other["x"] = 1
        other.commit("kept")
        receipt = ann.erase()

    assert receipt.erased, receipt.residue
    for file in tmp_path.iterdir():
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes()
            assert b"user/ann" not in file.read_bytes()
    with otolith.open(place) as repo:
        assert repo.session("other")["x"] == 1
        with pytest.raises(Erased):
            repo.user("ann")


def test_an_erasure_that_was_cut_off_is_repeated(repo, ann, monkeypatch):
    ann.set("seat", "aisle")
    ann.commit("set")
    with monkeypatch.context() as patch:
        patch.setattr("otolith.care.user_erasure.prune", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ann.erase()

    receipt = otolith.care.erase(repo, "ann")

    assert receipt.refs == 0
    assert receipt.erased


def test_nobody_is_erased_by_a_wrong_name(repo):
    with pytest.raises(RefNotFound, match="there is no user bob"):
        otolith.care.erase(repo, "bob")


def test_a_copy_that_still_has_them_does_not_bring_them_back(repo, ann, clock):
    ann.set("seat", "aisle")
    ann.commit("set")
    copy = MemoryStore()
    repo.clone(copy)
    ann.erase()

    pulled = repo.pull(copy)
    pushed = otolith.session.Repo(copy, clock=clock).push(repo.store)

    assert not [ref for ref in repo.store.refs() if "ann" in ref]
    assert pulled.changed == ()
    assert [each.kind for each in pushed.refs] == ["erased"]
    with pytest.raises(Erased):
        repo.user("ann")


def test_a_mirror_erases_them_there(repo, ann, clock):
    ann.set("seat", "aisle")
    ann.commit("set")
    store = MemoryStore()
    repo.mirror(store)
    ann.erase()
    repo.mirror(store)

    with pytest.raises(Erased):
        otolith.session.Repo(store, clock=clock).user("ann")


def test_clones_know_who_was_erased(repo, ann, clock):
    ann.set("seat", "aisle")
    ann.commit("set")
    ann.erase()
    store = MemoryStore()
    repo.clone(store)

    with pytest.raises(Erased):
        otolith.session.Repo(store, clock=clock).user("ann")


def linked_session(repo, name="trip"):
    """Return a session that is linked to ann, with a commit."""
    trip = repo.session(name, user="ann")
    trip["copy"] = "aisle"
    trip.commit("copied")
    return trip


def test_a_session_that_was_linked_once_is_found(repo, ann):
    ann.set("seat", "aisle")
    ann.commit("set")
    linked_session(repo)
    later = repo.session("trip", user="bob")
    later["copy"] = "window"
    later.user["x"] = 1
    later.commit("another user", user=True)

    with pytest.raises(Invalid, match="sessions are linked to ann: trip"):
        ann.erase()


def test_tags_of_what_was_undone_go_too(repo, ann):
    ann.set("seat", "aisle")
    ann.commit("first")
    ann.set("seat", "window")
    repo.tag("old", ann.commit("second"))
    ann.state.undo()

    assert ann.erase().erased
    assert repo.tags() == {}


def test_history_that_was_merged_into_another_user_is_reported(repo, ann):
    ann.set("seat", "aisle")
    commit = ann.commit("set")
    repo.user("bob").merge(commit)

    receipt = ann.erase()

    assert not receipt.erased
    assert "1 of its commits" in receipt.residue


def test_a_session_that_is_open_cannot_be_linked_any_more(repo, ann):
    ann.set("seat", "aisle")
    ann.commit("set")
    before = repo.session("before", user="ann")
    trip = linked_session(repo)
    ann.erase(sessions="delete")

    for session in (before, trip):
        session["x"] = 1
        with pytest.raises((Erased, RefNotFound)):
            session.commit("later")
    assert repo.sessions() == []


def test_sessions_and_tags_of_an_old_copy_stay_there(repo, ann, clock):
    ann.set("seat", "aisle")
    repo.tag("old", ann.commit("set"))
    linked_session(repo)
    other = repo.session("other")
    other["x"] = 1
    other.commit("of nobody")
    copy = MemoryStore()
    repo.clone(copy)
    ann.erase(sessions="delete")

    pulled = repo.pull(copy)
    pushed = otolith.session.Repo(copy, clock=clock).push(repo.store)

    for report in (pulled, pushed):
        assert {each.name for each in report.refs if each.kind == "erased"} == {
            "session/trip/main", "tag/old", "user/ann/main",
        }  # fmt: skip
    assert [each.id for each in repo.sessions()] == ["other"]
    assert repo.tags() == {}


def test_what_one_branch_forgot_is_not_read_when_another_adds_to_it(repo, ann):
    ann.observe("seat", "window")
    ann.commit("first")
    other = ann.state.fork("other").profile
    other.observe("seat", "window", source="later")
    other.commit("more")
    ann.set("drink", "tea")
    ann.observe("seat", "aisle")
    ann.forget("seat")
    ann.commit("forgot")
    ann.state.merge("other")

    assert ann.history("seat") == []
    assert "seat" not in ann.export()["evidence"] or ann.export()["evidence"]["seat"] == []
    ann.expire()
    assert ann.keys() == ["drink"]
