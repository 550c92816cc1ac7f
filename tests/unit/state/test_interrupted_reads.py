"""A store that is away while values are read again: nobody's edits are lost afterwards."""

from __future__ import annotations

import pytest

from otolith import Repo
from otolith.errors import BadValue, Unavailable
from otolith.stores import KVStore, as_store


class Failing(KVStore):
    """Values that several handles share; one read of this handle fails, counted from now on."""

    failures = (ConnectionError,)

    def __init__(self, values):
        self.values = values
        self.until_failure = -1

    def get(self, key):
        self.until_failure -= 1
        if self.until_failure == 0:
            raise ConnectionError
        return self.values.get(key)

    def set(self, key, value):
        self.values[key] = value

    def swap(self, key, old, new):
        if self.values.get(key) != old:
            return False
        self.values[key] = new
        return True


@pytest.fixture
def values():
    return {}


def session(store, **options):
    return Repo(as_store(store), **options).session("s")


def again(act):
    """Call a function until the store is there; return how often it was not."""
    for failed in range(20):
        try:
            act()
        except Unavailable:
            continue
        return failed
    raise AssertionError("the store stays away")


READS = range(1, 12)


@pytest.mark.parametrize("cache_bytes", [64 << 20, 0])
@pytest.mark.parametrize("read", READS)
def test_an_edit_after_a_refresh_that_failed_drops_nothing(values, read, cache_bytes):
    mine = Failing(values)
    here, there = session(mine, cache_bytes=cache_bytes), session(Failing(values))
    here["w"] = {"a": 1}
    here.commit()
    there.refresh()
    there["w"]["b"] = 1
    there.commit()

    mine.until_failure = read
    again(here.refresh)
    again(lambda: here["w"].update(c=1))
    again(here.commit)

    assert session(Failing(values))["w"] == {"a": 1, "b": 1, "c": 1}


@pytest.mark.parametrize("cache_bytes", [64 << 20, 0])
@pytest.mark.parametrize("read", READS)
def test_a_transaction_that_is_repeated_counts_once(values, read, cache_bytes):
    mine = Failing(values)
    here, there = session(mine, cache_bytes=cache_bytes), session(Failing(values))
    here["w"] = {"here": 0, "there": 0}
    here.commit()

    def count(name):
        def add(state):
            state["w"][name] += 1

        return add

    there.transact(count("there"))
    add = count("here")
    mine.until_failure = read
    again(lambda: here.transact(add))

    assert session(Failing(values))["w"] == {"here": 1, "there": 1}


@pytest.mark.parametrize("read", READS)
def test_a_rollback_that_is_repeated_brings_nothing_back(values, read):
    mine = Failing(values)
    here = session(mine, cache_bytes=0)
    here["w"] = {"a": 1}
    first = here.commit()
    here["w"]["b"] = 1
    here.commit()

    mine.until_failure = read
    again(lambda: here.rollback(first))
    again(lambda: here["w"].update(c=1))
    again(here.commit)

    assert session(Failing(values))["w"] == {"a": 1, "c": 1}


def outdated(values, read):
    """Return a handle and a value of it that is older than its state, if this read makes one."""
    mine = Failing(values)
    here, there = session(mine), session(Failing(values))
    here["w"] = {"a": 1}
    here.commit()
    held = here["w"]
    there.refresh()
    there["w"]["b"] = 1
    there.commit()
    mine.until_failure = read
    again(here.refresh)
    return (here, held) if "b" not in held else None


def test_a_change_to_a_value_that_is_older_than_the_state_is_refused():
    found = [made for read in READS if (made := outdated({}, read)) is not None]
    assert found
    for here, held in found:
        held["c"] = 1
        with pytest.raises(BadValue, match="w was changed before it could be read again"):
            here.commit()
        here.discard()
        assert here["w"] == {"a": 1, "b": 1}
        here["w"]["c"] = 1
        here.commit()
        assert here.at("@")["w"] == {"a": 1, "b": 1, "c": 1}
