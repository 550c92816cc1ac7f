"""Values that cannot be kept: each is named at commit, and what is on disk is the last commit."""

from __future__ import annotations

from threading import Event, Thread
from typing import Any

import pytest

import otolith
from otolith import Repo
from otolith.codecs import Codecs
from otolith.errors import BadPath, BadValue, QuotaExceeded, Unstorable
from otolith.stores import MemoryStore
from otolith.testing import Fault, FaultyStore

GOOD = {"log": [1], "plan": {"steps": ["a"]}}


class Broken:
    """An object whose __reduce__ does what it is told."""

    def __init__(self, answer):
        self.answer = answer

    def __reduce__(self):
        return self.answer()


class Restless:
    """A value that changes whenever it is looked at."""

    def __init__(self, value, act):
        self.value = value
        self.act = act


def fails(error):
    def answer():
        raise error

    return answer


def nested(depth):
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.fixture
def state(tmp_path):
    with otolith.open(tmp_path / "a.db") as repo:
        state = repo.session("s")
        state.update({"log": [1], "plan": {"steps": ["a"]}})
        state.commit("good")
        yield state


def on_disk(state, tmp_path):
    """Return what another process finds."""
    with otolith.open(tmp_path / "a.db") as repo:
        return repo.session("s").to_dict()


