"""Push, pull, fetch, clone and mirror: only what is missing, and nobody's commits are lost."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

import otolith
from otolith.core import Attempt
from otolith.errors import (
    BadRef,
    Denied,
    Diverged,
    Exists,
    Invalid,
    RefNotFound,
    StoreNotFound,
    Unavailable,
)
from otolith.stores import Layer, MemoryStore, MirroredStore
from otolith.testing import Fault, FaultyStore


@pytest.fixture
def repo():
    with otolith.open("memory:", author="ann") as made:
        yield made


def grown(repo, session="trip", commits=3, keys=200):
    """Return a session with a state of several nodes, and some commits."""
    state = repo.session(session)
    for number in range(keys):
        state[f"key {number:04}"] = f"value {number}" * 5
    state["log"] = []
    state.commit("filled")
    for number in range(commits):
        state["log"].append(number)
        state.commit(f"step {number}")
    return state


def heads(store):
    return {name: head for name, head in store.refs().items() if not name.startswith(".")}


def copy_of(repo, store=None):
    """Clone a repo into a store in memory, and open the copy."""
    store = store or MemoryStore()
    repo.clone(store)
    return otolith.Repo(store, author="bob")


def test_a_clone_has_everything(repo):
    state = grown(repo)
    repo.tag("first", "trip/main~3")
    user = repo.user("ann")
    user["seat"] = "aisle"
    user.commit("seat")
    copy = copy_of(repo)
    assert heads(copy.store) == heads(repo.store)
    assert copy.session("trip").to_dict() == state.to_dict()
    assert [each.message for each in copy.session("trip").log()] == [
        each.message for each in state.log()
    ]
    assert otolith.care.verify(copy, level="deep").ok


def test_a_team_travels_with_its_proposals_and_conflicts_but_not_its_leases(repo):
    ann = repo.team("research", member="ann")
    ann.add("bob")
    ann.transact(lambda state: state.update(plan="A"), "begin")
    idea = ann.state.fork("idea")
    idea["plan"] = "C"
    idea.commit("an idea")
    ann.transact(lambda state: state.update(plan="B"), "refined")
    ann.merge(idea)
    ann.send("bob", "look")
    proposal = ann.propose("more", lambda state: state.update(more=1), quorum=2).approve()
    with ann.lease("browser"), ann.queue("gpu"):
        copy = copy_of(repo)

    there = copy.team("research", member="bob")
    assert (there.leases(), there.queues()) == ([], [])
    assert [each.body for each in there.messages()] == ["look"]
    there.resolve("plan", take="theirs")
    assert there.proposal(proposal.id).approve().status == "landed"
    ann.transact(lambda state: state.update(other=1), "meanwhile")
    report = repo.pull(copy.store, only=["team/*"])

    assert [each.kind for each in report.refs] == ["up-to-date", "merged"]
    assert ann.state.refresh() is not None
    assert ann.state.to_dict() == {"plan": "C", "more": 1, "other": 1}
    assert list(ann.inbox) == []
    assert proposal.refresh().status == "landed"
    repo.push(copy.store)
    assert there.state.refresh() == ann.state.head
    assert otolith.care.verify(copy, level="deep").ok


def test_a_removed_member_stays_removed_in_a_copy(repo):
    ann = repo.team("research", member="ann")
    bob = repo.team("research", member="bob")
    bob.transact(lambda state: state.update(x=1))
    ann.remove("bob")
    copy = copy_of(repo)
    with pytest.raises(Denied, match="bob was removed"):
        copy.team("research", member="bob").transact(lambda state: state.update(x=2))
    copy.team("research", member="ann").add("bob")
    copy.team("research", member="bob").transact(lambda state: state.update(x=2))


def test_a_pull_moves_only_new_objects(repo):
    state = grown(repo)
    copy = copy_of(repo)
    state["key 0007"] = "changed"
    new = state.commit("one change")
    report = copy.pull(repo.store)
    assert report.copied.objects == new.stats.objects
    assert report.copied.commits == 1
    assert [(each.name, each.kind) for each in report.refs] == [
        ("session/trip/main", "fast-forward")
    ]
    assert copy.session("trip")["key 0007"] == "changed"
    assert copy.pull(repo.store).copied.objects == 0


class CountsMoves(Layer):
    """A store that counts the moves it has returned."""

    returned = 0

    def moves(self, name=None, *, limit=None):
        found = super().moves(name, limit=limit)
        self.returned += len(found)
        return found


def test_a_pull_reads_as_much_of_the_history_as_is_new(repo):
    state = grown(repo, commits=900, keys=1)
    copy = copy_of(repo)
    for number in range(5):
        state["log"].append(number)
        state.commit()
    source = CountsMoves(repo.store)

    assert copy.pull(source).copied.commits == 5
    assert source.returned <= 300


def test_a_push_that_would_drop_commits_is_refused(repo):
    state = grown(repo)
    copy = copy_of(repo)
    theirs = copy.session("trip")
    theirs["from"] = "bob"
    theirs.commit("bob was here")
    state["from"] = "ann"
    state.commit("ann was here")
    before = heads(copy.store)
    with pytest.raises(Diverged, match="session/trip/main") as caught:
        repo.push(copy.store)
    assert caught.value.names == ("session/trip/main",)
    assert heads(copy.store) == before
    assert repo.push(copy.store, force=True).refs[0].kind == "forced"
    assert copy.session("trip")["from"] == "ann"
    assert copy.store.moves("session/trip/main", limit=1)[0].note == "push"  # undo finds back


def test_a_pull_merges_and_then_a_push_goes_through(repo):
    state = grown(repo)
    copy = copy_of(repo)
    theirs = copy.session("trip")
    theirs["bob"] = 1
    theirs.counter("steps").add(2)
    theirs.commit("bob")
    state["ann"] = 1
    state.counter("steps").add(3)
    state.commit("ann")
    assert [each.kind for each in repo.pull(copy.store).refs] == ["merged"]
    merged = repo.session("trip")
    assert (merged["ann"], merged["bob"], merged["steps"]) == (1, 1, 5)
    assert [each.kind for each in repo.push(copy.store).refs] == ["fast-forward"]
    assert copy.session("trip")["steps"] == 5


def test_a_conflict_is_reported_and_left_to_a_person(repo):
    state = grown(repo)
    copy = copy_of(repo)
    for each, value in ((copy.session("trip"), "theirs"), (state, "ours")):
        each["plan"] = value
        each.commit(value)
    report = repo.pull(copy.store)
    assert [each.name for each in report.conflicts] == ["session/trip/main"]
    assert repo.session("trip")["plan"] == "ours"
    merging = repo.session("trip")
    assert not merging.merge("remote/store/session/trip/main").ok
    merging.resolve_conflict("plan", take="theirs")
    merging.commit("decided")
    assert repo.push(copy.store).refs[0].kind == "fast-forward"


def test_only_some_sessions_are_pushed(repo):
    grown(repo, "trip", keys=5)
    grown(repo, "other", keys=5)
    target = MemoryStore()
    repo.push(target, only=["session/trip/*"])
    assert list(heads(target)) == ["session/trip/main"]
    with pytest.raises(RefNotFound, match="nothing/"):
        repo.push(target, only=["nothing/*"])


def test_stores_of_two_repos_are_strangers(repo):
    grown(repo, keys=5)
    with otolith.open("memory:") as stranger:
        grown(stranger, "another", keys=5)
        for verb in ("push", "pull", "fetch", "mirror"):
            with pytest.raises(Invalid, match="different repos"):
                getattr(repo, verb)(stranger.store)
        stranger.delete_branch("another", "main")
        with pytest.raises(Invalid, match="different repos"):
            repo.push(stranger.store)


@pytest.mark.parametrize("verb", ["push", "clone", "mirror"])
def test_a_store_that_was_just_made_becomes_a_copy(repo, tmp_path, verb):
    state = grown(repo)
    url = str(tmp_path / "made.db")
    otolith.open(url).close()
    getattr(repo, verb)(url)
    with otolith.open(url) as copy:
        assert copy.salt == repo.salt
        assert copy.session("trip").to_dict() == state.to_dict()
        assert otolith.care.verify(copy, level="deep").ok


@pytest.mark.parametrize("verb", ["pull", "fetch"])
def test_a_store_that_was_just_made_fetches_another_repo(repo, tmp_path, verb):
    state = grown(repo)
    otolith.open(str(tmp_path / "made.db")).close()
    with otolith.open(str(tmp_path / "made.db")) as copy:
        copy.remotes.add("origin", str(tmp_path / "elsewhere.db"))
        getattr(copy, verb)(repo.store)
        assert copy.salt == repo.salt
        if verb == "pull":
            assert copy.session("trip").to_dict() == state.to_dict()
        mine = copy.session("mine")
        mine["x"] = object_of_a_class()
        mine.commit("mine")
    with otolith.open(str(tmp_path / "made.db")) as copy:
        assert copy.session("mine")["x"] == object_of_a_class()
        assert otolith.care.verify(copy, level="deep").ok


def object_of_a_class():
    return Fraction(1, 3)


def test_a_handle_with_values_takes_over_no_constants(repo):
    grown(repo)
    with otolith.open("memory:") as stranger:
        stranger.session("trip")["n"] = 1
        with pytest.raises(Invalid, match="different repos"):
            stranger.pull(repo.store)


def test_who_had_a_store_open_that_became_a_copy_commits_nothing_to_it(repo):
    grown(repo)
    target = MemoryStore()
    stale = otolith.Repo(target)
    early = stale.session("early")
    early["n"] = 1
    repo.push(target)
    before = target.refs()
    late = stale.session("trip")
    late["n"] = 1
    for state in (early, late):
        with pytest.raises(Invalid, match="open it again"):
            state.commit("with other constants")
        state.discard()
    assert target.refs() == before


def test_a_mirror_has_just_our_refs(repo):
    state = grown(repo, keys=5)
    state.fork("try")
    target = MemoryStore()
    repo.mirror(target)
    assert heads(target) == heads(repo.store)
    repo.delete_branch("trip", "try")
    state["more"] = 1
    state.commit("more")
    kinds = {each.name: each.kind for each in repo.mirror(target).refs}
    assert kinds == {"session/trip/main": "forced", "session/trip/try": "deleted"}
    assert heads(target) == heads(repo.store)
    copy = otolith.Repo(target)
    stray = copy.session("stray")
    stray["x"] = 1
    stray.commit("made on the mirror")
    with pytest.raises(Diverged, match="stray"):
        repo.mirror(target)
    repo.mirror(target, force=True)
    assert heads(target) == heads(repo.store)


def test_a_clone_goes_into_an_empty_store(repo):
    grown(repo, keys=5)
    with otolith.open("memory:") as other:
        grown(other, "another", keys=5)
        with pytest.raises(Exists, match="another"):
            repo.clone(other.store)


@pytest.mark.parametrize("kind", ["refuse", "lose"])
def test_a_transfer_that_was_cut_off_continues(repo, kind):
    state = grown(repo, commits=30)
    inner = MemoryStore()
    sent = 0
    for at in range(1, 40):
        faulty = FaultyStore(inner, [Fault("write", at=at % 3 + 1, kind=kind)])
        try:
            sent += repo.push(faulty).copied.objects
        except Unavailable:
            continue
        break
    else:
        raise AssertionError("it never got through")
    copy = otolith.Repo(inner)
    assert copy.session("trip").to_dict() == state.to_dict()
    assert otolith.care.verify(copy, level="deep").ok


def test_what_was_begun_is_not_begun_again_elsewhere(repo):
    state = grown(repo, keys=5)
    state.attempts().swap("pay", None, Attempt("begun", by="ann", time=1))
    copy = copy_of(repo)
    other = copy.session("trip").attempts()
    assert other.find("pay").status == "begun"
    began = state.attempts().find("pay")
    state.attempts().swap("pay", began, began.ended("done", result={"id": 7}))
    other.swap("mail", None, Attempt("begun", by="bob", time=2))
    state["x"] = 1
    state.commit("x")
    repo.push(copy.store)
    assert (other.find("pay").status, other.find("pay").result) == ("done", {"id": 7})
    assert other.find("mail").status == "begun"
    repo.pull(copy.store)
    assert state.attempts().find("mail").by == "bob"


def test_remotes_have_names_and_no_passwords(repo, tmp_path):
    grown(repo, keys=5)
    repo.remotes.add("backup", str(tmp_path / "copy.db"))
    repo.push("backup")
    assert repo.remotes.list() == {"backup": str(tmp_path / "copy.db")}
    with otolith.open(tmp_path / "copy.db") as copy:
        assert heads(copy.store) == heads(repo.store)
    repo.fetch("backup")
    assert "remote/backup/session/trip/main" in repo.store.refs()
    with pytest.raises(Exists):
        repo.remotes.add("backup", "elsewhere.db")
    with pytest.raises(BadRef):
        repo.remotes.add("a/b", "elsewhere.db")
    with pytest.raises(Invalid) as caught:
        repo.remotes.add("db", "postgresql://ann:hunter2@host/db")
    assert "hunter2" not in str(caught.value)
    repo.remotes.remove("backup")
    assert repo.remotes.list() == {}
    assert not repo.store.refs("remote/")
    with pytest.raises(RefNotFound):
        repo.remotes.remove("backup")


def test_a_mirror_does_not_drop_what_was_only_fetched(repo):
    state = grown(repo, keys=5)
    copy = copy_of(repo)
    for each, value in ((copy.session("trip"), "theirs"), (state, "ours")):
        each["plan"] = value
        each.commit(value)
    assert repo.pull(copy.store).conflicts
    with pytest.raises(Diverged, match="session/trip/main"):
        repo.mirror(copy.store)
    assert copy.session("trip")["plan"] == "theirs"


def test_a_tag_that_we_moved_is_moved_there_too(repo):
    state = grown(repo, keys=5)
    repo.tag("best", "trip/main~1")
    copy = copy_of(repo)
    repo.tag("best", state.head, force=True)
    repo.push(copy.store)
    assert copy.tags()["best"] == state.head
    with pytest.raises(Diverged, match="tag/best"):
        repo.push(_moved_elsewhere(copy))


def _moved_elsewhere(copy):
    """Return the store of a copy whose tag is at a commit that only it has."""
    state = copy.session("trip")
    state["theirs"] = 1
    copy.tag("best", state.commit("theirs"), force=True)
    return copy.store


def test_a_misspelt_remote_makes_no_store(repo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    grown(repo, keys=5)
    with pytest.raises(RefNotFound, match="no remote desktp"):
        repo.push("desktp")
    with pytest.raises(Invalid):
        repo.push(None)
    assert list(tmp_path.iterdir()) == []


def test_a_path_of_a_remote_is_the_same_in_any_folder(repo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    grown(repo, keys=5)
    repo.remotes.add("desk", "desk.db")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    repo.push("desk")
    assert (tmp_path / "desk.db").exists()


def test_a_pull_from_nowhere_makes_no_store(repo, tmp_path):
    with pytest.raises(StoreNotFound):
        repo.pull(str(tmp_path / "nowhere.db"))
    assert list(tmp_path.iterdir()) == []


def test_progress_is_reported(repo):
    grown(repo, commits=5)
    seen = []
    repo.push(MemoryStore(), progress=lambda *each: seen.append(each))
    assert seen[-1] == ("copy", 6, 6)


def many_branches(repo, count=130):
    """Make more branches than etcd moves in one transaction."""
    state = grown(repo, commits=0, keys=3)
    for number in range(count):
        state.fork(f"idea-{number}")
    return count + 1


def test_more_refs_than_etcd_moves_at_once_go_there(repo, etcd_cluster, tmp_path):
    count = many_branches(repo)
    for verb in ("push", "clone", "mirror"):
        url = etcd_cluster.url(tmp_path / f"{verb}.db")
        assert len(getattr(repo, verb)(url).changed) >= count
        with otolith.open(url, read_only=True) as copy:
            assert heads(copy.store) == heads(repo.store)


def test_more_refs_than_etcd_moves_at_once_come_there(repo, etcd_cluster, tmp_path):
    url = etcd_cluster.url(tmp_path / "objects.db")
    grown(repo, "other", keys=3)
    repo.push(url)
    count = many_branches(repo)
    with otolith.open(url) as copy:
        assert len(copy.pull(repo.store).changed) >= count
        assert set(heads(repo.store)) < heads(copy.store).keys()


def test_a_repo_in_etcd_is_not_shown_as_the_file_of_its_objects(etcd_cluster, tmp_path):
    with otolith.open(etcd_cluster.url(tmp_path / "objects.db")) as repo:
        assert repr(repo) == "<Repo EtcdStore>"


class RecordsWrites(Layer):
    """A store that remembers which refs each batch has moved."""

    def __init__(self, inner, most_swaps=None):
        super().__init__(inner)
        self.most_swaps = most_swaps
        self.batches = []

    @property
    def capabilities(self):
        return replace(super().capabilities, most_swaps=self.most_swaps)

    def write(self, batch):
        super().write(batch)
        self.batches.append(batch)


@pytest.mark.parametrize("most_swaps", [None, 62])
def test_all_refs_move_in_as_few_batches_as_the_store_can(repo, most_swaps):
    count = many_branches(repo)
    target = RecordsWrites(MemoryStore(), most_swaps)
    repo.push(target)
    pushed = [len(batch.swaps) for batch in target.batches if batch.note == "push"]
    assert sum(pushed) == count
    assert len(pushed) == (1 if most_swaps is None else 3)


def test_a_mirrored_store_moves_no_more_refs_than_its_replica_can(repo):
    many_branches(repo)
    replica = RecordsWrites(MemoryStore(), 62)
    target = MirroredStore(MemoryStore(), replica)
    repo.push(target)
    assert not target.lag
    assert max(len(batch.swaps) for batch in replica.batches) == 62
