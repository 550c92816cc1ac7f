"""Bulk migration: what is stale is found without lifting it, and rewritten whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otolith import Repo
from otolith.care import MigrationPlan, apply_migration, plan_migration, verify
from otolith.codecs import Codecs, Opaque, migration
from otolith.core import Branch, Commit
from otolith.errors import BadValue, Invalid, RefNotFound, StaleRef
from otolith.stores import MemoryStore
from otolith.types import Tag, Tagged

HERE = __name__


@dataclass(frozen=True)
class Hotel:
    __otolith_version__ = 3
    name: str
    rating: float
    more: Any = None


@migration(Hotel, 1, 2)
def to_rating(fields):
    return {"name": fields["name"], "rating": fields["stars"] * 2.0}


@migration(Hotel, 2, 3)
def with_more(fields):
    return {**fields, "more": None}


@dataclass(frozen=True)
class Holder:
    inside: Any


@dataclass
class Gap:
    __otolith_version__ = 3


class Trip(TypedDict):
    cents: int
    notes: list[str]


Trip.__otolith_version__ = 2  # type: ignore[attr-defined]


@migration(Trip, 1, 2)
def in_cents(fields):
    fields["cents"] = fields.pop("budget") * 100
    return fields


def former(kind, version, /, **fields):
    """An instance as a former program has stored it."""
    return Opaque(Tagged(Tag.MODEL, [f"{HERE}:{kind}", version, fields]))


def inn(stars, name="Aurora"):
    return former("Hotel", 1, name=name, stars=stars)


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def repo(store):
    return Repo(store, author="test")


@pytest.fixture
def written(store):
    """Commits values as a former program would have."""

    def write(*, session="a", **values):
        branch = Branch(Repo(store, author="test").backend, f"session/{session}/main")
        for name, value in values.items():
            branch[name] = value
        return branch.commit("former")

    return write


def commit_of(plan: MigrationPlan) -> Commit:
    assert plan.commit is not None
    return plan.commit


def found(plans):
    return [(value.path, value.version, value.today_version) for p in plans for value in p.values]


def test_a_plan_names_every_stale_value_and_where_it_is(repo, written):
    written(
        best=inn(5),
        fine=Hotel("F", 1.0),
        plan={"stops": [inn(1), {"at": (0, inn(2))}]},
        held=Holder(inn(3)),
        nested=inn(inn(4)),
    )

    assert found(plan_migration(repo)) == [
        ("best", 1, 3),
        ("held/inside", 1, 3),
        ("nested", 1, 3),
        ("nested/stars", 1, 3),
        ("plan/stops/0", 1, 3),
        ("plan/stops/1/at/1", 1, 3),
    ]


def test_what_is_applied_is_stored_as_today_and_reads_the_same(repo, written):
    written(best=inn(5), plan={"stops": [1, inn(1), "x", inn(2)]}, held=Holder((inn(3),)))
    before = repo.session("a").to_dict()

    (done,) = apply_migration(repo)

    assert repo.session("a").to_dict() == before
    assert found(plan_migration(repo)) == []
    assert commit_of(done).kind == "migrate"
    assert commit_of(done).message == "migrate 4 values"
    assert not done.failures


def test_the_rewritten_state_is_the_one_that_would_be_written_today(repo, written, store):
    written(
        best=inn(5),
        many=[inn(number, name="n" * number) for number in range(200)],
        table={f"key {number}": Holder([inn(number)]) for number in range(100)},
        long=Holder({"text": "x" * 10_000, "hotel": inn(1), "blob": b"y" * 100_000}),
        odd={1: inn(1), (2, 3): [inn(2)]},
        chosen={inn(1), inn(2)},
        by={Holder(inn(1)): inn(2)},
    )
    today = Repo(store, author="test").session("b")
    for name, value in repo.session("a").to_dict().items():
        today[name] = value

    (done,) = apply_migration(repo)

    assert commit_of(done).root == today.commit("today").root
    assert verify(repo, level="deep").ok


stale_values = st.builds(inn, st.integers(0, 30), name=st.text(max_size=300))
leaves = st.one_of(
    st.integers(0, 40),
    st.text(max_size=5),
    st.binary(max_size=5),
    stale_values,
    st.builds(Hotel, st.just("F"), st.just(1.0)),
)
values = st.recursive(
    leaves,
    lambda parts: st.one_of(
        st.lists(parts, max_size=8),
        st.dictionaries(st.text(max_size=3), parts, max_size=5),
        st.dictionaries(st.one_of(st.integers(0, 30), stale_values), parts, max_size=3),
        st.frozensets(leaves, max_size=4),
        st.tuples(parts, parts),
        st.builds(Holder, parts),
    ),
    max_leaves=40,
)


@given(value=values)
def test_whatever_is_rewritten_is_what_would_be_written_today(value):
    repo = Repo(MemoryStore(), author="test")
    former_state = Branch(repo.backend, "session/a/main")
    former_state["it"] = value
    before = former_state.commit("former")
    today = Branch(repo.backend, "session/b/main")
    try:
        today["it"] = repo.at(before)["it"]
    except BadValue:
        return  # two keys have become one

    expected = today.commit("today").root
    done, _ = apply_migration(repo)

    after = done.commit or before
    assert after.root == expected
    assert bool(done.values) == (done.commit is not None)


def test_history_is_not_rewritten(repo, written):
    old = written(best=inn(5))

    apply_migration(repo)

    assert repo.session("a").resolve("@~1").id == old.id
    assert repo.at(old)["best"] == Hotel("Aurora", 10.0)


def test_a_dry_run_migrates_everything_and_writes_nothing(repo, written):
    old = written(best=inn(5), bad=former("Hotel", 1, name="no stars"))

    (tried,) = apply_migration(repo, dry_run=True)

    assert [failure.path for failure in tried.failures] == ["bad"]
    assert "to_rating" in tried.failures[0].why
    assert repo.session("a").head.id == old.id


def test_a_dry_run_without_failures_makes_no_commit(repo, written):
    old = written(best=inn(5))

    (tried,) = apply_migration(repo, dry_run=True)

    assert tried.commit is None
    assert found([tried]) == [("best", 1, 3)]
    assert repo.session("a").head.id == old.id


def test_a_branch_is_migrated_whole_or_not_at_all(repo, written):
    old = written(session="a", best=inn(5), bad=former("Hotel", 1, name="no stars"))
    written(session="b", best=inn(1))

    failed, done = apply_migration(repo)

    assert (failed.commit, failed.name) == (None, "a/main")
    assert repo.session("a").head.id == old.id
    assert commit_of(done).id == repo.session("b").head.id


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (former("Gap", 1), "no migration from version 1"),
        (former("Gap", 9), "stored with version 9"),
        (former("Gap", 3, extra=1), "does not have here: extra"),
        (former("Vanished", 1), "is not known here"),
    ],
    ids=["gap", "newer", "changed", "gone"],
)
def test_a_plan_says_why_something_cannot_be_migrated(value, why, repo, written):
    old = written(bad=value, best=inn(1))

    (planned,) = plan_migration(repo)
    (tried,) = apply_migration(repo)

    assert [failure.path for failure in planned.failures] == ["bad"]
    assert why in planned.failures[0].why
    assert tried.failures == planned.failures
    assert repo.session("a").head.id == old.id


def test_a_class_that_moved_is_stored_under_its_new_name(store, written):
    codecs = Codecs()
    codecs.register_model(Holder, formerly=[f"{HERE}:Keeper"])
    repo = Repo(store, author="test", codecs=codecs)
    written(it=former("Keeper", 1, inside=5))

    (planned,) = plan_migration(repo)
    apply_migration(repo)

    assert (planned.values[0].name, planned.values[0].today) == (f"{HERE}:Keeper", f"{HERE}:Holder")
    assert Repo(store, author="test").session("a")["it"] == Holder(5)


def test_two_keys_that_have_become_one_are_not_merged_in_silence(repo, written):
    old = written(by={inn(1): "stale", Hotel("Aurora", 2.0): "of today"})

    (done,) = apply_migration(repo)

    assert "two keys of a map would become one" in done.failures[0].why
    assert done.failures[0].path == "by/(key)"
    assert repo.session("a").head.id == old.id


def test_nothing_stale_makes_no_commit(repo, written):
    old = written(fine=Hotel("F", 1.0), note="MODEL \x14 \x15")

    (done,) = apply_migration(repo)

    assert done == (done.ref, (), None)
    assert repo.session("a").head.id == old.id


def test_nothing_is_lifted_to_make_a_plan(repo, written, monkeypatch):
    written(best=inn(5), deep={"a": [Holder(inn(1))]})
    monkeypatch.setattr(Codecs, "lift", lambda *_: pytest.fail("lifted"))

    assert len(found(plan_migration(repo))) == 2


def test_raw_bytes_are_not_read_to_make_a_plan(store, repo, written, monkeypatch):
    written(blob=b"\x14" * 1_000_000, text="\x14" * 1_000_000, best=inn(5))
    read = []
    plain = MemoryStore.read

    def noted(self, hashes):
        read.extend(hashes)
        return plain(self, hashes)

    monkeypatch.setattr(MemoryStore, "read", noted)

    assert len(found(plan_migration(Repo(store, author="test")))) == 1
    assert len(read) < 10


def test_one_session_or_branch_can_be_chosen(repo, written):
    written(session="a", best=inn(1))
    written(session="b", best=inn(1))
    repo.session("b").fork("side")

    assert [plan.name for plan in plan_migration(repo)] == ["a/main", "b/main", "b/side"]
    assert [plan.name for plan in plan_migration(repo, session="b")] == ["b/main", "b/side"]
    assert [plan.name for plan in plan_migration(repo, session="b", branch="side")] == ["b/side"]
    assert [plan.name for plan in plan_migration(repo, branch="side")] == ["b/side"]


@pytest.mark.parametrize("asked", [{"session": "none"}, {"session": "a", "branch": "none"}])
def test_what_is_not_there_is_an_error(asked, repo, written):
    written(session="a", x=1)

    with pytest.raises(RefNotFound):
        plan_migration(repo, **asked)


def test_users_and_applications_are_migrated_too(store, repo, written):
    branch = Branch(Repo(store, author="test").backend, "user/ada/main")
    branch["best"] = inn(5)
    branch.commit("former")

    (done,) = apply_migration(repo)

    assert done.name == "user ada/main"
    assert repo.user("ada")["best"] == Hotel("Aurora", 10.0)


def test_a_team_is_migrated_with_what_is_in_its_messages(store, repo):
    former = Repo(store, author="test")
    ann = former.team("research", member="ann")
    ann.add("bob")
    ann.state["best"] = inn(5)
    ann.state.commit("former")
    ann.send("bob", [inn(4)])

    (done,) = apply_migration(repo)

    assert (done.name, len(done.values)) == ("team research/main", 2)
    bob = repo.team("research", member="bob")
    assert bob.state["best"] == Hotel("Aurora", 10.0)
    assert [each.body for each in bob.messages()] == [[Hotel("Aurora", 8.0)]]
    assert verify(repo, level="deep").ok


def test_progress_is_told(repo, written):
    written(many=[inn(number) for number in range(600)])
    told = []

    plan_migration(repo, progress=lambda *each: told.append(each))

    assert told[0] == ("migrating", 256, 0)


def test_a_migration_meets_what_others_commit_meanwhile(store, repo, written, monkeypatch):
    written(best=inn(5), other=1)
    land = Branch.commit

    def late(self, *args, **options):
        monkeypatch.setattr(Branch, "commit", land)
        written(other=2, best=inn(1))
        return land(self, *args, **options)

    monkeypatch.setattr(Branch, "commit", late)
    (done,) = apply_migration(repo)

    state = repo.session("a")
    assert (state["other"], state["best"]) == (2, Hotel("Aurora", 2.0))
    assert found(plan_migration(repo)) == []
    assert commit_of(done).id == state.head.id


@pytest.mark.parametrize("policy", ["last-writer", "ours", "theirs", "error"])
def test_what_a_user_commits_meanwhile_is_never_overwritten(repo, written, monkeypatch, policy):
    written(best=inn(5))
    state = repo.session("a")
    state.policy("**", policy)
    state.commit("rules")
    land = Branch.commit

    def late(self, *args, **options):
        monkeypatch.setattr(Branch, "commit", land)
        user = repo.session("a")
        user["best"] = Hotel("The user's own", 9.0)
        user.commit("by a user")
        return land(self, *args, **options)

    monkeypatch.setattr(Branch, "commit", late)
    apply_migration(repo)

    assert repo.session("a")["best"] == Hotel("The user's own", 9.0)


def test_a_migration_gives_up_when_others_never_stop(repo, written, monkeypatch):
    written(best=inn(5))
    land, numbers = Branch.commit, count()

    def late(self, *args, **options):
        if options.get("kind") == "migrate":
            written(other=next(numbers))
        return land(self, *args, **options)

    monkeypatch.setattr(Branch, "commit", late)

    with pytest.raises(StaleRef):
        apply_migration(repo)


# ---------------------------------------------------------------- states with a schema


def keep_schema(store, name, version, **values):
    branch = Branch(Repo(store, author="test").backend, "session/a/main")
    for key, value in values.items():
        branch[key] = value
    branch._stage.put((".schema",), branch.cells.put({"name": name, "version": version}))
    return branch.commit("with a schema")


def test_a_state_goes_through_the_migrations_of_its_schema(store, repo):
    keep_schema(store, f"{HERE}:Trip", 1, budget=5, notes=["x"])

    planned, done = plan_migration(repo), apply_migration(repo)

    state = repo.session("a")
    assert found(planned) == [(".schema", 1, 2)]
    assert state.to_dict() == {"cents": 500, "notes": ["x"]}
    assert state[".schema"] == {"name": f"{HERE}:Trip", "version": 2}
    assert commit_of(done[0]).id == state.head.id
    assert found(plan_migration(repo)) == []


def test_a_state_that_fails_its_own_migration_stays_as_it_is(store, repo):
    old = keep_schema(store, f"{HERE}:Trip", 1, notes=[])

    (done,) = apply_migration(repo)

    assert "in_cents" in done.failures[0].why
    assert repo.session("a").head.id == old.id


def test_a_state_that_does_not_fit_after_its_migration_stays_as_it_is(store, repo):
    keep_schema(store, f"{HERE}:Trip", 1, budget=5)

    def validate(kind, fields):
        assert kind is Trip
        raise Invalid(f"notes are missing in {sorted(fields)}")

    (done,) = apply_migration(repo, validate=validate)

    assert done.failures[0].why == "notes are missing in ['cents']"


@pytest.mark.parametrize(
    ("name", "version", "why"),
    [
        ("nowhere:Trip", 1, "is not known here"),
        (f"{HERE}:Trip", 9, "newer program"),
        (f"{HERE}:Gap", 1, "no migration from version 1"),
    ],
)
def test_a_state_without_a_way_says_why(name, version, why, store, repo):
    keep_schema(store, name, version, budget=5)

    (planned,) = plan_migration(repo)

    assert why in planned.failures[0].why