BAD = {
    "too deep": (lambda: nested(250), "nested deeper than 200"),
    "much too deep": (lambda: nested(100_000), "nested deeper than 200"),
    "a __reduce__ that fails": (lambda: Broken(fails(ValueError("broken"))), "broken"),
    "a __reduce__ that fails oddly": (lambda: Broken(fails(RuntimeError("odd"))), "odd"),
    "a __reduce__ that never ends": (lambda: Broken(fails(RecursionError("deep"))), "deep"),
    "a __reduce__ of nonsense": (lambda: Broken(lambda: 5), "Broken"),
    "a function without a name": (lambda: lambda: 1, "function"),
    "a generator": (lambda: (n for n in range(3)), "generator"),
    "a key that is a mutable object": (lambda: {Broken(fails(ValueError("key"))): 1}, "key"),
    "two keys that are stored alike": (lambda: {float("nan"): 1, float("nan"): 2}, "same enc"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "why"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("where", ["assigned", "in place", "deep", "in a long list"])
def test_a_bad_value_is_named_and_the_last_commit_stays(state, tmp_path, make, why, where):
    bad = make()
    if where == "assigned":
        state["bad"] = bad
        name = "bad"
    elif where == "in place":
        state["log"].append(bad)
        name = "log"
    elif where == "deep":
        state["plan/steps"] = {"x": (bad,)}
        name = "plan"
    else:
        state["long"] = [*({"n": n, "text": "x" * 50} for n in range(200)), bad]
        name = "long"
    state["fine"] = ["kept"]
    with pytest.raises(Unstorable, match=why) as refused:
        state.commit()
    assert list(refused.value.values) == [name]
    assert refused.value.hint
    assert where != "deep" or "at steps/x" in refused.value.message
    assert on_disk(state, tmp_path) == GOOD
    assert state["fine"] == ["kept"]
    state[name] = "something else"
    state.commit()
    assert on_disk(state, tmp_path)["fine"] == ["kept"]


@pytest.mark.parametrize("key", [3, None, 1.5, b"log", ["log"], {"log": 1}])
def test_a_key_that_is_no_path_is_refused_at_once(state, tmp_path, key):
    for act in (
        lambda: state.__setitem__(key, 1),
        lambda: state[key],
        lambda: state.__delitem__(key),
        lambda: state.get(key),
    ):
        with pytest.raises(BadPath, match="a path is a str or a tuple"):
            act()
    assert key not in state
    assert state.is_clean
    assert on_disk(state, tmp_path) == GOOD


# Values that do not hold still


def restless(tmp_path):
    """Return a state that keeps restless values, and what opens it again."""
    codecs = Codecs(pickle="never")
    codecs.register(
        Restless,
        name="restless",
        lower=lambda each: each.act(each) or each.value,
        lift=lambda data: Restless(data, lambda each: None),
    )
    return otolith.open(tmp_path / "a.db", codecs=codecs).session("s")


def test_a_value_that_changes_while_it_is_encoded_is_refused(tmp_path):
    state = restless(tmp_path)
    state["log"] = [1]
    state.commit()
    log = state["log"]
    count = iter(range(10**9))
    log.append(Restless(0, lambda each: log.__setitem__(0, next(count))))
    with pytest.raises(Unstorable, match=r"log .*changed while it was being encoded"):
        state.commit()
    assert on_disk(state, tmp_path) == {"log": [1]}
    log[-1].act = lambda each: None
    state.commit()
    assert len(state.repo.session("s")["log"]) == len(log)


def test_a_value_that_comes_to_rest_is_kept(tmp_path):
    state = restless(tmp_path)
    log: list[Any] = [1]
    state["log"] = log
    count = iter(range(9))
    log.append(Restless(0, lambda each: log.__setitem__(0, next(count, log[0]))))
    state.commit()
    assert state.repo.session("s")["log"][0] == log[0] == 8


def test_a_change_behind_the_part_that_is_encoded_is_found_by_the_next_commit(tmp_path):
    state = restless(tmp_path)
    state["a"], state["z"] = log, value = [1], Restless(0, lambda each: log.append(2))
    state.commit()
    value.act = lambda each: None
    state.commit()
    assert state.repo.session("s")["a"] == log
    assert len(log) > 1


def test_another_thread_that_changes_a_value_does_not_spoil_the_commit(tmp_path):
    state = otolith.open(tmp_path / "a.db").session("s")
    state["deep"] = deep = {f"key {n}": {"n": n} for n in range(300)}
    members, log = set[int](), list[int]()
    state["set"], state["log"] = members, log
    done = Event()

    def work():
        number = 0
        while not done.is_set():
            number += 1
            deep[f"key {number % 400}"] = {"n": number}
            deep.pop(f"key {number * 7 % 400}", None)
            members.symmetric_difference_update({number % 50})
            log.append(number)
            if len(log) > 300:
                log.clear()

    thread = Thread(target=work)
    thread.start()
    refused = []
    for _ in range(30):
        try:
            state.commit()
        except BadValue as error:
            refused.append(error.message)
    done.set()
    thread.join()
    state.commit()
    assert all("changed while it was being encoded" in why for why in refused)
    assert on_disk(state, tmp_path) == {"deep": deep, "set": members, "log": log}


# No room


def test_a_commit_that_found_no_room_goes_through_when_there_is_some():
    full = Fault("write", error=lambda: QuotaExceeded("no room", hint="prune"))
    store = FaultyStore(MemoryStore())
    state = Repo(store).session("s")
    state["log"], state["twin"] = [1], {"x": 1}
    first = state.commit()
    store.plan = [full]
    state["log"].append("x" * 5000)
    state["twin"]["log"] = state["log"]
    for _ in range(2):
        with pytest.raises(QuotaExceeded):
            state.commit()
        assert state.head == first
        assert Repo(store.inner).session("s").to_dict() == {"log": [1], "twin": {"x": 1}}
    state["log"].append(2)
    store.plan = []
    state.commit()
    found = Repo(store.inner).session("s")
    assert found["log"] == [1, "x" * 5000, 2]
    assert found["twin"]["log"] is found["log"]


def test_a_file_that_is_full_keeps_the_last_commit_and_takes_a_smaller_one(tmp_path):
    with otolith.open(tmp_path / "a.db", limit_bytes=200_000) as repo:
        state = repo.session("s")
        state["log"] = [1]
        state.commit()
        state["log"] += [f"{n}" * 500 for n in range(10_000)]
        with pytest.raises(QuotaExceeded):
            state.commit()
        assert on_disk(state, tmp_path) == {"log": [1]}
        del state["log"][2:]
        state.commit()
    assert on_disk(state, tmp_path) == {"log": [1, "0" * 500]}
