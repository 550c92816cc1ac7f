"""Keys that sign pickles are rotated: nothing is lost, and no old key is needed at the end."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import otolith
from otolith import care, environment
from otolith.errors import Denied, Invalid, RefNotFound, Untrusted

OLD, NEW, FOREIGN = (bytes([letter]) * 32 for letter in b"onf")


@dataclass
class Box:
    share: Fraction


class Model:
    """Is pickled with a long buffer."""

    def __init__(self, size: int = 0) -> None:
        self.weights = np.arange(size)


@pytest.fixture
def use(monkeypatch):
    """Set the keys of this user."""

    def set_keys(*keys: bytes) -> None:
        monkeypatch.setenv("OTOLITH_KEY", "\n".join(each.hex() for each in keys))

    return set_keys


@pytest.fixture
def place(tmp_path, use):
    """A store with pickles of the old key in every kind of place."""
    use(OLD)
    path = tmp_path / "a.db"
    with otolith.open(path) as repo:
        state = repo.session("a")
        state["top"] = Fraction(1, 3)
        state["list"] = [1, [Fraction(1, 4)], "text"]
        state["box"] = Box(Fraction(1, 5))
        state["many"] = {f"key {n}": Fraction(n, 7) for n in range(1000)}
        state["keys"] = {Fraction(1, 2): "half"}
        state["model"] = Model(100_000)
        state["plain"] = {"n": 1}
        state.commit("stored")
        state.fork("other")
        repo.user("ann")["share"] = Fraction(1, 6)
        repo.user("ann").commit("none")
    return path


def check(path: Any) -> None:
    with otolith.open(path) as repo:
        state = repo.session("a")
        assert state["top"] == Fraction(1, 3)
        assert state["list"] == [1, [Fraction(1, 4)], "text"]
        assert state["box"] == Box(Fraction(1, 5))
        assert state["many"]["key 999"] == Fraction(999, 7)
        assert state["keys"] == {Fraction(1, 2): "half"}
        assert state["model"].weights[-1] == 99_999
        assert repo.session("a", branch="other")["top"] == Fraction(1, 3)


def test_what_an_old_key_signed_is_read_beside_the_new_one(place, use):
    use(NEW, OLD)
    check(place)
    use(NEW)
    with otolith.open(place) as repo, pytest.raises(Untrusted):
        repo.session("a")["top"]


def test_the_first_key_signs(place, use):
    use(NEW, OLD)
    with otolith.open(place) as repo:
        state = repo.session("a")
        state["fresh"] = Fraction(1, 9)
        state.commit("with the new key")
    use(NEW)
    with otolith.open(place) as repo:
        assert repo.session("a")["fresh"] == Fraction(1, 9)


def test_after_signing_anew_the_old_key_is_not_needed(place, use):
    use(NEW, OLD)
    with otolith.open(place) as repo:
        plans = care.sign_anew(repo)
        assert [plan.commit is not None for plan in plans if plan.values] == [True, True]
        assert not any(plan.values for plan in care.sign_anew(repo))
    use(NEW)
    check(place)


def test_a_team_is_signed_with_what_is_in_its_messages(tmp_path, use):
    use(OLD)
    with otolith.open(tmp_path / "a.db") as repo:
        ann = repo.team("research", member="ann")
        ann.add("bob")
        ann.transact(lambda state: state.update(share=Fraction(1, 7)))
        ann.send("bob", Fraction(1, 8))
    use(NEW, OLD)
    with otolith.open(tmp_path / "a.db") as repo:
        (plan,) = care.sign_anew(repo)
        assert (plan.name, len(plan.values)) == ("team research/main", 2)
    use(NEW)
    with otolith.open(tmp_path / "a.db") as repo:
        bob = repo.team("research", member="bob")
        assert bob.state["share"] == Fraction(1, 7)
        assert [each.body for each in bob.messages()] == [Fraction(1, 8)]


def test_no_pickle_is_loaded_to_sign_it(place, use, monkeypatch):
    use(NEW, OLD)
    monkeypatch.setattr("otolith.codecs.pickles._load", lambda _: pytest.fail("it was loaded"))
    with otolith.open(place) as repo:
        care.sign_anew(repo)


def test_history_keeps_the_signatures_of_its_time(place, use):
    use(NEW, OLD)
    with otolith.open(place) as repo:
        before = repo.session("a").head
        care.sign_anew(repo)
        assert before is not None
        assert repo.at(before)["top"] == Fraction(1, 3)
    use(NEW)
    with otolith.open(place) as repo, pytest.raises(Untrusted):
        repo.at(before)["top"]


def test_what_another_user_signed_stays_untrusted(place, use):
    use(FOREIGN)
    with otolith.open(place) as repo:
        state = repo.session("a")
        state["theirs"] = Fraction(1, 8)
        state.commit("planted")
    use(NEW, OLD)
    with otolith.open(place) as repo:
        plans = {plan.name: plan for plan in care.sign_anew(repo, session="a")}
        assert [each.path for each in plans["a/main"].failures] == ["theirs"]
        assert plans["a/main"].commit is not None
        with pytest.raises(Untrusted):
            repo.session("a")["theirs"]
    use(NEW)
    check(place)


def test_a_dry_run_writes_nothing(place, use):
    use(NEW, OLD)
    with otolith.open(place, read_only=True) as repo:
        head = repo.session("a").head
        [plan] = care.sign_anew(repo, session="a", branch="main", dry_run=True)
        assert len(plan.values) >= 1005
        assert repo.session("a").head == head


def test_a_repo_without_a_key_cannot_sign(place):
    with otolith.open(place, pickle="never") as repo, pytest.raises(Denied):
        care.sign_anew(repo)
    with otolith.open(place) as repo, pytest.raises(RefNotFound):
        care.sign_anew(repo, session="nobody")


def test_variables_of_a_workspace_are_signed_anew(tmp_path, use):
    use(OLD)
    path = tmp_path / "w.db"
    with (
        otolith.open(path) as repo,
        repo.session("a").workspace(folder=tmp_path / "w") as made,
    ):
        made.run("from fractions import Fraction\nclass C: pass\nc = C(); c.f = Fraction(1, 3)")
    use(NEW, OLD)
    with otolith.open(path) as repo:
        [plan] = care.sign_anew(repo)
        assert plan.commit is not None
        assert not plan.failures
    use(NEW)
    with (
        otolith.open(path) as repo,
        repo.session("a").workspace(folder=tmp_path / "v") as made,
    ):
        assert made.run("c.f").shown == "Fraction(1, 3)"


# ---------------------------------------------------------------- the key file


@pytest.fixture
def key_file(tmp_path, monkeypatch):
    monkeypatch.delenv("OTOLITH_KEY", raising=False)
    monkeypatch.setenv("OTOLITH_KEY_FILE", str(tmp_path / "key"))
    return tmp_path / "key"


def test_a_new_key_is_put_before_the_old_one(key_file):
    [old] = environment.secrets()
    new, same = environment.rotate_secret()
    assert same == old != new
    assert environment.secrets() == (new, old)
    assert environment.secret() == new
    assert os.name == "nt" or key_file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in key_file.parent.iterdir()] == ["key"]


def test_old_keys_are_forgotten_on_request(key_file):
    environment.rotate_secret()
    first, *_ = environment.rotate_secret()
    assert environment.rotate_secret(forget_others=True) == (first,)
    assert environment.secrets() == (first,)


def test_a_key_in_the_environment_is_rotated_there(key_file, monkeypatch):
    monkeypatch.setenv("OTOLITH_KEY", f"{NEW.hex()}, {OLD.hex()}")
    assert environment.secrets() == (NEW, OLD)
    with pytest.raises(Invalid, match="OTOLITH_KEY is set"):
        environment.rotate_secret()


def test_one_bad_key_among_several_is_refused(monkeypatch):
    monkeypatch.setenv("OTOLITH_KEY", f"{NEW.hex()} tooshort")
    with pytest.raises(Invalid) as caught:
        environment.secrets()
    assert NEW.hex() not in str(caught.value)
