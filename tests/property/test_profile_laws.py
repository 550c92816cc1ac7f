"""Laws of profiles: merges believe what a sequence believes, in either order; models of rules."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from otolith.errors import KeyNotFound
from otolith.session import Repo
from otolith.stores import MemoryStore

KEYS = st.sampled_from(["seat", "drink", "answers/length"])
VALUES = st.sampled_from(["aisle", "window", "tea", 3, True, ["a", "b"]])
SOURCES = st.sampled_from(["", "", "m1", "m2", "m3"])
CONTEXTS = st.sampled_from(["", "", "business trips"])
ACTIONS = st.one_of(
    st.tuples(st.just("set"), KEYS, VALUES, CONTEXTS),
    st.tuples(st.just("unset"), KEYS, CONTEXTS),
    st.tuples(st.just("observe"), KEYS, VALUES, SOURCES, CONTEXTS),
    st.tuples(st.just("dislike"), KEYS, VALUES, SOURCES),
    st.tuples(st.just("forget"), KEYS),
    st.tuples(st.just("consent"), st.sampled_from(["ads", "research"]), st.booleans()),
    st.tuples(st.just("retain"), st.sampled_from(["ads", "research"]), st.integers(1, 9)),
)


class Ticks:
    """A clock on which no two moments are the same."""

    def __init__(self):
        self.now = 1_700_000_000_000_000

    def __call__(self):
        self.now += 1_000
        return self.now


def act(profile, action):
    """Carry out an action; one that is refused changes nothing."""
    verb, *given = action
    try:
        if verb == "set":
            profile.set(given[0], given[1], context=given[2])
        elif verb == "unset":
            profile.unset(given[0], context=given[1])
        elif verb == "observe":
            profile.observe(given[0], given[1], source=given[2], context=given[3])
        elif verb == "dislike":
            profile.feedback(given[0], given[1], liked=False, source=given[2])
        elif verb == "forget":
            profile.forget(given[0])
        elif verb == "consent":
            profile.consent(given[0], granted=given[1])
        else:
            profile.retain(given[0], f"{given[1]}d")
    except KeyNotFound:
        pass


def histories(profile):
    """Return all evidence by key."""
    keys = profile.keys()
    return {key: profile.history(key) for key in keys}


def beliefs(profile):
    """Return all that is believed, and what it follows from, without where it was written."""
    history = {k: [each.to_data() for each in found] for k, found in histories(profile).items()}
    purposes = {
        name: (each.consent, each.retention_seconds) for name, each in profile.purposes.items()
    }
    found = [
        (each.key, each.context, each.value, each.basis, each.confidence, each.since)
        for each in profile.preferences()
    ]
    return json.dumps([history, purposes, found], default=str, sort_keys=True)


@settings(deadline=None)
@given(st.lists(ACTIONS, max_size=8), st.lists(ACTIONS, max_size=8), st.lists(ACTIONS, max_size=8))
def test_merges_believe_the_same_whichever_is_merged_into_which(before, mine, yours):
    found = []
    for is_swapped in (False, True):
        repo = Repo(MemoryStore(), clock=Ticks(), author="law")
        main = repo.user("ann")
        for action in before:
            act(main.profile, action)
        main.commit("before", allow_empty=True)
        main.fork("other")
        sides = {"main": main, "other": repo.user("ann", branch="other")}
        for name, actions in (("main", mine), ("other", yours)):
            for action in actions:
                act(sides[name].profile, action)
            sides[name].commit(name)
        target, source = ("other", "main") if is_swapped else ("main", "other")
        merged = repo.user("ann", branch=target)
        assert merged.merge(source).ok
        found.append(beliefs(merged.profile))

    assert found[0] == found[1]


@settings(deadline=None)
@given(st.lists(ACTIONS, max_size=10), st.lists(ACTIONS, max_size=10))
def test_what_two_branches_add_is_believed_as_if_one_had_added_it(mine, yours):
    adding = {"set", "observe", "dislike"}
    mine, yours = ([each for each in side if each[0] in adding] for side in (mine, yours))
    apart = Repo(MemoryStore(), clock=Ticks(), author="law")
    main = apart.user("ann")
    main.commit("before", allow_empty=True)
    main.fork("other")
    other = apart.user("ann", branch="other")
    together = Repo(MemoryStore(), clock=Ticks(), author="law").user("ann").profile
    for number, action in enumerate([*mine, *yours]):
        side = (main if number < len(mine) else other).profile
        sourced = (*action[:3], f"{number}", *action[4:]) if action[0] == "observe" else action
        act(side, sourced)
        act(together, sourced)
    main.commit("mine")
    other.commit("yours")
    assert main.merge("other").ok

    seen = [
        [
            (each.key, each.context, each.value, each.basis, round(each.confidence, 9))
            for each in p.preferences()
        ]
        for p in (main.profile, together)
    ]
    assert seen[0] == seen[1]


@settings(deadline=None)
@given(st.lists(ACTIONS, max_size=25))
def test_a_cached_view_believes_what_a_new_one_does(actions):
    repo = Repo(MemoryStore(), clock=Ticks(), author="law")
    ann = repo.user("ann").profile
    for action in actions:
        act(ann, action)
        beliefs(ann)
    ann.commit("all", allow_empty=True)

    assert beliefs(repo.user("ann").profile) == beliefs(ann)


@settings(deadline=None)
@given(st.lists(ACTIONS, max_size=25))
def test_the_last_thing_that_was_set_holds_until_it_is_unset(actions):
    repo = Repo(MemoryStore(), clock=Ticks(), author="law")
    ann = repo.user("ann").profile
    model: dict[str, object] = {}
    for action in actions:
        act(ann, action)
        verb, key, *rest = action
        if verb == "set" and rest[1] == "":
            model[key] = rest[0]
        elif verb == "forget" or (verb == "unset" and rest[0] == ""):
            model.pop(key, None)

    for key in ("seat", "drink", "answers/length"):
        found = ann.prefer(key)
        assert (found.basis == "set") == (key in model)
        if key in model:
            assert json.dumps(found.value) == json.dumps(model[key])


@settings(deadline=None)
@given(st.lists(ACTIONS, max_size=15))
def test_an_export_is_all_that_is_known(actions):
    repo = Repo(MemoryStore(), clock=Ticks(), author="law")
    ann, bob = repo.user("ann").profile, repo.user("bob").profile
    for action in actions:
        act(ann, action)

    bob.load(json.loads(json.dumps(ann.export())))

    assert bob.preferences() == ann.preferences()
    assert histories(bob) == histories(ann)
